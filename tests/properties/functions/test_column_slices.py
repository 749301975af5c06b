"""Parts of columns: every function of Arrow gives for them what Python gives for the same values one by one.

Batches are cut where an epoch ends, so a column may begin and end anywhere in the memory that holds it.
"""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import Row, col
from headrace.lowlevel.coders.coder import KeyCoder
from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.columnar.key_columns import TupleKeys, numbered, plain_keys
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.sdk.expressions.arrow_evaluation import mask_of, shape_of
from headrace.sdk.expressions.arrow_functions import from_its_start, normal
from headrace.sdk.expressions.batch_view import BatchView, Unable, filtered
from headrace.sdk.expressions.element_schema import shape_of_rows
from tests.properties.functions.test_expressions import BINARY, FUNCTIONS, exact

ROWS = 60
TEXTS = ["", "a", " B", "name", "Row x", "seven"]
KINDS = {
    pa.int64(): [0, 3, -2, 2**40],
    pa.int16(): [0, 3, -2, 300],
    pa.uint8(): [0, 3, 200],
    pa.float64(): [0.0, 0.5, -2.0, 3.0],
    pa.float32(): [0.0, 0.5, -2.0, 3.0],
    pa.bool_(): [True, False, True],
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.dictionary(pa.int8(), pa.string()): TEXTS,
    pa.dictionary(pa.int32(), pa.large_string()): TEXTS,
}
CUTS = [(0, ROWS), (1, 1), (3, 20), (7, 9), (8, 8), (9, 40), (33, 20), (ROWS - 1, 1), (5, 0)]


def column_of(kind, with_nulls):
    values = KINDS[kind]
    drawn = [None if with_nulls and row % 7 == 3 else values[row * row % len(values)] for row in range(ROWS)]
    if pa.types.is_dictionary(kind):
        return pa.array(drawn, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(drawn, kind)


def as_given(column, first, count):
    return column.slice(first, count)


def cut_twice(column, first, count):
    return column.slice(first // 2).slice(first - first // 2, count)


def of_joined(column, first, count):
    return pa.concat_arrays([column.slice(0, first), column.slice(first)]).slice(first, count)


def of_lists(column, first, count):
    """The items of a slice of lists: they begin anywhere, without an offset of their own."""
    lists = pa.ListArray.from_arrays(pa.array(range(len(column) + 1), pa.int32()), column)
    return lists.slice(first, count).flatten()


def from_parquet(column, first, count):
    file = io.BytesIO()
    pq.write_table(pa.table({"one": column}), file, row_group_size=17)
    table = pq.read_table(file).slice(first, count).combine_chunks()
    return table.column(0).chunk(0) if table.num_rows else column.slice(0, 0)


def from_messages(column, first, count):
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pydict({"one": column}).slice(first, count)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch().column(0)


CUTTERS = [as_given, cut_twice, of_joined, of_lists, from_parquet, from_messages]


def parts_of(kind):
    for with_nulls in (False, True):
        column = column_of(kind, with_nulls)
        for cutter in CUTTERS:
            for first, count in CUTS:
                yield cutter(column, first, count)


def view_of(**columns):
    table = pa.RecordBatch.from_pydict(columns)
    return BatchView(
        table, np.zeros(table.num_rows, np.int64), shape_of_rows(table, as_rows=True), lambda: (None, None)
    )


def check(expression, **columns):
    """Whether it was computed by column, with the results that its operators have one by one."""
    view = view_of(**columns)
    try:
        found = view.result(shape_of(expression.node, view)).values
    except Unable:
        return False
    rows = zip(*view.table.to_pydict().values(), strict=True)
    one_by_one = [expression(Row.of(dict(zip(view.table.schema.names, row, strict=True)))) for row in rows]
    assert exact(found) == exact(one_by_one)
    return True


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_function_of_parts_of_a_column(kind):
    computed = 0
    for part in parts_of(kind):
        assert normal(part, False).values.to_pylist() == part.to_pylist()
        computed += sum(check(function(col.one), one=part) for function in FUNCTIONS.values())
    assert computed > 300


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_operation_on_parts_of_two_columns(kind):
    computed = 0
    whole = column_of(kind, False)
    for number, part in enumerate(parts_of(kind)):
        other = whole.slice(ROWS - len(part))
        name = BINARY[number % len(BINARY)]
        for one, two in ((part, other), (other, part)):
            computed += check(getattr(col.one, name)(col.two), one=one, two=two)
    assert computed > 15


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_parts_are_filtered_by_conditions_on_parts(kind):
    for part in parts_of(kind):
        view = view_of(one=part)
        mask = mask_of(col.one.is_not_null().node, view)
        kept = filtered(ColumnBatch(view.table, view.times, view.shape), mask)
        assert kept.table.column(0).to_pylist() == [each for each in part.to_pylist() if each is not None]


@pytest.mark.parametrize("kind", [each for each in KINDS if not pa.types.is_dictionary(each)], ids=str)
def test_numbers_of_parts(kind):
    for part in parts_of(kind):
        assert numbers_in(part).tolist() == part.to_numpy(zero_copy_only=False).tolist() or part.null_count


KEYS = [pa.int64(), pa.int16(), pa.uint8(), pa.string(), pa.large_string()]


@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_keys_of_parts(kind):
    coder = KeyCoder()
    for part in parts_of(kind):
        if part.null_count or not len(part):
            continue
        values = part.to_pylist()
        order = {value: number for number, value in enumerate(dict.fromkeys(values))}
        assert numbered([part]).tolist() == [order[value] for value in values]
        pairs = list(zip(values, values, strict=True))
        keys = TupleKeys.like(pairs[0], coder.encode)
        encoded = keys.encoded([part, part])
        assert encoded.to_pylist() == list(map(coder.encode, pairs))
        for first in range(0, len(values), 5):
            assert [column.to_pylist() for column in keys.decoded(encoded.slice(first, 7))] == [values[first:][:7]] * 2
            single = pa.array(map(coder.encode, values), pa.large_binary()).slice(first, 7)
            assert plain_keys(single).to_pylist() == values[first:][:7]


def test_texts_begin_where_their_memory_begins():
    whole = pa.array([f"row{number}" for number in range(1000)], pa.large_string())
    part = whole.slice(333, 20).cast(pa.string())
    assert np.frombuffer(part.buffers()[1], np.int32, 1, part.offset * 4)[0] > 0
    moved = from_its_start(part)
    assert moved.equals(part)
    assert np.frombuffer(moved.buffers()[1], np.int32, 1, moved.offset * 4)[0] == 0
    beginning = whole.cast(pa.string())
    assert from_its_start(beginning) is beginning
