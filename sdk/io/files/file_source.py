"""Files as a source, in the order of their paths or as they appear in a folder; planned in pieces for tasks.

A fixed set of files is what is there when the pipeline first starts (`FileInjector`). Its watermark is perfect, or
follows the records with a delay. The watermark of a folder in which files keep appearing is the time of the oldest
unfinished file (MillWheel paper §5.2, figure 10).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from os import PathLike, fspath, getcwd
from os.path import expanduser, isabs, isdir
from typing import TypedDict, cast

from headrace.lowlevel.code_pickling import Portable
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, Split
from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.lowlevel.storage.places import is_url
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import DurationTypes
from headrace.sdk.io.files.directory_injector import DirectoryInjector
from headrace.sdk.io.files.file_times import FileTimeOf, FileTimes, NamePattern
from headrace.sdk.io.files.filesystem import (
    CompressionTypes,
    MatchedFile,
    Path,
    absolute,
    compression_of,
    lacks_folder,
    match,
)
from headrace.sdk.io.files.pieces import (
    FileFormat,
    FileReading,
    FormatOfFirst,
    InferringFormat,
    UnreadFile,
    cut,
)
from headrace.sdk.io.files.seen_files import TAIL, files_in, packed
from headrace.sdk.io.timestamps import TimestampOf, ahead_micros, check_timestamp, delay_micros
from headrace.sdk.transforms.core.low_level import Source

BATCH = 10_000
"""Number of records that are in memory at once while a file is read."""


class OtherReadOptions(TypedDict, total=False):
    """Keyword arguments of `FileSource`, which documents them, for readers with a `validate` of their own."""

    timestamp: TimestampOf
    max_delay: DurationTypes | None
    continuous: bool
    interval: float
    file_time: FileTimeOf | None
    until: Callable[[Sequence[str]], bool] | None
    expected: Callable[[Sequence[str]], Iterable[str]] | None
    allow_missing: bool
    max_ahead: DurationTypes | None


class ReadOptions(OtherReadOptions, total=False):
    """All keyword arguments of `FileSource`."""

    validate: bool


class FileSource(Source):
    """Reads files; the base of the transforms for the single formats, which all take these arguments.

    Args:
        pattern: Path or URL of a file, a folder, or a pattern with `*`, `?`, `[ab]`, `**/` and `**`.
        compression_type: One of `CompressionTypes`, for formats that are compressed as a whole.
        timestamp: What gives the event time of an element: the name of a field, or a function of the element that
            gives a `Timestamp`, seconds since 1970 UTC, a datetime with time zone or RFC 3339 text.
        max_delay: Delay of the watermark behind the greatest timestamp read, in seconds. None for a perfect watermark,
            which waits for the end of the input. For continuous reading without `timestamp`, the delay behind the times
            of the files: give it if a file may appear later than another that was written after it.
        validate: Whether a file must match when the pipeline is built; with `continuous`, whether the folder must be
            there, if it is on this machine.
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
        allow_missing: Whether the run goes on, with a warning that names the file, without a file that was found and is
            gone before it is read to its end. By default that is an error.
        max_ahead: For continuous reading, seconds by which an event time may be ahead of the clock and still move the
            watermark. Later ones are counted as `ahead`, and the log names the first. None for any time.

    Raises:
        TypeError: `pattern` is not a path, or `validate` is not a bool.
        ValueError: The arguments do not fit together.
        FileNotFoundError: No file matches, or the folder is missing, although `validate` is true.
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
        allow_missing: bool = False,
        max_ahead: DurationTypes | None = 86_400,
        **others: object,
    ) -> None:
        super().__init__()
        _check_arguments(type(self), pattern, validate, others)
        self._pattern = fspath(pattern)
        if continuous:
            _check_continuous(timestamp, max_delay, file_time, expected)
        elif file_time or until or expected:
            raise ValueError("file_time, until and expected are for continuous=True only")
        if validate:
            _require_there(self._pattern, continuous)
        compression_of("", compression_type)
        self.compression = compression_type
        self.timestamp = timestamp if not callable(timestamp) else Portable(timestamp, "the function timestamp")
        self.is_bounded = not continuous
        file_time = NamePattern(file_time) if isinstance(file_time, str) else file_time
        self.times = FileTimes(continuous, file_time and Portable(file_time, "the function file_time"))
        # Without timestamps the records of a file that is read when it appears have its time.
        by_file = continuous and timestamp is None
        delay = check_timestamp(timestamp, None if by_file else max_delay)
        times = self.times if by_file or self.times.function is not None else None
        of_files = delay_micros(max_delay) if by_file and max_delay is not None else 0
        bounds = (allow_missing, ahead_micros(max_ahead), of_files)
        self._reading = FileReading(self._pattern, delay, times, interval, until, expected, *bounds)

    record_format: str = ""
    """See `BaseInjector.record_format`."""

    @property
    def pattern(self) -> str:
        """The pattern of the files."""
        return self._pattern

    def file_format(self) -> FileFormat | InferringFormat:
        """How the files are cut and read."""
        raise TypeError(f"{type(self).__name__} does not define file_format(self)")

    def injector(self) -> FileInjector | DirectoryInjector:
        """The injector that reads the files."""
        kind = FileInjector if self.is_bounded else DirectoryInjector
        injector = kind(self.file_format(), self._reading)
        injector.record_format = self.record_format
        return injector


