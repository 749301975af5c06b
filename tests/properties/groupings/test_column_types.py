"""Columns of every type, combined as columns and one value after the other: the same results, bits and types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lowlevel.records.column_batch import ColumnBatch, Single, Tuple, ValueSchema, pair
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import SECOND
from headrace.sdk.combinefns.collecting import (
    CountDistinctCombineFn,
    EarliestCombineFn,
    Largest,
    LatestCombineFn,
    Smallest,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
)
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.composite import SingleInputTupleCombineFn, TupleCombineFn
from headrace.sdk.combinefns.numeric import (
    AllFn,
    AnyFn,
    CountCombineFn,
    CountNonNullCombineFn,
    MaxFn,
    MeanCombineFn,
    MinFn,
    SumFn,
)
from headrace.sdk.combinefns.quantile_sketch import ApproximateQuantilesCombineFn
from headrace.sdk.combinefns.unique_sketch import ApproximateUniqueCombineFn
from headrace.sdk.combinefns.variance import StandardDeviationFn, VarianceFn
from headrace.sdk.combinefns.vectorized import VectorizedCombineFn
from headrace.sdk.expressions.element_schema import Instant
from headrace.sdk.operators.combining.aggregates import LARGEST_SUM, reducers_of
from headrace.sdk.operators.combining.combiner_lifting import LiftedCombine
from headrace.sdk.operators.combining.value_columns import ElementColumns
from headrace.sdk.triggers import AccumulationMode, AfterCount, AfterWatermark, DefaultTrigger
from headrace.sdk.windows import CalendarWindows, FixedWindows, GlobalWindows, Sessions, SlidingWindows
from headrace.sdk.windows.slices import is_calendar
from headrace.sdk.windows.windowing import ClosingBehavior, Windowing
from tests.arrow import with_column
from tests.depth import examples
from tests.harness import Element
from tests.properties.grouping_strategies import Combining, Step, by_columns, by_key, in_order

FLOATS = st.floats(width=64) | st.sampled_from([0.0, -0.0, 0.1, 1e16, -1e16, 1.0, 2.0**-53, 1.7e308, 5e-324])
DAYS = st.integers(-700_000, 2_900_000)
TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **{kind: st.integers(-100, 100) for kind in (pa.int8(), pa.int16(), pa.int32())},
    **{kind: st.integers(0, 200) for kind in (pa.uint8(), pa.uint16(), pa.uint32())},
    pa.int64(): st.integers(-9, 9) | st.sampled_from([(1 << 63) - 1, -(1 << 63), 1 << 61]),
    pa.uint64(): st.integers(0, 9) | st.sampled_from([(1 << 64) - 1, 1 << 63]),
    pa.float32(): st.floats(width=32),
    pa.float64(): FLOATS,
    pa.bool_(): st.booleans(),
    pa.decimal128(12, 2): st.decimals(-(10**9), 10**9, places=2, allow_nan=False, allow_infinity=False),
    pa.decimal128(38, 4): st.decimals(-(10**30), 10**30, places=4, allow_nan=False, allow_infinity=False),
    pa.date32(): DAYS,
    pa.timestamp("us", "UTC"): st.integers(-(10**15), 10**15),
    pa.timestamp("s"): st.integers(-(10**9), 10**9),
    pa.duration("us"): st.integers(-(10**12), 10**12),
    pa.string(): st.text(max_size=3),
    pa.large_string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=3),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["UA", "AA", ""]),
}


class Squares(VectorizedCombineFn[int, int, int]):
    """A combiner of a program's own: the sum of the squares of whole numbers."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element * element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator

    def lift(self, values: pa.Array) -> pa.Array | None:
        is_small = pa.types.is_integer(values.type) and values.type.bit_width < 64
        return pc.power(values.cast(pa.int64()), 2) if is_small and not values.null_count else None

    def merge(self, states: pa.Array, groups: np.ndarray, count: int) -> pa.Array:
        sums = np.zeros(count, np.int64)
        np.add.at(sums, groups, states.to_numpy())
        return pa.array(sums)

    def extract(self, states: pa.Array) -> pa.Array | None:
        return states if len(states) % 2 else None


