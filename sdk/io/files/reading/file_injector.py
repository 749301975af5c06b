"""The files of a pattern that are there when the pipeline first starts, in the order of their paths."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import cast

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, Split
from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.lowlevel.stored_names import named
from headrace.sdk.io.files.filesystem import MatchedFile, absolute, match
from headrace.sdk.io.files.reading.pieces import (
    FileFormat,
    FileReading,
    FormatOfFirst,
    InferringFormat,
    UnreadFile,
    cut,
)
from headrace.sdk.io.files.reading.seen_files import TAIL, files_in, packed

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
        self._whole_pattern = absolute(reading.pattern)
        self._is_said = False
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
        pieces, rest = cut(format_, before.unread, take, limit, splits, self._allow_missing)
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
