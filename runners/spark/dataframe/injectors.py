"""Injectors for DataFrames (paper §5.2): their rows are stored in the checkpoint, and epochs read them from there.

The rows of a bounded DataFrame are written once. A Spark streaming query runs beside the epochs, with its own
connectors, offsets and rate limits. Its micro-batches are numbered, and Spark delivers a micro-batch again, with the
same rows, until Spark knows that it was handled. A micro-batch that is already listed in the checkpoint, or that a
commit has read past, is not stored a second time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from threading import Condition
from typing import NamedTuple, cast
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.lowlevel.errors import CheckpointError, HeadraceError
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery
from headrace.lowlevel.storage import directory_sync
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.watermarks.far_future import DAY
from headrace.runners.spark.cluster.cluster import cluster_of
from headrace.runners.spark.dataframe.staged_rows import (
    PieceSplit,
    RowRange,
    StagedPiece,
    cut,
    discard,
    next_ranges,
    read_list,
    stage,
    write_list,
)
from headrace.runners.spark.engine_settings import EngineSetting, ask_for, put_back
from headrace.runners.spark.errors import SparkSetupError
from headrace.runners.spark.pyspark_private import log_no_callback_error
from headrace.runners.spark.releases import is_connect
from headrace.sdk.io.dataframe import DataFrameInjector
from headrace.sdk.io.timestamps import TimestampOf

_AHEAD = 4
"""Number of stored micro-batches that may wait for an epoch before the streaming query is blocked."""
_QUERY_SECONDS = 1.0
"""How often an idle driver looks whether the streaming query has ended; micro-batches wake the driver."""
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
# Spark's default starts a process for each file on a local disk.
_QUICK_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_QUICK_FILES = EngineSetting(
    _FILE_MANAGER, _QUICK_FILE_MANAGER, "each micro-batch of a streaming DataFrame takes longer"
)


class StreamError(HeadraceError, RuntimeError):
    """The Spark streaming query that feeds a stream ended with an error. Earlier epochs are committed."""


class _RunEndedError(Exception):
    """Tells Spark that a micro-batch was not stored, so that Spark delivers it again in the next run."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How streaming DataFrames are read."""

    trigger: Mapping[str, object] | None = None
    """Arguments of Spark's `trigger`, such as `{"availableNow": True}`, which ends the input with the rows that are
    available now; None leaves the trigger to Spark."""
    location: str | None = None
    """Directory or URL in which Spark stores its own progress; None for a folder of the checkpoint."""


class StreamPosition(NamedTuple):
    """The position at which the next delivery starts. Every field is persisted."""

    batch: int = 0
    """Number of Spark's micro-batch."""
    piece: int = 0
    row: int = 0


