"""Delta files: the state changes of one attempt at a task, for one level and interval (MillWheel paper §6.2).

A file has the tables of `headrace.lowlevel.state.state_store` as Arrow columns, with one IPC message for each table
that is not empty; the format version stands for the schemas. Parts of snapshots have the same format. Small files are
carried by the log entry of their epoch, as one part of it, so that such an epoch is one write. Their place among the
parts of an entry must not change, so that a reader of state need not understand the rest of the commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import of_bytes, of_integers
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.state.state_store import FORMAT_VERSION, Delta
from headrace.lowlevel.storage import envelope, object_names
from headrace.lowlevel.storage.object_store import ObjectStorage

KIND = "delta file"
# Large, because a column may exceed the 2 GiB that Arrow's plain binary type can address.
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


class DeltaHeader(NamedTuple):
    """The identity of the attempt that wrote a delta file."""

    epoch: int
    level: int
    interval: int
    token: str
    part: int = 0
    """Index of the part in a snapshot; 0 for a delta file."""


class DeltaFile(NamedTuple):
    """A delta file of a commit, which stores level and interval separately."""

    epoch: int
    token: str
    size: int
    """Size in bytes."""
    contents: bytes = b""
    """The file itself if the commit carries it; empty if it is an object of its own."""


def write_deltas(store: ObjectStorage, header: DeltaHeader, deltas: Mapping[str, Delta]) -> DeltaFile:
    """Write the deltas of an attempt to a file that a commit can name. Raises `StoreError`.

    Args:
        store: The store of the checkpoint.
        header: The attempt.
        deltas: Computation -> its delta.
    """
    path, data, file = delta_object(header, deltas)
    store.put(path, data)
    return file


def delta_object(header: DeltaHeader, deltas: Mapping[str, Delta]) -> tuple[str, bytes, DeltaFile]:
    """Name and contents of a delta file, and the reference to it for a commit; nothing is written."""
    data = encode_deltas(header, deltas)
    path = object_names.delta(header.epoch, header.level, header.interval, header.token)
    return path, data, DeltaFile(header.epoch, header.token, len(data))


def encode_deltas(header: DeltaHeader, deltas: Mapping[str, Delta]) -> bytes:
    """Encode a delta file; `deltas` are by computation."""
    blobs: list[memoryview] = []
    entries = []
    for name, delta in deltas.items():
        # One table after the other, so that the columns of a table are freed once it is encoded.
        tables = [table for table in _SCHEMAS if getattr(delta, table)]
        entries.append({"name": name, "tables": tables, "forget_ids_before": delta.forget_ids_before})
        blobs += [_ipc(table, _columns(delta, table)) for table in tables]
    head = json.dumps({"header": header, "deltas": entries}).encode()
    return envelope.wrap(KIND, FORMAT_VERSION, [head, *blobs])


def decode_deltas(data: bytes, name: str, only: str | None = None) -> tuple[DeltaHeader, dict[str, Delta]]:
    """Decode a delta file: its header, and the deltas by computation.

    Args:
        data: The file.
        name: What messages call the file.
        only: The one computation to decode; None for all.

    Raises:
        CheckpointError: The file is damaged, or was not written by `encode_deltas`.
    """
    head, *blobs = envelope.unwrap(KIND, FORMAT_VERSION, data, name)
    deltas = {}
    with envelope.understood(name):
        content = json.loads(bytes(head))
        for entry in content["deltas"]:
            own, blobs = blobs[: len(entry["tables"])], blobs[len(entry["tables"]) :]
            if only is None or entry["name"] == only:
                tables = dict(zip(entry["tables"], own, strict=True))
                deltas[entry["name"]] = _delta(tables, entry["forget_ids_before"])
        return DeltaHeader(*content["header"]), deltas


def read_deltas(store: ObjectStorage, path: str, header: DeltaHeader, only: str | None = None) -> dict[str, Delta]:
    """Read the deltas of a file, by computation; `only` selects one computation.

    Raises `CheckpointError` if the file is missing, damaged or of another attempt than `header`.
    """
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
    """The columns of a table, in the order of its schema."""
    entries: dict[Any, object] = getattr(delta, table)
    if table == "cells":
        yield [key_hash for key_hash, _ in entries]
        yield [cell for _, cell in entries]
    elif table == "marks":
        yield [key_hash for key_hash, _, _ in entries]
        yield [domain for _, domain, _ in entries]
        # Tags are strings of user code and may be invalid Unicode. Most tags occur many times, so each is encoded once.
        tags = {tag: tag.encode("utf-8", "surrogatepass") for tag in {tag for _, _, tag in entries}}
        yield [tags[tag] for _, _, tag in entries]
    else:
        yield list(entries)
    yield list(entries.values())


def _delta(tables: Mapping[str, memoryview], forget_ids_before: int | None) -> Delta:
    lists = {table: _lists(tables.get(table), schema) for table, schema in _SCHEMAS.items()}
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
    return memoryview(pa.RecordBatch.from_arrays(arrays, schema=schema).serialize())


def _lists(blob: memoryview | None, schema: pa.Schema) -> list[list[Any]]:
    if blob is None:
        return [[]] * len(schema)
    batch = pa.ipc.read_record_batch(pa.py_buffer(blob), schema)
    return [column.to_pylist() for column in batch.columns]


ENTRY_KIND = "commit"
ENTRY_VERSION = 5
"""Kind and format version of a commit's log entry."""
PART = 4
"""The place of the carried deltas among the parts of the entry."""
MOST_BYTES = 64 * 1024
"""Largest size of a delta file that a commit carries."""
_KIND = "carried deltas"
_VERSION = 1


def carried_part(files: Iterable[bytes]) -> bytes:
    """The part of a log entry with these delta files."""
    return envelope.wrap(_KIND, _VERSION, list(files))


def carried_files(parts: Sequence[memoryview], name: str) -> list[memoryview]:
    """The delta files in a log entry, given its parts; `name` stands for it in messages."""
    return envelope.unwrap(_KIND, _VERSION, bytes(parts[PART]), name)


def read_carried(store: ObjectStorage, path: str, header: DeltaHeader, only: str | None = None) -> dict[str, Delta]:
    """Read the deltas of an attempt from the log entry at `path`, by computation; `only` selects one computation.

    Raises `CheckpointError` if the entry is missing, damaged, or carries no file of this attempt.
    """
    name = f"{path} in {store.describe()}"
    if (data := store.get(path)) is None:
        raise CheckpointError(
            f"{name} is missing, but a commit names it for state that it carries; put the file back, or start over on "
            "an empty checkpoint"
        )
    parts = envelope.unwrap(ENTRY_KIND, ENTRY_VERSION, data, name)
    with envelope.understood(name):
        files = carried_files(parts, name)
    for file in files:
        found, deltas = decode_deltas(bytes(file), name, only)
        if found == header:
            return deltas
    raise CheckpointError(f"{name} carries no deltas of {header}; files were moved or renamed")
