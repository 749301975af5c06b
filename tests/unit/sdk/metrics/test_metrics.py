"""Metrics of user code: whose they are, how they add up, how a program asks for them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import cast

import pytest

import headrace as beam
from headrace.coders import VarIntCoder
from headrace.lowlevel import BoundedInjector, Computation, Context, Record, StepError, Timer, Topology
from headrace.lowlevel.metric import Collector, TypedMetricName, at
from headrace.lowlevel.metric_cells import CounterCell
from headrace.lowlevel.time import SECOND
from headrace.metrics import Metrics, MetricsFilter
from headrace.metrics.cells import DistributionResult, GaugeResult
from headrace.metrics.execution import MetricKey, MetricResult
from headrace.metrics.metricbase import MetricName
from headrace.runners.local import LocalRunner
from headrace.runners.runner import PipelineResult, PipelineState
from headrace.testing.test_stream import TestStream
from headrace.transforms.timeutil import TimeDomain as TimerDomain
from headrace.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from headrace.utils.windowed_value import WindowedValue


def counters(result: PipelineResult, wanted: MetricsFilter | None = None) -> dict[tuple[str, str], int]:
    found = result.metrics().query(wanted)["counters"]
    return {(one.key.step, one.key.metric.name): one.result for one in found}


def inc(name: str, n: int = 1) -> None:
    Metrics.counter("test", name).inc(n)


# Steps


class Life(beam.DoFn):
    """Counts every hook."""

    def setup(self) -> None:
        inc("setup")

    def start_bundle(self) -> None:
        inc("start_bundle")

    def process(self, element: int) -> Iterator[int]:
        inc("before")
        yield element
        inc("after", element)

    def finish_bundle(self) -> Iterator[object]:
        inc("finish_bundle")
        yield WindowedValue(7, 0, [beam.window.GlobalWindow()])
        inc("after last")

    def teardown(self) -> None:
        inc("teardown")


def counting(name: str) -> object:
    def count(element: object) -> object:
        inc(name)
        return element

    return count


class Sum(beam.CombineFn[int, int, int]):
    """A sum that counts its methods' calls."""

    def create_accumulator(self) -> int:
        inc("create")
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        inc("add")
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        inc("merge")
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        inc("extract")
        return accumulator


def test_each_step_of_a_fused_stage_counts_for_itself() -> None:
    p = beam.Pipeline("LocalRunner")
    numbers = p | beam.Create([1, 2, 3]) | "Life" >> beam.ParDo(Life())
    kept = numbers | "Keep" >> beam.Filter(lambda x: inc("same") or x != 2)
    _ = kept | "Double" >> beam.FlatMap(lambda x: [inc("same"), x, inc("inner")])
    _ = numbers | "Other" >> beam.Map(counting("same"))
    assert counters(p.run()) == {
        ("Life", "setup"): 1,
        ("Life", "start_bundle"): 1,
        ("Life", "before"): 3,
        ("Life", "after"): 6,
        ("Life", "finish_bundle"): 1,
        ("Life", "after last"): 1,
        ("Keep", "same"): 4,
        ("Double", "same"): 3,
        ("Double", "inner"): 3,
        ("Other", "same"): 4,
    }


@pytest.mark.parametrize("window", [beam.window.GlobalWindows(), beam.window.Sessions(5)], ids=["lifted", "not lifted"])
def test_a_combiner_counts_under_its_step_on_both_sides_of_the_shuffle(window: beam.window.WindowFn) -> None:
    p = beam.Pipeline("LocalRunner")
    pairs = p | beam.Create([("a", 1), ("a", 2), ("b", 3)]) | beam.WindowInto(window)
    _ = pairs | "Total" >> beam.CombinePerKey(Sum()) | "After" >> beam.Map(counting("after"))
    found = counters(p.run())
    assert {step for step, _ in found} == {"Total", "After"}
    assert (found["Total", "add"], found["Total", "extract"], found["After", "after"]) == (3, 2, 2)


class Windows(beam.window.NonMergingWindowFn):
    """One window, counted."""

    def assign(self, context: beam.window.WindowFn.AssignContext) -> list[beam.window.IntervalWindow]:
        inc("assigned")
        return [beam.window.IntervalWindow(0, 10)]

    def get_window_coder(self) -> object:
        return beam.window.IntervalWindow(0, 1)


class Keyed(Computation):
    """Counts records and timers, and produces in batches."""

    def process_record(self, record: Record, context: Context) -> None:
        inc("records")
        context.set_timer("end", 60 * SECOND)

    def process_timer(self, timer: Timer, context: Context) -> None:
        inc(timer.tag)
        context.produce("out", context.key)


def test_a_raw_computation_counts_under_its_step_and_its_readers_under_theirs() -> None:
    p = beam.Pipeline("LocalRunner")
    key = cast(object, lambda x: (inc("key"), x % 2)[1])
    out = p | beam.Create([1, 2, 3]) | "Raw" >> beam.RunComputation(Keyed(), key=key, outputs="out")
    _ = out | "Reader" >> beam.Map(counting("read"))
    found = counters(p.run())
    assert found == {
        ("Raw", "key"): 3,
        ("Raw", "records"): 3,
        ("Raw", "end"): 2,
        ("Reader", "read"): 2,
    }


