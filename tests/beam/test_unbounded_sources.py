"""Unbounded sources and `Watch` of Beam's SDK, which it has from 2.76 on."""

from __future__ import annotations

import pickle
from typing import ClassVar

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Duration

from headrace.runners.beam import HeadraceRunner

pytest.importorskip("apache_beam.io.unbounded_source", reason="Beam has it from 2.76 on")

from apache_beam.io.unbounded_source import CheckpointMark, UnboundedCountingSource, _FinalizeCheckpointOnce
from apache_beam.io.watch import PollResult, Watch


@pytest.fixture
def pipeline():
    return beam.Pipeline(runner=HeadraceRunner())


def growing(prefix):
    """Nothing at first, then everything."""
    if not SEEN.append(prefix) and SEEN.count(prefix) < 3:
        return PollResult.incomplete([window.TimestampedValue(prefix, 1)])
    return PollResult.complete([window.TimestampedValue(prefix, 1), window.TimestampedValue(f"{prefix}s", 2)])


SEEN: list[str] = []


def test_watch_polls_until_it_is_complete(pipeline):
    watched = pipeline | beam.Create(["cat", "dog"]) | Watch(growing, poll_interval=Duration(0.05))
    assert_that(watched, equal_to([(name, f"{name}{end}") for name in ("cat", "dog") for end in ("", "s")]))
    pipeline.run()


class Mark(CheckpointMark):
    finalized: ClassVar[list[int]] = []

    def __init__(self, number):
        self.number = number

    def finalize_checkpoint(self):
        self.finalized.append(self.number)


def test_a_source_hears_of_its_checkpoints_also_from_another_process():
    Mark.finalized.clear()
    pickle.loads(pickle.dumps(_FinalizeCheckpointOnce(Mark(7))))()
    assert Mark.finalized == [7]


def test_an_unbounded_source_is_read_to_its_end(pipeline):
    numbers = pipeline | beam.io.Read(UnboundedCountingSource(5))
    assert not numbers.is_bounded
    assert_that(numbers, equal_to(range(5)))
    pipeline.run()
