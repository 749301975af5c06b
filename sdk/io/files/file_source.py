"""Files as a source: cut into epochs and tasks, in order of their names, or as they appear in a folder.

The watermark of files that are all there is perfect, or follows the records at a distance. Where files keep coming it
is that of MillWheel's paper (§5.2, figure 10): the time of the oldest file that is not finished.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike, fspath
from typing import Protocol, cast

from headrace.lowlevel.injector import BaseInjector, Delivery, Split
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import MIN_TIMESTAMP, DurationTypes
from headrace.sdk.io.files import CompressionTypes, Found, Path, compression_of, match
from headrace.sdk.io.filetimes import FileTimeOf, FileTimes, NamePattern, Span
from headrace.sdk.io.timestamps import TimestampOf, check_timestamp
from headrace.sdk.shipping import Portable
from headrace.sdk.transforms.source import Source

BATCH = 10_000
"""Records that are in memory at once while a file is read."""


class FileFormat(Protocol):
    """How files of a kind are cut and read."""

    def cut(self, file: Found, offset: int, records: int) -> tuple[Split, int, int | None]:
        """A piece of a file from an offset on, of about so many records.

        Gives what reads it, about how many records it has, and where the next piece begins, None at the end.
        """


@dataclass(frozen=True, slots=True)
class Pieces:
    """Several pieces for one task."""

    pieces: tuple[Split, ...]

    def read(self) -> Iterable[Batch]:
        """One after the other."""
        return chain.from_iterable(piece.read() for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class _Left:
    """A file that is not finished. Persisted as part of a position: every field."""

    file: Found
    offset: int = 0


@dataclass(frozen=True, slots=True)
class _Position:
    """What is left to read. Persisted: every field, as plain data."""

    left: tuple[_Left, ...]
    seen: frozenset[str] = frozenset()
    """Names of all files that ever were begun or are left, where new ones may come."""
    watermark: int = MIN_TIMESTAMP

    def plain(self) -> object:
        """For the checkpoint: tuples of tuples."""
        left = tuple((one.file.path, one.file.size, one.file.modified_us, one.offset) for one in self.left)
        return left, tuple(sorted(self.seen)), self.watermark

    @classmethod
    def of(cls, plain: object) -> _Position:
        """Back from `plain`."""
        left, seen, watermark = cast("tuple[tuple[tuple[str, int, int, int], ...], tuple[str, ...], int]", plain)
        files = tuple(_Left(Found(path, size, modified), offset) for path, size, modified, offset in left)
        return cls(files, frozenset(seen), watermark)


def _deliver(format_: FileFormat, left: Sequence[_Left], limit: int, splits: int) -> tuple[list[Split], list[_Left]]:
    """Pieces of about `limit` records for about `splits` tasks, and what is left then."""
    share = max(1, -(-limit // max(1, splits)))
    rest = list(left)
    tasks: list[list[Split]] = []
    total = in_task = 0
    while rest and total < limit:
        piece, count, after = format_.cut(rest[0].file, rest[0].offset, min(share, limit - total))
        if not tasks or in_task >= share:
            tasks.append([])
            in_task = 0
        tasks[-1].append(piece)
        total, in_task = total + max(1, count), in_task + count
        rest[0:1] = [] if after is None else [replace(rest[0], offset=after)]
    return [task[0] if len(task) == 1 else Pieces(tuple(task)) for task in tasks], rest


class FileInjector(BaseInjector):
    """Reads the files of a pattern from first to last name.

    Args:
        format_: How the files are read.
        pattern: Which files; those that are there when the pipeline first starts.
        max_delay: Microseconds that the watermark stays behind the greatest timestamp; None for a perfect watermark.
    """

    def __init__(self, format_: FileFormat, pattern: str, max_delay: int | None = None) -> None:
        self._format = format_
        self._pattern = pattern
        self.max_delay = max_delay

    def start(self) -> object:
        """All files, each from its beginning."""
        return _Position(tuple(_Left(file) for file in match(self._pattern))).plain()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next pieces."""
        pieces, rest = _deliver(self._format, _Position.of(position).left, limit, splits)
        return Delivery(pieces, _Position(tuple(rest)).plain(), done=not rest)


