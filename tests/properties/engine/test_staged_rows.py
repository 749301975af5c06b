"""Rows that reach the driver as columns: the very rows that a pickle of them brings, in their order."""

from __future__ import annotations

import datetime
import gc
import pickle
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel import CallSink
from headrace.lowlevel.columnar.arrow_arrays import to_list
from headrace.lowlevel.records.column_batch import ColumnBatch, Named, ValueSchema
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks import staged_rows
from headrace.lowlevel.sinks.staged_rows import Collected, ColumnPart, Staged, TuplePart, ValuePart
from headrace.lowlevel.time import Timestamp
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Fired, Instant, Single, Tuple
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN

Row = tuple[object, int]


class Kind(IntEnum):
    """Equal to whole numbers, and none."""

    ODD = 1


class Name(str):
    """Equal to its text, and something else."""

    __slots__ = ()


class Pair(NamedTuple):
    """Equal to a tuple, and none."""

    first: object
    second: object


plain = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(width=64)
    | st.text(st.characters(exclude_categories=()), max_size=3)
    | st.binary(max_size=3)
)
odd = st.sampled_from([Kind.ODD, Name("a"), Pair(1, 2), Timestamp(3), np.int64(4), 1j, datetime.date(2024, 1, 1)])
items = plain | odd | st.lists(plain, max_size=2) | st.dictionaries(st.text(max_size=1), plain, max_size=2)
times = st.integers(-(1 << 63), (1 << 63) - 1)


alike = [st.integers(), st.integers(-1, 1) | st.booleans(), st.floats(), st.floats() | st.just(0), st.text(max_size=2)]
"""Of these are the items of tuples at one place."""


@st.composite
def value_batches(draw: st.DrawFn) -> list[Batch]:
    """Values of any kind; often tuples of one length."""
    if draw(st.booleans()):
        kinds = draw(st.lists(st.sampled_from([*alike, items]), max_size=3))
        values = cast("list[object]", draw(st.lists(st.tuples(*kinds), max_size=4)))
    else:
        values = draw(st.lists(items | st.tuples(items, items), max_size=4))
    return [Batch(values, draw(st.lists(times | st.integers(), min_size=len(values), max_size=len(values))))]


TYPES: Sequence[tuple[pa.DataType, st.SearchStrategy[object]]] = (
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.uint64(), st.integers(0, (1 << 64) - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=3)),
    (pa.large_binary(), st.binary(max_size=3)),
    (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b"])),
    (pa.null(), st.none()),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=2)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
)
SHAPES: Sequence[Callable[[int], ValueSchema]] = (
    lambda width: Single(width - 1),
    lambda width: Tuple(tuple(map(Single, range(width)))),
    lambda width: Tuple((Tuple(tuple(map(Single, range(width)))), Instant(0))),
    lambda width: Named(tuple("abcd"[:width]), tuple(map(Single, range(width)))),
    lambda width: Fields(("x", "y"), (Single(width - 1), Instant(0)), FieldsKind.ROW),
    lambda width: Fields(("x",), (Single(width - 1),), FieldsKind.TUPLE, "Named"),
    lambda width: Fields((), (), FieldsKind.DICT),
    lambda width: Fired(Single(width - 1), 0, 0, PANE_INFO_UNKNOWN),
)


@st.composite
def columns(draw: st.DrawFn, size: int) -> pa.Array:
    """A column of any type, with nulls or without."""
    kind, values = draw(st.sampled_from(TYPES))
    found = draw(st.lists(values | st.none() if draw(st.booleans()) else values, min_size=size, max_size=size))
    return pa.array(found, pa.string()).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(found, kind)


@st.composite
def column_batches(draw: st.DrawFn) -> list[Batch]:
    """One table cut into pieces, in the same shape or in others; the first column has numbers."""
    size = draw(st.integers(0, 6))
    numbers = pa.array(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), pa.int64())
    table = [numbers, *draw(st.lists(columns(size), max_size=3))]
    at = np.array(draw(st.lists(times, min_size=size, max_size=size)), np.int64)
    shape = draw(st.sampled_from(SHAPES))
    batches: list[Batch] = []
    start = 0
    while start < size:
        stop = draw(st.integers(start + 1, size))
        piece = [column.slice(start, stop - start) for column in table]
        if draw(st.booleans()):
            # The same shape, maybe of other types.
            piece[-1] = piece[0]
        made = pa.RecordBatch.from_arrays(piece, list("0123"[: len(piece)]))
        batches.append(ColumnBatch(made, at[start:stop], shape(len(piece))))
        start = stop
        shape = draw(st.just(shape) | st.sampled_from(SHAPES))
    return batches


