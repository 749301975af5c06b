"""What a pipeline compiles to: which steps are fused, which streams there are, and that names never change."""

from __future__ import annotations

import pickle
import threading

import cloudpickle
import pytest

import headrace as beam
from headrace.lowlevel import Batch, CallSink, Computation, TopologyError
from headrace.sdk.operators.combining.combiner_lifting import LiftedCombine
from headrace.sdk.operators.fusion.stage import Stage
from headrace.testing.test_stream import TestStream
from headrace.transforms import window
from headrace.transforms.window import WindowedValue
from tests.unit.collected import values


def topology_of(build):
    pipeline = beam.Pipeline("LocalRunner")
    build(pipeline)
    topology = pipeline.topology()
    topology.validate()
    return topology


def nothing(epoch, rows):
    """A sink's function."""


class Pass(Computation):
    def process_record(self, record, context):
        context.produce("passed", record.value)


def test_a_chain_is_one_stage():
    def build(p):
        numbers = p | beam.Create([1]) | "a" >> beam.Map(str) | "b" >> beam.Filter(bool) | "c" >> beam.FlatMap()
        numbers | "out" >> beam.io.Write(CallSink(nothing))

    topology = topology_of(build)
    assert list(topology.inlines) == ["a to c"]
    assert topology.inlines["a to c"].inputs == {"Create"}
    assert topology.sinks["out"][0] in topology.inlines["a to c"].outputs
    assert topology.levels() == []


def test_branches_of_one_collection_are_one_stage():
    def build(p):
        numbers = p | beam.Create([1]) | "a" >> beam.Map(str)
        numbers | "b" >> beam.Map(str)
        numbers | "c" >> beam.Map(str) | "d" >> beam.Map(str)

    topology = topology_of(build)
    (stage,) = [place.computation for place in topology.inlines.values()]
    assert isinstance(stage, Stage)
    assert [step.label for step in stage.plan.steps] == ["a", "b", "c", "d"]


def test_windowing_costs_nothing_when_windows_follow_from_timestamps():
    def build(p):
        pairs = p | beam.Create([("k", 1)]) | beam.WindowInto(window.FixedWindows(60))
        pairs | "group" >> beam.GroupByKey()

    topology = topology_of(build)
    assert set(topology.keyed["group"].inputs) == {"group#in"}


def test_each_grouping_is_one_computation_of_the_next_level():
    def build(p):
        pairs = p | beam.Create([("k", 1)])
        first = pairs | "first" >> beam.GroupByKey() | "flip" >> beam.Map(lambda pair: (pair[1][0], pair[0]))
        first | "second" >> beam.GroupByKey()

    assert topology_of(build).levels() == [["first"], ["second"]]


def test_combiners_are_lifted_where_windows_do_not_merge():
    def build(p, window_fn):
        pairs = p | beam.Create([("k", 1)]) | beam.WindowInto(window_fn)
        pairs | "sum" >> beam.CombinePerKey(sum)

    def lifted(window_fn):
        topology = topology_of(lambda p: build(p, window_fn))
        return any(isinstance(place.computation, LiftedCombine) for place in topology.inlines.values())

    assert lifted(window.FixedWindows(60))
    assert lifted(window.SlidingWindows(60, 30))
    assert not lifted(window.Sessions(60))


def test_a_raw_computation_reads_a_source_without_a_stage_between():
    def build(p):
        passed = p | beam.Create([1]) | "raw" >> beam.RunComputation(Pass(), key=str, outputs="passed")
        passed | "out" >> beam.io.Write(CallSink(nothing))

    topology = topology_of(build)
    assert topology.inlines == {}
    assert set(topology.keyed["raw"].inputs) == {"Create"}
    assert topology.sinks["out"][0] == "passed"


def test_a_flatten_is_a_stream_with_several_producers():
    def build(p):
        one, two = p | "one" >> beam.Create([("k", 1)]), p | "two" >> beam.Create([("k", 2)])
        summed = two | "sum" >> beam.CombinePerKey(sum)
        (one, summed) | "both" >> beam.Flatten() | "group" >> beam.GroupByKey()

    topology = topology_of(build)
    producers = [name for name, place in topology.inlines.items() if "both" in place.outputs]
    assert len(producers) == 2
    assert topology.levels() == [["sum"], ["group"]]


