"""Streaming DataFrames as injectors: each micro-batch is kept in the checkpoint, and epochs read from there.

Spark's own query runs beside the epochs, with its connectors, offsets and rate limits. Its micro-batches have numbers,
and Spark gives a batch again, with the same rows, until it knows that it was taken: one that is listed here, or that
a commit has read past, is not taken twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Condition
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.lowlevel.errors import CheckpointError, HeadraceError
from headrace.lowlevel.injector import BaseInjector, Delivery
from headrace.lowlevel.store import Store
from headrace.runners.spark.pieces import (
    Piece,
    PieceSplit,
    Range,
    cut,
    discard,
    next_ranges,
    read_list,
    stage,
    write_list,
)
from headrace.runners.spark.progress import Progress
from headrace.sdk.io.dataframe import DataFrameInjector

_AHEAD = 4
"""Micro-batches that may wait for their epoch before Spark has to wait."""
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
# The default starts a process for each file on a local disk.
_QUICK_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


class StreamError(HeadraceError, RuntimeError):
    """Spark's query that feeds a stream ended with an error. Earlier epochs are committed."""


class _RunEndedError(Exception):
    """Tells Spark that a micro-batch was not taken, so that it gives it again to the next run."""


def _is_news(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], _RunEndedError))


# It logs whatever a function that Spark calls raises, also where that is the right answer.
logging.getLogger("py4j.clientserver").addFilter(_is_news)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How streaming DataFrames are read."""

    trigger: Mapping[str, object] | None = None
    """Arguments of Spark's `trigger`, as `{"availableNow": True}` to end with what is there now; None for none."""
    location: str | None = None
    """Where Spark keeps its own progress; None for a folder of the checkpoint."""


class Position(NamedTuple):
    """Where the next delivery starts. Persisted: every field."""

    batch: int = 0
    """Number of Spark's micro-batch."""
    piece: int = 0
    row: int = 0