COMBINERS: list[Any] = [SumFn(), CountCombineFn(), MeanCombineFn(), MaxFn(), MinFn(), AnyFn(), AllFn(), Squares()]
COMBINERS += [TopCombineFn(2), Smallest(3), Largest(0), ToListCombineFn(), ToSetCombineFn(), LatestCombineFn()]
COMBINERS += [
    CountDistinctCombineFn(),
    ApproximateUniqueCombineFn(16),
    ApproximateQuantilesCombineFn(4),
    ApproximateQuantilesCombineFn(3, reverse=True),
    EarliestCombineFn(),
    CountNonNullCombineFn(),
    VarianceFn(),
    StandardDeviationFn(population=True),
]
WINDOWINGS = [
    Windowing.of(FixedWindows(10)),
    Windowing.of(SlidingWindows(10, 4)),
    Windowing.of(GlobalWindows()),
    Windowing.of(Sessions(7)),
    Windowing.of(FixedWindows(10), DefaultTrigger(), AccumulationMode.DISCARDING, allowed_lateness=30),
    # Some of its panes have no elements.
    Windowing.of(
        FixedWindows(10),
        AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
        AccumulationMode.DISCARDING,
        allowed_lateness=30,
        closing_behavior=ClosingBehavior.FIRE_ALWAYS,
    ),
    Windowing.of(
        SlidingWindows(12, 4),
        AfterWatermark(early=AfterCount(2), late=AfterCount(1)),
        AccumulationMode.ACCUMULATING,
        allowed_lateness=30,
    ),
    Windowing.of(
        FixedWindows(10),
        AfterWatermark(early=AfterCount(2), late=AfterCount(1)),
        AccumulationMode.ACCUMULATING_AND_RETRACTING,
        allowed_lateness=30,
    ),
    Windowing.of(CalendarWindows.days(2).with_time_zone("Asia/Kathmandu")),
    Windowing.of(
        CalendarWindows.months(1).beginning_on_day(5),
        AfterWatermark(early=AfterCount(2), late=AfterCount(1)),
        AccumulationMode.ACCUMULATING,
        allowed_lateness=20 * 86_400,
    ),
]


@st.composite
def columns(draw: st.DrawFn, size: int, nulls: bool) -> pa.Array:
    """A column of any type, which is a part of a longer one."""
    kind = draw(st.sampled_from(list(TYPES)))
    items = TYPES[kind] | st.none() if nulls and draw(st.booleans()) else TYPES[kind]
    few = draw(st.lists(items, min_size=1, max_size=4))
    values = draw(st.lists(st.sampled_from(few), min_size=size + 2, max_size=size + 2))
    return pa.array(values, kind).slice(1, size)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.RecordBatch, ValueSchema, ValueSchema]:
    """A table with columns of keys, then one of values; and the shapes of both."""
    size = draw(st.integers(1, 12))
    width = draw(st.integers(0, 2))
    keys = [draw(columns(size, True)) for _ in range(max(1, width))]
    table = pa.record_batch([*keys, draw(columns(size, False))], [f"f{number}" for number in range(len(keys) + 1)])
    key: ValueSchema = Tuple(tuple(map(Single, range(width)))) if width else Single(0)
    if draw(st.integers(0, 3)) == 0:
        # A key that has a column twice.
        key = draw(st.sampled_from([Tuple((Single(0), key)), Tuple((key, key))]))
    return table, key, Single(len(keys))


class AsColumns:
    """Makes batches of columns of elements, which say the number of their rows."""

    def __init__(self, table: pa.RecordBatch, key: ValueSchema, value: ValueSchema) -> None:
        self.table, self.shape = table, pair(key, value)

    def __call__(self, elements: Sequence[Element]) -> Batch:
        rows = [number for _, number, _ in elements]
        times = np.array([time for *_, time in elements], np.int64)
        return ColumnBatch(self.table.take(pa.array(rows, pa.int64())), times, self.shape)


class AsObjects(AsColumns):
    """The same elements as Python values."""

    def __call__(self, elements: Sequence[Element]) -> Batch:
        made = super().__call__(elements)
        return Batch(made.values, made.timestamps)


class OneByOne(Combining):
    """Adds up values by the CombineFn alone."""

    def rewindow(self, windowing: Windowing) -> None:
        super().rewindow(windowing)
        if isinstance(self.lift, LiftedCombine):
            self.lift._cells = None


class InTurns(Combining):
    """Each epoch goes another way than the one before, on what that has stored."""

    def step(self, step: Step, parts: int = 1) -> None:
        self.way = by_key if self.way is by_columns else by_columns
        self.rewindow(self.windowing)
        super().step(step, parts)


def _in_order(value: object) -> object:
    """Lists and sets sorted, as they have no order."""
    if isinstance(value, tuple):
        return (*map(_in_order, value),)
    return (type(value), sorted(map(repr, value))) if isinstance(value, (list, set)) else value


def outcome(combining: Combining, steps: Sequence[Step]) -> object:
    """The panes of all windows, or the error. Windows that fire in one bundle have no order among each other."""
    try:
        combining.run(steps)
    except Exception as error:
        # The last line, behind the class.
        return str(error.__cause__ or error).strip().rpartition("\n")[2].rpartition("Error: ")[2]
    assert not combining.stored()
    if not isinstance(combining.combine, TopCombineFn):
        combining.panes = [replace(pane, value=_in_order(pane.value)) for pane in combining.panes]
    return in_order(combining.panes), combining.counted()