class Remembering(beam.DoFn):
    """Counts what it does with state and timers."""

    SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())
    END = TimerSpec("end", TimerDomain.WATERMARK)

    def setup(self) -> None:
        inc("setup")

    def process(
        self, pair: tuple[str, int], seen: object = beam.DoFn.StateParam(SEEN), end: object = beam.DoFn.TimerParam(END)
    ) -> None:
        Metrics.distribution("test", "values").update(pair[1])
        end.set(5)

    @on_timer(END)
    def finish(self, key: object = beam.DoFn.KeyParam) -> Iterator[object]:
        Metrics.string_set("test", "keys").add(str(key))
        yield key

    def finish_bundle(self) -> None:
        inc("bundles")


def test_steps_with_state_and_with_side_inputs_count_under_their_labels() -> None:
    p = beam.Pipeline("LocalRunner")
    pairs = p | beam.Create([("a", 1), ("b", 2), ("a", 4)])
    side = p | "Side" >> beam.Create([10])
    _ = pairs | "Remember" >> beam.ParDo(Remembering()) | "Behind" >> beam.Map(counting("behind"))
    _ = pairs | "Sided" >> beam.Map(lambda pair, by: inc("sided", by), by=beam.pvalue.AsSingleton(side))
    result = p.run()
    found = result.metrics().query()
    assert counters(result) == {
        ("Remember", "setup"): 1,
        ("Remember", "bundles"): 1,
        ("Behind", "behind"): 2,
        ("Sided", "sided"): 30,
    }
    assert [(one.key.step, one.result.sum) for one in found["distributions"]] == [("Remember", 7)]
    assert [(one.key.step, one.result) for one in found["string_sets"]] == [("Remember", {"a", "b"})]


def test_deep_calls_and_many_steps_find_their_step() -> None:
    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        else:
            inc("deep")

    p = beam.Pipeline("LocalRunner")
    collection = p | beam.Create(range(3))
    for number in range(60):
        collection = collection | f"Step {number}" >> beam.FlatMap(lambda x: [deep(20)])
    found = counters(p.run())
    assert found == {(f"Step {number}", "deep"): 3 for number in range(60)}


def test_a_failing_step_names_itself_also_where_it_combines_before_the_shuffle() -> None:
    class Broken(Sum):
        def add_input(self, accumulator: int, element: int) -> int:
            raise ValueError("no")

    p = beam.Pipeline("LocalRunner")
    _ = p | beam.Create([("a", 1)]) | "Total" >> beam.CombinePerKey(Broken())
    with pytest.raises(StepError, match="step 'Total'"):
        p.run()


# Results


def measured() -> PipelineResult:
    class Measure(beam.DoFn):
        def __init__(self) -> None:
            self.sizes = Metrics.distribution(Measure, "sizes")
            self.last = Metrics.gauge("test", "last")
            self.words = Metrics.string_set("test", "words")

        def process(self, word: str) -> None:
            self.sizes.update(len(word))
            self.last.set(len(word))
            self.words.add(word)
            Metrics.counter("test", "left").dec(2)

    p = beam.Pipeline(LocalRunner())
    outer = beam.ptransform_fn(lambda words: words | "inner" >> beam.ParDo(Measure()))()
    _ = (
        p
        | TestStream()
        .add_elements(["so", "much"])
        .advance_processing_time(5)
        .add_elements(["d"])
        .advance_watermark_to_infinity()
        | "outer" >> outer
    )
    return p.run()


def test_all_kinds_in_the_result() -> None:
    found = measured().metrics().query()
    namespace = f"{__name__}.Measure"
    assert [(one.key.metric, one.committed) for one in found["distributions"]] == [
        (MetricName(namespace, "sizes"), DistributionResult(sum=7, count=3, min=1, max=4))
    ]
    (gauge,) = found["gauges"]
    assert gauge.result == GaugeResult(value=1, timestamp=5.0)
    assert [one.result for one in found["string_sets"]] == [{"so", "much", "d"}]
    key = MetricKey("outer/inner", MetricName("test", "left"))
    assert found["counters"] == [MetricResult(key, -6, -6)]
    assert str(found["counters"][0]) == (
        "MetricResult(key=MetricKey(step=outer/inner, metric=MetricName(namespace=test, name=left)), "
        "committed=-6, attempted=-6)"
    )


def test_names_are_checked_where_the_metric_is_made() -> None:
    with pytest.raises(ValueError, match="the name of a metric must be a non-empty string, got ''"):
        Metrics.counter("test", "")
    with pytest.raises(ValueError, match="a namespace is a string or a class, got 3"):
        Metrics.gauge(3, "a")
    with pytest.raises(ValueError, match="in the namespace 'headrace' of the engine"):
        Metrics.distribution("headrace", "lag")


def test_metrics_travel() -> None:
    counter = pickle.loads(pickle.dumps(Metrics.counter("test", "a")))
    with Collector(0) as collector, at("s"):
        counter.inc(4)
    assert collector.cells == {"s": {TypedMetricName("counter", "test", "a"): CounterCell(4)}}


def test_a_topology_without_a_pipeline_counts_too() -> None:
    topology = Topology()
    topology.injector("in", BoundedInjector([(1, 1), (2, 1)]))
    topology.computation("keyed", Keyed(), {"in": lambda value: value}, ["out"])
    result = LocalRunner().run_topology(topology)
    assert result.metrics["keyed"][TypedMetricName("counter", "test", "records")] == CounterCell(2)


def test_a_result_is_final() -> None:
    result = measured()
    assert result.state == result.wait_until_finish(1000) == result.cancel() == PipelineState.DONE
    assert PipelineState.is_terminal(result.state)
