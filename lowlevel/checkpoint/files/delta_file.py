"""Delta files: what one attempt at a task changed in the computations of its level and interval (paper §6.2).

The tables of `headrace.lowlevel.state` as Arrow columns, an IPC stream a table; empty tables take no space. Parts of
snapshots are written the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.lowlevel.arrays import of_bytes, of_integers
from headrace.lowlevel.checkpoint import envelope, paths
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.state import FORMAT_VERSION, Delta
from headrace.lowlevel.store import Store

KIND = "delta file"
# Large: a column may be longer than the 2 GiB that Arrow's plain type can address.
_BYTES = pa.large_binary()
_INTEGER = pa.int64()
_SCHEMAS = {
    "keys": pa.schema([("row", _BYTES), ("key", _BYTES)]),
    "cells": pa.schema([("row", _BYTES), ("cell", _BYTES), ("contents", _BYTES)]),
    "marks": pa.schema([("row", _BYTES), ("domain", _INTEGER), ("tag", _BYTES), ("timestamp", _INTEGER)]),
    "ids": pa.schema([("id", _BYTES), ("timestamp", _INTEGER)]),
    "segments": pa.schema([("name", _BYTES), ("contents", _BYTES)]),
}
_ARRAYS: dict[pa.DataType, Callable[[Any, pa.DataType], pa.Array]] = {_BYTES: of_bytes, _INTEGER: of_integers}
_LARGE = 1 << 20
"""Bytes of a table that is measured before it is written."""
_WITHOUT_SEGMENTS = 1
"""Format version of files that have none, as before there were any. A release of then goes on with such files and
refuses others by their version; by itself it would pass over a table that it does not know, and so lose state."""


class DeltaHeader(NamedTuple):
    """Which attempt a delta file is of."""

    epoch: int
    level: int
    interval: int
    token: str
    part: int = 0
    """Number of the part, in a snapshot of several."""


class DeltaFile(NamedTuple):
    """A delta file as a commit names it; which level and interval it is of, the commit says beside it."""

    epoch: int
    token: str
    size: int
    """Bytes."""


def write_deltas(store: Store, header: DeltaHeader, deltas: Mapping[str, Delta]) -> DeltaFile:
    """Keep an attempt's deltas, by computation, where a commit can name them. Raises `StoreError`."""
    path, data, file = delta_object(header, deltas)
    store.put(path, data)
    return file


def delta_object(header: DeltaHeader, deltas: Mapping[str, Delta]) -> tuple[str, bytes, DeltaFile]:
    """Name and contents of what is to be written, and how a commit names it once it is."""
    data = encode_deltas(header, deltas)
    path = paths.delta(header.epoch, header.level, header.interval, header.token)
    return path, data, DeltaFile(header.epoch, header.token, len(data))


def encode_deltas(header: DeltaHeader, deltas: Mapping[str, Delta]) -> bytes:
    """Bytes of a delta file."""
    blobs: list[memoryview] = []
    entries = []
    for name, delta in deltas.items():
        # Table by table, as the columns of one are garbage when it is made into bytes.
        tables = [table for table in _SCHEMAS if getattr(delta, table)]
        entries.append({"name": name, "tables": tables, "forget_ids_before": delta.forget_ids_before})
        blobs += [_ipc(table, _columns(delta, table)) for table in tables]
    head = json.dumps({"header": header, "deltas": entries}).encode()
    version = FORMAT_VERSION if any(delta.segments for delta in deltas.values()) else _WITHOUT_SEGMENTS
    return envelope.wrap(KIND, version, [head, *blobs])


def decode_deltas(data: bytes, name: str, only: str | None = None) -> tuple[DeltaHeader, dict[str, Delta]]:
    """Header and deltas of a delta file called `name` in messages; `only` leaves out all other computations.

    Raises `CheckpointError` naming the file for anything that `encode_deltas` did not write.
    """
    head, *blobs = envelope.unwrap(KIND, range(_WITHOUT_SEGMENTS, FORMAT_VERSION + 1), data, name)
    deltas = {}
    with envelope.understood(name):
        content = json.loads(bytes(head))
        for entry in content["deltas"]:
            own, blobs = blobs[: len(entry["tables"])], blobs[len(entry["tables"]) :]
            if only is None or entry["name"] == only:
                tables = dict(zip(entry["tables"], own, strict=True))
                deltas[entry["name"]] = _delta(tables, entry["forget_ids_before"])
        return DeltaHeader(*content["header"]), deltas


def read_deltas(store: Store, path: str, header: DeltaHeader, only: str | None = None) -> dict[str, Delta]:
    """The deltas of the object at `path`, which must be there, whole, and of the attempt that `header` names."""
    name = f"{path} in {store.describe()}"
    if (data := store.get(path)) is None:
        raise CheckpointError(
            f"{name} is missing, but a commit names it; put the file back, or start over on an empty checkpoint"
        )
    found, deltas = decode_deltas(data, name, only)
    if found != header:
        raise CheckpointError(f"{name} holds {found} instead of {header}; files were moved or renamed")
    return deltas


def _columns(delta: Delta, table: str) -> Iterator[Sequence[object]]:
    """The columns of a table, one after the other."""
    entries: dict[Any, object] = getattr(delta, table)
    if table == "cells":
        yield [row for row, _ in entries]
        yield [cell for _, cell in entries]
    elif table == "marks":
        yield [row for row, _, _ in entries]
        yield [domain for _, domain, _ in entries]
        # A tag is any string of the user's, also one that is not valid Unicode. Most come many times.
        tags = {tag: tag.encode("utf-8", "surrogatepass") for tag in {tag for _, _, tag in entries}}
        yield [tags[tag] for _, _, tag in entries]
    else:
        yield list(entries)
    yield list(entries.values())


def _delta(tables: Mapping[str, memoryview], forget_ids_before: int | None) -> Delta:
    lists = {table: _lists(tables.get(table), len(schema)) for table, schema in _SCHEMAS.items()}
    cell_rows, cells, contents = lists["cells"]
    mark_rows, domains, tags, timestamps = lists["marks"]
    names = [tag.decode("utf-8", "surrogatepass") for tag in tags]
    return Delta(
        keys=dict(zip(*lists["keys"], strict=True)),
        cells=dict(zip(zip(cell_rows, cells, strict=True), contents, strict=True)),
        marks=dict(zip(zip(mark_rows, domains, names, strict=True), timestamps, strict=True)),
        ids=dict(zip(*lists["ids"], strict=True)),
        forget_ids_before=forget_ids_before,
        segments=dict(zip(*lists["segments"], strict=True)),
    )


def _ipc(table: str, columns: Iterable[Sequence[object]]) -> memoryview:
    schema = _SCHEMAS[table]
    arrays = [_ARRAYS[field.type](values, field.type) for values, field in zip(columns, schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    del arrays
    if batch.get_total_buffer_size() < _LARGE:
        sink = pa.BufferOutputStream()
        _write(sink, batch)
        return memoryview(sink.getvalue())
    # A stream that grows as it is written has twice the room in the end, and beside it what it had before.
    counted = pa.MockOutputStream()
    _write(counted, batch)
    buffer = pa.allocate_buffer(counted.size())
    with pa.FixedSizeBufferWriter(buffer) as exact:
        _write(exact, batch)
    return memoryview(buffer)


def _write(sink: pa.NativeFile, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)


def _lists(blob: memoryview | None, count: int) -> list[list[Any]]:
    if blob is None:
        return [[]] * count
    batch = pa.ipc.open_stream(pa.py_buffer(blob)).read_next_batch()
    return [column.to_pylist() for column in batch.columns]
