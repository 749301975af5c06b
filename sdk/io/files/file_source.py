"""Files as a source, in the order of their paths or as they appear in a folder; planned in pieces for tasks.

The watermark of a fixed set of files is perfect, or follows the records with a delay. The watermark of a folder in
which files keep appearing is the time of the oldest unfinished file (MillWheel paper §5.2, figure 10).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike, fspath
from typing import Protocol, TypedDict, cast

from headrace.lowlevel.code_pickling import Portable
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MIN_TIMESTAMP, DurationTypes
from headrace.sdk.io.files.file_times import FileTimeOf, FileTimes, NamePattern, Span
from headrace.sdk.io.files.filesystem import CompressionTypes, MatchedFile, Path, compression_of, match
from headrace.sdk.io.timestamps import TimestampOf, check_timestamp
from headrace.sdk.transforms.core.source import Source

BATCH = 10_000
"""Number of records that are in memory at once while a file is read."""


class FileFormat(Protocol):
    """A file format: how files are cut into pieces and read."""

    def cut(self, file: MatchedFile, offset: int, records: int) -> tuple[Split, int, int | None]:
        """A piece of a file from an offset on, of about `records` records.

        The result is the split that reads the piece, its approximate number of records, and the offset of the next
        piece, which is None at the end of the file.
        """


@dataclass(frozen=True, slots=True)
class Pieces:
    """Several pieces of files for one task."""

    pieces: tuple[Split, ...]

    def read(self) -> Iterable[Batch]:
        """The elements of the pieces, one piece after the other."""
        return chain.from_iterable(piece.read() for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class _UnreadFile:
    """A file that is not read to its end. Persisted as part of a position: every field."""

    file: MatchedFile
    offset: int = 0
    """Offset of the next piece, in the unit of the format."""


@dataclass(frozen=True, slots=True)
class _Position:
    """The position of the source. Persisted: every field, as plain data."""

    unread: tuple[_UnreadFile, ...]
    seen: frozenset[str] = frozenset()
    """Paths of all files so far, if new files may appear."""
    watermark: int = MIN_TIMESTAMP
    """Microseconds UTC."""

    def plain(self) -> object:
        """The position as nested tuples, for the checkpoint."""
        unread = tuple((u.file.path, u.file.size, u.file.modified_us, u.offset) for u in self.unread)
        return unread, tuple(sorted(self.seen)), self.watermark

    @classmethod
    def of(cls, plain: object) -> _Position:
        """The position of the result of `plain`."""
        unread, seen, watermark = cast("tuple[tuple[tuple[str, int, int, int], ...], tuple[str, ...], int]", plain)
        files = tuple(_UnreadFile(MatchedFile(path, size, modified), offset) for path, size, modified, offset in unread)
        return cls(files, frozenset(seen), watermark)


def _cut(
    format_: FileFormat, unread: Sequence[_UnreadFile], limit: int, splits: int
) -> tuple[list[Split], tuple[_UnreadFile, ...]]:
    """Splits of about `limit` records for about `splits` tasks, and the files that are unread after them."""
    share = max(1, -(-limit // max(1, splits)))
    rest = list(unread)
    tasks: list[list[Split]] = []
    total = in_task = 0
    while rest and total < limit:
        piece, count, offset = format_.cut(rest[0].file, rest[0].offset, min(share, limit - total))
        if not tasks or in_task >= share:
            tasks.append([])
            in_task = 0
        tasks[-1].append(piece)
        total, in_task = total + max(1, count), in_task + count
        rest[0:1] = [] if offset is None else [replace(rest[0], offset=offset)]
    return [task[0] if len(task) == 1 else Pieces(tuple(task)) for task in tasks], tuple(rest)


@named("FileInjector")
class FileInjector(BaseInjector):
    """Reads the files of a pattern in the order of their paths.

    Args:
        format_: The format of the files.
        pattern: The pattern; it is matched when the pipeline first starts.
        max_delay: Microseconds that the watermark stays behind the greatest timestamp; None for a perfect watermark.
    """

    def __init__(self, format_: FileFormat, pattern: str, max_delay: int | None = None) -> None:
        self._format = format_
        self._pattern = pattern
        self.max_delay = max_delay

    def start(self) -> object:
        """All files, each from its beginning."""
        return _Position(tuple(map(_UnreadFile, match(self._pattern)))).plain()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next pieces."""
        pieces, rest = _cut(self._format, _Position.of(position).unread, limit, splits)
        return Delivery(pieces, _Position(rest).plain(), done=not rest)


