"""Combining before the shuffle: which elements go together, and what travels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND
from headrace.sdk.combinefns.collecting import AtMostCombineFn, ToListCombineFn
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.composite import TupleCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn, MaxFn, MeanCombineFn, MinFn, SumFn
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Single, Tuple, pair
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining import combine_buffer, combiner_lifting
from headrace.sdk.operators.combining.combiner_lifting import LiftedCombine, liftable, one_to_one
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.triggers import AccumulationMode, AfterCount, AfterWatermark
from headrace.sdk.windows import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)
from headrace.sdk.windows.windowing import Windowing
from tests.harness import Element, Harness

Pairs = Sequence[tuple[object, object]]


def lifted(lift: LiftedCombine, *batches: tuple[Pairs, Sequence[int]]) -> list[Element]:
    """What comes out of a bundle."""
    out: list[Element] = []

    def emit(stream: str, batch: Batch) -> None:
        assert stream == "lifted"
        for value, time in batch.rows():
            key, payload = cast("tuple[object, object]", value)
            out.append((key, payload, time))

    lift.start_bundle()
    for pairs, times in batches:
        lift.process_batch("in", Batch(pairs, times), emit)
    lift.finish_bundle(emit)
    return out


COMBINERS: list[object] = [SumFn(), CountCombineFn(), MeanCombineFn(), MaxFn(), MinFn(), ToListCombineFn()]
ELEMENTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", 1, True, 1.0, None, (1, "x"), (True, "x"), b"a"]),
        st.integers(-5, 5) | st.sampled_from([1 << 61, -(1 << 62), 1 << 70, 2.5]),
        st.integers(-30, 30).map(lambda seconds: seconds * SECOND) | st.sampled_from([MIN_TIMESTAMP, -(1 << 62)]),
    ),
    max_size=12,
)


@given(
    st.sampled_from([FixedWindows(10, 3), SlidingWindows(10, 4), SlidingWindows(12, 4), GlobalWindows()]),
    st.sampled_from(COMBINERS),
    st.lists(ELEMENTS, max_size=3),
)
@example(SlidingWindows(10, 4), ToListCombineFn[int](), [[("a", 1, 1 * SECOND), ("a", 2, 3 * SECOND)]])
@example(SlidingWindows(10, 4), SumFn(), [[("a", 1, 1 * SECOND), ("a", 2, 3 * SECOND)]])
def test_lifted_is_what_direct_is(window_fn: WindowFn, combine: AnyCombineFn, batches: list[list[Element]]) -> None:
    windowing = Windowing.of(window_fn)
    lift = LiftedCombine(windowing, combine)
    columns = [([(key, value) for key, value, _ in batch], [time for *_, time in batch]) for batch in batches]
    later = Harness(Grouping(windowing, combine, GroupingInputForm.LIFTED))
    later.feed(lifted(lift, *columns))
    direct = Harness(Grouping(windowing, combine))
    direct.feed([element for batch in batches for element in batch])
    assert results(later) == results(direct)


def results(harness: Harness) -> dict[object, object]:
    panes = harness.advance(MAX_TIMESTAMP)
    by_name: dict[object, object] = {
        (repr(pane.key), repr(pane.window)): sorted(pane.value) if isinstance(pane.value, list) else pane.value
        for pane in panes
    }
    assert len(by_name) == len(panes)
    return by_name


def test_one_accumulator_travels_for_a_key_and_window() -> None:
    windowing = Windowing.of(FixedWindows(10))
    batch = ([("a", 1), ("a", 2), ("b", 4), ("a", 8)], [3 * SECOND, 1 * SECOND, 2 * SECOND, 11 * SECOND])
    out = lifted(LiftedCombine(windowing, cast(AnyCombineFn, SumFn())), batch, batch)
    encode = windowing.window_fn.get_window_coder().encode
    first, second = encode(IntervalWindow(0, 10)), encode(IntervalWindow(10, 20))
    assert sorted(out, key=repr) == [
        ("a", (first, 6, 4, 4), 3 * SECOND),
        ("a", (second, 16, 2, 2), 11 * SECOND),
        ("b", (first, 8, 2, 2), 2 * SECOND),
    ]
    assert {type(value) for _, payload, time in out for value in (*cast("tuple[object]", payload), time)} == {
        bytes,
        int,
    }


def test_numbers_are_not_changed_by_columns() -> None:
    lift = LiftedCombine(Windowing.of(GlobalWindows()), cast(AnyCombineFn, MaxFn()))
    assert lifted(lift, ([("a", 3), ("a", True)], [0, 0]))[0][1] == (b"", 3, 2, 2)
    (huge,) = lifted(LiftedCombine(Windowing.of(GlobalWindows()), cast(AnyCombineFn, SumFn())), ([("a", 1 << 70)], [0]))
    assert huge[1] == (b"", 1 << 70, 1, 1)


@pytest.mark.parametrize(("window_fn", "by_column"), [(GlobalWindows(), True), (FixedWindows(10), False)], ids=repr)
def test_elements_without_times_are_columns_all_the_same(window_fn: WindowFn, by_column: bool) -> None:
    lift = LiftedCombine(Windowing.of(window_fn), cast(AnyCombineFn, SumFn()))
    out: list[Batch] = []
    lift.start_bundle()
    lift.process_batch(
        "in", Batch([("a", 1), ("b", 2), ("a", 4)], [MIN_TIMESTAMP] * 3), lambda _, batch: out.append(batch)
    )
    lift.finish_bundle(lambda _, batch: out.append(batch))
    assert [isinstance(batch, ColumnBatch) for batch in out] == [by_column]
    sums = [(key, payload[1]) for key, payload in cast("list[tuple[str, tuple[bytes, int]]]", out[0].values)]
    assert sums == [("a", 5), ("b", 2)] and set(out[0].timestamps) == {MIN_TIMESTAMP}


def test_keys_that_python_takes_for_equal_stay_apart() -> None:
    lift = LiftedCombine(Windowing.of(GlobalWindows()), cast(AnyCombineFn, CountCombineFn()))
    out = lifted(lift, ([(key, 0) for key in (1, True, 1.0, (1,), (True,), 1)], [0] * 6))
    assert sorted(repr(key) for key, _, _ in out) == ["(1,)", "(True,)", "1", "1.0", "True"]
    assert not one_to_one([((1,),)]), "nested tuples are not looked into"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combiner_lifting, "MOST_GROUPS", 3)
    monkeypatch.setattr(combine_buffer, "MOST_ELEMENTS", 4)
    monkeypatch.setattr(combine_buffer, "MOST_CELLS", 4)
    sizes: list[int] = []
    for combine, most in ((SumFn(), 4), (AtMostCombineFn[int](5), 3)):
        lift = LiftedCombine(Windowing.of(GlobalWindows()), cast(AnyCombineFn, combine))
        lift.start_bundle()
        for key in range(10):
            lift.process_batch("in", Batch([(key, 1)], [0]), lambda _, batch: sizes.append(len(batch)))
        lift.finish_bundle(lambda _, batch: sizes.append(len(batch)))
        assert sum(sizes) == 10 and max(sizes) == most
        sizes.clear()


@st.composite
def text_keys(draw: st.DrawFn) -> tuple[pa.Array, list[int], list[int]]:
    """Keys as a column of text, with a dictionary or without; values and timestamps."""
    size = draw(st.integers(0, 8))
    entries = [*"abcdé", ""]
    keys = draw(st.lists(st.sampled_from([*entries, None]), min_size=size, max_size=size))
    column = pa.array(keys, draw(st.sampled_from([pa.string(), pa.large_string()])))
    if draw(st.booleans()):
        # Entries that no row has, and others that are in there twice.
        found = draw(st.permutations([*entries, *draw(st.lists(st.sampled_from(entries), max_size=2))]))
        kind = draw(st.sampled_from([pa.int8(), pa.int32(), pa.uint16()]))
        indices = pa.array([None if key is None else found.index(key) for key in keys], kind)
        column = pa.DictionaryArray.from_arrays(indices, pa.array(found))
    begin = draw(st.integers(0, size))
    values = draw(st.lists(st.integers(-5, 5) | st.just(1 << 61), min_size=size, max_size=size))
    times = draw(st.lists(st.integers(-30, 30).map(lambda seconds: seconds * SECOND), min_size=size, max_size=size))
    return column[begin:], values[begin:], times[begin:]


@given(
    st.sampled_from([FixedWindows(10, 3), SlidingWindows(12, 4), GlobalWindows()]),
    st.sampled_from([SumFn(), CountCombineFn(), MaxFn(), ToListCombineFn(), TupleCombineFn(SumFn(), MinFn())]),
    st.lists(text_keys(), max_size=5),
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4)),
)
def test_cells_are_those_of_the_elements_however_they_are_buffered(
    window_fn: WindowFn,
    combine: AnyCombineFn,
    batches: list[tuple[pa.Array, list[int], list[int]]],
    most: tuple[int, int, int],
) -> None:
    windowing = Windowing.of(window_fn)
    columns, values = list[ColumnBatch](), list[Element]()
    for keys, numbers, times in batches:
        table = pa.record_batch([keys, pa.array(numbers, pa.int64())], ["k", "n"])
        value = Tuple((Single(1), Single(1))) if isinstance(combine, TupleCombineFn) else Single(1)
        columns.append(ColumnBatch(table, np.array(times, np.int64), pair(Single(0), value)))
        values += [(*pair_, time) for pair_, time in zip(columns[-1].values, times, strict=True)]  # type: ignore[misc]  # pairs
    out: list[Batch] = []
    lift = LiftedCombine(windowing, combine)
    with pytest.MonkeyPatch.context() as patch:
        for name, number in zip(("MOST_ELEMENTS", "MOST_CELLS", "_SENT"), most, strict=True):
            patch.setattr(combine_buffer, name, number)
        lift.start_bundle()
        for batch in columns:
            lift.process_batch("in", batch, lambda _, made: out.append(made))
        lift.finish_bundle(lambda _, made: out.append(made))
    later, direct = (
        Harness(Grouping(windowing, combine, GroupingInputForm.LIFTED)),
        Harness(Grouping(windowing, combine)),
    )
    for made in out:
        pairs = cast("list[tuple[object, object]]", made.values)
        later.feed([(key, payload, time) for (key, payload), time in zip(pairs, made.timestamps, strict=True)])
    direct.feed(values)
    assert results(later) == results(direct)


@pytest.mark.parametrize("nulls", [0, 1])
def test_dictionaries_of_small_numbers_go_together(nulls: int) -> None:
    lift, out = LiftedCombine(Windowing.of(GlobalWindows()), cast(AnyCombineFn, CountCombineFn())), list[object]()
    lift.start_bundle()
    for half in range(2):
        indices = pa.array([*range(128), *[None] * nulls], pa.int8())
        keys = pa.DictionaryArray.from_arrays(indices, pa.array([f"{half} {number}" for number in range(128)]))
        table = pa.record_batch([keys], ["k"])
        lift.process_batch(
            "in", ColumnBatch(table, np.zeros(len(keys), np.int64), pair(Single(0), Single(0))), lambda *_: None
        )
    lift.finish_bundle(lambda _, made: out.extend(cast("Sequence[tuple[object, object]]", made.values)))
    found = [(key, payload) for key, payload in cast("list[tuple[object, tuple[object, ...]]]", out)]
    expected = [f"{half} {number}" for half in range(2) for number in range(128)] + [None] * nulls
    assert {key: payload[1] for key, payload in found} == {key: 1 if key is not None else 2 for key in expected}


def test_a_bundle_sends_a_key_and_slice_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combine_buffer, "MOST_ELEMENTS", 4)
    monkeypatch.setattr(combine_buffer, "MOST_CELLS", 6)
    lift = LiftedCombine(Windowing.of(FixedWindows(10)), cast(AnyCombineFn, SumFn()))
    elements = [("a", 1), ("b", 2), ("a", 3), ("c", 4)], [0, 0, 1, 12 * SECOND]
    encode = FixedWindows(10).get_window_coder().encode
    start, later = (encode(IntervalWindow(begin, begin + 10)) for begin in (0, 10))
    assert lifted(lift, *[elements] * 9) == [
        ("a", (start, 36, 18, 18), 0),
        ("b", (start, 18, 9, 9), 0),
        ("c", (later, 36, 9, 9), 12 * SECOND),
    ]


COLUMN_ELEMENTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-2, 2), st.integers(-30, 30).map(lambda seconds: seconds * SECOND)),
    max_size=40,
)


@given(
    st.sampled_from([FixedWindows(10, 3), SlidingWindows(12, 4), GlobalWindows()]),
    st.sampled_from(["text", "number", "both", "none"]),
    st.lists(COLUMN_ELEMENTS, max_size=3),
    st.integers(1, 60),
)
@example(GlobalWindows(), "text", [[("a", 1, 0), ("b", 2, 1), ("a", 2, 2), ("b", 1, 3)] * 2], 5)
def test_values_of_columns_are_combined_as_values(
    window_fn: WindowFn, keys: str, batches: list[list[tuple[str, int, int]]], most: int
) -> None:
    windowing, combine = Windowing.of(window_fn), cast(AnyCombineFn, ToListCombineFn[object]())
    columns = [_columns(batch, keys) for batch in batches]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(combiner_lifting, "MOST_VALUES", most)
        by_column = _by_group(LiftedCombine(windowing, combine), columns)
    plain = [Batch(list(batch.values), list(batch.timestamps)) for batch in columns]
    assert by_column == _by_group(LiftedCombine(windowing, combine), plain)


def _columns(batch: list[tuple[str, int, int]], keys: str) -> ColumnBatch:
    texts, numbers, times = (list(column) for column in zip(*batch, strict=True)) if batch else ([], [], [])
    nothing = pa.nulls(len(batch))
    table = pa.record_batch([pa.array(texts, pa.string()), pa.array(numbers, pa.int64()), nothing], ["t", "n", "0"])
    shapes = {"text": Single(0), "number": Single(1), "both": Tuple((Single(1), Single(0))), "none": Single(2)}
    value = Fields(("t", "n"), (Single(0), Single(1)), FieldsKind.DICT)
    return ColumnBatch(table, np.array(times, np.int64), pair(shapes[keys], value))


def _by_group(lift: LiftedCombine, batches: Sequence[Batch]) -> dict[object, object]:
    """Values in their order, how many, and the time of the first, of each key and window."""
    out: list[tuple[object, int]] = []

    def emit(_: str, batch: Batch) -> None:
        out.extend(zip(batch.values, batch.timestamps, strict=True))

    lift.start_bundle()
    for batch in batches:
        lift.process_batch("in", batch, emit)
    lift.finish_bundle(emit)
    found = [(value, time) for value, time in cast("list[tuple[tuple[object, tuple[bytes, object]], int]]", out)]
    by_group: dict[object, object] = {(key, code): (rest, time) for (key, (code, *rest)), time in found}
    assert len(by_group) == len(found)
    return by_group


def test_elements_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a CombineFn takes at once is bounded however many elements a bundle has."""
    monkeypatch.setattr(combiner_lifting, "MOST_VALUES", 4)
    taken: list[int] = []

    class Counting(CountCombineFn):
        def add_inputs(self, accumulator: int, elements: Iterable[object], /) -> int:
            taken.append(len(list(elements)))
            return accumulator + taken[-1]

    lift = LiftedCombine(Windowing.of(GlobalWindows()), cast(AnyCombineFn, Counting()))
    out = lifted(lift, *[([("a", 1), ("a", 2)], [0, 0])] * 9)
    assert taken == [4, 4, 4, 4, 2] and out[0][1] == (b"", 18, 18, 18)


