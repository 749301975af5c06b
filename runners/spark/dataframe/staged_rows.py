"""Rows of a DataFrame that are stored in the checkpoint before an epoch reads them: Arrow files and a list of them.

Each time that Spark computes a DataFrame, the rows or their order may differ. An epoch that is planned again must read
the same rows, so the rows are written once, and epochs read from the files. Files that are not listed are ignored.

Spark gives a `TIMESTAMP` to Python as an instant with the name of the session's time zone
(`spark.sql.session.timeZone`). Java knows more names than Arrow: its rules are those of `java.time.ZoneId.of` with
`ZoneId.SHORT_IDS`, and Spark adds `+h:mm` and `+hh:m` (`SparkDateTimeUtils.getZoneId`). Rows are stored with the names
that Arrow and Python have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from secrets import token_bytes
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.lowlevel.columnar.pyarrow_private import zone_of
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.intervals.sequencer import attempt_token
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.storage.envelope import understood
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.lowlevel.storage.signed_store import carried
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.runners.engine.messages import pack, unpack
from headrace.runners.spark.jobs.epoch_job import run_plan
from headrace.runners.spark.jobs.stage_function import SCHEMA, batches_of
from headrace.runners.spark.pyspark_private import arrow_schema
from headrace.sdk.expressions.element_schema import shape_of_rows, times_of
from headrace.sdk.io.columns.tables import to_rows
from headrace.sdk.io.dead_letters import halves
from headrace.sdk.io.timestamps import TimestampOf, timestamps_of

_SHORT = {
    **{"ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires"},
    **{"ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka"},
    **{"CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai"},
    **{"EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00"},
    **{"IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia"},
    **{"MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi"},
    **{"PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles"},
    **{"SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "Z": "UTC", "UT": "UTC"},
}
"""Java's short names, and two more of its own, with what they mean."""
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d?)(?::?(\d\d?))?(?::?(\d\d))?")


def arrow_zone(name: str) -> str:
    """The name in Arrow of a session's time zone.

    An offset with seconds, which Arrow does not have, becomes UTC: the instants stay the same.

    Raises:
        ValueError: Python does not know the zone.

    >>> [arrow_zone(name) for name in ("PST", "+8", "GMT-03:30", "Z", "Asia/Tokyo")]
    ['America/Los_Angeles', '+08:00', '-03:30', 'UTC', 'Asia/Tokyo']
    """
    name = _SHORT.get(name, name)
    if (offset := _OFFSET.fullmatch(name)) is not None:
        sign, hours, minutes, seconds = offset.groups("0")
        is_zero = not (int(hours) or int(minutes))
        return "UTC" if is_zero or int(seconds) else f"{sign}{int(hours):02}:{int(minutes):02}"
    try:
        zone_of(name)
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"Python does not know the session's time zone {name!r}; install a newer tzdata and pytz, or set "
            "spark.sql.session.timeZone to another name of the zone"
        ) from error
    return name


def in_arrow_zones(table: pa.Table) -> pa.Table:
    """The table with its instants, nested ones too, in the same time zones by the names that Arrow has.

    Raises `ValueError` as `arrow_zone` does.

    >>> in_arrow_zones(pa.table({"at": pa.array([0], pa.timestamp("us", "PST"))})).schema.types
    [TimestampType(timestamp[us, tz=America/Los_Angeles])]
    """
    kinds = [_kind(field.type) for field in table.schema]
    if kinds == table.schema.types:
        return table
    return table.cast(pa.schema(_fields(list(table.schema), kinds)))


def _kind(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, arrow_zone(kind.tz))
    if types.is_list(kind) or types.is_large_list(kind):
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(*_fields([kind.value_field], [_kind(kind.value_type)]))
    if types.is_map(kind):
        return pa.map_(*_fields([kind.key_field, kind.item_field], [_kind(kind.key_type), _kind(kind.item_type)]))
    if types.is_struct(kind):
        return pa.struct(_fields(list(kind), [_kind(field.type) for field in kind]))
    return kind


