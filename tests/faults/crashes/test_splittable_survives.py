"""Work items of splittable DoFns are in the checkpoint: a crash changes no result, and no element is read twice."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from unittest.mock import patch

import pytest

import headrace as beam
from headrace.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from headrace.io.watermark_estimators import ManualWatermarkEstimator
from headrace.lowlevel import Topology
from headrace.pvalue import AsList
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.sdk.operators.splittable import work_item
from headrace.transforms.window import FixedWindows, TimestampedValue
from headrace.utils.timestamp import Duration, Timestamp
from tests.faults.crashes.test_crash_at_every_step import FixedSize, Outside

pytestmark = pytest.mark.faults


class Offsets(beam.RestrictionProvider):
    """Offsets of a partition, in two splits."""

    def initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.size()

    def split(self, element, restriction):
        return restriction.split(restriction.size() // 2 + 1)


class Poll(beam.DoFn):
    """Reads three offsets a call, and comes back after half a second."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        side,
        tracker=beam.DoFn.RestrictionParam(Offsets()),
        estimator=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
    ):
        first = tracker.current_restriction().start
        for offset in range(first, first + 3):
            if not tracker.try_claim(offset):
                return
            yield TimestampedValue((element[0], offset, *sorted(side)), offset)
            estimator.set_watermark(Timestamp(offset + 1))
        tracker.defer_remainder(Duration(0.5))


def polled(outside: Outside) -> Topology:
    """Offsets of two partitions, and how many there are in each window when its trigger fires on time."""
    pipeline = beam.Pipeline("LocalRunner")
    side = pipeline | "Names" >> beam.Create(["b", "a"])
    read = pipeline | beam.Create([("p", 13), ("q", 8)]) | beam.ParDo(Poll(), AsList(side))
    _ = read | "Read" >> beam.io.Write(outside.take("read"))
    keyed = read | beam.Map(lambda row: (row[0], row[1])) | beam.WindowInto(FixedWindows(4))
    panes = (
        keyed
        | beam.GroupByKey()
        | beam.MapTuple(
            lambda key, offsets, pane=beam.DoFn.PaneInfoParam: (key, tuple(sorted(offsets)), pane.timing.name)
        )
    )
    _ = panes | "Panes" >> beam.io.Write(outside.take("panes"))
    return pipeline.topology()


def attempt(outside: Outside, checkpoint: object, scheduler: FixedSize) -> bool:
    """One life of a driver; whether it lived to the end."""
    runner = LocalRunner(scheduler=scheduler, intervals=3, parallelism=2)
    numbers = count()
    # Keys are the same in every life, so that the steps are.
    keys = SimpleNamespace(token_bytes=lambda size: next(numbers).to_bytes(size, "big"))
    try:
        with patch.object(work_item, "secrets", keys):
            runner.run_topology(polled(outside), RunOptions(checkpoint=str(checkpoint)))
    except Crash:
        return False
    return True


def test_crash_at_steps_all_along(tmp_path):
    expected, scheduler = Outside(), FixedSize(0)
    assert attempt(expected, tmp_path / "reference", scheduler)
    rows = [row for row, _ in expected.values("read")]
    assert rows == sorted((key, offset, "a", "b") for key, most in (("p", 13), ("q", 8)) for offset in range(most))
    panes = [row for row, _ in expected.values("panes")]
    assert [(key, offsets) for key, offsets, _ in panes if key == "q"] == [("q", (0, 1, 2, 3)), ("q", (4, 5, 6, 7))]
    assert {timing for _, _, timing in panes} == {"ON_TIME"}
    for step in range(5, scheduler.steps + 1, scheduler.steps // 15):
        outside, place = Outside(), tmp_path / f"at-{step}"
        assert not attempt(outside, place, FixedSize(step, crash_at=step)), "the fault did not fire"
        assert attempt(outside, place, FixedSize(step + 1))
        assert outside.values("read") == expected.values("read"), f"crash at step {step}"
        assert outside.values("panes") == expected.values("panes"), f"crash at step {step}"