def _check_arguments(kind: type, pattern: object, validate: object, others: Iterable[str]) -> None:
    for name in others:
        known = {*inspect.signature(kind).parameters, *ReadOptions.__annotations__} - {"options", "others"}
        near = get_close_matches(name, known, 1)
        remedy = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known))}"
        raise TypeError(f"{kind.__name__} has no argument {name!r}; {remedy}")
    if not isinstance(pattern, (str, PathLike)):
        raise TypeError(f"{kind.__name__} takes the path of a file, or a pattern, got {pattern!r:.200}")
    if not isinstance(validate, bool):
        raise TypeError(f"validate is True or False, got {validate!r:.200}; arguments have the order of Beam's")


def _unmatched(pattern: str) -> str:
    """Why a pattern matches no file, and what to write instead."""
    if is_url(pattern):
        return f"no file matches {pattern!r}; correct it"
    path = expanduser(pattern)
    if isdir(path):
        return f"no file is in the folder {pattern!r}; correct it"
    return f"no file matches {pattern!r}{'' if isabs(path) else f' in {getcwd()}'}; correct it"


def _require_there(pattern: str, continuous: bool) -> None:
    if continuous and lacks_folder(pattern):
        raise FileNotFoundError(
            f"no folder is at {pattern!r}; correct it, or give validate=False if the folder is made later"
        )
    if not continuous and not match(pattern):
        raise FileNotFoundError(f"{_unmatched(pattern)}, or give validate=False")


def _check_continuous(timestamp: TimestampOf, max_delay: object, file_time: object, expected: object) -> None:
    """Raise `ValueError` if arguments for continuous reading do not fit together."""
    if expected and not file_time:
        raise ValueError("expected is given without file_time, which gives the event times of those files; give both")
    if timestamp is not None and max_delay is None and file_time is None:
        raise ValueError(
            "continuous reading by timestamp needs to know how late records may be; give max_delay or file_time"
        )


_log = logging.getLogger(__name__)
_FORMAT_VERSION, _FIELDS = 2, 4


@dataclass(frozen=True, slots=True)
class _FilesPosition:
    """The position of the source. Persisted: every field, as plain data."""

    unread: tuple[UnreadFile, ...] = ()
    """The files that are begun, or all that are not read."""
    listed: tuple[str, int] | None = None
    """Name of the object with all files behind them, and the index of the next one; None for no more files."""
    inferred: object = None
    """What the format has taken from the first file with records."""
    pattern: str = ""
    """The pattern of which these are the files; empty in positions without it."""

    def plain(self) -> object:
        """The position as nested tuples, for the checkpoint."""
        return _FORMAT_VERSION, tuple(file.plain() for file in self.unread), self.listed, self.inferred, self.pattern

    @classmethod
    def of(cls, plain: object) -> _FilesPosition:
        """The position of the result of `plain`, or of release 0.1, which had the unread files first."""
        position = cast("tuple[object, ...]", plain)
        if position[0] != _FORMAT_VERSION:
            position = (_FORMAT_VERSION, position[0], None, None)
        _, unread, listed, inferred, pattern = cast(
            "tuple[int, tuple[tuple[str, int, int, int], ...], tuple[str, int] | None, object, str]",
            position if len(position) > _FIELDS else (*position, ""),
        )
        return cls(tuple(map(UnreadFile.of, unread)), listed, inferred, pattern)


