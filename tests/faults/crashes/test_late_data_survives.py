"""What steps drop as late comes exactly once, wherever the driver crashes."""

from __future__ import annotations

from random import Random

import pytest

import headrace as beam
from headrace.lowlevel import Topology
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.testing.test_stream import TestStream
from headrace.transforms.window import SlidingWindows, TimestampedValue
from tests.depth import faults
from tests.faults.crashes.test_crash_at_every_step import FixedSize, Outside
from tests.properties.groupings.test_late_data import Total

pytestmark = pytest.mark.faults

WAYS = {
    "sums": lambda: beam.CombinePerKey(sum),
    "function": lambda: beam.CombinePerKey(lambda values: max(values)),
    "lists": lambda: beam.GroupByKey(),
    "state": lambda: beam.ParDo(Total()),
}


def stream() -> TestStream:
    """Six rounds of elements, some of them of the rounds before."""
    random, made = Random("late data"), TestStream()
    for end in range(10, 70, 10):
        elements = [("abc"[random.randrange(3)], end * 100 + number, random.randrange(end)) for number in range(8)]
        made = made.add_elements([TimestampedValue((key, number), second) for key, number, second in elements])
        made = made.advance_watermark_to(end)
    return made.advance_watermark_to_infinity()


def dropping(outside: Outside) -> Topology:
    """Late data of steps that group in several ways."""
    pipeline = beam.Pipeline("LocalRunner")
    windows = pipeline | stream() | beam.WindowInto(SlidingWindows(20, 10))
    for way, grouping in WAYS.items():
        _, late = windows | way >> grouping().with_late_data()
        _ = late | f"Rows of {way}" >> beam.Map(_row) | f"End of {way}" >> beam.io.Write(outside.take(way))
    return pipeline.topology()


def _row(late: beam.LateElement) -> object:
    return late.key, late.value, str(late.window), late.timestamp.micros, late.watermark.micros


def attempt(outside: Outside, checkpoint: object, scheduler: FixedSize) -> bool:
    """One life of a driver; whether it lived to the end."""
    runner = LocalRunner(scheduler=scheduler, intervals=3, parallelism=2)
    try:
        runner.run_topology(dropping(outside), RunOptions(checkpoint=str(checkpoint)))
    except Crash:
        return False
    return True


def test_crashes(tmp_path):
    expected, scheduler = Outside(), FixedSize(0)
    assert attempt(expected, tmp_path / "reference", scheduler)
    rows = expected.values("sums")
    assert len(rows) > len({row[:2] for row, _ in rows}) > 10, "no element is late for several windows"
    assert all(expected.values(way) == rows for way in WAYS)
    for step in range(1, scheduler.steps + 1, max(1, scheduler.steps // faults(12, scheduler.steps))):
        outside, place = Outside(), tmp_path / f"at-{step}"
        assert not attempt(outside, place, FixedSize(step, crash_at=step)), "the fault did not fire"
        assert attempt(outside, place, FixedSize(step + 1))
        assert all(outside.values(way) == rows for way in WAYS), f"crash at step {step}"
