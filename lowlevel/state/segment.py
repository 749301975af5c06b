"""Segments: lines of many keys in one stored value, for computations over columns (MillWheel paper §4.4).

A *segment* is an Arrow IPC stream of one record batch. Its first column, `row`, has the 16-byte hashes of the lines'
keys; the computation defines the other columns and the schema's metadata. A computation writes a few segments in an
epoch, under names that it chooses, and reads them when they are due, so its cost does not depend on the number of
stored keys.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import encode_tables, of_numbers
from headrace.lowlevel.intervals.interval_map import positions_in

ROW = "row"
"""Name of the first column."""
KEY = "key"
"""Name of the column with the keys, which a computation may write for inspection."""
ENCODED = {b"encoded": b"1"}
"""Metadata of that column if its values are encoded keys; otherwise they are the keys themselves."""
SAME = b"same"
"""Metadata key of the schema: columns with the same value in all lines, as a JSON object."""
POINTS = b"points"
"""Metadata key of the schema of segments whose lines only refer to other lines."""
_ROW_TYPE = pa.binary(16)

KeyPositions: TypeAlias = npt.NDArray[np.uint64]
"""First eight bytes of keys' hashes as numbers (`key_positions`): distinct and ascending."""


def encode(batch: pa.RecordBatch) -> bytes:
    """Encode a segment. Raises ValueError if the first column is not `row`, of type `binary(16)` and without nulls.

    >>> batch = pa.RecordBatch.from_pydict({"row": pa.array([b"r" * 16], pa.binary(16)), "sum": [7]})
    >>> decode(encode(batch)).equals(batch)
    True
    """
    _check(batch)
    return encode_tables([batch], batch.schema)


def decode(contents: bytes | memoryview) -> pa.RecordBatch:
    """Decode a segment; its columns are views of the contents. Raises ValueError if it is malformed."""
    batch = pa.ipc.open_stream(pa.py_buffer(contents)).read_next_batch()
    batch.validate()
    _check(batch)
    return batch


def _check(batch: pa.RecordBatch) -> None:
    first = batch.schema.field(0) if batch.num_columns else None
    if first is None or first.name != ROW or first.type != _ROW_TYPE or batch.column(0).null_count:
        raise ValueError(f"a segment's first column must be {ROW!r} of type {_ROW_TYPE} without nulls, not {first}")


def restricted(contents: bytes, start: int, stop: int) -> bytes | None:
    r"""The segment's lines whose keys are in the interval [start, stop) of the key space; None if there are none.

    >>> key_hashes = pa.array([bytes(16), b"\xff" * 16], pa.binary(16))
    >>> both = encode(pa.RecordBatch.from_pydict({"row": key_hashes, "n": [1, 2]}))
    >>> decode(restricted(both, 0, 1 << 63)).column("n").to_pylist(), restricted(both, 1, 2)
    ([1], None)
    """
    batch = decode(contents)
    hashes = key_positions(batch.column(0))
    inside = (hashes >= np.uint64(start)) & (hashes <= np.uint64(stop - 1))
    if inside.all():
        return contents if len(inside) else None
    return encode(batch.filter(of_numbers(inside))) if inside.any() else None


def key_positions(key_hashes: pa.FixedSizeBinaryArray) -> npt.NDArray[np.uint64]:
    """The position of each key hash in the key space: its first eight bytes as a big-endian number."""
    if not len(key_hashes):
        return np.empty(0, np.uint64)
    return positions_in(key_hashes.buffers()[1].slice(16 * key_hashes.offset, 16 * len(key_hashes)))


def lines_of_keys(batch: pa.RecordBatch, wanted: KeyPositions) -> pa.RecordBatch:
    """The lines of some keys, and possibly of a few others, from a segment whose lines are ordered by key hash."""
    positions = key_positions(batch.column(0))
    begins, stops = (np.searchsorted(positions, wanted, side) for side in ("left", "right"))
    sizes = stops - begins
    offsets = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    return batch.take(of_numbers(np.arange(int(sizes.sum())) + offsets))