def test_an_abandoned_bundle_is_forgotten() -> None:
    lift = LiftedCombine(Windowing.of(GlobalWindows()), cast(AnyCombineFn, SumFn()))
    lift.start_bundle()
    lift.process_batch("in", Batch([("a", 1), ("b", 2.5)], [0, 0]), lambda *_: None)
    assert lifted(lift, ([("a", 5)], [0])) == [("a", (b"", 5, 1, 1), 0)]


def test_elements_that_carry_their_windows() -> None:
    windowing = Windowing.of(SlidingWindows(10, 5))
    lift = LiftedCombine(windowing, cast(AnyCombineFn, SumFn()), GroupingInputForm.WINDOWED)
    both, one = (IntervalWindow(5, 15), IntervalWindow(0, 10)), (IntervalWindow(5, 15),)
    out = lifted(lift, ([("a", (1, both, None)), (True, (2, one, None)), ("a", (4, one, None))], [6 * SECOND] * 3))
    assert sorted(((key, cast("tuple[object, ...]", payload)[1:]) for key, payload, _ in out), key=repr) == [
        ("a", (1, 1, 0)),
        ("a", (5, 2, 2)),
        (True, (2, 1, 1)),
    ]
    harness = Harness(Grouping(windowing, cast(AnyCombineFn, SumFn()), GroupingInputForm.LIFTED))
    harness.advance(10 * SECOND)
    harness.feed(out)
    assert harness.dropped == 0, "no element is lost altogether"
    assert results(harness) == {("'a'", "[5.0, 15.0)"): 5, ("True", "[5.0, 15.0)"): 2}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 9)), max_size=12))