@named("DirectoryInjector")
class DirectoryInjector(BaseInjector):
    """Reads the files of a pattern as they appear; a file must be complete when it appears, so rename it into place.

    Args:
        format_: The format of the files.
        pattern: The pattern.
        max_delay: Microseconds that the watermark stays behind the greatest timestamp read; None if the watermark
            follows the times of files only.
        times: Bounds of the event times of files; None if the watermark follows the timestamps of records only.
        interval: Seconds between two checks for new files.
        until: Function from the paths of all files so far to whether the input has ended; None for no end.
        expected: Function from the paths of all files so far to the paths of files that are still to come; None if no
            files are expected.
    """

    def __init__(
        self,
        format_: FileFormat,
        pattern: str,
        max_delay: int | None,
        times: FileTimes | None,
        interval: float,
        until: Callable[[Sequence[str]], bool] | None,
        expected: Callable[[Sequence[str]], Iterable[str]] | None = None,
    ) -> None:
        self._format = format_
        self._pattern = pattern
        self.max_delay = max_delay
        self._times = times
        self._interval = interval
        self._until = until
        self._expected = expected
        self._looked = float("-inf")
        self._greatest: int | None = None
        """The greatest upper bound of the files so far, microseconds UTC; None before it is first computed."""

    def start(self) -> object:
        """No file."""
        return _Position(()).plain()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Splits of the known files, after a look for new files if one is due."""
        before = _Position.of(position)
        unread, seen = before.unread, before.seen
        if new := self._new_files(seen):
            unread = (*unread, *map(_UnreadFile, new))
            seen = seen | {file.path for file in new}
        pieces, rest = _cut(self._format, unread, limit, splits)
        watermark = max(before.watermark, self._watermark(unread, rest, seen))
        done = not rest and self._until is not None and self._until(sorted(seen))
        after = _Position(rest, seen, watermark)
        idle = not pieces and not done
        quiet = max(0.0, self._looked + self._interval - time.monotonic()) if idle else None
        return Delivery(pieces, after.plain(), watermark, done=done, idle=idle, quiet_seconds=quiet)

    def _new_files(self, seen: frozenset[str]) -> list[MatchedFile]:
        now = time.monotonic()
        if now - self._looked < self._interval:
            return []
        self._looked = now
        new = [file for file in match(self._pattern) if file.path not in seen]
        if (times := self._times) is None:
            return new
        return sorted(new, key=lambda file: (times.of(file).earliest, file.path))

    def _watermark(self, before: Sequence[_UnreadFile], after: Sequence[_UnreadFile], seen: frozenset[str]) -> int:
        """The least lower bound of unfinished files, or the greatest upper bound (MillWheel paper, figure 10)."""
        if self._times is None:
            return MIN_TIMESTAMP
        if self._greatest is None:
            paths = seen if self._times.function is not None else ()
            self._greatest = max((self._times.of_name(path).end for path in paths), default=MIN_TIMESTAMP)
        self._greatest = max([self._greatest, *(self._times.of(unread.file).end for unread in before)])
        unfinished = self._unfinished(after, seen)
        return min(span.earliest for span, _ in unfinished) if unfinished else self._greatest

    def _unfinished(self, unread: Sequence[_UnreadFile], seen: frozenset[str]) -> list[tuple[Span, str]]:
        """Bounds and descriptions of the files that are not read to their end, or are expected."""
        assert self._times is not None, "only the times of files hold the watermark"
        waiting = [(self._times.of(u.file), f"{u.file.path}, which is not read to its end") for u in unread]
        if self._expected is None:
            return waiting
        expected = sorted(set(self._expected(sorted(seen))) - seen)
        return waiting + [(self._times.of_name(path), f"{path}, which is expected") for path in expected]

    def holder(self, position: object) -> str | None:
        """A description of the file that the watermark waits for; None if there is none."""
        current = _Position.of(position)
        if self._times is None or not (unfinished := self._unfinished(current.unread, current.seen)):
            return None
        return f"file {min(unfinished, key=lambda pair: pair[0].earliest)[1]}"


class OtherReadOptions(TypedDict, total=False):
    """Keyword arguments of `FileSource`, which documents them, for readers with a `validate` of their own."""

    timestamp: TimestampOf
    max_delay: DurationTypes | None
    continuous: bool
    interval: float
    file_time: FileTimeOf | None
    until: Callable[[Sequence[str]], bool] | None
    expected: Callable[[Sequence[str]], Iterable[str]] | None


class ReadOptions(OtherReadOptions, total=False):
    """All keyword arguments of `FileSource`."""

    validate: bool


class FileSource(Source):
    """Reads files; the base of the transforms for the single formats, which all take these arguments.

    Args:
        pattern: Path or URL of a file, a folder, or a pattern with `*`, `?`, `[ab]` and `**` for any folders.
        compression_type: One of `CompressionTypes`, for formats that are compressed as a whole.
        timestamp: What gives the event time of an element: the name of a field, or a function of the element that
            gives a `Timestamp`, seconds since 1970 UTC, a datetime with time zone or RFC 3339 text.
        max_delay: Delay of the watermark behind the greatest timestamp read, in seconds. None for a perfect watermark,
            which waits for the end of the input.
        validate: Whether a file must match when the pipeline is built.
        continuous: Whether to continue with files that appear later, without end. Files must be renamed into place when
            they are complete; names that begin with `_` or `.` are ignored.
        interval: Time between two checks for new files, in seconds.
        file_time: For continuous reading, a function from a file's path to a lower bound of its event times, or to a
            pair of lower and upper bound; or a pattern for times in file names, such as `"%Y-%m-%d-%H"` (see
            `NamePattern`). The watermark is then the least lower bound of the unfinished files, or the greatest upper
            bound if all are finished. Without `timestamp` the records of a file have its lower bound as their event
            time; without `file_time` that bound is the time at which the file was last written.
        until: For continuous reading, a function from the paths of all files so far to whether the input has ended.
        expected: For continuous reading with `file_time`, a function from the paths of all files so far to the paths of
            files that are still to come: the watermark waits for these files, too.

    Raises:
        TypeError: `pattern` is not a path, or `validate` is not a bool.
        ValueError: The arguments do not fit together.
        FileNotFoundError: No file matches although `validate` is true.
    """

    def __init__(
        self,
        pattern: Path,
        compression_type: str = CompressionTypes.AUTO,
        *,
        timestamp: TimestampOf = None,
        max_delay: DurationTypes | None = None,
        validate: bool = True,
        continuous: bool = False,
        interval: float = 1.0,
        file_time: FileTimeOf | None = None,
        until: Callable[[Sequence[str]], bool] | None = None,
        expected: Callable[[Sequence[str]], Iterable[str]] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(pattern, (str, PathLike)):
            raise TypeError(f"{type(self).__name__} takes the path of a file, or a pattern, got {pattern!r:.200}")
        self._pattern = fspath(pattern)
        if not isinstance(validate, bool):
            raise TypeError(f"validate is True or False, got {validate!r:.200}; arguments have the order of Beam's")
        if not continuous and (file_time or until or expected):
            raise ValueError("file_time, until and expected are for continuous=True only")
        if expected and not file_time:
            raise ValueError(
                "expected is given without file_time, which gives the event times of those files; give both"
            )
        if continuous and timestamp is not None and max_delay is None and file_time is None:
            raise ValueError(
                "continuous reading by timestamp needs to know how late records may be; give max_delay or file_time"
            )
        if validate and not continuous and not match(self._pattern):
            raise FileNotFoundError(f"no file matches {self._pattern!r}; correct it, or give validate=False")
        compression_of("", compression_type)
        self.compression = compression_type
        self.timestamp = timestamp if not callable(timestamp) else Portable(timestamp, "the function timestamp")
        self.is_bounded = not continuous
        file_time = NamePattern(file_time) if isinstance(file_time, str) else file_time
        self.times = FileTimes(continuous, file_time and Portable(file_time, "the function file_time"))
        self._max_delay = check_timestamp(timestamp, max_delay)
        self._interval, self._until, self._expected = interval, until, expected

    @property
    def pattern(self) -> str:
        """The pattern of the files."""
        return self._pattern

    def file_format(self) -> FileFormat:
        """How the files are cut and read."""
        raise TypeError(f"{type(self).__name__} does not define file_format(self)")

    def injector(self) -> FileInjector | DirectoryInjector:
        """The injector that reads the files."""
        if self.is_bounded:
            return FileInjector(self.file_format(), self._pattern, self._max_delay)
        follows_files = self.timestamp is None or self.times.function is not None
        return DirectoryInjector(
            self.file_format(),
            self._pattern,
            self._max_delay,
            self.times if follows_files else None,
            self._interval,
            self._until,
            self._expected,
        )
