"""Rows of a DataFrame kept in the checkpoint before they are used: Arrow files, and a list that makes them count.

Spark may compute a DataFrame differently each time, in another order or with other rows. What an epoch reads must be
the same when it is planned again, so rows are written once, and epochs read pieces of what was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from secrets import token_bytes
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from headrace.lowlevel.checkpoint.envelope import understood
from headrace.lowlevel.checkpoint.signature import carried
from headrace.lowlevel.columns import ColumnBatch
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.record import Batch
from headrace.lowlevel.sequencer import attempt_token
from headrace.lowlevel.store import Store
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.runners.engine.epoch import pack, unpack
from headrace.runners.spark.job import collected
from headrace.runners.spark.level import SCHEMA, batches_of
from headrace.sdk.columns.reading import shape_of_rows, times_of
from headrace.sdk.io.apart import halves
from headrace.sdk.io.columns import to_rows
from headrace.sdk.io.timestamps import TimestampOf, timestamps_of

_PIECE_ROWS = 1 << 16
_PIECE_BYTES = 16 << 20
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class Piece(NamedTuple):
    """Some consecutive rows."""

    path: str
    """Name of the object in the store."""
    rows: int


class Range(NamedTuple):
    """Rows `start` to before `stop` of a piece."""

    piece: Piece
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class PieceSplit:
    """Some rows as an injector's split."""

    store: Store
    rows: Range
    timestamp: TimestampOf
    tolerant: bool = False
    """Whether rows whose event time cannot be told are set apart."""

    def count_records(self) -> int:
        """See `SizedSplit`."""
        return self.rows.stop - self.rows.start

    def read(self) -> Iterable[Batch]:
        """Their `Row`s. Raises `CheckpointError` if the piece is gone, ValueError for a row without an event time."""
        piece, start, stop = self.rows
        if (data := self.store.get(piece.path)) is None:
            raise CheckpointError(
                f"{piece.path} in {self.store.describe()} is missing, which holds rows of a DataFrame; "
                "put the file back, or start over on an empty checkpoint"
            )
        with understood(f"{piece.path} in {self.store.describe()}"):
            table = pa.ipc.open_stream(data).read_all().slice(start, stop - start)
            table.validate(full=True)
        for batch in table.combine_chunks().to_batches():
            if self.tolerant:
                yield from self._apart(batch)
            else:
                yield batch_of_rows(batch, self.timestamp)

    def _apart(self, table: pa.RecordBatch) -> Iterator[Batch]:
        def batch(rows: pa.RecordBatch) -> Batch:
            return batch_of_rows(rows, self.timestamp)

        return halves(table, 0, batch, lambda row: to_rows(table.slice(row, 1))[0], MIN_TIMESTAMP)


def batch_of_rows(table: pa.RecordBatch, timestamp: TimestampOf) -> Batch:
    """The `Row`s of a table, as columns if that is certain to come to the same.

    Raises ValueError naming a row without an event time.

    >>> batch_of_rows(pa.record_batch({"delay": [3]}), None).values
    [Row(delay=3)]
    """
    shape = shape_of_rows(table, as_rows=True)
    if shape is None:
        elements = to_rows(table)
        return Batch(elements, event_times(table, elements, timestamp))
    if timestamp is None:
        return ColumnBatch(table, np.full(table.num_rows, MIN_TIMESTAMP, np.int64), shape)
    if isinstance(timestamp, str) and timestamp in table.schema.names:
        column = table.column(timestamp)
        if pa.types.is_timestamp(column.type) and (times := times_of(column)) is not None:
            return ColumnBatch(table, times, shape)
    elements = shape.values(table)
    batch = ColumnBatch(table, np.array(event_times(table, elements, timestamp), np.int64), shape)
    batch.values = elements
    return batch


def event_times(batch: pa.RecordBatch, elements: Sequence[object], timestamp: TimestampOf) -> list[int]:
    """Event times in microseconds UTC, by column where one has them. Raises ValueError naming a row without.

    >>> event_times(pa.record_batch({"at": pa.array([0, 1], pa.timestamp("us", "UTC"))}), [None, None], "at")
    [0, 1]
    """
    if isinstance(timestamp, str) and timestamp in batch.schema.names:
        column = batch.column(timestamp)
        if pa.types.is_timestamp(column.type) and column.type.tz and not column.null_count:
            return cast(list[int], column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist())
    return timestamps_of(elements, timestamp)


