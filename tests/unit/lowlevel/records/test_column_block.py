"""A parcel of columns that is too large for one message is halved as columns, and nobody makes values of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.coders.coder import encode_key, joined_hashes
from headrace.lowlevel.columnar.arrow_arrays import of_joined
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_batch import ColumnBatch, Single, pair
from headrace.lowlevel.records.column_block import ColumnBlock, decode_block

KINDS: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.int64(): st.integers(-9, 9),
    pa.string(): st.text(max_size=5),
    pa.large_string(): st.text(max_size=5),
    pa.bool_(): st.booleans(),
    pa.timestamp("us", "UTC"): st.integers(0, 9).map(lambda second: datetime.fromtimestamp(second, UTC)),
    pa.list_(pa.string()): st.lists(st.text(max_size=2), max_size=3),
    pa.struct([("a", pa.string())]): st.builds(dict, a=st.none() | st.text(max_size=3)),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["x", "y"]),
}


def parcel(counts: list[int], column: pa.Array) -> ColumnBlock:
    names = [f"key {number}" for number in range(len(counts))]
    table = pa.RecordBatch.from_pydict({"key": np.repeat(names, counts), "value": column})
    keys = list(map(encode_key, names))
    batch = ColumnBatch(table, np.arange(len(table)) * 7, pair(Single(0), Single(1)))
    hashes = of_joined(joined_hashes(keys), 16)
    return ColumnBlock("step", "in", pa.array(keys, pa.large_binary()), hashes, array("q", counts), batch)


def has_values(piece: Block) -> bool:
    try:
        Block.values.__get__(piece)  # type: ignore[attr-defined]  # a descriptor of the slot
    except AttributeError:
        return False
    return True


def records(parcels: Iterator[Block]) -> dict[bytes, list[tuple[object, int]]]:
    found: dict[bytes, list[tuple[object, int]]] = {}
    for each in parcels:
        bundle = Bundle()
        each.unpack(bundle.keys)
        for key, parts in bundle.keys.values():
            for part in parts:
                found.setdefault(key, []).extend(zip(part.values, part.timestamps, strict=True))
    return found


@given(st.data(), st.lists(st.integers(1, 9), min_size=1, max_size=9), st.sampled_from(sorted(KINDS, key=str)))
def test_its_pieces_are_together_the_same(data: st.DataObject, counts: list[int], kind: pa.DataType) -> None:
    total = sum(counts)
    column = pa.array(data.draw(st.lists(st.none() | KINDS[kind], min_size=total, max_size=total)), kind)
    whole = parcel(counts, column)
    pieces = list(whole.pieces(limit=1200))
    for piece, encoded in pieces:
        assert isinstance(piece, ColumnBlock) and not has_values(piece) and min(piece.counts) > 0
        assert len(encoded) <= 1200 or len(piece) == 1
    assert not has_values(whole)
    assert sum(len(piece) for piece, _ in pieces) == total
    assert [piece.oldest() for piece, _ in pieces] == [piece.timestamps[0] for piece, _ in pieces]
    assert records(decode_block(encoded) for _, encoded in pieces) == records(iter([whole]))
    assert (len(pieces) > 1) == (total > 1 and len(whole.encode()) > 1200)


def test_a_record_that_is_too_large_is_named() -> None:
    says = r"^step 'step' raised for key 'key 0'; .*\n.* type tuple that arrived on stream 'in' has [\d,]+ bytes"
    with pytest.raises(StepError, match=says):
        list(parcel([1], pa.array(["x" * 3000])).pieces(1000, 2000))