class DirectoryInjector(BaseInjector):
    """Reads the files of a pattern as they appear. A file must be complete when it appears: rename it into its place.

    Args:
        format_: How the files are read.
        pattern: Which files.
        max_delay: Microseconds that the watermark stays behind the greatest timestamp read; None where only the
            times of files count.
        times: What is known of the event times of files; None where only the timestamps of records count.
        interval: Seconds between two looks for new files.
        until: Whether the input has ended, given the names of all files so far; None for never.
        expected: From the names of all files so far to those that are still to come; None where nothing is known.
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
        """The greatest end of a file so far; None where it is not known yet."""

    def start(self) -> object:
        """Nothing seen yet."""
        return _Position(()).plain()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Pieces of what is there, after a look for new files if it is time for one."""
        before = _Position.of(position)
        left, seen = before.left, before.seen
        if new := self._new_files(seen):
            left = (*left, *(_Left(file) for file in new))
            seen = seen | {file.path for file in new}
        pieces, rest = _deliver(self._format, left, limit, splits)
        watermark = max(before.watermark, self._watermark(left, rest, seen))
        done = not rest and self._until is not None and self._until(sorted(seen))
        after = _Position(tuple(rest), seen, watermark)
        return Delivery(pieces, after.plain(), watermark, done=done, idle=not pieces and not done)

    def _new_files(self, seen: frozenset[str]) -> list[Found]:
        now = time.monotonic()
        if now - self._looked < self._interval:
            return []
        self._looked = now
        found = [file for file in match(self._pattern) if file.path not in seen]
        if (times := self._times) is None:
            return found
        return sorted(found, key=lambda file: (times.of(file).earliest, file.path))

    def _watermark(self, before: Sequence[_Left], after: Sequence[_Left], seen: frozenset[str]) -> int:
        """Figure 10: the least time of what is not finished; if nothing is left, what was finished is over."""
        if self._times is None:
            return MIN_TIMESTAMP
        if self._greatest is None:
            named = seen if self._times.function is not None else ()
            self._greatest = max((self._times.of_name(path).end for path in named), default=MIN_TIMESTAMP)
        self._greatest = max([self._greatest, *(self._times.of(one.file).end for one in before)])
        unfinished = self._unfinished(after, seen)
        return min(span.earliest for span, _ in unfinished) if unfinished else self._greatest

    def _unfinished(self, left: Sequence[_Left], seen: frozenset[str]) -> list[tuple[Span, str]]:
        """The files that are not read to their end, or not there yet, in words."""
        assert self._times is not None, "times are known"
        waiting = [(self._times.of(one.file), f"{one.file.path}, which is not read to its end") for one in left]
        if self._expected is None:
            return waiting
        to_come = sorted(set(self._expected(sorted(seen))) - seen)
        return waiting + [(self._times.of_name(name), f"{name}, which is expected") for name in to_come]

    def holder(self, position: object) -> str | None:
        """The file that the watermark waits for, in words."""
        at = _Position.of(position)
        if self._times is None or not (unfinished := self._unfinished(at.left, at.seen)):
            return None
        return f"file {min(unfinished, key=lambda waiting: waiting[0].earliest)[1]}"


class FileSource(Source):
    """Reads files; the base of the transforms for the single formats, which all take these arguments.

    Args:
        pattern: A file, a folder, or a pattern with `*`, `?`, `[ab]` and `**` for any folders; local or a URL.
        compression_type: One of `CompressionTypes`, for formats that are compressed as a whole.
        timestamp: What gives the event time of an element: the name of a field, or a function of the element that
            gives a `Timestamp`, seconds since 1970 UTC, a datetime with time zone or RFC 3339 text.
        max_delay: Seconds by which a record may come later than one with a greater timestamp: the watermark stays so
            far behind. None for a perfect watermark: it waits for the end of the input.
        validate: Whether there must be a file when the pipeline is built.
        continuous: Whether to go on with files that appear in the folder, for ever. Files must be renamed into their
            place when they are complete; names that begin with `_` or `.` are not looked at.
        interval: Seconds between two looks for new files.
        file_time: For continuous reading, a function from a file's path to a time before which none of its records is,
            or to a pair of that and their end; or a pattern for times in its name, as `"%Y-%m-%d-%H"` (see
            `NamePattern`). The watermark is then the least time of the files that are not read to their end, and
            without any the end of the last. Without `timestamp` the records of a file have its time, and without
            `file_time` that is the time at which it was last written.
        until: For continuous reading, whether the input has ended, given the names of all files so far.
        expected: For continuous reading with `file_time`, a function from the paths of all files so far to those of
            files that are still to come: the watermark waits for them, too.
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
        pattern = fspath(pattern)
        if not isinstance(validate, bool):
            raise TypeError(f"validate is True or False, got {validate!r:.200}; arguments stand in the order of Beam's")
        if not continuous and (file_time or until or expected):
            raise ValueError("file_time, until and expected are for continuous=True only")
        if expected and not file_time:
            raise ValueError("expected is given without file_time, which says when the records of those files are")
        if continuous and timestamp is not None and max_delay is None and file_time is None:
            raise ValueError(
                "continuous reading by timestamp needs to know how late records may be; give max_delay or file_time"
            )
        if validate and not continuous and not match(pattern):
            raise FileNotFoundError(f"no file matches {pattern!r}; correct it, or give validate=False")
        compression_of("", compression_type)
        self.compression = compression_type
        self.timestamp = timestamp if not callable(timestamp) else Portable(timestamp, "the function timestamp")
        self.is_bounded = not continuous
        file_time = NamePattern(file_time) if isinstance(file_time, str) else file_time
        self.times = FileTimes(continuous, file_time and Portable(file_time, "the function file_time"))
        self._pattern = pattern
        self._max_delay = check_timestamp(timestamp, max_delay)
        self._interval, self._until, self._expected = interval, until, expected

    @property
    def pattern(self) -> str:
        """Which files."""
        return self._pattern

    def file_format(self) -> FileFormat:
        """How the files are cut and read."""
        raise TypeError(f"{type(self).__name__} does not define file_format(self)")

    def injector(self) -> FileInjector | DirectoryInjector:
        """What reads, from the first file on."""
        if self.is_bounded:
            return FileInjector(self.file_format(), self._pattern, self._max_delay)
        by_file = self.timestamp is None or self.times.function is not None
        return DirectoryInjector(
            self.file_format(),
            self._pattern,
            self._max_delay,
            self.times if by_file else None,
            self._interval,
            self._until,
            self._expected,
        )
