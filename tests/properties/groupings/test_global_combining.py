"""Combining all elements with a result for none: by columns as key by key, marks and all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import CallSink, StepError
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.combinefns.numeric import SumFn
from headrace.sdk.compiler.compiler import execution_strategies
from headrace.transforms.combiners import CountCombineFn, MeanCombineFn, TupleCombineFn
from tests.depth import examples

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-9, 9),
    "huge": st.integers(-9, 9) | st.sampled_from([(1 << 63) - 1, -(1 << 63), 1 << 62, 1 << 80]),
    "mixed": st.integers(-9, 9) | st.integers(-9, 9).map(lambda number: number / 4),
}
COMBINERS: list[Any] = [sum, max, min, CountCombineFn(), MeanCombineFn()]


def combined(combine: Any, values: Sequence[object], limit: int, by_columns: bool) -> object:
    """The result with its window, time and pane; or the error."""
    rows: list[object] = []
    pipeline = beam.Pipeline("LocalRunner")
    result = pipeline | beam.Create(list(values)) | "Combine" >> beam.CombineGlobally(combine) | beam.Map(shown)
    _ = result | beam.io.Write(CallSink(lambda epoch, its: rows.extend(row for row, _ in its)))
    if by_columns:
        topology = pipeline.topology()
        assert {way.obstacle for way in execution_strategies(pipeline) if way.step == "Combine/Combine"} == {None}
    else:
        with mock.patch("headrace.sdk.compiler.execution_strategy.obstacle", lambda *_, **__: "the test"):
            topology = pipeline.topology()
    try:
        counted = LocalRunner(intervals=2).run_topology(topology, RunOptions(max_records_per_epoch=limit)).counters
    except StepError as error:
        return error.step, error.cause.splitlines()[-1]
    return rows, counted["Combine/Combine"]["records"]


def shown(
    value: object,
    window: Any = beam.DoFn.WindowParam,
    time: Any = beam.DoFn.TimestampParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> object:
    return repr(value), str(window), str(time), str(pane)


def check(combine: Any, values: Sequence[object], limit: int) -> None:
    """Both ways come to the same, and to what the CombineFn itself makes of the values."""
    found = combined(combine, values, limit, by_columns=True)
    assert found == combined(combine, values, limit, by_columns=False)
    if values:
        made = beam.CombineGlobally(combine).combine_fn.apply(values)
        (row, *_), _ = cast("tuple[list[tuple[object, ...]], int]", found)
        assert row[0] == repr(made)


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=examples(15, 500))
@given(st.data(), st.sampled_from(COMBINERS), st.integers(1, 9))
def test_with_defaults(kind: str, data: st.DataObject, combine: Any, limit: int) -> None:
    values = data.draw(st.lists(VALUES[kind], max_size=20))
    check(combine, values, limit)


@settings(max_examples=examples(15, 500))
@given(st.lists(st.tuples(VALUES["huge"], VALUES["mixed"]), max_size=9))
@example([])
def test_several_results_at_once(values: list[tuple[object, object]]) -> None:
    check(TupleCombineFn(sum, CountCombineFn()), values, 4)


def test_whole_numbers_are_added_up_as_columns() -> None:
    """The CombineFn sees the mark alone."""
    seen: list[list[object]] = []
    add_inputs = SumFn.add_inputs

    def watched(self: SumFn, accumulator: Any, elements: Any) -> Any:
        seen.append(list(elements))
        return add_inputs(self, accumulator, seen[-1])

    with mock.patch.object(SumFn, "add_inputs", watched):
        rows, _ = combined(sum, range(1_000), 10_000, by_columns=True)  # type: ignore[misc]  # the decorator has no types
    assert rows[0][0] == "499500"
    assert seen == [[]]
