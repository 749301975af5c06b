"""What: files as elements, found by patterns, once or again and again, and read in a function.

The source is `apache_beam.io.fileio`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, MemorySplit
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named, stored_as
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MIN_TIMESTAMP, SECOND, Duration, Timestamp
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PBegin, PCollection
from headrace.sdk.io.files.filesystem import CompressionTypes
from headrace.sdk.io.files.filesystems import BeamIOError, FileMetadata, FileSystems
from headrace.sdk.io.sequences import PeriodicImpulse
from headrace.sdk.io.timestamps import micros_of, now_micros
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.transforms.core.low_level import Read
from headrace.sdk.transforms.core.par_do import FlatMap, Map
from headrace.sdk.transforms.core.reshuffle import Reshuffle
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.windows import FixedWindows


class EmptyMatchTreatment:
    """What a pattern means that matches no file.

    >>> EmptyMatchTreatment.allow_empty_match("scores/*.csv", EmptyMatchTreatment.ALLOW_IF_WILDCARD)
    True
    >>> EmptyMatchTreatment.allow_empty_match("scores.csv", EmptyMatchTreatment.ALLOW_IF_WILDCARD)
    False
    """

    ALLOW = "ALLOW"
    """There is nothing to read."""
    DISALLOW = "DISALLOW"
    """It is an error."""
    ALLOW_IF_WILDCARD = "ALLOW_IF_WILDCARD"
    """It is an error unless the pattern contains `*`."""

    @staticmethod
    def allow_empty_match(pattern: str, setting: str) -> bool:
        """Whether a pattern may match no file. Raises `ValueError` for another setting."""
        if setting not in ("ALLOW", "DISALLOW", "ALLOW_IF_WILDCARD"):
            raise ValueError(f"{setting!r} is no treatment of empty matches; use one of EmptyMatchTreatment")
        return setting == "ALLOW" or (setting == "ALLOW_IF_WILDCARD" and "*" in pattern)


@stored_as("ReadableFile")
@dataclass(frozen=True, slots=True)
class ReadableFile:
    """A file that a function can open.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "scores.txt").write_text("red 5")
    ...     ReadableFile(FileMetadata(f"{folder}/scores.txt", 5)).read_utf8()
    'red 5'
    """

    metadata: FileMetadata
    compression: str | None = None
    """One of `CompressionTypes`; None for what the name of the file says."""

    def open(self, mime_type: str = "text/plain", compression_type: str | None = None) -> BinaryIO:
        """The file, opened for reading its decompressed bytes."""
        compression = compression_type or self.compression or CompressionTypes.AUTO
        return FileSystems.open(self.metadata.path, mime_type, compression)

    def read(self, mime_type: str = "application/octet-stream") -> bytes:
        """The contents of the file."""
        with self.open(mime_type) as file:
            return file.read()

    def read_utf8(self) -> str:
        """The contents of a text file in UTF-8."""
        return self.read().decode()


class MatchAll(PTransform[PCollection[str], PCollection[FileMetadata]]):
    """The files of each pattern, as `FileMetadata`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "scores.txt").write_text("red 5")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         files = pipeline | beam.Create([f"{folder}/*.txt", f"{folder}/*.csv"]) | MatchAll()
    ...         _ = files | beam.Map(lambda file: print(Path(file.path).name, file.size_in_bytes))
    scores.txt 5

    Args:
        empty_match_treatment: What a pattern means that matches no file; see `EmptyMatchTreatment`.
    """

    def __init__(self, empty_match_treatment: str = EmptyMatchTreatment.ALLOW) -> None:
        super().__init__()
        EmptyMatchTreatment.allow_empty_match("", empty_match_treatment)
        self._treatment = empty_match_treatment

    def expand(self, inputs: PCollection[str]) -> PCollection[FileMetadata]:
        """Look for files when a pattern comes. Raises `BeamIOError` then for an empty match that is not allowed."""
        found = inputs | "Match" >> FlatMap(matching, self._treatment).with_output_types(FileMetadata)
        return cast("PCollection[FileMetadata]", found)


def matching(pattern: str, treatment: str) -> list[FileMetadata]:
    """The files of a pattern. Raises `BeamIOError` if there are none and the treatment does not allow that."""
    [result] = FileSystems.match([pattern])
    if not result.metadata_list and not EmptyMatchTreatment.allow_empty_match(pattern, treatment):
        raise BeamIOError(f"no file matches {pattern!r}, which empty_match_treatment={treatment!r} does not allow")
    return result.metadata_list


class MatchFiles(PTransform[PBegin, PCollection[FileMetadata]]):
    """The files of a pattern, as `FileMetadata`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "scores.txt").write_text("red 5")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         files = pipeline | MatchFiles(f"{folder}/*.txt")
    ...         _ = files | beam.Map(lambda file: print(Path(file.path).name, file.size_in_bytes))
    scores.txt 5

    Args:
        file_pattern: The pattern; see `FileSystems.match`.
        empty_match_treatment: What it means if no file matches; see `EmptyMatchTreatment`.
    """

    def __init__(self, file_pattern: str, empty_match_treatment: str = EmptyMatchTreatment.ALLOW_IF_WILDCARD) -> None:
        super().__init__()
        self._pattern, self._match = file_pattern, MatchAll(empty_match_treatment)

    def expand(self, inputs: PBegin) -> PCollection[FileMetadata]:
        """Look for files when the pipeline runs."""
        return inputs.pipeline | Create([self._pattern]) | self._match


class ReadMatches(PTransform[PCollection[FileMetadata | str], PCollection[ReadableFile]]):
    """Makes a `ReadableFile` of each `FileMetadata` or path.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "scores.txt").write_text("red 5")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         files = pipeline | MatchFiles(f"{folder}/*.txt") | ReadMatches()
    ...         _ = files | beam.Map(lambda file: print(file.read_utf8()))
    red 5

    Args:
        compression: One of `CompressionTypes`; by default what the names of the files say.
        skip_directories: Whether paths that end in `/` are left out; otherwise they are an error.
    """

    def __init__(self, compression: str | None = None, skip_directories: bool = True) -> None:
        super().__init__()
        self._compression, self._skip = compression, skip_directories

    def expand(self, inputs: PCollection[FileMetadata | str]) -> PCollection[ReadableFile]:
        """The files, which are not opened yet."""
        read = FlatMap(_readable, self._compression, self._skip)
        return cast("PCollection[ReadableFile]", inputs | "Read" >> read.with_output_types(ReadableFile))


def _readable(file: FileMetadata | str, compression: str | None, skip: bool) -> Iterator[ReadableFile]:
    metadata = FileMetadata(file, 0) if isinstance(file, str) else file
    if not metadata.path.endswith("/"):
        yield ReadableFile(metadata, compression)
    elif not skip:
        raise BeamIOError(f"{metadata.path} is a folder; give files, or let skip_directories be True")


class ReadAllFiles(PTransform[PCollection[str], PCollection[object]]):
    """The elements of the files of each pattern; the base of the transforms for the single formats.

    Args:
        read: Function from a file to its elements; it is called in the task that reads the file.
        step: Label of the step that reads.
        with_filename: Whether elements are pairs of the file's path and what `read` gives.
        label: Label of the transform.
        compression: One of `CompressionTypes`.
    """

    def __init__(
        self,
        read: Callable[[ReadableFile], Iterable[object]],
        step: str,
        with_filename: bool,
        label: str | None = None,
        compression: str = CompressionTypes.UNCOMPRESSED,
    ) -> None:
        super().__init__(label)
        self._read, self._step, self._with_filename = read, step, with_filename
        self._compression = compression

    def expand(self, inputs: PCollection[str]) -> PCollection[object]:
        """The elements, in no particular order of the files; each file is read by one task."""
        found = inputs | MatchAll(EmptyMatchTreatment.ALLOW_IF_WILDCARD) | ReadMatches(self._compression)
        return found | Reshuffle() | self._step >> FlatMap(_elements, self._read, self._with_filename)


def _elements(
    file: ReadableFile, read: Callable[[ReadableFile], Iterable[object]], with_filename: bool
) -> Iterable[object]:
    elements = read(file)
    return ((file.metadata.path, element) for element in elements) if with_filename else elements


_log = logging.getLogger(__name__)


class MatchContinuously(PTransform[PBegin, PCollection[FileMetadata]]):
    """Files of a pattern as they appear, as `FileMetadata`.

    The timestamp of a file is the time at which it was found, and the watermark follows the clock. Which files were
    found is part of the checkpoint. It grows with their number, unless `timestamp_cursor` is set.

    Args:
        file_pattern: The pattern; see `FileSystems.match`.
        interval: Seconds between two looks.
        has_deduplication: Whether a file is put out once; otherwise each look puts out all files.
        start_timestamp: Time of the first look, in seconds since 1970 UTC or as a `Timestamp`; by default the time at
            which the pipeline first starts.
        stop_timestamp: Time after which there is no look; by default there is no end.
        match_updated_files: Whether a file that has changed since is put out again.
        apply_windowing: Whether files are in fixed windows as long as the interval, instead of the global window.
        empty_match_treatment: What it means if no file matches; see `EmptyMatchTreatment`.
        timestamp_cursor: Whether files are told apart by the time of their last change, which is then their timestamp:
            only those of the newest time are kept in the checkpoint, and a file that appears with an older time is
            left out. A time after that of the look does not count as the newest one.

    Raises:
        ValueError: The arguments do not fit together.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     files = pipeline | MatchContinuously("/none/*", interval=1, start_timestamp=0, stop_timestamp=1)
    ...     _ = files | beam.Map(print)
    """

    def __init__(
        self,
        file_pattern: str,
        interval: float = 360.0,
        has_deduplication: bool = True,
        start_timestamp: Timestamp | float | None = None,
        stop_timestamp: Timestamp | float | None = None,
        match_updated_files: bool = False,
        apply_windowing: bool = False,
        empty_match_treatment: str = EmptyMatchTreatment.ALLOW,
        timestamp_cursor: bool = False,
    ) -> None:
        super().__init__()
        EmptyMatchTreatment.allow_empty_match("", empty_match_treatment)
        if timestamp_cursor and not has_deduplication:
            raise ValueError("timestamp_cursor tells files apart that were found before; set has_deduplication=True")
        if Duration.of(interval).micros <= 0:
            raise ValueError(f"interval is {interval!r:.200}; the interval must be positive, in seconds")
        if timestamp_cursor and not match_updated_files:
            _log.warning("timestamp_cursor=True puts changed files out again, as match_updated_files=True does")
        self.match_upd = match_updated_files or timestamp_cursor
        """Whether a file that has changed is put out again."""
        start, stop = None if start_timestamp is None else micros_of(start_timestamp), _end(stop_timestamp)
        micros = Duration.of(interval).micros
        self._polls = Polls(file_pattern, micros, start, stop, empty_match_treatment, self.match_upd, timestamp_cursor)
        self._interval, self._once, self._apart = interval, has_deduplication, apply_windowing
        if start is not None and stop is not None and stop < start:
            raise ValueError(
                f"stop_timestamp {stop_timestamp!r:.80} precedes start_timestamp {start_timestamp!r:.80}; exchange them"
            )

    def expand(self, inputs: PBegin) -> PCollection[FileMetadata]:
        """The files; bounded if there is a last look."""
        polls = self._polls
        if self._once:
            read = Read(MatchInjector(polls), polls.stop is not None)
            found = inputs.pipeline | "Look" >> read.with_output_types(FileMetadata)
        else:
            start, stop = (None if each is None else Timestamp(micros=each) for each in (polls.start, polls.stop))
            looks = inputs.pipeline | "Look" >> PeriodicImpulse(start, stop, self._interval)
            patterns = looks | "Pattern" >> Map(_constant, polls.pattern).with_output_types(str)
            found = cast("PCollection[object]", patterns | MatchAll(polls.treatment))
        files = found | "Apart" >> WindowInto(FixedWindows(self._interval)) if self._apart else found
        return cast("PCollection[FileMetadata]", files)


def _end(stop: Timestamp | float | None) -> int | None:
    """Microseconds UTC of the end; None for no end."""
    micros = None if stop is None else micros_of(stop)
    return None if micros is None or micros >= END_OF_GLOBAL_WINDOW else micros


def _constant(_: object, pattern: str) -> str:
    return pattern


@dataclass(frozen=True, slots=True)
class Polls:
    """When to look for what; times in microseconds UTC."""

    pattern: str
    interval: int
    start: int | None
    """None for the time at which the pipeline first starts."""
    stop: int | None
    """None for no end."""
    treatment: str
    updated: bool
    """Whether a file that has changed is a new one."""
    by_time: bool
    """Whether the time of its last change is the timestamp of a file, and only the newest files are kept."""


@dataclass(frozen=True, slots=True)
class _MatchPosition:
    """What was found. Persisted: every field, as plain data."""

    start: int
    """Time of the first look, microseconds UTC."""
    polls: int = 0
    """Number of looks so far."""
    watermark: int = MIN_TIMESTAMP
    newest: int = MIN_TIMESTAMP
    """The latest time of a last change so far, microseconds UTC, where files are kept by it."""
    seen: frozenset[tuple[str, int]] = frozenset()
    """Files and the times of their last changes, 0 where a changed file is not a new one."""

    def plain(self) -> object:
        """The position as nested tuples, for the checkpoint."""
        return self.start, self.polls, self.watermark, self.newest, tuple(sorted(self.seen))

    @classmethod
    def of(cls, plain: object) -> _MatchPosition:
        """The position of the result of `plain`."""
        start, polls, watermark, newest, seen = cast("tuple[int, int, int, int, tuple[tuple[str, int], ...]]", plain)
        return cls(start, polls, watermark, newest, frozenset(seen))


@named("MatchInjector")
class MatchInjector(BaseInjector):
    """Looks for files at intervals and delivers those that it has not found before.

    Args:
        polls: When to look for what.
        now: The clock, microseconds UTC.
    """

    def __init__(self, polls: Polls, now: Callable[[], int] = now_micros) -> None:
        self._polls, self._now = polls, now
        self._next: int | None = None
        """Time of the next look, microseconds UTC; None before the first look of this run."""
        self._planned: tuple[object, Delivery] | None = None
        """The position of the last delivery with files, and that delivery, which an abandoned epoch gets again."""

    def start(self) -> object:
        """No file."""
        start = self._polls.start
        return _MatchPosition(self._now() if start is None else start).plain()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The new files, if a look is due. Raises `BeamIOError` if there must be files and are none."""
        if self._planned is not None and self._planned[0] == position:
            return self._planned[1]
        before, now = _MatchPosition.of(position), self._now()
        if self._is_over(before):
            return Delivery([], position, before.watermark, done=True)
        if now < before.start or (self._next is not None and now < self._next):
            due = before.start if self._next is None else self._next
            return Delivery([], position, before.watermark, idle=True, quiet_seconds=(due - now) / SECOND)
        self._next = now + self._polls.interval
        rows, after = self._look(before, now)
        batch = Batch([file for file, _ in rows], [timestamp for _, timestamp in rows])
        delivery = Delivery(
            [MemorySplit(batch)] if rows else [], after.plain(), after.watermark, done=self._is_over(after)
        )
        self._planned = position, delivery
        return delivery

    def _is_over(self, position: _MatchPosition) -> bool:
        """Whether as many looks were made as there are intervals between start and stop."""
        stop = self._polls.stop
        return stop is not None and position.polls >= -(-(stop - position.start) // self._polls.interval)

    def _look(self, before: _MatchPosition, now: int) -> tuple[Sequence[tuple[FileMetadata, int]], _MatchPosition]:
        """The new files with their timestamps, and the position after them."""
        polls = self._polls
        files = [(file, self._changed(file)) for file in matching(polls.pattern, polls.treatment)]
        keys = {(file.path, changed if polls.updated else 0): (file, changed) for file, changed in files}
        seen = before.seen | {
            key for key, (_, changed) in keys.items() if changed >= before.newest or not polls.by_time
        }
        new = [keys[key] for key in keys if key in seen and key not in before.seen]
        watermark, newest = now, before.newest
        if polls.by_time:
            # A time that is still to come would leave out whatever appears until then; its file is remembered instead.
            newest = max([newest, *(changed for _, changed in files if changed <= now)])
            seen = frozenset(key for key in seen if key[1] >= newest)
            watermark = min(newest, now) if newest > before.newest else now
        rows = [(file, changed if polls.by_time else now) for file, changed in new]
        watermark = max(before.watermark, watermark)
        return rows, replace(before, polls=before.polls + 1, watermark=watermark, newest=newest, seen=frozenset(seen))

    def _changed(self, file: FileMetadata) -> int:
        """Time of the last change in microseconds UTC, where it matters. Raises `BeamIOError` if it is not known."""
        if not self._polls.updated:
            return 0
        if not file.last_updated_in_seconds:
            raise BeamIOError(
                f"the time of the last change of {file.path} is not known, which tells changed files apart; set "
                "match_updated_files=False"
            )
        return round(file.last_updated_in_seconds * SECOND)
