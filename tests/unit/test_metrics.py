"""Metrics of user code: whose they are, how they add up, how a program asks for them."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable, Iterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import BoundedInjector, Computation, Context, Record, StepError, Timer, Topology
from headrace.lowlevel.metric import (
    MOST_CHARACTERS,
    Cells,
    Collector,
    CounterCell,
    DistributionCell,
    GaugeCell,
    Metric,
    StringSetCell,
    added,
    at,
    decode_metrics,
    encode_metrics,
    report,
)
from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND
from headrace.metrics import Metrics, MetricsFilter
from headrace.metrics.cells import DistributionResult, GaugeResult
from headrace.metrics.execution import MetricKey, MetricResult
from headrace.metrics.metric import MetricResults
from headrace.metrics.metricbase import MetricName
from headrace.runners.engine.options import Progress, RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.runner import PipelineResult, PipelineState
from headrace.testing.test_stream import TestStream
from headrace.utils.windowed_value import WindowedValue


def counters(result: PipelineResult, wanted: MetricsFilter | None = None) -> dict[tuple[str, str], int]:
    found = result.metrics().query(wanted)["counters"]
    return {(one.key.step, one.key.metric.name): one.result for one in found}


def inc(name: str, n: int = 1) -> None:
    Metrics.counter("test", name).inc(n)


# Cells

METRICS = [Metric(kind, "n", name) for kind in ("counter", "distribution", "gauge") for name in "ab"]
UPDATES = st.lists(
    st.tuples(st.sampled_from("st"), st.sampled_from(METRICS), st.integers(-(2**70), 2**70), st.integers(0, 3))
)


def collected(updates: Iterable[tuple[str, Metric, int, int]]) -> Cells:
    cells: Cells = {}
    for step, metric, value, clock in updates:
        with Collector(clock) as one, at(step):
            report(metric, value)
        cells = added(cells, one.cells)
    return cells


@given(UPDATES, UPDATES)
def test_parts_add_up_to_the_whole(
    first: list[tuple[str, Metric, int, int]], second: list[tuple[str, Metric, int, int]]
) -> None:
    parts = added(collected(first), collected(second))
    assert parts == collected([*first, *second])
    assert decode_metrics(encode_metrics(parts)) == parts
    for step, metric, _, _ in first + second:
        values = [value for other, name, value, _ in first + second if (other, name) == (step, metric)]
        cell = parts[step][metric]
        if isinstance(cell, DistributionCell):
            assert cell == DistributionCell(sum(values), len(values), min(values), max(values))
        elif isinstance(cell, CounterCell):
            assert cell.total == sum(values)


def test_adding_changes_neither_side() -> None:
    old, new = collected([("s", METRICS[0], 1, 0)]), collected([("s", METRICS[0], 2, 0)])
    assert added(old, new) == {"s": {METRICS[0]: CounterCell(3)}}
    assert (old, new) == ({"s": {METRICS[0]: CounterCell(1)}}, {"s": {METRICS[0]: CounterCell(2)}})


def test_the_latest_value_of_a_gauge_is_kept() -> None:
    old, new = GaugeCell(1, 10), GaugeCell(2, 20)
    assert old.plus(new) == new.plus(old) == new
    assert GaugeCell(1, 10).plus(GaugeCell(2, 10)).value == 2, "in one epoch the later report's"


def test_a_string_set_is_bounded() -> None:
    cell = StringSetCell()
    for string in ("a", "b" * MOST_CHARACTERS, "c", "a"):
        cell.update(string, 0)
    assert cell.content() == ["a", "c"]
    with pytest.raises(TypeError, match="a string set takes strings, got 3 of type int"):
        cell.update(3, 0)


@pytest.mark.parametrize("kind", ["counter", "distribution"])
def test_only_whole_numbers(kind: str) -> None:
    with Collector(0), pytest.raises(TypeError, match="float"):
        report(Metric(kind, "n", "a"), 1.5)


def test_where_no_task_runs_nothing_is_counted() -> None:
    report(METRICS[0], 1)
    with Collector(0) as outer, at("outer"):
        with Collector(0) as inner, at("inner"):
            report(METRICS[0], 1)
        report(METRICS[0], 5)
        thread = threading.Thread(target=report, args=(METRICS[0], 1))
        thread.start()
        thread.join()
    assert (outer.cells, inner.cells) == (
        {"outer": {METRICS[0]: CounterCell(5)}},
        {"inner": {METRICS[0]: CounterCell(1)}},
    )


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
    out = p | beam.Create([1, 2, 3]) | "Raw" >> beam.RunComputation(Keyed(), key=key, outputs="out")  # type: ignore[arg-type]
    _ = out | "Reader" >> beam.Map(counting("read"))
    found = counters(p.run())
    assert found == {
        ("Raw", "key"): 3,
        ("Raw", "records"): 3,
        ("Raw", "end"): 2,
        ("Reader", "read"): 2,
    }


ENGINE = MetricsFilter().with_namespace("headrace")


def engine(result: PipelineResult, step: str) -> dict[str, int]:
    found = result.metrics().query(MetricsFilter().with_namespace("headrace").with_step(step))
    gauges = {one.key.metric.name: one.result.value for one in found["gauges"]}
    return gauges | {one.key.metric.name: one.result for one in found["counters"]}


@pytest.mark.parametrize("combine", [beam.CombinePerKey(Sum()), beam.CombinePerKey(sum), beam.GroupByKey()])
def test_the_engine_measures_each_step(combine: beam.PTransform[object, object]) -> None:
    lateness = 5
    p = beam.Pipeline(LocalRunner())
    stream = TestStream().add_elements([window_value(1), window_value(2), window_value(31)]).advance_watermark_to(30)
    stream = stream.add_elements([window_value(3), window_value(29), window_value(32), window_value(21)])
    pairs = p | "In" >> stream.advance_watermark_to_infinity()
    windowed = pairs | beam.WindowInto(beam.window.FixedWindows(10), allowed_lateness=lateness)
    _ = windowed | "Total" >> combine | beam.Map(counting("out"))
    epochs: list[Progress] = []
    result = PipelineResult(LocalRunner().run_topology(p.topology(), RunOptions(progress=epochs.append)))
    found = engine(result, "Total")
    # Of three late elements one is more than its lateness behind.
    assert found == {
        "records_in": 7,
        "records_out": 3,
        "late": 3,
        "dropped_late": 1,
        "timers": 3,
        "watermark": MAX_TIMESTAMP,
        "lag": 0,
        "state_bytes": 0,
    }
    gauges = [PipelineResult(epoch).metrics().query(ENGINE)["gauges"] for epoch in epochs]  # type: ignore[arg-type]
    course = [{one.key.metric.name: one.result.value for one in of if one.key.step == "Total"} for of in gauges]
    assert [at["watermark"] for at in course[1:3]] == [30 * SECOND] * 2
    assert [at["lag"] for at in course[1:3]] == [1 * SECOND, 2 * SECOND]
    assert any(at["state_bytes"] > 0 for at in course)
    assert (result.counters["Total"]["late"], result.counters["Total"]["records"]) == (3, 7)
    assert engine(result, "In") == {"records_out": 7, "watermark": MAX_TIMESTAMP, "lag": 0}
    assert "headrace" not in {one.key.metric.namespace for one in result.metrics().query()["counters"]}


class Last(beam.DoFn):
    """Puts one more out at the end of each bundle."""

    def process(self, element: int) -> Iterator[int]:
        yield element

    def finish_bundle(self) -> Iterator[object]:
        yield WindowedValue(7, 0, [beam.window.GlobalWindow()])


TAGGED = beam.pvalue.TaggedOutput
STAMPED = beam.window.TimestampedValue
SLIDING = beam.window.SlidingWindows(10, 5)
STEPS = {
    "map": (beam.Map(lambda x: x + 1), 6, 6),
    "filter": (beam.Filter(lambda x: x % 3), 6, 4),
    "flat": (beam.FlatMap(range), 6, 15),
    "stamped": (beam.Map(lambda x: STAMPED(x, x)), 6, 6),
    "some stamped": (beam.FlatMap(lambda x: [x, STAMPED(x, x)] if x % 2 else []), 6, 6),
    "tag unread": (beam.Map(lambda x: TAGGED("odd", x) if x % 2 else x).with_outputs("odd", main="even"), 6, 3),
    "tag read": (beam.Map(lambda x: TAGGED("odd", x) if x % 2 else x).with_outputs("odd", main="even"), 6, 6),
    "windows": (beam.WindowInto(SLIDING), 6, 6),
    "windowed": (beam.Map(lambda x, window=beam.DoFn.WindowParam: x), 6, 12),
    "last": (beam.ParDo(Last()), 6, 7),
    "combined": (beam.Map(lambda x: (x % 2, x)), 6, 6),
}


def test_what_goes_in_and_comes_out_of_each_step_of_a_stage() -> None:
    p = beam.Pipeline("LocalRunner")
    numbers = p | beam.Create(range(6))
    sliding = numbers | "windows" >> STEPS["windows"][0]
    for name, (step, _, _) in STEPS.items():
        if name == "windows":
            continue
        given = sliding if name == "windowed" else numbers
        made = given | name >> step
        if name.startswith("tag"):
            if name == "tag read":
                _ = made.odd | f"{name} odd" >> beam.Map(counting("calls")) | f"{name} more" >> beam.Filter(bool)
            made = made.even
        probed = made | f"{name} probe" >> beam.Map(counting("calls"))
        if name == "combined":
            _ = probed | "sum" >> beam.CombinePerKey(sum)
        else:
            _ = probed | f"{name} behind" >> beam.FlatMap(lambda x: [x]) | f"{name} end" >> beam.Filter(bool)
    result = p.run()
    calls = counters(result)
    for name, (_, taken, given) in STEPS.items():
        found = engine(result, name)
        assert found == {"records_in": taken, "records_out": given}, name
        if name == "windows":
            continue
        probe = engine(result, f"{name} probe")
        assert probe["records_in"] == probe["records_out"] == calls[f"{name} probe", "calls"], name
        if name != "combined":
            assert engine(result, f"{name} end")["records_in"] == probe["records_out"], name
    assert engine(result, "tag read odd")["records_in"] == 3
    assert engine(result, "sum")["records_in"] == 6


def window_value(second: int) -> beam.window.TimestampedValue[tuple[str, int]]:
    return beam.window.TimestampedValue(("k", 1), second)


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


RESULTS = MetricResults(
    collected(
        [(step, Metric("counter", space, name), 1, 0) for step in ("a/b c/d", "e") for space in "xy" for name in "mn"]
    )
)


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (MetricsFilter(), 8),
        (MetricsFilter().with_name("m"), 4),
        (MetricsFilter().with_names(["m", "n"]).with_namespace("x"), 4),
        (MetricsFilter().with_namespaces(["x", "y"]).with_step("e"), 4),
        (MetricsFilter().with_steps(["b c", "e"]), 8),
        (MetricsFilter().with_step("b c/d"), 4),
        (MetricsFilter().with_step("a/d"), 0),
        (MetricsFilter().with_step("b"), 0),
        (MetricsFilter().with_metric(Metrics.counter("x", "m")), 2),
        (MetricsFilter().with_metric(Metrics.counter("z", "m")), 0),
    ],
)
def test_filters(wanted: MetricsFilter, count: int) -> None:
    assert len(RESULTS.query(wanted)["counters"]) == count


@pytest.mark.parametrize("method", ["with_names", "with_namespaces", "with_steps"])
def test_a_filter_does_not_take_a_string_for_several(method: str) -> None:
    with pytest.raises(ValueError, match="must be several, got the string 'abc'; put it in a list"):
        getattr(MetricsFilter(), method)("abc")


def test_names_are_checked_where_the_metric_is_made() -> None:
    with pytest.raises(ValueError, match="the name of a metric must be a non-empty string, got ''"):
        Metrics.counter("test", "")
    with pytest.raises(ValueError, match="a namespace is a string or a class, got 3"):
        Metrics.gauge(3, "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="in the namespace 'headrace' of the engine"):
        Metrics.distribution("headrace", "lag")


def test_metrics_travel() -> None:
    counter = pickle.loads(pickle.dumps(Metrics.counter("test", "a")))
    with Collector(0) as collector, at("s"):
        counter.inc(4)
    assert collector.cells == {"s": {Metric("counter", "test", "a"): CounterCell(4)}}


def test_a_topology_without_a_pipeline_counts_too() -> None:
    topology = Topology()
    topology.injector("in", BoundedInjector([(1, 1), (2, 1)]))
    topology.computation("keyed", Keyed(), {"in": lambda value: value}, ["out"])
    result = LocalRunner().run_topology(topology)
    assert result.metrics["keyed"][Metric("counter", "test", "records")] == CounterCell(2)


def test_a_result_is_final() -> None:
    result = measured()
    assert result.state == result.wait_until_finish(1000) == result.cancel() == PipelineState.DONE
    assert PipelineState.is_terminal(result.state)