class StreamInjector(BaseInjector):
    """Reads a streaming DataFrame while its query runs; `close` stops that."""

    def __init__(
        self, frame: DataFrame, store: Store, folder: str, wanted: DataFrameInjector, options: StreamOptions
    ) -> None:
        self.max_delay = wanted.max_delay
        self._frame = frame
        self._store = store
        self._folder = folder
        self._timestamp, self._tolerant = wanted.timestamp, wanted.tolerant
        self._options = options
        self._query: StreamingQuery | None = None
        self._changed = Condition()
        self._staged: dict[int, list[Piece]] = {}
        self._taken = 0
        """Batches before this one are committed."""
        self._closed = False

    # On the driver's thread

    def start(self) -> object:
        """The first micro-batch."""
        return Position()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Up to `limit` rows of the micro-batches that are there. Raises `StreamError`."""
        assert isinstance(position, tuple)
        batch, *within = Position(*position)
        if self._query is None:
            self._query = self._begin(batch)
        # Asked before looking at what is staged: what comes in between must not be missed at the end.
        ended = self._ended(self._query)
        ranges, place = self._next(batch, (within[0], within[1]), limit)
        with self._changed:
            done = ended and place.batch not in self._staged
        found = [PieceSplit(self._store, rows, self._timestamp, self._tolerant) for rows in cut(ranges, splits)]
        return Delivery(found, tuple(place), done=done, idle=not ranges and not done)

    def _next(self, batch: int, within: tuple[int, int], limit: int) -> tuple[list[Range], Position]:
        ranges: list[Range] = []
        with self._changed:
            while limit > 0 and (pieces := self._staged.get(batch)) is not None:
                found, within = next_ranges(pieces, within, limit)
                ranges += found
                limit -= sum(stop - start for _, start, stop in found)
                if within[0] >= len(pieces):
                    batch, within = batch + 1, (0, 0)
        return ranges, Position(batch, *within)

    def committed(self, position: object) -> None:
        """Micro-batches before the position will not be read again."""
        assert isinstance(position, tuple)
        taken = Position(*position).batch
        for batch in range(self._taken, taken):
            self._discard(batch)
        with self._changed:
            self._taken = taken
            for batch in [batch for batch in self._staged if batch < taken]:
                del self._staged[batch]
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the query; it goes on from there when the pipeline is started again."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._query is not None:
            self._query.stop()

    def _begin(self, taken: int) -> StreamingQuery:
        self._taken = taken
        self._progress = Progress(self._location())
        for path in self._store.list(f"{self._folder}/lists"):
            number = path.rpartition("/")[2]
            if not number.isdecimal():
                raise CheckpointError(f"{path} in {self._store.describe()} is no list of rows; take it away")
            batch = int(number)
            if batch < taken:
                self._discard(batch)
            elif (pieces := read_list(self._store, path)) is not None:
                self._staged[batch] = pieces
        writer = self._frame.writeStream.foreachBatch(self._take).option("checkpointLocation", self._location())
        if self._options.trigger is not None:
            # pyspark has an overload for each name, and none for a dict with one of them.
            writer = writer.trigger(**self._options.trigger)  # type: ignore[call-overload]
        with _quick_files(self._frame.sparkSession):
            query: StreamingQuery = writer.start()
        return query

    def _discard(self, batch: int) -> None:
        discard(self._store, self._list(batch), self._pieces(batch))

    def _ended(self, query: StreamingQuery) -> bool:
        if query.isActive:
            return False
        if (error := query.exception()) is not None:
            raise StreamError(f"Spark's streaming query ended with an error; earlier epochs are committed\n{error}")
        return True

    def _location(self) -> str:
        if self._options.location is not None:
            return f"{self._options.location.rstrip('/')}/{self._folder}"
        place = self._store.describe()
        if "://" in place:
            raise CheckpointError(
                f"a streaming DataFrame needs a place for Spark's own progress, and Spark may not reach {place} under "
                "that name; give SparkRunner(stream_location=...) as Spark writes it, such as s3a://bucket/folder"
            )
        return f"{place}/{self._folder}/spark"

    def _list(self, batch: int) -> str:
        return f"{self._folder}/lists/{batch:020}"

    def _pieces(self, batch: int) -> str:
        return f"{self._folder}/pieces/{batch:020}"

    # On the thread of Spark's query

    def _take(self, frame: DataFrame, batch: int) -> None:
        """Keep a micro-batch. Spark calls this again for the same one if it does not learn that it was kept."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._staged) < _AHEAD)
            if self._closed:
                raise _RunEndedError
            if batch in self._staged or batch < self._taken:
                self._require_continuous(batch)
                return
        # What the batch is made of must last before anything relies on that.
        self._progress.keep()
        pieces = stage(frame, self._store, self._pieces(batch))
        listed = list(write_list(self._store, self._list(batch), pieces))
        with self._changed:
            self._staged[batch] = listed

    def _require_continuous(self, batch: int) -> None:
        if batch < self._taken - 1:
            raise CheckpointError(
                f"Spark's progress in {self._location()} is at micro-batch {batch}, but {self._taken} are committed: "
                "it was deleted or replaced, and rows would be lost; put it back, or start over on an empty checkpoint"
            )


def close_streams(injectors: Iterable[object]) -> None:
    """Stop the queries of those that have some, of all even if one cannot be stopped."""
    with ExitStack() as last:
        for injector in injectors:
            if isinstance(injector, StreamInjector):
                last.callback(injector.close)


@contextmanager
def _quick_files(session: SparkSession) -> Iterator[None]:
    """Let a query that starts now keep its progress in the quick way; the session's own setting stays."""
    before = session.conf.get(_FILE_MANAGER, "")
    if before or not _knows(session, _QUICK_FILE_MANAGER):
        yield
        return
    session.conf.set(_FILE_MANAGER, _QUICK_FILE_MANAGER)
    try:
        yield
    finally:
        session.conf.unset(_FILE_MANAGER)


def _knows(session: SparkSession, name: str) -> bool:
    """Whether this release of Spark has a class of that name."""
    try:
        # pyspark says that a context may have no JVM; one that runs has.
        session.sparkContext._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]
    except Py4JError:
        return False
    return True
