"""Pairs in columns: the same to whoever looks at them, and not made for a grouping, which wants values alone."""

from __future__ import annotations

import pickle
from array import array

import numpy as np
import pyarrow as pa
import pytest

from headrace.lowlevel.columnparcel import ColumnParcel, decode_parcel
from headrace.lowlevel.columns import ColumnBatch, Shape
from headrace.lowlevel.paired import Paired
from headrace.lowlevel.shapes import Single, Tuple, pair
from headrace.lowlevel.worker import Bundle
from headrace.sdk.arrivals import InputForm, sorter
from headrace.sdk.frames import Frames
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn

MANY = 200
"""Records of each of two keys."""


def parcel(shape: Shape, records: int = MANY) -> ColumnParcel:
    keys = ["a"] * records + ["b"] * records
    table = pa.record_batch({"key": keys, "value": list(range(2 * records))})
    batch = ColumnBatch(table, np.arange(2 * records) * 1_000_000, shape)
    made = ColumnParcel("step", "in", [b"sa", b"sb"], [b"a" * 16, b"b" * 16], array("q", [records] * 2), batch)
    decoded = decode_parcel(made.encode())
    assert isinstance(decoded, ColumnParcel)
    return decoded


def values_of(its: ColumnParcel) -> list[object]:
    bundle = Bundle()
    its.unpack(bundle)
    return [part.values for _, [part] in bundle.keys.values()]


def test_each_key_has_its_pairs() -> None:
    first, second = values_of(parcel(pair(Single(0), Single(1))))
    assert isinstance(first, Paired) and isinstance(second, Paired)
    assert list(first) == [("a", number) for number in range(MANY)]
    assert second[3] == ("b", MANY + 3) and list(second[-2:]) == list(second)[-2:]
    assert pickle.loads(pickle.dumps(second)) == list(second)


@pytest.mark.parametrize(
    ("shape", "records"), [(Tuple((Single(0), Single(1), Single(1))), MANY), (pair(Single(0), Single(1)), 2)]
)
def test_others_are_lists(shape: Shape, records: int) -> None:
    """What is no pair, and pairs of keys that have few."""
    its = parcel(shape, records)
    first, second = values_of(its)
    assert [*first, *second] == shape.values(its.batch.table) and isinstance(first, list)


@pytest.mark.parametrize(
    "window_fn", [GlobalWindows(), FixedWindows(1000), FixedWindows(7), SlidingWindows(9, 2), Sessions(5)], ids=repr
)
def test_windows_get_the_same_values(window_fn: WindowFn) -> None:
    windowing = Windowing.of(window_fn)
    sort = sorter(windowing, InputForm.PLAIN, Frames(windowing))
    pairs, _ = values_of(parcel(pair(Single(0), Single(1))))
    assert isinstance(pairs, Paired)
    times = [number * 1_000_000 for number in range(MANY)]
    expected = sort(list(pairs), times, 0)
    assert sort(pairs, times, 0) == expected
