"""PeriodicImpulse and PeriodicSequence: Beam's elements, at Beam's times, none of them late."""

from __future__ import annotations

import time

import apache_beam as beam
import pytest
from apache_beam.transforms.periodicsequence import PeriodicImpulse, PeriodicSequence, RebaseMode
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.rules import streams

_told: list[object] = []


def tell(element):
    _told.append(element)


def told(build):
    _told.clear()
    with beam.Pipeline(runner=HeadraceRunner()) as pipeline:
        _ = build(pipeline) | "Tell" >> beam.Map(tell)
    return list(_told)


def stamped(pair, at=beam.DoFn.TimestampParam, where=beam.DoFn.WindowParam):
    return pair, at.micros, where.end.micros


def test_times_keep_their_type_and_windows_are_as_long_as_the_interval() -> None:
    impulse = PeriodicImpulse(1, 4, 1, apply_windowing=True)
    assert told(lambda pipeline: pipeline | impulse | beam.Map(stamped)) == [
        (1, 1_000_000, 2_000_000),
        (2, 2_000_000, 3_000_000),
        (3, 3_000_000, 4_000_000),
    ]
    assert [type(number) for number in told(lambda pipeline: pipeline | PeriodicImpulse(Timestamp(1), 3, 1))] == [
        float
    ] * 2


def test_the_last_interval_counts_if_it_has_begun() -> None:
    assert told(lambda pipeline: pipeline | PeriodicImpulse(0.5, 1.500001, 0.5)) == [0.5, 1.0, 1.5]


def test_data_are_repeated_and_those_with_times_are_not() -> None:
    with pytest.warns(UserWarning, match="repeated"):
        repeated = PeriodicImpulse(0, 5, 1, data=["a", "b"])
    assert told(lambda pipeline: pipeline | repeated) == ["a", "b", "a", "b", "a"]
    own_times = PeriodicImpulse(0, 2, 1, data=[(Timestamp(9), "a"), (Timestamp(8), "b")])
    seen = told(lambda pipeline: pipeline | own_times | beam.Map(stamped))
    assert [(element, at) for element, at, _ in seen] == [("a", 9_000_000), ("b", 8_000_000)]


def test_overdue_elements_come_in_parts_and_none_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_AT_ONCE", 3)

    def sums(pipeline):
        impulse = pipeline | PeriodicImpulse(0, 10, 1)
        return impulse | beam.WindowInto(FixedWindows(2)) | beam.WithKeys("k") | beam.CombinePerKey(sum)

    assert told(sums) == [("k", total) for total in (1, 5, 9, 13, 17)]


def test_future_elements_wait_for_the_clock() -> None:
    start = time.time() + 0.5
    seen = told(lambda pipeline: pipeline | PeriodicImpulse(start, start + 0.3, 0.1))
    assert seen == [start, start + 0.1, start + 0.2]


def test_several_sequences_of_one_plan_and_of_others() -> None:
    plans = [(0, 2, 1), (0, 2, 1), (5.0, 6.5, 1)]
    assert sorted(told(lambda pipeline: pipeline | beam.Create(plans) | PeriodicSequence())) == [0, 0, 1, 1, 5.0, 6.0]


def test_rebased_times_begin_with_the_run() -> None:
    before = time.time()
    [first, second] = told(lambda pipeline: pipeline | PeriodicImpulse(0, 2, 1, rebase=RebaseMode.REBASE_ALL))
    assert first >= before and second == first + 1


def test_a_sequence_that_ends_before_it_begins() -> None:
    with pytest.raises(Exception, match=r"\(2, 1, 1\) is no sequence: it ends before it begins"):
        told(lambda pipeline: pipeline | beam.Create([(2, 1, 1)]) | PeriodicSequence())
