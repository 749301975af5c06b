"""Records that an injector delivers again count once, whatever steps they come to; what cannot tell is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headrace as beam
from headrace.io import Read
from headrace.lowlevel import (
    CallSink,
    Computation,
    InlineComputation,
    ManualInjector,
    Once,
    SendSink,
    StepError,
    Topology,
    TopologyError,
    by_record_id,
)
from headrace.lowlevel.time import SECOND
from headrace.runners.local import LocalRunner
from headrace.transforms.userstate import ReadModifyWriteStateSpec
from headrace.transforms.window import FixedWindows, GlobalWindow, Sessions, WindowedValue

ONE, TWO, THREE = (("a", 1), 1), (("b", 2), 2), (("a", 3), 3)


def repeating() -> ManualInjector:
    """Three records, two of them twice: within a delivery and in the next one."""
    injector = ManualInjector(record_ids=True)
    injector.records(ONE, TWO, ONE, ids=[b"1", b"2", b"1"]).records(TWO, THREE, ids=[b"2", b"3"])
    return injector


def outputs(build: Callable[[beam.PCollection], beam.PCollection]) -> list[str]:
    """What comes out of a pipeline on the records, in four key intervals, in order of the values."""
    rows = []
    with beam.Pipeline(LocalRunner(intervals=4)) as pipeline:
        out = build(pipeline | "Read" >> Read(repeating()))
        _ = out | "Out" >> beam.io.Write(CallSink(lambda epoch, given: rows.extend(value for value, _ in given)))
    return sorted(map(str, rows))


class Running(beam.DoFn):
    def process(self, pair, total=beam.DoFn.StateParam(ReadModifyWriteStateSpec("total", beam.coders.VarIntCoder()))):
        total.write((total.read() or 0) + pair[1])
        yield pair[0], total.read()


class AtTheEnd(beam.DoFn):
    """Puts elements out when their bundle ends."""

    def start_bundle(self):
        self._kept = []

    def process(self, element):
        self._kept.append(element)

    def finish_bundle(self):
        for element in self._kept:
            yield WindowedValue(element, 0, [GlobalWindow()])


SUMS = ["('a', 4)", "('b', 2)"]
ALL = ["('a', 1)", "('a', 3)", "('b', 2)"]


def in_minutes():
    return beam.WindowInto(FixedWindows(60))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda c: c, ALL),
        (lambda c: c | beam.Map(lambda pair: pair), ALL),
        (lambda c: c | beam.Reshuffle(), ALL),
        (lambda c: c | in_minutes() | beam.CombinePerKey(sum), SUMS),
        (lambda c: c | in_minutes() | beam.CombinePerKey(sum).with_hot_key_fanout(4), SUMS),
        (lambda c: c | beam.WindowInto(Sessions(60)) | beam.CombinePerKey(sum), SUMS),
        (lambda c: c | in_minutes() | beam.CombinePerKey(max), ["('a', 3)", "('b', 2)"]),
        (lambda c: c | in_minutes() | beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults(), ["3"]),
        (lambda c: c | beam.Reshuffle() | beam.GroupByKey() | beam.MapTuple(lambda k, v: (k, sum(v))), SUMS),
        (lambda c: c | beam.ParDo(AtTheEnd()) | beam.CombinePerKey(sum), SUMS),
        (lambda c: c | beam.ParDo(Running()), ["('a', 1)", "('a', 4)", "('b', 2)"]),
        (lambda c: c | beam.BatchElements() | beam.FlatMap(list), ALL),
        (lambda c: (c, c | beam.Map(lambda pair: pair)) | beam.Flatten() | beam.Distinct(), ALL),
    ],
)
def test_what_comes_again_counts_once(build, expected):
    assert outputs(build) == expected


def test_what_came_again_is_counted_as_duplicates():
    with beam.Pipeline(LocalRunner(intervals=4)) as pipeline:
        _ = pipeline | "Read" >> Read(repeating()) | beam.Map(lambda pair: pair) | "Sum" >> beam.CombinePerKey(sum)
    assert pipeline.result.counter("duplicates") == 2


class Passing(InlineComputation):
    def process_batch(self, stream, batch, emit):
        emit("passed", batch)


class Keeping(Passing):
    def finish_bundle(self, emit):
        pass


def test_a_sink_that_would_be_given_a_record_again_is_refused():
    topology = Topology()
    topology.injector("in", repeating())
    topology.inline("pass", Passing(), ["in"], ["passed"])
    topology.sink("out", "passed", CallSink(lambda epoch, rows: None))
    with pytest.raises(TopologyError, match=r"sink 'out' gets records of source 'in'.*let Once\(output\)"):
        topology.validate()
    topology.sinks["out"] = ("passed", SendSink(print))
    Passing.strong_productions = False
    try:
        topology.validate()
    finally:
        del Passing.strong_productions


def test_an_inline_computation_whose_outputs_have_no_ids_is_refused():
    class Count(Computation):
        def process_record(self, record, context):
            context.state = (context.state or 0) + 1

    topology = Topology()
    topology.injector("in", repeating())
    topology.inline("keep", Keeping(), ["in"], ["passed"])
    topology.computation("count", Count(), {"passed": lambda pair: pair[0]})
    with pytest.raises(TopologyError, match=r"inline computation 'keep', whose outputs may.*would count again"):
        topology.validate()


def test_records_without_ids_have_no_key_by_id():
    topology = Topology()
    topology.injector("in", ManualInjector().records(ONE))
    topology.computation("once", Once("out"), {"in": by_record_id}, ["out"])
    with pytest.raises(StepError, match=r"\('a', 1\) came without an id"):
        LocalRunner().run_topology(topology)


@pytest.mark.parametrize("grouping", [beam.CombinePerKey(sum), beam.GroupByKey(), beam.ParDo(Running())])
def test_late_data_that_come_again_come_once(grouping):
    injector = ManualInjector(record_ids=True)
    injector.records(ONE, ids=[b"1"]).watermark(60 * SECOND)
    injector.records(TWO, THREE, TWO, ids=[b"2", b"3", b"2"]).records(THREE, ids=[b"3"])
    rows = []
    with beam.Pipeline(LocalRunner(intervals=4)) as pipeline:
        pairs = pipeline | "Read" >> Read(injector) | in_minutes()
        _, late = pairs | grouping.with_late_data()
        sink = CallSink(lambda epoch, given: rows.extend(value for value, _ in given))
        _ = late | beam.Map(lambda late: (late.key, late.value)) | "Out" >> beam.io.Write(sink)
    assert sorted(rows) == [("a", 3), ("b", 2)]