@named("StreamInjector")
class StreamInjector(BaseInjector):
    """Injector that reads a streaming DataFrame. The first `plan` starts the streaming query; `close` stops it."""

    def __init__(
        self, frame: DataFrame, store: ObjectStorage, folder: str, wanted: DataFrameInjector, options: StreamOptions
    ) -> None:
        self.max_delay = wanted.max_delay
        self._frame = frame
        self._store = store
        self._folder = folder
        self._timestamp, self._tolerant = wanted.timestamp, wanted.tolerant
        self._options = options
        self._query: StreamingQuery | None = None
        self._changed = Condition()
        self._staged: dict[int, list[StagedPiece]] = {}
        self._taken = 0
        """Number of the first micro-batch that is not committed as a whole."""
        self._closed = False
        self._wake: Callable[[], None] | None = None

    # These methods run on the thread of the driver.

    def start(self) -> object:
        """Return the position of the first row of the first micro-batch."""
        return StreamPosition()

    def wake_by(self, wake: Callable[[], None]) -> None:
        """See `BaseInjector`."""
        self._wake = wake

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Return splits for up to `limit` rows of the micro-batches that are stored so far. Raises `StreamError`."""
        assert isinstance(position, tuple)
        batch, *within = StreamPosition(*position)
        if self._query is None:
            self._query = self._begin(batch)
        # The query is asked before the staged micro-batches are read: one that arrives in between must not be missed.
        ended = self._ended(self._query)
        ranges, place = self._next(batch, (within[0], within[1]), limit)
        with self._changed:
            done = ended and place.batch not in self._staged
        found = [PieceSplit(self._store, rows, self._timestamp, self._tolerant) for rows in cut(ranges, splits)]
        idle = not ranges and not done
        latest = MAX_TIMESTAMP if self.max_delay is None else time.time_ns() // 1000 + DAY
        quiet = _QUERY_SECONDS if idle else None
        return Delivery(found, tuple(place), done=done, latest=latest, idle=idle, quiet_seconds=quiet)

    def _next(self, batch: int, within: tuple[int, int], limit: int) -> tuple[list[RowRange], StreamPosition]:
        ranges: list[RowRange] = []
        with self._changed:
            while limit > 0 and (pieces := self._staged.get(batch)) is not None:
                found, within = next_ranges(pieces, within, limit)
                ranges += found
                limit -= sum(stop - start for _, start, stop in found)
                if within[0] >= len(pieces):
                    batch, within = batch + 1, (0, 0)
        return ranges, StreamPosition(batch, *within)

    def committed(self, position: object) -> None:
        """Delete the stored micro-batches before a committed position; they will not be read again."""
        assert isinstance(position, tuple)
        taken = StreamPosition(*position).batch
        for batch in range(self._taken, taken):
            self._discard(batch)
        with self._changed:
            self._taken = taken
            for batch in [batch for batch in self._staged if batch < taken]:
                del self._staged[batch]
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the query. When the pipeline is started again, the query continues where it stopped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._query is not None:
            self._query.stop()

    def _begin(self, taken: int) -> StreamingQuery:
        self._taken = taken
        self._progress = QueryProgress(self._location())
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
            writer = writer.trigger(**self._options.trigger)  # type: ignore[call-overload]  # an overload for each name
        # This error is the intended answer to a micro-batch that arrives after `close`, so it is not logged.
        log_no_callback_error(_RunEndedError)
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

    # These methods run on the thread of the streaming query.

    def _take(self, frame: DataFrame, batch: int) -> None:
        """Store a micro-batch. Spark calls this method again for the same one if a call did not return normally."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._staged) < _AHEAD)
            if self._closed:
                raise _RunEndedError
            if batch in self._staged or batch < self._taken:
                self._require_continuous(batch)
                return
        # Spark's record of the offsets must be durable before the rows made from them are listed.
        self._progress.sync()
        pieces = stage(frame, self._store, self._pieces(batch))
        listed = list(write_list(self._store, self._list(batch), pieces))
        with self._changed:
            self._staged[batch] = listed
        if self._wake is not None:
            self._wake()

    def _require_continuous(self, batch: int) -> None:
        if batch < self._taken - 1:
            raise CheckpointError(
                f"Spark's progress in {self._location()} is at micro-batch {batch}, but {self._taken} are committed: "
                "it was deleted or replaced, and rows would be lost; put it back, or start over on an empty checkpoint"
            )


def close_streams(injectors: Iterable[object]) -> None:
    """Stop the queries of all streaming injectors among these, even if stopping one of them raises."""
    with ExitStack() as last:
        for injector in injectors:
            if isinstance(injector, StreamInjector):
                last.callback(injector.close)


@contextmanager
def _quick_files(session: SparkSession) -> Iterator[None]:
    """Use the faster file manager for a query that starts inside; a setting of the session itself is respected."""
    before = session.conf.get(_FILE_MANAGER, "")
    if before or not cluster_of(session).knows_java_class(_QUICK_FILE_MANAGER):
        yield
        return
    changed = ask_for(session, [_QUICK_FILES])
    try:
        yield
    finally:
        put_back(session, changed)