def shown(rows: Sequence[Row]) -> list[object]:
    """Rows so that what is equal is the same: NaN, 1 and True, 0.0 and -0.0, subclasses."""
    return [_shown(row) for row in rows]


def _shown(value: object) -> object:
    if isinstance(value, (tuple, list)):
        return type(value).__qualname__, [_shown(each) for each in value]
    if isinstance(value, dict):
        return "dict", [(key, _shown(each)) for key, each in value.items()]
    return type(value).__qualname__, repr(value)


def gathered(batches: Sequence[Batch]) -> Batch:
    """What a task has for a sink."""
    collected = Collected()
    for batch in batches:
        collected.add(batch)
    return collected


@pytest.fixture
def from_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are worth it from the first row on."""
    monkeypatch.setattr(staged_rows, "_FEW", 0)


@pytest.mark.usefixtures("from_the_first_row")
@given(st.lists(value_batches() | column_batches(), max_size=3).map(lambda them: [one for it in them for one in it]))
def test_the_driver_gets_the_rows_that_a_pickle_would_bring(batches: list[Batch]) -> None:
    wanted = [row for batch in batches for row in batch.rows()]
    sink = CallSink(print)
    receipts = [sink.stage(gathered(part), 1, 0, "t") for part in (batches, batches[::-1])]
    assert None not in receipts
    again = [row for batch in batches[::-1] for row in batch.rows()]
    old = pickle.dumps(wanted, pickle.HIGHEST_PROTOCOL)
    assert shown(sink.rows(cast("list[bytes]", [*receipts, old]))) == shown([*wanted, *again, *wanted])
    assert gc.isenabled()


def numbers(count: int) -> ColumnBatch:
    """So many whole numbers."""
    return ColumnBatch(pa.RecordBatch.from_pydict({"n": pa.array(range(count))}), np.arange(count), Single(0))


def test_batches_of_one_shape_travel_as_one_and_a_few_rows_as_values():
    staged = Staged.of(gathered([numbers(65), numbers(65), numbers(64), Batch([1], [5]), Batch([("a",)], [6])]))
    assert [type(part) for part in staged.parts] == [ColumnPart, ValuePart]
    assert [len(list(part.rows())) for part in staged.parts] == [130, 66]
    assert isinstance(Staged.of(Batch([("a", 1)], [6])).parts[0], TuplePart)


def test_what_a_pickle_shares_is_shared():
    one = ["a"]
    rows = CallSink.rows([cast(bytes, CallSink(print).stage(Batch([(1, one), (2, one)], [0, 0]), 1, 0, "t"))])
    (_, first), (_, second) = (cast("tuple[int, list[str]]", value) for value, _ in rows)
    assert first is second


def test_texts_that_are_none_fail_in_the_task():
    broken = pa.Array.from_buffers(
        pa.string(), 65, [None, pa.py_buffer(np.arange(66, dtype=np.int32)), pa.py_buffer(b"\xff" * 65)]
    )
    batch = ColumnBatch(pa.record_batch([broken], ["text"]), np.zeros(65, np.int64), Single(0))
    with pytest.raises(ValueError, match=r"column 'text': a column of type string has text that is not UTF-8"):
        CallSink(print).stage(batch, 1, 0, "t")


@pytest.mark.parametrize("values", [[("a", 1), ("b", print), ("c", lambda: 0)], [1, lambda: 0]])
def test_the_first_value_that_cannot_be_sent_is_named(values: list[object]) -> None:
    with pytest.raises(TypeError, match=r"function .*<lambda>.* cannot be sent to the driver"):
        CallSink(print).stage(Batch(values, [0] * len(values)), 1, 0, "t")


@given(st.data())
def test_a_list_of_a_column_is_that_of_arrow(data: st.DataObject) -> None:
    column = data.draw(columns(5)).slice(data.draw(st.integers(0, 5)))
    assert _shown(to_list(column)) == _shown(column.to_pylist())


@pytest.mark.parametrize("column", [[1, True], [0, 0.0], [1.5, True], [1, 1 << 64], [1, None], [Kind.ODD, 1], [-0.0]])
def test_items_of_tuples_keep_their_types(column: list[object]) -> None:
    batch = Batch([("a", item) for item in column], [0] * len(column))
    receipt = CallSink(print).stage(batch, 1, 0, "t")
    assert receipt is not None
    assert shown(CallSink.rows([receipt])) == shown(list(batch.rows()))