def test_one_window_each_is_as_one_of_several(elements: list[tuple[str, int, int]]) -> None:
    windowing = Windowing.of(FixedWindows(10))
    windows = [IntervalWindow(start, start + 10) for start in (0, 10, 20)]
    pairs = [(key, (value, (windows[place],), None)) for key, place, value in elements]
    times = [place * 10 * SECOND for _, place, _ in elements]

    def combined(*batches: tuple[Pairs, Sequence[int]]) -> list[Element]:
        return lifted(LiftedCombine(windowing, cast(AnyCombineFn, SumFn()), GroupingInputForm.WINDOWED), *batches)

    elsewhere = ("elsewhere", (0, (IntervalWindow(0, 1), IntervalWindow(1, 2)), None))
    beside = [element for element in combined(([*pairs, elsewhere], [*times, 0])) if element[0] != "elsewhere"]
    assert combined((pairs, times)) == beside


@pytest.mark.parametrize(
    ("windowing", "may"),
    [
        (Windowing.of(FixedWindows(10)), True),
        (Windowing.of(SlidingWindows(10, 5)), True),
        (Windowing.of(SlidingWindows(5, 10)), False),
        (Windowing.of(GlobalWindows()), True),
        (Windowing.of(Sessions(10)), False),
        (Windowing.of(FixedWindows(10), timestamp_combiner=TimestampCombiner.OUTPUT_AT_LATEST), False),
        (Windowing.of(FixedWindows(10), AfterWatermark(early=AfterCount(2)), AccumulationMode.DISCARDING), True),
    ],
    ids=repr,
)
def test_what_may_be_lifted(windowing: Windowing, may: bool) -> None:
    assert liftable(windowing) is may
    if not may:
        with pytest.raises(ValueError, match="ask liftable"):
            LiftedCombine(windowing, cast(AnyCombineFn, SumFn()))