def test_the_same_program_compiles_to_the_same_names():
    def build(p):
        class Split(beam.DoFn):
            def process(self, number):
                yield beam.TaggedOutput("odd", number)

        outputs = p | beam.Create([1, 2]) | "split" >> beam.ParDo(Split()).with_outputs("odd", "even", main="m")
        keyed = outputs | beam.Flatten() | beam.Map(lambda number: (number, 1))
        keyed | beam.CombinePerKey(sum) | "out" >> beam.io.Write(CallSink(nothing))
        keyed | beam.WindowInto(window.Sessions(5)) | beam.GroupByKey()

    def names(topology):
        inlines = [(name, sorted(it.inputs), sorted(it.outputs)) for name, it in topology.inlines.items()]
        keyed = [(name, list(it.inputs), sorted(it.outputs)) for name, it in topology.keyed.items()]
        return list(topology.injectors), inlines, keyed, topology.sinks.keys()

    assert names(topology_of(build)) == names(topology_of(build))


def test_streams_of_computations_and_steps_must_differ():
    def build(p):
        p | "passed" >> beam.Create([1]) | "raw" >> beam.RunComputation(Pass(), key=str, outputs="passed")

    with pytest.raises(TopologyError, match="steps 'passed' and 'raw' both put out a stream named 'passed'"):
        topology_of(build)


def test_a_deep_fan_out_is_cut_into_loops_that_python_can_take():
    def build(p):
        numbers = p | beam.Create([0])
        for depth in range(25):
            numbers = numbers | f"more {depth}" >> beam.FlatMap(lambda number: [number + 1])
            for step in range(5):
                numbers = numbers | f"same {depth} {step}" >> beam.Filter(lambda number: True)
        return numbers

    assert values(build) == [25]


def test_a_stage_that_multiplies_its_input_sends_on_before_the_batch_is_done():
    pipeline = beam.Pipeline("LocalRunner")
    numbers = pipeline | beam.Create([1])
    numbers | "many" >> beam.FlatMap(lambda number: range(30_000)) | "out" >> beam.io.Write(CallSink(nothing))
    stage = pipeline.topology().inlines["many"].computation
    stage.setup()
    stage.start_bundle()
    sent = []
    stage.process_batch("Create", Batch([1] * 5, [0] * 5), lambda stream, batch: sent.append(len(batch)))
    assert sum(sent) == 150_000
    assert max(sent) == 60_000


def test_a_stage_travels_without_what_it_has_set_up():
    class Opened(beam.DoFn):
        def setup(self):
            self.lock = threading.Lock()

        def process(self, number):
            yield number

    pipeline = beam.Pipeline("LocalRunner")
    pipeline | beam.Create([1]) | "open" >> beam.ParDo(Opened())
    stage = pipeline.topology().inlines["open"].computation
    stage.setup()
    copy = pickle.loads(cloudpickle.dumps(stage))
    copy.setup()
    copy.start_bundle()


def test_a_topology_runs_twice():
    class Counting(beam.DoFn):
        def setup(self):
            self.count = 0

        def process(self, number):
            self.count += 1
            yield self.count

    seen = []
    pipeline = beam.Pipeline("LocalRunner")
    counted = pipeline | beam.Create([1, 1]) | beam.ParDo(Counting())
    counted | beam.io.Write(CallSink(lambda epoch, rows: seen.extend(value for value, _ in rows)))
    pipeline.run()
    pipeline.run()
    assert seen == [1, 2, 1, 2]


def test_streams_and_bounded_input_give_the_same_final_values():
    pairs = [("a", 1, 3), ("b", 2, 5), ("a", 4, 12)]

    def summed(collection):
        return collection | beam.WindowInto(window.FixedWindows(10)) | beam.CombinePerKey(sum)

    def bounded(p):
        rows = [window.TimestampedValue((key, value), when) for key, value, when in pairs]
        return summed(p | beam.Create(rows))

    def streamed(p):
        stream = TestStream()
        for key, value, when in pairs:
            stream.add_elements([window.TimestampedValue((key, value), when)])
        return summed(p | stream)

    assert sorted(values(bounded)) == sorted(values(streamed)) == [("a", 1), ("a", 4), ("b", 2)]


