"""The files of a pattern that are there when the pipeline first starts, in the order of their paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, Split
from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.lowlevel.stored_names import named
from headrace.sdk.io.files.filesystem import MatchedFile, match
from headrace.sdk.io.files.reading.pieces import FileFormat, FormatOfFirst, InferringFormat, UnreadFile, cut
from headrace.sdk.io.files.reading.seen_files import TAIL, files_in, packed

_FORMAT_VERSION = 2


@dataclass(frozen=True, slots=True)
class _Position:
    """The position of the source. Persisted: every field, as plain data."""

    unread: tuple[UnreadFile, ...] = ()
    """The files that are begun, or all that are not read."""
    listed: tuple[str, int] | None = None
    """Name of the object with all files behind them, and the index of the next one; None for no more files."""
    inferred: object = None
    """What the format has taken from the first file with records."""

    def plain(self) -> object:
        """The position as nested tuples, for the checkpoint."""
        return _FORMAT_VERSION, tuple(file.plain() for file in self.unread), self.listed, self.inferred

    @classmethod
    def of(cls, plain: object) -> _Position:
        """The position of the result of `plain`, or of release 0.1, which had the unread files first."""
        position = cast("tuple[object, ...]", plain)
        if position[0] != _FORMAT_VERSION:
            position = (_FORMAT_VERSION, position[0], None, None)
        _, unread, listed, inferred = cast(
            "tuple[int, tuple[tuple[str, int, int, int], ...], tuple[str, int] | None, object]", position
        )
        return cls(tuple(map(UnreadFile.of, unread)), listed, inferred)


@named("FileInjector")
class FileInjector(BaseInjector):
    """Reads the files of a pattern in the order of their paths.

    Args:
        format_: The format of the files.
        pattern: The pattern; it is matched when the pipeline first starts.
        max_delay: Microseconds that the watermark stays behind the greatest timestamp; None for a perfect watermark.
        allow_missing: Whether files that are gone before they are read are passed over.
    """

    def __init__(
        self,
        format_: FileFormat | InferringFormat,
        pattern: str,
        max_delay: int | None = None,
        allow_missing: bool = False,
    ) -> None:
        self._format = FormatOfFirst(format_)
        self._pattern = pattern
        self.max_delay = max_delay
        self._allow_missing = allow_missing
        self._objects = SourceObjects.in_memory()
        self._list: tuple[str, list[MatchedFile]] | None = None
        """The files of the object that a position names."""

    def store_in(self, objects: SourceObjects) -> None:
        """See `StoringInjector`."""
        self._objects = objects

    def committed(self, position: object) -> None:
        """Delete the list of files when all are begun."""
        listed = _Position.of(position).listed
        self._objects.committed([] if listed is None else [listed[0]])

    def start(self) -> object:
        """All files, each from its beginning."""
        return _Position(tuple(map(UnreadFile, match(self._pattern)))).plain()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next pieces. Raises `MissingFileError` if a file is gone, unless that is allowed."""
        before = self._short(_Position.of(position))
        files, index = self._listed(before)
        begun = len(before.unread)

        def take() -> UnreadFile | None:
            nonlocal index
            index += 1
            return UnreadFile(files[index - 1]) if index <= len(files) else None

        if not begun and index >= len(files):
            return Delivery([], _Position(inferred=before.inferred).plain(), done=True)
        following = index
        format_, inferred = self._format.of(
            before.inferred, lambda: [*(unread.file for unread in before.unread), *files[following:]]
        )
        pieces: list[Split]
        pieces, rest = cut(format_, before.unread, take, limit, splits, self._allow_missing)
        listed = (before.listed[0], index) if before.listed is not None and index < len(files) else None
        done = not rest and listed is None
        return Delivery(pieces, _Position(rest, listed, inferred).plain(), done=done)

    def _short(self, position: _Position) -> _Position:
        """A position with few files: the others are in an object, as each commit would name all of them again."""
        if len(position.unread) <= TAIL:
            return position
        name = self._objects.put(packed([unread.file for unread in position.unread[1:]]))
        return _Position(position.unread[:1], (name, 0), position.inferred)

    def _listed(self, position: _Position) -> tuple[list[MatchedFile], int]:
        """The files that follow those of the position, and the index of the next one."""
        if position.listed is None:
            return [], 0
        name, index = position.listed
        if self._list is None or self._list[0] != name:
            self._list = name, files_in(self._objects.get(name))
        return self._list[1], index