@named("FileInjector")
class FileInjector(BaseInjector):
    """Reads the files of a pattern in the order of their paths.

    Args:
        format_: The format of the files.
        reading: The settings. The pattern is matched when the pipeline first starts.
    """

    def __init__(self, format_: FileFormat | InferringFormat, reading: FileReading) -> None:
        self._format = FormatOfFirst(format_)
        self._pattern, self.max_delay, self._allow_missing = reading.pattern, reading.max_delay, reading.allow_missing
        self._objects = SourceObjects.in_memory()
        self._list: tuple[str, list[MatchedFile]] | None = None
        """The files of the object that a position names."""
        self.is_bounded = reading.max_delay is None
        self._whole_pattern = absolute(reading.pattern)
        self._is_said = False
        self._compared: set[UnreadFile] = set()
        """Whether it was said that the files are those of another pattern."""

    def store_in(self, objects: SourceObjects) -> None:
        """See `BaseInjector`."""
        self._objects = objects

    def committed(self, position: object) -> None:
        """Delete the list of files when all are begun."""
        listed = _FilesPosition.of(position).listed
        self._objects.committed([] if listed is None else [listed[0]])

    def start(self) -> object:
        """All files, each from its beginning."""
        return _FilesPosition(tuple(map(UnreadFile, match(self._pattern))), pattern=self._whole_pattern).plain()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next pieces. Raises `MissingFileError` if a file is gone, unless that is allowed."""
        before = self._short(_FilesPosition.of(position))
        self._say_other_pattern(before.pattern)
        files, index = self._listed(before)
        begun = len(before.unread)

        def take() -> UnreadFile | None:
            nonlocal index
            index += 1
            return UnreadFile(files[index - 1]) if index <= len(files) else None

        if not begun and index >= len(files):
            return Delivery([], replace(before, listed=None).plain(), done=True)
        following = index
        format_, inferred = self._format.of(
            before.inferred, lambda: [*(unread.file for unread in before.unread), *files[following:]]
        )
        pieces: list[Split]
        pieces, rest = cut(format_, before.unread, take, limit, splits, self._allow_missing, self._compared)
        listed = (before.listed[0], index) if before.listed is not None and index < len(files) else None
        done = not rest and listed is None
        return Delivery(pieces, _FilesPosition(rest, listed, inferred, before.pattern).plain(), done=done)

    def _say_other_pattern(self, pattern: str) -> None:
        """Say once that the files are those of a pattern that the program no longer has."""
        if pattern and pattern != self._whole_pattern and not self._is_said:
            self._is_said = True
            _log.warning(
                "the source reads the files that %s matched when the run began, to their end, and none of %s: start on "
                "an empty checkpoint to read those, or add them as a source of their own",
                *(pattern, self._whole_pattern),
            )

    def _short(self, position: _FilesPosition) -> _FilesPosition:
        """A position with few files: the others are in an object, as each commit would name all of them again."""
        if len(position.unread) <= TAIL:
            return position
        name = self._objects.put(packed([unread.file for unread in position.unread[1:]]))
        return replace(position, unread=position.unread[:1], listed=(name, 0))

    def _listed(self, position: _FilesPosition) -> tuple[list[MatchedFile], int]:
        """The files that follow those of the position, and the index of the next one."""
        if position.listed is None:
            return [], 0
        name, index = position.listed
        if self._list is None or self._list[0] != name:
            self._list = name, files_in(self._objects.get(name))
        return self._list[1], index