def stage(frame: DataFrame, store: Store, folder: str) -> list[Piece]:
    """Write a DataFrame's rows, in its order. Nothing counts until the pieces are listed. Raises `SparkJobError`."""
    rows = collected(frame.mapInArrow(_WritePieces(carried(store), folder), SCHEMA), f"reading of {folder}")
    found = sorted((partition, cast(list[Piece], unpack(blob))) for partition, _, _, blob in rows)
    return [piece for _, pieces in found for piece in pieces]


@dataclass(frozen=True, slots=True)
class _WritePieces:
    """The function of the job's `mapInArrow`: rows of a partition in, the list of its pieces out."""

    store: Store
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None, "Spark calls this inside a task"
        # Another attempt at the task must not write over what this one has reported.
        prefix = f"{self.folder}/{task.partitionId():06}-{attempt_token(token_bytes(8))}"
        pieces = [self._write(f"{prefix}-{number:06}", table) for number, table in enumerate(_tables(batches))]
        return batches_of([(task.partitionId(), 0, 0, pack(pieces))] if pieces else [])

    def _write(self, path: str, table: pa.Table) -> Piece:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as stream:
            stream.write_table(table)
        self.store.put(path, sink.getvalue().to_pybytes())
        return Piece(path, table.num_rows)


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= _PIECE_ROWS or sum(one.nbytes for one in held) >= _PIECE_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if any(map(len, held)):
        yield pa.Table.from_batches(held)


def write_list(store: Store, path: str, pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Make pieces count, unless others were listed there already: those are returned then."""
    if store.put_if_absent(path, json.dumps(pieces).encode()):
        return pieces
    listed = read_list(store, path)
    assert listed is not None, "a list is not deleted while its source is read"
    return listed


def read_list(store: Store, path: str) -> list[Piece] | None:
    """The pieces listed; None if there is no such list."""
    if (data := store.get(path)) is None:
        return None
    folder = path.partition("/")[0] + "/"
    with understood(f"{path} in {store.describe()}"):
        pieces = [Piece(str(piece), int(rows)) for piece, rows in json.loads(data)]
        for piece, rows in pieces:
            if not piece.startswith(folder) or rows < 0:
                raise ValueError(f"{piece!r:.200} with {rows} rows is no piece in {folder}")
    return pieces


def next_ranges(pieces: Sequence[Piece], position: tuple[int, int], limit: int) -> tuple[list[Range], tuple[int, int]]:
    """Ranges of rows that make up to `limit` rows from a position, and the position behind them.

    >>> ranges, position = next_ranges([Piece("a", 5), Piece("b", 5)], (0, 3), 4)
    >>> [(piece.path, start, stop) for piece, start, stop in ranges], position
    ([('a', 3, 5), ('b', 0, 2)], (1, 2))
    """
    index, row = position
    ranges = []
    while index < len(pieces) and limit > 0:
        stop = min(pieces[index].rows, row + limit)
        ranges.append(Range(pieces[index], row, stop))
        limit -= stop - row
        index, row = (index, stop) if stop < pieces[index].rows else (index + 1, 0)
    return ranges, (index, row)


def cut(ranges: Sequence[Range], splits: int) -> Iterator[Range]:
    """The ranges in parts of equal size, at least `splits` of them where there are enough rows.

    >>> [(start, stop) for _, start, stop in cut([Range(Piece("a", 5), 0, 5)], 2)]
    [(0, 3), (3, 5)]
    """
    size = max(1, -(-sum(stop - start for _, start, stop in ranges) // splits))
    for piece, start, stop in ranges:
        for begin in range(start, stop, size):
            yield Range(piece, begin, min(begin + size, stop))


def discard(store: Store, path: str, folder: str) -> None:
    """Delete a list and everything in the folder of its pieces, also what attempts left there that were not listed."""
    for piece in store.list(folder):
        store.delete(piece)
    store.delete(path)
