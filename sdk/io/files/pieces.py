"""Files cut into pieces for tasks, and the settings of sources of files."""

from __future__ import annotations

import logging
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from typing import Protocol, cast, runtime_checkable

from headrace.lowlevel.injectors.injector import SizedSplit, Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.watermarks.far_future import DAY
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.filesystem import MatchedFile, is_gone, open_input, present

_log = logging.getLogger(__name__)
_LEAST_SHARE = 100_000
"""Number of records up to which a task reads what there is alone."""
_MARKED = 256
"""Bytes before an offset by which a file is known."""


class FileFormat(ABC):
    """A file format: how files are cut into pieces and read."""

    @abstractmethod
    def cut(self, file: MatchedFile, offset: int, records: int) -> tuple[Split, int, int | None]:
        """A piece of a file from an offset on, of about `records` records.

        The result is the split that reads the piece, its approximate number of records, and the offset of the next
        piece, which is None at the end of the file.
        """

    def is_divided(self, file: MatchedFile) -> bool:
        """Whether pieces of a file are found by its size and by offsets, so that it must stay what it was."""
        return True

    def mark(self, file: MatchedFile, offset: int) -> str:
        """A text that another file, or the same one with other contents before the offset, would hardly have.

        By default it is made of the bytes before the offset.
        """
        with open_input(file.path) as opened:
            opened.seek(max(0, offset - _MARKED))
            return sha256(opened.read(min(offset, _MARKED))).hexdigest()[:16]


@runtime_checkable
class InferringFormat(Protocol):
    """A file format that takes names or types from the first file; these are committed, and hold for all files."""

    def infer(self, first: MatchedFile) -> object:
        """What is taken from the first file, as plain data; never None."""

    def is_settled(self, inferred: object) -> bool:
        """Whether that holds for all files; not if the file has no record that shows it."""

    def inferred(self, inferred: object) -> FileFormat:
        """The format with what `infer` has returned, maybe in an earlier run."""


class _NoFormat(FileFormat):
    """The format of files that were gone before anything was taken from one."""

    def cut(self, file: MatchedFile, offset: int, records: int) -> tuple[Split, int, int | None]:
        """Raise `FileNotFoundError`."""
        raise FileNotFoundError(file.path)


class FormatOfFirst:
    """The format of an injector, which may need the first file that has records."""

    def __init__(self, format_: FileFormat | InferringFormat) -> None:
        self._format = format_
        self._ready: tuple[object, FileFormat] | None = None
        """What was inferred last, and the format with it."""

    def of(self, inferred: object, files: Callable[[], Iterable[MatchedFile]]) -> tuple[FileFormat, object]:
        """The format, and what is to be committed with the position: None until a file has records.

        Args:
            inferred: What is committed.
            files: Returns the files to read, in their order.
        """
        if not isinstance(self._format, InferringFormat):
            return self._format, None
        if inferred is None and (inferred := shown_by_first(self._format, files())) is None:
            return _NoFormat(), None
        if self._ready is None or self._ready[0] != inferred:
            self._ready = inferred, self._format.inferred(inferred)
        return self._ready[1], inferred if self._format.is_settled(inferred) else None


def shown_by_first(format_: InferringFormat, files: Iterable[MatchedFile]) -> object:
    """What the first file with records shows; else what the first file shows, None without a file that is there."""
    found: object = None
    for file in files:
        try:
            inferred = format_.infer(file)
        except Exception:
            if is_gone(file.path):
                continue
            raise
        if format_.is_settled(inferred):
            return inferred
        found = inferred if found is None else found
    return found


class MissingFileError(ValueError):
    """A file that was found is gone before it was read.

    Args:
        file: The file as it was found.

    >>> print(MissingFileError(MatchedFile("/in/a.csv", 7, 5)))
    /in/a.csv is gone: it was found, and removed before it was read to its end; put it back, ...
    """

    def __init__(self, file: MatchedFile) -> None:
        self.file = file
        super().__init__(
            f"{file.path} is gone: it was found, and removed before it was read to its end; put it back, or give the "
            "source allow_missing=True, which goes on without it"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.file,)


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A piece of a file; an error of a file that is gone says so."""

    file: MatchedFile
    split: Split
    allow_missing: bool = False
    """Whether a file that is gone is passed over."""

    def read(self) -> Iterator[Batch]:
        """The elements. Raises `MissingFileError` if the file is gone and that is not allowed."""
        try:
            yield from self.split.read()
        except Exception as error:
            if not is_gone(self.file.path):
                raise
            if not self.allow_missing:
                raise MissingFileError(self.file) from error
            _pass_over(self.file)


@dataclass(frozen=True, slots=True)
class SizedPiece(FilePiece):
    """A piece whose number of records is known."""

    def count_records(self) -> int:
        """See `SizedSplit`."""
        return cast(SizedSplit, self.split).count_records()


@dataclass(frozen=True, slots=True)
class Pieces:
    """Several pieces of files for one task."""

    pieces: tuple[Split, ...]

    def read(self) -> Iterable[Batch]:
        """The elements of the pieces, one piece after the other."""
        return chain.from_iterable(piece.read() for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that is not read to its end. Persisted as part of a position: every field."""

    file: MatchedFile
    offset: int = 0
    """Offset of the next piece, in the unit of the format."""
    mark: str = ""
    """The format's mark of the contents before the offset; empty if there are none, and in positions without it."""

    def plain(self) -> tuple[str, int, int, int, str]:
        """The file as plain data."""
        return self.file.path, self.file.size, self.file.modified_us, self.offset, self.mark

    @classmethod
    def of(cls, plain: tuple[str, int, int, int] | tuple[str, int, int, int, str]) -> UnreadFile:
        """The file of the result of `plain`, or of a position without marks."""
        path, size, modified, offset, *mark = plain
        return cls(MatchedFile(path, size, modified), offset, *mark)


