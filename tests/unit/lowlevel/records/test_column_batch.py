"""Batches of columns are batches like any other."""

import pickle
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pytest

from headrace import col
from headrace.lowlevel.records.column_batch import ColumnBatch, shape_of_key
from headrace.lowlevel.records.record import Batch
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Single, pair
from headrace.sdk.model.row import Row

TABLE = pa.RecordBatch.from_pydict({"carrier": ["UA", "AA"], "delay": [3, -1]})
BATCH = ColumnBatch(TABLE, np.array([10, 20]), pair(Single(0), Single(1)))


def test_values_are_made_once_and_only_when_asked_for():
    batch = ColumnBatch(TABLE, np.array([10, 20]), pair(Single(0), Single(1)))
    assert len(batch) == 2
    assert list(batch.rows()) == [(("UA", 3), 10), (("AA", -1), 20)]
    assert batch.values is batch.values
    assert batch.ids is None
    assert isinstance(batch, Batch)


def test_a_batch_travels():
    again = pickle.loads(pickle.dumps(BATCH))
    assert (again.values, again.timestamps) == (BATCH.values, BATCH.timestamps)


def test_rows_are_taken_by_their_places():
    assert BATCH.taken(np.array([1])).values == [("AA", -1)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(FieldsKind.DICT, {"late": 3}), (FieldsKind.ROW, Row(late=3)), (FieldsKind.TUPLE, (3,))],
)
def test_fields_are_what_they_shall_be(kind, expected):
    assert Fields(("late",), (Single(1),), kind, "Late").values(TABLE)[0] == expected


def test_a_key_is_found_in_a_pair():
    assert shape_of_key(itemgetter(0), BATCH.shape) == Single(0)
    assert shape_of_key(itemgetter(2), BATCH.shape) is None
    assert shape_of_key(itemgetter(0, 1), BATCH.shape) is None
    assert shape_of_key(lambda value: value[0], BATCH.shape) is None


def test_a_column_has_a_name():
    with pytest.raises(ValueError, match="got an empty one; name the field"):
        col("")