def test_windows_chosen_by_a_step_reach_every_kind_of_reader():
    chosen = window.IntervalWindow(0, 7)

    def odd_one(number):
        return WindowedValue(("k", number), 1, [chosen]) if number == 2 else ("k", number)

    def build(p):
        numbers = p | beam.Create([window.TimestampedValue(1, 1), window.TimestampedValue(2, 2)])
        pairs = numbers | beam.WindowInto(window.FixedWindows(10)) | "choose" >> beam.Map(odd_one)
        readers = {
            "group": pairs | "group" >> beam.GroupByKey() | "first" >> beam.Map(lambda pair: (pair[0], pair[1][0])),
            "combine": pairs | "combine" >> beam.CombinePerKey(sum),
            "stage": pairs | "flat" >> beam.Map(lambda pair: pair),
            "flatten": (pairs, pairs) | beam.Flatten() | "flat sum" >> beam.CombinePerKey(sum),
        }

        def show(pair, name, where=beam.DoFn.WindowParam):
            return name, pair, where.end

        named = [output | f"name {name}" >> beam.Map(show, name) for name, output in readers.items()]
        return named | "all" >> beam.Flatten()

    assert sorted(values(build)) == sorted(
        (name, ("k", value * (2 if name == "flatten" else 1)), end)
        for name in ("group", "combine", "stage", "flatten")
        for value, end in ((1, 10), (2, 7))
    )


def test_a_batch_to_which_nothing_is_done_is_passed_on_as_it_is():
    pipeline = beam.Pipeline("LocalRunner")
    pairs = pipeline | beam.Create([("k", 1)]) | "windows" >> beam.WindowInto(window.FixedWindows(5))
    pairs | "group" >> beam.GroupByKey()
    stage = pipeline.topology().inlines["windows"].computation
    stage.setup()
    stage.start_bundle()
    sent = {}
    batch = Batch([("k", 1), ("k", 2)], [0, 1])
    stage.process_batch("Create", batch, sent.__setitem__)
    assert sent["group#in"].values is batch.values
    # What is no tuple becomes one.
    stage.process_batch("Create", Batch([["k", 1]], [0]), sent.__setitem__)
    assert sent["group#in"].values == [("k", 1)]


def test_a_sliding_window_is_not_passed_on():
    def build(p):
        sliding = p | beam.Create([("k", 1)]) | "slide" >> beam.WindowInto(window.SlidingWindows(4, 2))
        return sliding | "all" >> beam.WindowInto(window.GlobalWindows()) | beam.CombinePerKey(sum)

    assert values(build) == [("k", 2)]


def test_records_are_counted_as_elements_also_where_they_are_combined_before_the_shuffle() -> None:
    pipeline = beam.Pipeline("LocalRunner")
    _ = pipeline | beam.Create([("a", 1), ("a", 2), ("b", 3)]) | "Sum" >> beam.CombinePerKey(sum)
    places = pipeline.topology().inlines.values()
    assert any(isinstance(place.computation, LiftedCombine) for place in places), "the combiner is not lifted"
    assert pipeline.run().counters["Sum"]["records"] == 3


def _read(pipeline, **options):
    return pipeline | beam.io.ReadFromParquet("rows.parquet", validate=False, timestamp="at", **options)


def _summed(rows, combine=sum):
    pairs = rows | beam.Map(lambda row: (row["key"], row["value"])) | beam.WindowInto(window.FixedWindows(60))
    return pairs | "sum" >> beam.CombinePerKey(combine)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda p: _summed(_read(p)), True),
        (lambda p: _summed(_read(p), beam.combiners.MeanCombineFn()), True),
        (lambda p: _summed(_read(p)) | beam.GroupByKey(), True),
        (lambda p: _read(p) | beam.GroupBy("key").aggregate_field("value", max, "most"), True),
        (lambda p: _summed(_read(p, max_delay=5)), False),
        (lambda p: _summed(_read(p, continuous=True, max_delay=5)), False),
        (lambda p: _summed(_read(p), beam.combiners.ToListCombineFn()), False),
        (lambda p: _summed(_read(p), lambda values: sum(values)), False),
        (lambda p: _summed(_read(p) | "called" >> beam.Map(print)), False),
        (lambda p: _read(p) | beam.Map(lambda row: (row["key"], row["value"])) | beam.GroupByKey(), False),
        (lambda p: (rows := _read(p), _summed(rows), rows | beam.io.Write(CallSink(nothing))), False),
        (lambda p: (_summed(_read(p)), p | TestStream() | beam.Map(str)), False),
    ],
    ids=["sum", "mean", "chain", "row", "delay", "endless", "list", "call", "called", "group", "sink", "stream"],
)
def test_bounded_input_of_which_only_sums_are_kept(build, expected):
    assert topology_of(build).sums_bounded_input() is expected
