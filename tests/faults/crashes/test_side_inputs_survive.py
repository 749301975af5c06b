"""Views and elements that wait for them are in the checkpoint: a crash changes no result."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import Topology
from headrace.pvalue import AsDict, AsList
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.testing.test_stream import TestStream
from headrace.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from headrace.transforms.userstate import CombiningValueStateSpec
from headrace.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from tests.faults.crashes.test_crash_at_every_step import FixedSize, Outside

pytestmark = pytest.mark.faults


def events(rounds: int) -> TestStream:
    """Main elements before, with and after their side inputs, of which one changes and one is of each window."""
    script = TestStream()
    for second in range(0, 8 * rounds, 8):
        script.add_elements([TimestampedValue(("abc"[second % 3], second), second)], "main")
        script.add_elements([TimestampedValue(second, second)], "side")
        script.add_elements([TimestampedValue(("abc"[second % 3], second), second)], "names")
        script.advance_watermark_to(second + 4, "main")
        if second % 16 == 0:
            script.advance_watermark_to(second + 1, "side")
    return script


class Numbered(beam.DoFn):
    """Numbers the elements of a key and window."""

    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, pair, side, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        yield pair, count.read(), sorted(side)


def looked_up(outside: Outside, rounds: int = 5) -> Topology:
    """Elements with what their side inputs hold, grouped by key, and numbered by a step with state."""
    pipeline = beam.Pipeline("LocalRunner")
    outputs = pipeline | events(rounds)
    side = outputs["side"] | "Side windows" >> beam.WindowInto(FixedWindows(10))
    each = Repeatedly(AfterCount(1))
    names = (
        outputs["names"]
        | beam.Map(lambda pair: ("latest", pair))
        | "Names windows" >> beam.WindowInto(GlobalWindows(), each, accumulation_mode=AccumulationMode.DISCARDING)
    )
    main = outputs["main"] | "Main windows" >> beam.WindowInto(FixedWindows(10))
    with_sides = main | "Look" >> beam.MapTuple(
        lambda key, number, side, names: (key, (number, tuple(sorted(side)), names["latest"])),
        AsList(side),
        names=AsDict(names),
    )
    grouped = with_sides | beam.GroupByKey() | "Sort" >> beam.MapTuple(lambda key, its: (key, sorted(its)))
    _ = grouped | "End" >> beam.io.Write(outside.take("end"))
    numbered = main | "Number" >> beam.ParDo(Numbered(), AsList(side))
    _ = numbered | "Numbered" >> beam.io.Write(outside.take("numbered"))
    return pipeline.topology()


def attempt(outside: Outside, checkpoint: object, scheduler: FixedSize) -> bool:
    """One life of a driver; whether it lived to the end."""
    runner = LocalRunner(scheduler=scheduler, intervals=3, parallelism=2)
    try:
        runner.run_topology(looked_up(outside), RunOptions(checkpoint=str(checkpoint)))
    except Crash:
        return False
    return True


def test_crash_at_steps_all_along(tmp_path):
    expected, scheduler = Outside(), FixedSize(0)
    assert attempt(expected, tmp_path / "reference", scheduler)
    assert len(expected.values("end")) == len(expected.values("numbered")) == 5
    for step in range(7, scheduler.steps + 1, scheduler.steps // 10):
        outside, place = Outside(), tmp_path / f"at-{step}"
        assert not attempt(outside, place, FixedSize(step, crash_at=step)), "the fault did not fire"
        assert attempt(outside, place, FixedSize(step + 1))
        assert outside.values("end") == expected.values("end"), f"crash at step {step}"
        assert outside.values("numbered") == expected.values("numbered"), f"crash at step {step}"
