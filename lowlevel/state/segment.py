"""Persistent state of computations that work on a whole interval by columns: lines of many keys in one value (§4.4).

A *segment* is an Arrow IPC stream of one record batch. Its first column, `row`, says whose each line is, by the
16-byte hash of the key; the other columns and the schema's metadata are the computation's business. A computation
writes a few with an epoch, under names of its own, and reads them when they are due: so its cost does not depend on how
many keys it has.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.streamed import encode_tables

ROW = "row"
"""Name of the first column."""
KEY = "key"
"""Name of the column with the keys, if a computation writes them down: for whoever looks into its state."""
ENCODED = {b"encoded": b"1"}
"""Metadata of that column where its values are encoded keys; else they are the keys themselves."""
SAME = b"same"
"""Metadata of the schema: columns that have one value in all lines, as JSON."""
POINTS = b"points"
"""Metadata of the schema where lines only say which other lines are to be looked at."""
_ROW_TYPE = pa.binary(16)


def encode(batch: pa.RecordBatch) -> bytes:
    """Contents of a segment. Raises ValueError if it does not say whose its lines are.

    >>> batch = pa.record_batch({"row": pa.array([b"r" * 16], pa.binary(16)), "sum": [7]})
    >>> decode(encode(batch)).equals(batch)
    True
    """
    _check(batch)
    return encode_tables([batch], batch.schema)


def decode(contents: bytes | memoryview) -> pa.RecordBatch:
    """The batch that `encode` was given; its columns are views of the contents. Raises ValueError for others."""
    batch = pa.ipc.open_stream(pa.py_buffer(contents)).read_next_batch()
    batch.validate()
    _check(batch)
    return batch


def _check(batch: pa.RecordBatch) -> None:
    first = batch.schema.field(0) if batch.num_columns else None
    if first is None or first.name != ROW or first.type != _ROW_TYPE or batch.column(0).null_count:
        raise ValueError(f"a segment's first column must be {ROW!r} of type {_ROW_TYPE} without nulls, not {first}")


def restricted(contents: bytes, start: int, stop: int) -> bytes | None:
    r"""The lines of keys whose place (see `intervals.place_of`) is in [start, stop); None if there are none.

    >>> rows = pa.array([bytes(16), b"\xff" * 16], pa.binary(16))
    >>> both = encode(pa.record_batch({"row": rows, "n": [1, 2]}))
    >>> decode(restricted(both, 0, 1 << 63)).column("n").to_pylist(), restricted(both, 1, 2)
    ([1], None)
    """
    batch = decode(contents)
    found = places(batch.column(0))
    here = (found >= np.uint64(start)) & (found <= np.uint64(stop - 1))
    if here.all():
        return contents if len(here) else None
    return encode(batch.filter(of_numbers(here))) if here.any() else None


def places(rows: pa.FixedSizeBinaryArray) -> npt.NDArray[np.uint64]:
    """The first eight bytes of each row as a number."""
    if not len(rows):
        return np.empty(0, np.uint64)
    halves = np.frombuffer(rows.buffers()[1], ">u8")[2 * rows.offset : 2 * (rows.offset + len(rows))]
    return halves[::2].astype(np.uint64)