class QueryProgress:
    """The progress files below a location. Only a local directory is synced; remote stores need no sync."""

    def __init__(self, location: str) -> None:
        url = urlsplit(location)
        self._root = Path(unquote(url.path)) if url.scheme in ("", "file") else None
        self._synced: dict[str, int] = {}

    def sync(self) -> None:
        """Sync all files and folders that have changed since the last call. Raises OSError."""
        if self._root is None or not self._root.is_dir():
            return
        new = [path for path in [str(self._root.parent), *_below(self._root)] if self._is_new(path)]
        # Files are synced before the folders that contain their names.
        for path in sorted(new, key=os.path.isdir):
            with suppress(FileNotFoundError):
                directory_sync.fsync(Path(path))

    def _is_new(self, path: str) -> bool:
        try:
            changed = os.stat(path).st_ctime_ns
        except FileNotFoundError:
            return False
        before, self._synced[path] = self._synced.get(path), changed
        return before != changed


def _below(root: Path) -> list[str]:
    return [path for folder, _, files in os.walk(root) for path in (folder, *(f"{folder}/{name}" for name in files))]


SOURCES = "sources"
"""Folder of the checkpoint in which the rows of DataFrames are stored."""


@named("FrameInjector")
class FrameInjector(BaseInjector):
    """Injector that reads a bounded DataFrame. A position is a pair: index of a piece, and index of a row in it."""

    def __init__(self, frame: DataFrame, store: ObjectStorage, folder: str, wanted: DataFrameInjector) -> None:
        self.max_delay = wanted.max_delay
        self.is_bounded = self.max_delay is None
        self._frame = frame
        self._store = store
        self._folder = folder
        self._timestamp: TimestampOf = wanted.timestamp
        self._tolerant = wanted.tolerant
        self._pieces: Sequence[StagedPiece] | None = None

    def start(self) -> object:
        """Return the position of the first row of the first piece."""
        return (0, 0)

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Return splits for up to `limit` rows from the position on."""
        assert isinstance(position, tuple)
        pieces = self._written()
        ranges, (index, row) = next_ranges(pieces, position, limit)
        found = [PieceSplit(self._store, rows, self._timestamp, self._tolerant) for rows in cut(ranges, splits)]
        return Delivery(found, (index, row), done=index >= len(pieces))

    def _written(self) -> Sequence[StagedPiece]:
        """Return the pieces that the checkpoint lists; if there is no list, compute the DataFrame and write them."""
        if self._pieces is None:
            path = f"{self._folder}/list"
            self._pieces = read_list(self._store, path)
            if self._pieces is None:
                self._pieces = write_list(self._store, path, stage(self._frame, self._store, self._folder))
        return self._pieces


def refuse_streams(topology: Topology, session: SparkSession) -> None:
    """Raise `SparkSetupError` for a streaming DataFrame over Spark Connect."""
    if not is_connect(session):
        return
    for stream, wanted in topology.injectors.items():
        if isinstance(wanted, DataFrameInjector) and cast(DataFrame, wanted.frame).isStreaming:
            raise SparkSetupError(
                f"{stream} reads a streaming DataFrame over Spark Connect, where foreachBatch runs on the server and "
                "cannot hand rows to this program; use a session made with a master, read from the source itself "
                "(ReadFromKafka, ReadFromText), or read a bounded DataFrame (spark.read)"
            )


def bound(topology: Topology, store: ObjectStorage, options: StreamOptions) -> Topology:
    """Return the topology with an injector in place of each DataFrame; these injectors store rows in `store`."""
    injectors = dict(topology.injectors)
    for stream, wanted in topology.injectors.items():
        if isinstance(wanted, DataFrameInjector):
            # Over Spark Connect 3.5 its class has no base in common with that of a session with a master.
            frame = cast(DataFrame, wanted.frame)
            folder = f"{SOURCES}/{blake2b(stream.encode(), digest_size=8).hexdigest()}"
            kind = StreamInjector(frame, store, folder, wanted, options) if frame.isStreaming else None
            injectors[stream] = kind or FrameInjector(frame, store, folder, wanted)
    return replace(topology, injectors=injectors)
