"""Panes that may be taken back are in the checkpoint: a crash changes no result, nor what is taken back."""

from __future__ import annotations

from collections import Counter

import pytest

import headrace as beam
from headrace.lowlevel import Topology
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.window import Sessions, TimestampedValue
from tests.faults.crashes.test_crash_at_every_step import FixedSize, Outside

pytestmark = pytest.mark.faults

POINTS = [("abc"[i % 3], i % 4, (i * 37) % 200) for i in range(40)]


def histogram(outside: Outside) -> Topology:
    """How many teams have which total in a session, all changes of it."""
    pipeline = beam.Pipeline("LocalRunner")
    stamped = beam.Map(lambda point: TimestampedValue((point[0], point[1]), point[2]))
    eager = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
    windowed = beam.WindowInto(
        Sessions(10), eager, AccumulationMode.ACCUMULATING_AND_RETRACTING, allowed_lateness=10_000
    )
    totals = pipeline | beam.Create(POINTS) | "Stamp" >> stamped | windowed | "Total" >> beam.CombinePerKey(sum)
    counts = totals | "By total" >> beam.Map(lambda pair: (pair[1], pair[0])) | beam.combiners.Count.PerKey()
    seen = counts | "See" >> beam.Map(
        lambda pair, window=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam: (pane.is_retraction, str(window), pair)
    )
    _ = seen | "End" >> beam.io.Write(outside.take("end"))
    return pipeline.topology()


def attempt(outside: Outside, checkpoint: object, scheduler: FixedSize) -> bool:
    """One life of a driver; whether it lived to the end."""
    runner = LocalRunner(scheduler=scheduler, intervals=3, parallelism=2)
    try:
        runner.run_topology(histogram(outside), RunOptions(checkpoint=str(checkpoint), max_records_per_epoch=16))
    except Crash:
        return False
    return True


def standing(outside: Outside) -> Counter[object]:
    """What is put out and not taken back."""
    net: Counter[object] = Counter()
    for (is_retraction, *what), _ in outside.values("end"):
        net[tuple(what)] += -1 if is_retraction else 1
    assert min(net.values()) >= 0
    return +net


def test_crash_at_every_step(tmp_path):
    expected, scheduler = Outside(), FixedSize(0)
    assert attempt(expected, tmp_path / "reference", scheduler)
    assert any(is_retraction for (is_retraction, *_), _ in expected.values("end"))
    for step in range(1, scheduler.steps + 1):
        outside, place = Outside(), tmp_path / f"at-{step}"
        assert not attempt(outside, place, FixedSize(step, crash_at=step)), "the fault did not fire"
        assert attempt(outside, place, FixedSize(step + 1))
        assert standing(outside) == standing(expected), f"crash at step {step}"
        assert outside.values("end") == expected.values("end"), f"crash at step {step}"
