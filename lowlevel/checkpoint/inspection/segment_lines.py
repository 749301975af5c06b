"""The lines of segments in a checkpoint, by key, for inspection (MillWheel paper §6.2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.checkpoint.inspection.values import StoredLine
from headrace.lowlevel.state.segment import ENCODED, KEY, POINTS, ROW, SAME


def lines_in(batch: pa.RecordBatch, computation: str, decode_key: Callable[[bytes], object]) -> Iterator[StoredLine]:
    """The lines of a segment; none of a segment whose lines only refer to other lines.

    >>> key_hashes = pa.array([b"r" * 16, b"s" * 16], pa.binary(16))
    >>> batch = pa.record_batch({"row": key_hashes, "key": ["a", "b"], "sum": [3, 4]})
    >>> [(line.key, line.columns) for line in lines_in(batch, "sums", bytes)]
    [('a', {'sum': 3}), ('b', {'sum': 4})]
    >>> same = batch.replace_schema_metadata({SAME: '{"end": 60}'})
    >>> [line.columns for line in lines_in(same, "sums", bytes)]
    [{'end': 60, 'sum': 3}, {'end': 60, 'sum': 4}]
    """
    schema, metadata = batch.schema, batch.schema.metadata or {}
    if POINTS in metadata:
        return
    same: dict[str, object] = json.loads(metadata.get(SAME, b"{}"))
    names = schema.names
    index = names.index(KEY) if KEY in names else names.index(ROW)
    keys = batch.column(index).to_pylist()
    if ENCODED.items() <= (schema.field(index).metadata or {}).items():
        keys = [decode_key(key) for key in keys]
    others = [n for n, name in enumerate(names) if n and name != KEY]
    columns = [batch.column(n).to_pylist() for n in others]
    for key, *values in zip(keys, *columns, strict=True):
        yield StoredLine(computation, key, {**same, **dict(zip((names[n] for n in others), values, strict=True))})


def of_key_hash(batch: pa.RecordBatch, key_hash: bytes) -> pa.RecordBatch:
    """The lines of one key."""
    return batch.filter(pc.equal(batch.column(0), pa.scalar(key_hash, pa.binary(16))))