@settings(max_examples=examples(25, 500))
@pytest.mark.parametrize("combine", COMBINERS, ids=lambda combine: type(combine).__name__)
@given(
    st.sampled_from(WINDOWINGS),
    tables(),
    st.lists(st.integers(-20, 40), min_size=12, max_size=12),
    st.lists(st.sampled_from([0, 5, 10, 20, 60]), min_size=1, max_size=3),
    st.sampled_from([None, TupleCombineFn, SingleInputTupleCombineFn]),
)
def test_columns_of_all_types_combine_as_their_values_do(
    combine: AnyCombineFn,
    windowing: Windowing,
    given: tuple[pa.RecordBatch, ValueSchema, ValueSchema],
    times: list[int],
    watermarks: list[int],
    of_tuples: type[SingleInputTupleCombineFn] | None,
) -> None:
    table, key, value = given
    read = value
    timed = isinstance(combine, (EarliestCombineFn, LatestCombineFn))
    if timed:
        table = with_column(table, "time", pa.array(range(100, 100 + table.num_rows)))
        read = pair(value, Instant(table.num_columns - 1))
    if of_tuples is TupleCombineFn:
        combine, read = TupleCombineFn(combine, CountCombineFn(), MaxFn()), Tuple((read, value, value))
    elif of_tuples is not None:
        others = ToSetCombineFn() if timed else MaxFn()
        combine = SingleInputTupleCombineFn(combine, CountCombineFn(), others)
    unit = 60_000 * SECOND if is_calendar(windowing.window_fn) else SECOND
    rows = [(None, row, times[row] * unit) for row in range(table.num_rows)]
    each = -(-len(rows) // len(watermarks))

    def steps(make: AsColumns) -> list[Step]:
        parts = [rows[at * each : (at + 1) * each] for at in range(len(watermarks))]
        return [Step(part, mark * unit, make) for part, mark in zip(parts, sorted(watermarks), strict=True)]

    as_columns, as_objects = AsColumns(table, key, read), AsObjects(table, key, read)
    expected = outcome(OneByOne(windowing, combine, by_key), steps(as_objects))
    for way in (by_columns, by_key):
        assert outcome(Combining(windowing, combine, way), steps(as_columns)) == expected
        assert outcome(Combining(windowing, combine, way), steps(as_objects)) == expected
    assert outcome(InTurns(windowing, combine), steps(as_columns)) == expected


@settings(max_examples=examples(25, 500))
@pytest.mark.parametrize("combine", COMBINERS, ids=lambda combine: type(combine).__name__)
@given(columns(4, True))
def test_what_columns_keep_merges_with_accumulators(combine: AnyCombineFn, column: pa.Array) -> None:
    reducers = reducers_of(combine)
    assert reducers is not None
    given, instants = ElementColumns(Single(0), [column]), pa.array(range(4))
    if isinstance(combine, (EarliestCombineFn, LatestCombineFn)):
        given = ElementColumns(pair(Single(0), Instant(1)), [column, instants])
    values = given.shape.values(pa.record_batch(list(given.columns), list("ab")[: len(given.columns)]))
    lifted = [reducers.parts[place].lifted(given) for place in reducers.kept]
    kept = [each for each in lifted if each is not None]
    if len(kept) < len(lifted) or reducers.bound(kept) >= LARGEST_SUM:
        return
    # Two of them are kept as columns, the others by the CombineFn.
    half = reducers.reduced(np.zeros(2, np.int64), 1, [each[:2] for each in kept])
    [accumulator] = reducers.accumulators(half, np.array([2]))
    merged = combine.merge_accumulators([accumulator, combine.add_inputs(combine.create_accumulator(), values[2:])])
    found, expected = combine.extract_output(merged), combine.apply(values)
    assert repr(_in_order(found)) == repr(_in_order(expected))


@given(
    st.lists(FLOATS.filter(lambda value: abs(value) < 1e300), min_size=1), st.randoms(use_true_random=False), st.data()
)
def test_the_sum_of_floats_does_not_depend_on_order_and_parts(
    values: list[float], order: Any, data: st.DataObject
) -> None:
    sums = SumFn()
    expected = sums.apply(values)
    shuffled = [*values]
    order.shuffle(shuffled)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=3)))
    parts = [shuffled[low:high] for low, high in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    assert sums.extract_output(sums.merge_accumulators(sums.add_inputs(0, part) for part in parts)) == expected
    everything = sums.add_inputs(0, shuffled)
    for value in shuffled[1:]:
        everything = sums.remove_input(everything, value)
    assert sums.extract_output(everything) == shuffled[0]
