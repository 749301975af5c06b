"""A program with keys of its own classes, whose modules 0.1.0 put into keys: what a golden checkpoint is of."""

from __future__ import annotations

import headrace as beam
from headrace.lowlevel import CallSink, Topology
from headrace.transforms import userstate, window
from tests.golden.columns import Sales
from tests.golden.program import LIMIT, Out, keeper, seen
from tests.golden.shops import Kind, Shop

__all__ = ["LIMIT", "topology"]


class Visits(beam.DoFn):
    """Counts the values of a key in state."""

    COUNT = userstate.CombiningValueStateSpec("count", sum)

    def process(self, pair: tuple[object, object], count=beam.DoFn.StateParam(COUNT)):  # type: ignore[no-untyped-def]
        """The key with its count so far."""
        count.add(1)
        yield (str(pair[0]), count.read())


def topology(out: Out) -> Topology:
    """The whole program; what its sinks get goes into `out`."""
    pipeline = beam.Pipeline()
    pairs = pipeline | "sales" >> beam.io.Read(Sales())
    shops = pairs | "shops" >> beam.MapTuple(lambda shop, amount: (Shop(int(shop[5:])), int(amount) % 1000))
    minutes = shops | "minutes" >> beam.WindowInto(window.FixedWindows(60))
    kinds = shops | "kinds" >> beam.MapTuple(lambda shop, amount: ((Kind(amount % 2), frozenset({shop})), amount))
    ends = {
        "sums": minutes | "sum" >> beam.CombinePerKey(sum),
        "groups": minutes
        | "group" >> beam.GroupByKey()
        | "size" >> beam.MapTuple(lambda shop, its: (shop, len([*its]))),
        "nested": kinds | "all" >> beam.WindowInto(window.GlobalWindows()) | "mean" >> beam.combiners.Mean.PerKey(),
        "visits": shops | "visit" >> beam.ParDo(Visits()),
    }
    for name, its in ends.items():
        show = beam.Map(repr) if name == "nested" else beam.Map(seen)
        its | f"see {name}" >> show | f"out {name}" >> beam.io.Write(CallSink(keeper(out, name)))
    return pipeline.topology()
