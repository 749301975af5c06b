"""A program that combines by columns, whose checkpoint has open windows in segments: what a golden checkpoint is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import headrace as beam
from headrace.lowlevel import BaseInjector, Batch, CallSink, Delivery, MemorySplit, Topology
from headrace.lowlevel.time import SECOND
from headrace.transforms import window
from tests.golden.program import LIMIT, RECORDS, Out, keeper, seen

__all__ = ["LIMIT", "topology"]


@dataclass(frozen=True)
class Sales(BaseInjector):
    """Pairs of a shop and an amount, out of order."""

    max_delay: int | None = 40 * SECOND

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next sales."""
        begin = cast(int, position)
        end = min(begin + limit, RECORDS)
        numbers = range(begin, end)
        times = [(3 * number + 37 * number % 40) * SECOND for number in numbers]
        return Delivery([MemorySplit(Batch(list(map(_sale, numbers)), times))], end, done=end == RECORDS)


def _sale(number: int) -> tuple[str, float]:
    """Mostly a whole number; sometimes one beyond 64 bits, or a quarter of one."""
    shop = f"shop {number * number % 11}"
    if number % 7 == 0:
        return shop, number / 4
    return shop, 1 << 80 if number % 13 == 0 else number


def topology(out: Out) -> Topology:
    """The whole program; what its sinks get goes into `out`."""
    pipeline = beam.Pipeline()
    pairs = pipeline | "sales" >> beam.io.Read(Sales())
    whole = pairs | "whole" >> beam.MapTuple(lambda shop, amount: ((shop, int(amount) % 3), int(amount) % 1000))
    minutes = whole | "minutes" >> beam.WindowInto(window.FixedWindows(60))
    sliding = beam.WindowInto(window.SlidingWindows(100, 40))
    ends = {
        "sums": minutes | "sum" >> beam.CombinePerKey(sum),
        "both": minutes
        | "twice" >> beam.MapTuple(lambda key, amount: (key, (amount, amount)))
        | "most and sum" >> beam.CombinePerKey(beam.combiners.TupleCombineFn(max, sum)),
        "counts": whole | "slide" >> sliding | "count" >> beam.combiners.Count.PerKey(),
        "mixed": pairs
        | "mixed minutes" >> beam.WindowInto(window.FixedWindows(60))
        | "greatest" >> beam.CombinePerKey(max),
        "means": whole | "all" >> beam.WindowInto(window.GlobalWindows()) | "mean" >> beam.combiners.Mean.PerKey(),
    }
    for name, its in ends.items():
        show = beam.Map(repr) if name == "means" else beam.Map(seen)
        its | f"see {name}" >> show | f"out {name}" >> beam.io.Write(CallSink(keeper(out, name)))
    return pipeline.topology()