@dataclass(frozen=True, slots=True)
class FileReading:
    """The settings of a source of files; most are for files that are read as they appear."""

    pattern: str
    max_delay: int | None = None
    """Microseconds that the watermark stays behind the greatest timestamp read; None if it follows the times of files
    only."""
    times: FileTimes | None = None
    """Bounds of the event times of files; None if the watermark follows the timestamps of records only."""
    interval: float = 1.0
    """Seconds between two checks for new files."""
    until: Callable[[Sequence[str]], bool] | None = None
    """Function from the paths of all files so far to whether the input has ended; None for no end."""
    expected: Callable[[Sequence[str]], Iterable[str]] | None = None
    """Function from the paths of all files so far to the paths of files that are still to come; None if no files are
    expected."""
    allow_missing: bool = False
    """Whether files that are gone before they are read are passed over."""
    max_ahead: int | None = DAY
    """Microseconds by which a time of a record, or of a file's change, may be ahead of the clock to move the watermark;
    None for any time."""
    delay_of_files: int = 0
    """Microseconds that the watermark stays behind the times of files."""


def cut(
    format_: FileFormat,
    unread: Iterable[UnreadFile],
    take: Callable[[], UnreadFile | None],
    limit: int,
    splits: int,
    allow_missing: bool,
    compared: set[UnreadFile],
    missing: Callable[[MatchedFile], None] = lambda _: None,
    changed: Callable[[MatchedFile, MatchedFile], None] = lambda _, __: None,
) -> tuple[list[Split], tuple[UnreadFile, ...]]:
    """Splits of about `limit` records for about `splits` tasks, and the begun files that are unread after them.

    Args:
        format_: The format.
        unread: The files that were begun.
        take: Gives the file after them, and so on; None for no more.
        limit: About the greatest number of records.
        splits: About the number of tasks.
        allow_missing: Whether files that are gone are passed over.
        compared: The result of the call before, not compared with its marks if size and time are the same; empty after
            a restart, as copies may keep both. Becomes the begun files of this result.
        missing: Is told of each file that is gone before it is begun.
        changed: Is told of each file that is another one before it is begun, and what it is now.

    Raises `MissingFileError` if a file is gone and may not be, `ValueError` if a begun one is shorter than it was.
    """
    rest, tasks = deque(unread), _Tasks(share=max(1, -(-limit // max(1, splits))))
    while tasks.total < limit and _has_first(rest, take):
        if format_.is_divided(rest[0].file):
            rest[0] = _as_it_is(rest[0], format_, rest[0] in compared, changed)
        _cut_first(format_, rest, tasks, limit, allow_missing, missing)
    if not rest:
        tasks = _in_equal_shares(format_, tasks, splits, allow_missing, missing)
    elif rest[0].offset and not rest[0].mark and format_.is_divided(rest[0].file):
        rest[0] = _marked(format_, rest[0])
    compared.clear()
    compared.update(rest)
    return tasks.splits(), tuple(rest)


def _has_first(rest: deque[UnreadFile], take: Callable[[], UnreadFile | None]) -> bool:
    """Whether there is a file to cut; if none is left of those that were begun, the next one is taken."""
    if not rest and (following := take()) is not None:
        rest.append(following)
    return bool(rest)


def _cut_first(
    format_: FileFormat,
    rest: deque[UnreadFile],
    tasks: _Tasks,
    limit: int,
    allow_missing: bool,
    missing: Callable[[MatchedFile], None],
) -> None:
    """Give a piece of the first file to the tasks. A file that is read to its end, or is gone, leaves the queue."""
    found = _piece(format_, rest[0], min(tasks.share, limit - tasks.total), allow_missing)
    if found is None:
        gone = rest.popleft()
        if not gone.offset:
            missing(gone.file)
        return
    tasks.begun.setdefault(rest[0].file, rest[0])
    piece, count, offset = found
    tasks.add(piece, count)
    if offset is None:
        rest.popleft()
    else:
        rest[0] = replace(rest[0], offset=offset, mark="")


def _in_equal_shares(
    format_: FileFormat,
    tasks: _Tasks,
    splits: int,
    allow_missing: bool,
    missing: Callable[[MatchedFile], None],
) -> _Tasks:
    """The tasks of files that are read to their ends, whose share may be more than what there was for all of them."""
    share = max(_LEAST_SHARE, -(-tasks.total // max(1, splits)))
    if share >= tasks.share:
        return tasks
    made, rest = _Tasks(share), deque(tasks.begun.values())
    while rest:
        _cut_first(format_, rest, made, sys.maxsize, allow_missing, missing)
    return made


@dataclass
class _Tasks:
    """The pieces for tasks of about `share` records each."""

    share: int
    total: int = 0
    """Records of all tasks; a piece counts as one at least."""
    in_task: int = 0
    """Records of the last task."""
    pieces: list[list[Split]] = field(default_factory=list)
    begun: dict[MatchedFile, UnreadFile] = field(default_factory=dict)
    """The files that have pieces, as they were before the first one."""

    def add(self, piece: Split, count: int) -> None:
        """Add a piece of so many records to the last task, or to a new one if that has its share."""
        if not self.pieces or self.in_task >= self.share:
            self.pieces.append([])
            self.in_task = 0
        self.pieces[-1].append(piece)
        self.total, self.in_task = self.total + max(1, count), self.in_task + count

    def splits(self) -> list[Split]:
        """One split for each task."""
        return [task[0] if len(task) == 1 else Pieces(tuple(task)) for task in self.pieces]


def _piece(
    format_: FileFormat, unread: UnreadFile, records: int, allow_missing: bool
) -> tuple[Split, int, int | None] | None:
    """See `FileFormat.cut`; None for a file that is gone."""
    try:
        split, count, offset = format_.cut(unread.file, unread.offset, records)
    except Exception as error:
        if not is_gone(unread.file.path):
            raise
        if not allow_missing:
            raise MissingFileError(unread.file) from error
        _pass_over(unread.file)
        return None
    kind = SizedPiece if isinstance(split, SizedSplit) else FilePiece
    return kind(unread.file, split, allow_missing), count, offset


def _marked(format_: FileFormat, unread: UnreadFile) -> UnreadFile:
    """The begun file with the mark of what is read; without one if it is gone, which is said when its rest is read."""
    try:
        return replace(unread, mark=format_.mark(unread.file, unread.offset))
    except Exception:
        if not is_gone(unread.file.path):
            raise
        return unread


def _as_it_is(
    unread: UnreadFile,
    format_: FileFormat,
    is_compared: bool,
    changed: Callable[[MatchedFile, MatchedFile], None],
) -> UnreadFile:
    """The file with its present size and time: it may have been written or replaced since it was found.

    Raises `ValueError` for a begun file that is shorter than it was, or has other contents in the part that was read.
    """
    file = unread.file
    now = present(file)
    is_same = now is not None and now.modified_us == file.modified_us and now.size == file.size
    if now is None or (is_same and (is_compared or not unread.mark)):
        return unread
    if not unread.offset:
        changed(file, now)
        return UnreadFile(now)
    if now.size < file.size:
        raise ValueError(
            f"{file.path} has {now.size} bytes, and had {file.size} when its reading began: it was cut off or replaced "
            "by another file, and some of it is read. Put the earlier file back, or start on an empty checkpoint"
        )
    if unread.mark and format_.mark(file, unread.offset) != unread.mark:
        raise ValueError(
            f"{file.path} has other contents than when its reading began, in the part that is read (before offset "
            f"{unread.offset}; it had {file.size} bytes, and has {now.size}): records would be read twice, or not at "
            "all. Put the earlier file back, or start on an empty checkpoint"
        )
    if is_same:
        return unread
    if now.size != file.size or not unread.mark:
        _say_changed(file.path, file.size, now.size)
    # What was appended is not read, as a file that is written without end would never be read to its end.
    return replace(unread, file=replace(file, modified_us=now.modified_us))


@lru_cache(maxsize=1024)
def _say_changed(path: str, before: int, now: int) -> None:
    """Say it once: a file that is being written changes with each epoch."""
    _log.warning(
        "%s has changed since its reading began (it had %d bytes, and has %d). The reading goes on from where it has "
        "come to the former size, so what is read may be of both contents, and what was appended is left out. Files "
        "must not change while they are read: write new contents to a new path",
        *(path, before, now),
    )


def _pass_over(file: MatchedFile) -> None:
    _log.warning("%s is gone before it was read to its end; the run goes on without it (allow_missing)", file.path)
