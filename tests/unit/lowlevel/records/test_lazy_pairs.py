"""Pairs in columns: the same to whoever looks at them, and not made for a grouping, which wants values alone."""

from __future__ import annotations

import pickle
from array import array

import numpy as np
import pyarrow as pa
import pytest

from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.records.column_batch import ColumnBatch, Single, Tuple, ValueSchema, pair
from headrace.lowlevel.records.column_block import ColumnBlock, LazyPairs, decode_block
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.grouping.window_assignment import sorter
from headrace.sdk.windows import FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn
from headrace.sdk.windows.window_namespace import WindowNamespaces
from headrace.sdk.windows.windowing import Windowing

MANY = 200
"""Records of each of two keys."""


def parcel(shape: ValueSchema, records: int = MANY) -> ColumnBlock:
    keys = ["a"] * records + ["b"] * records
    table = pa.RecordBatch.from_pydict({"key": keys, "value": list(range(2 * records))})
    batch = ColumnBatch(table, np.arange(2 * records) * 1_000_000, shape)
    encoded, hashes = pa.array([b"sa", b"sb"], pa.large_binary()), pa.array([b"a" * 16, b"b" * 16], pa.binary(16))
    made = ColumnBlock("step", "in", encoded, hashes, array("q", [records] * 2), batch)
    decoded = decode_block(made.encode())
    assert isinstance(decoded, ColumnBlock)
    return decoded


def values_of(its: ColumnBlock) -> list[object]:
    bundle = Bundle()
    its.unpack(bundle.keys)
    return [part.values for _, [part] in bundle.keys.values()]


def test_each_key_has_its_pairs() -> None:
    first, second = values_of(parcel(pair(Single(0), Single(1))))
    assert isinstance(first, LazyPairs) and isinstance(second, LazyPairs)
    assert list(first) == [("a", number) for number in range(MANY)]
    assert second[3] == ("b", MANY + 3) and list(second[-2:]) == list(second)[-2:]
    assert pickle.loads(pickle.dumps(second)) == list(second)


@pytest.mark.parametrize(
    ("shape", "records"), [(Tuple((Single(0), Single(1), Single(1))), MANY), (pair(Single(0), Single(1)), 2)]
)
def test_others_are_lists(shape: ValueSchema, records: int) -> None:
    """What is no pair, and pairs of keys that have few."""
    its = parcel(shape, records)
    first, second = values_of(its)
    assert [*first, *second] == shape.values(its.batch.table) and isinstance(first, list)


@pytest.mark.parametrize(
    "window_fn", [GlobalWindows(), FixedWindows(1000), FixedWindows(7), SlidingWindows(9, 2), Sessions(5)], ids=repr
)
def test_windows_get_the_same_values(window_fn: WindowFn) -> None:
    windowing = Windowing.of(window_fn)
    sort = sorter(windowing, GroupingInputForm.PLAIN, WindowNamespaces(windowing))
    pairs, _ = values_of(parcel(pair(Single(0), Single(1))))
    assert isinstance(pairs, LazyPairs)
    times = [number * 1_000_000 for number in range(MANY)]
    expected = sort(list(pairs), times, 0)
    assert sort(pairs, times, 0) == expected