def _fields(fields: Sequence[pa.Field], kinds: Sequence[pa.DataType]) -> list[pa.Field]:
    return [field.with_type(kind) for field, kind in zip(fields, kinds, strict=True)]


_PIECE_ROWS = 1 << 16
_PIECE_BYTES = 16 << 20
_MONTHS = re.compile(r"\binterval (year|month)\b")
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class StagedPiece(NamedTuple):
    """A file of consecutive rows."""

    path: str
    """Name of the object in the store."""
    rows: int


class RowRange(NamedTuple):
    """The rows of a piece from `start` to before `stop`."""

    piece: StagedPiece
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class PieceSplit:
    """A split of an injector: a range of the rows of one piece."""

    store: ObjectStorage
    rows: RowRange
    timestamp: TimestampOf
    tolerant: bool = False
    """Whether rows without a valid event time become dead letters instead of an error."""

    def count_records(self) -> int:
        """See `SizedSplit`."""
        return self.rows.stop - self.rows.start

    def read(self) -> Iterable[Batch]:
        """Read the rows, as `Row`s.

        Raises:
            CheckpointError: The piece is missing or damaged.
            ValueError: A row has no event time, and the split is not tolerant.
        """
        piece, start, stop = self.rows
        if (data := self.store.get(piece.path)) is None:
            raise CheckpointError(
                f"{piece.path} in {self.store.describe()} is missing, which holds rows of a DataFrame; "
                "put the file back, or start over on an empty checkpoint"
            )
        with understood(f"{piece.path} in {self.store.describe()}"):
            table = pa.ipc.open_stream(data).read_all().slice(start, stop - start)
            table.validate(full=True)
        table = in_arrow_zones(table)
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
    """Convert a table to a batch of `Row`s, which stays columnar if the columns represent the same values.

    Raises ValueError, which names a row without an event time.

    >>> batch_of_rows(pa.RecordBatch.from_pydict({"delay": [3]}), None).values
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
    return ColumnBatch(table, np.array(event_times(table, elements, timestamp), np.int64), shape, elements)


def event_times(batch: pa.RecordBatch, elements: Sequence[object], timestamp: TimestampOf) -> list[int]:
    """Return the event times in microseconds UTC; a timestamp column is converted as a whole.

    Raises ValueError, which names a row without an event time.

    >>> event_times(pa.RecordBatch.from_pydict({"at": pa.array([0, 1], pa.timestamp("us", "UTC"))}), [None, None], "at")
    [0, 1]
    """
    if isinstance(timestamp, str) and timestamp in batch.schema.names:
        column = batch.column(timestamp)
        if pa.types.is_timestamp(column.type) and column.type.tz and not column.null_count:
            return cast(list[int], column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist())
    return timestamps_of(elements, timestamp)


def stage(frame: DataFrame, store: ObjectStorage, folder: str) -> list[StagedPiece]:
    """Write the rows of a DataFrame, in its order; the pieces are ignored until they are listed by `write_list`.

    Raises `SparkJobError`, and `ValueError` for a column of a type that Python does not have.
    """
    for field in frame.schema.fields:
        kind = field.dataType.simpleString()
        if _MONTHS.search(kind):
            raise ValueError(
                f"column {field.name!r} of the DataFrame has the type {kind}, which Python does not have; cast it to a "
                "number of months, or leave it out with drop"
            )
    # Spark's `mapInArrow` looks columns up by name, which fails for dots in names, and for two that it takes for one.
    names = frame.columns
    plain = frame.toDF(*(f"c{number}" for number in range(len(names))))
    rows = run_plan(
        plain.mapInArrow(_WritePieces(carried(store), folder, tuple(names)), SCHEMA), f"reading of {folder}"
    )
    found = sorted((partition, cast(list[StagedPiece], unpack(blob))) for partition, _, _, blob in rows)
    return [piece for _, pieces in found for piece in pieces]


@dataclass(frozen=True, slots=True)
class _WritePieces:
    """The function of the job's `mapInArrow`: writes the rows of a partition and puts out the list of their pieces."""

    store: ObjectStorage
    folder: str
    names: tuple[str, ...]
    """The names of the columns."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None, "Spark calls this inside a task"
        # Another attempt at the task must not overwrite pieces that this attempt has reported.
        prefix = f"{self.folder}/{task.partitionId():06}-{attempt_token(token_bytes(8))}"
        pieces = [self._write(f"{prefix}-{number:06}", table) for number, table in enumerate(_tables(batches))]
        return batches_of([(task.partitionId(), 0, 0, pack(pieces))] if pieces else [])

    def _write(self, path: str, table: pa.Table) -> StagedPiece:
        table = table.rename_columns(list(self.names))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as stream:
            stream.write_table(table)
        self.store.put(path, sink.getvalue().to_pybytes())
        return StagedPiece(path, table.num_rows)


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= _PIECE_ROWS or sum(one.nbytes for one in held) >= _PIECE_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if any(map(len, held)):
        yield pa.Table.from_batches(held)


def write_list(store: ObjectStorage, path: str, pieces: Sequence[StagedPiece]) -> Sequence[StagedPiece]:
    """List pieces at `path`, and return them; if `path` has a list already, return the pieces of that list instead."""
    if store.put_if_absent(path, json.dumps(pieces).encode()):
        return pieces
    listed = read_list(store, path)
    assert listed is not None, "a list is not deleted while its source is read"
    return listed


def read_list(store: ObjectStorage, path: str) -> list[StagedPiece] | None:
    """Return the pieces listed at `path`, or None if there is no list."""
    if (data := store.get(path)) is None:
        return None
    folder = path.partition("/")[0] + "/"
    with understood(f"{path} in {store.describe()}"):
        pieces = [StagedPiece(str(piece), int(rows)) for piece, rows in json.loads(data)]
        for piece, rows in pieces:
            if not piece.startswith(folder) or rows < 0:
                raise ValueError(f"{piece!r:.200} with {rows} rows is no piece in {folder}")
    return pieces


def next_ranges(
    pieces: Sequence[StagedPiece], position: tuple[int, int], limit: int
) -> tuple[list[RowRange], tuple[int, int]]:
    """Return ranges of up to `limit` rows in total from a position on, and the position after them.

    >>> ranges, position = next_ranges([StagedPiece("a", 5), StagedPiece("b", 5)], (0, 3), 4)
    >>> [(piece.path, start, stop) for piece, start, stop in ranges], position
    ([('a', 3, 5), ('b', 0, 2)], (1, 2))
    """
    index, row = position
    ranges = []
    while index < len(pieces) and limit > 0:
        stop = min(pieces[index].rows, row + limit)
        ranges.append(RowRange(pieces[index], row, stop))
        limit -= stop - row
        index, row = (index, stop) if stop < pieces[index].rows else (index + 1, 0)
    return ranges, (index, row)


def cut(ranges: Sequence[RowRange], splits: int) -> Iterator[RowRange]:
    """Cut ranges into parts of about equal size, at least `splits` parts if there are enough rows.

    >>> [(start, stop) for _, start, stop in cut([RowRange(StagedPiece("a", 5), 0, 5)], 2)]
    [(0, 3), (3, 5)]
    """
    size = max(1, -(-sum(stop - start for _, start, stop in ranges) // splits))
    for piece, start, stop in ranges:
        for begin in range(start, stop, size):
            yield RowRange(piece, begin, min(begin + size, stop))


def discard(store: ObjectStorage, path: str, folder: str) -> None:
    """Delete a list and the whole folder of its pieces, including pieces that task attempts wrote but nobody listed."""
    for piece in store.list(folder):
        store.delete(piece)
    store.delete(path)


def columns_of(frame: DataFrame) -> pa.Schema | None:
    """The columns of a DataFrame; None if Spark cannot tell them, or Arrow does not have one of the types."""
    try:
        return arrow_schema(frame.schema)
    except (PySparkException, ValueError):
        return None
