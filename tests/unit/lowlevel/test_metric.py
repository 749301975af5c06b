"""Values of metrics: how they add up and travel, and how a filter chooses among them."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.metric import (
    Collector,
    MetricValues,
    TypedMetricName,
    added,
    at,
    decode_metrics,
    encode_metrics,
    report,
)
from headrace.lowlevel.metric_cells import MOST_CHARACTERS, CounterCell, DistributionCell, GaugeCell, StringSetCell
from headrace.metrics import Metrics, MetricsFilter
from headrace.metrics.metric import MetricResults

METRICS = [TypedMetricName(kind, "n", name) for kind in ("counter", "distribution", "gauge") for name in "ab"]
UPDATES = st.lists(
    st.tuples(st.sampled_from("st"), st.sampled_from(METRICS), st.integers(-(2**70), 2**70), st.integers(0, 3))
)


def collected(updates: Iterable[tuple[str, TypedMetricName, int, int]]) -> MetricValues:
    cells: MetricValues = {}
    for step, metric, value, clock in updates:
        with Collector(clock) as one, at(step):
            report(metric, value)
        cells = added(cells, one.cells)
    return cells


@given(UPDATES, UPDATES)
def test_parts_add_up_to_the_whole(
    first: list[tuple[str, TypedMetricName, int, int]], second: list[tuple[str, TypedMetricName, int, int]]
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
        report(TypedMetricName(kind, "n", "a"), 1.5)


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


RESULTS = MetricResults(
    collected(
        [
            (step, TypedMetricName("counter", space, name), 1, 0)
            for step in ("a/b c/d", "e")
            for space in "xy"
            for name in "mn"
        ]
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
