"""Files of a folder as they appear, each read once (MillWheel paper §5.2, figure 10).

A position names the file that is begun and, through `SeenFiles`, the files that were taken. Files that were found and
not taken are not in it: a restart finds them again. So a commit does not grow with the folder, nor with time. To look
for new files costs as much as is new, not as much as lies there (`DirectoryListing`).
"""

from __future__ import annotations

import heapq
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, Split
from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.lowlevel.storage.places import is_url
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.sdk.io.files.filesystem import DirectoryListing, MatchedFile, match
from headrace.sdk.io.files.pieces import (
    FileFormat,
    FileReading,
    FormatOfFirst,
    InferringFormat,
    UnreadFile,
    cut,
)
from headrace.sdk.io.files.seen_files import UNKNOWN, Seen, SeenFiles

_FORMAT_VERSION = 2
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _FolderPosition:
    """The position of the source. Persisted: every field, as plain data."""

    unread: tuple[UnreadFile, ...] = ()
    """The files that are begun."""
    seen: Seen = field(default_factory=Seen)
    """The files that are begun or read."""
    watermark: int = MIN_TIMESTAMP
    """Microseconds UTC."""
    greatest: int = MIN_TIMESTAMP
    """The greatest upper bound of the files that are begun or read, microseconds UTC."""
    inferred: object = None
    """What the format has taken from the first file."""
    holder: str | None = None
    """The file that the watermark waits for."""

    def plain(self) -> object:
        """The position as nested tuples, for the checkpoint."""
        unread = tuple(file.plain() for file in self.unread)
        return _FORMAT_VERSION, unread, self.seen.plain(), self.watermark, self.greatest, self.inferred, self.holder

    @classmethod
    def of(cls, plain: object) -> _FolderPosition:
        """The position of the result of `plain`."""
        _, unread, seen, watermark, greatest, inferred, holder = cast(
            "tuple[int, tuple[tuple[str, int, int, int], ...], object, int, int, object, str | None]", plain
        )
        return cls(tuple(map(UnreadFile.of, unread)), Seen.of(seen), watermark, greatest, inferred, holder)


class _WaitingFiles:
    """Files that were found and are not taken, the oldest first."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, MatchedFile]] = {}
        """Path -> key and file."""
        self._order: list[tuple[int, str]] = []
        """A heap of key and path; it also has earlier keys of files that were replaced."""

    def add(self, key: int, file: MatchedFile) -> None:
        """Add a file, or note how one is now that was added before."""
        heapq.heappush(self._order, (key, file.path))
        self._files[file.path] = key, file

    def take(self) -> MatchedFile | None:
        """Remove the file with the least key; None if there is none."""
        return None if (first := self.first()) is None else self._files.pop(first.path)[1]

    def first(self) -> MatchedFile | None:
        """The file with the least key; None if there is none."""
        while self._order:
            key, path = self._order[0]
            known, file = self._files.get(path, (None, None))
            if known == key:
                return file
            heapq.heappop(self._order)
        return None

    def in_order(self) -> Iterator[MatchedFile]:
        """All files, as `take` gives them."""
        return (file for _, _, file in sorted((key, path, file) for path, (key, file) in self._files.items()))

    @property
    def paths(self) -> Iterable[str]:
        """The paths of all files."""
        return self._files.keys()


@named("DirectoryInjector")
class DirectoryInjector(BaseInjector):
    """Reads the files of a pattern as they appear; a file must be complete when it appears, so rename it into place.

    A path is read once, also if its file vanishes and comes back. If it comes back with other contents, a warning names
    it.

    Args:
        format_: The format of the files.
        reading: The settings.
        now: The clock for the looks, seconds.
        clock_ns: The wall clock, nanoseconds since 1970 UTC.
    """

    def __init__(
        self,
        format_: FileFormat | InferringFormat,
        reading: FileReading,
        now: Callable[[], float] = time.monotonic,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._format = FormatOfFirst(format_)
        self._reading = reading
        self.max_delay = reading.max_delay
        self._now, self._clock_ns = now, clock_ns
        self._seen = SeenFiles(SourceObjects.in_memory())
        self._changed = 0
        """Number of changes of files after they were taken."""
        self._said: set[str] = set()
        """Paths of the newest files of which it was said that they have changed; a log may change at each look."""
        self._current: tuple[object, ...] = ()
        """The positions to which what is in memory belongs."""
        self._repeated: tuple[object, Delivery] | None = None
        self._compared: set[UnreadFile] = set()
        """The position of the last delivery with files, and that delivery, which an abandoned epoch gets again."""
        self._forget()

    def _forget(self) -> None:
        """Look again for all files."""
        self._listing = DirectoryListing(self._reading.pattern)
        self._waiting = _WaitingFiles()
        self._looked = float("-inf")
        self._looks = 0
        self._was_missing = False

    def store_in(self, objects: SourceObjects) -> None:
        """See `BaseInjector`."""
        self._seen = SeenFiles(objects)

    def committed(self, position: object) -> None:
        """Delete runs that no commit needs."""
        if _is_current(position):
            self._seen.objects.committed(_FolderPosition.of(position).seen.names)

    def start(self) -> object:
        """No file."""
        return _FolderPosition().plain()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Splits of the known files, after a look for new files if one is due.

        Raises:
            MissingFileError: A file is gone that was found, and that is not allowed.
        """
        if self._repeated is not None and self._repeated[0] == position:
            return self._repeated[1]
        if position not in self._current:
            self._forget()
        before = _FolderPosition.of(position) if _is_current(position) else self._position_of_release_0_1(position)
        self._look(before)
        taken: list[MatchedFile] = []
        pieces, rest, inferred = self._cut(before, taken, limit, splits)
        seen = self._seen.added(before.seen, taken) if taken else before.seen
        greatest = before.greatest
        if (times := self._reading.times) is not None:
            latest = self._latest() if times.function is None else MAX_TIMESTAMP
            greatest = max([greatest, *(end for file in taken if (end := times.of(file).end) <= latest)])
        after = _FolderPosition(rest, seen, before.watermark, greatest, inferred)
        watermark, holder = self._held(after)
        after = replace(after, watermark=watermark, holder=holder)
        is_read = not rest and self._waiting.first() is None
        done = is_read and self._reading.until is not None and self._reading.until(self._paths(seen))
        idle = not pieces and not taken and not done
        quiet = max(0.0, self._looked + self._reading.interval - self._now()) if idle else None
        delivery = Delivery(
            pieces, after.plain(), after.watermark, done, latest=self._latest(), idle=idle, quiet_seconds=quiet
        )
        self._repeated = (position, delivery) if taken or pieces else None
        self._current = (delivery.position,) if self._repeated else (position, delivery.position)
        return delivery

    def _cut(
        self, before: _FolderPosition, taken: list[MatchedFile], limit: int, splits: int
    ) -> tuple[list[Split], tuple[UnreadFile, ...], object]:
        """The pieces, what is left of the begun files, and what the format has inferred; `taken` gets the new files."""
        if not before.unread and self._waiting.first() is None:
            return [], (), before.inferred
        format_, inferred = self._format.of(
            before.inferred, lambda: [*(unread.file for unread in before.unread), *self._waiting.in_order()]
        )

        def take() -> UnreadFile | None:
            if (file := self._waiting.take()) is None:
                return None
            taken.append(file)
            return UnreadFile(file)

        def missing(file: MatchedFile) -> None:
            # It was not begun, and is read if it comes back.
            self._listing.forget(file.path)
            if file in taken:
                taken.remove(file)

        def changed(file: MatchedFile, now: MatchedFile) -> None:
            if file in taken:
                taken[taken.index(file)] = now

        hooks = missing, changed
        allow_missing = self._reading.allow_missing
        pieces, rest = cut(format_, before.unread, take, limit, splits, allow_missing, self._compared, *hooks)
        return pieces, rest, inferred

    def _latest(self) -> int:
        """See `Delivery.latest`; bounds that the program states for files are believed."""
        ahead, times = self._reading.max_ahead, self._reading.times
        is_stated = self.max_delay is None and times is not None and times.function is not None
        return MAX_TIMESTAMP if ahead is None or is_stated else self._clock_ns() // 1000 + ahead

    def _look(self, before: _FolderPosition) -> None:
        """Add new files to those that wait, if a look is due."""
        if self._now() - self._looked < self._reading.interval:
            return
        self._looked = self._now()
        self._looks += 1
        found = sorted(self._listing.look(), key=lambda file: file.path)
        self._say_missing()
        seen = self._seen.find(before.seen, [file.path for file in found])
        # Of these the reading itself says it.
        begun = {unread.file.path for unread in before.unread}
        for file in found:
            if (earlier := seen.get(file.path)) is None:
                times = self._reading.times
                self._waiting.add(self._looks if times is None else times.of(file).earliest, file)
            elif UNKNOWN not in earlier and earlier != (file.size, file.modified_us) and file.path not in begun:
                self._say_changed(file)
        newest = {file.path: file for file in before.seen.tail if file.path not in begun}
        for file in newest.values():
            if file.path not in self._said and _is_changed_in_place(file):
                self._say_changed(file)
        self._said.intersection_update(newest)

    def _say_missing(self) -> None:
        missing = self._listing.is_missing
        if missing and not self._was_missing:
            _log.warning("no folder is at %s; its files are read when it is there (again)", self._reading.pattern)
        self._was_missing = missing

    def _say_changed(self, file: MatchedFile) -> None:
        self._said.add(file.path)
        self._changed += 1
        # Once for each power of two, so that a folder that is written anew does not fill the log.
        if not self._changed & (self._changed - 1):
            _log.warning(
                "%s was read before and has changed since; a path is read once, so its contents are not read again "
                "(%d such files so far). Write new contents to a new path",
                *(file.path, self._changed),
            )

    def _held(self, after: _FolderPosition) -> tuple[int, str | None]:
        """Watermark and holder: the least lower bound of unfinished files, or the greatest upper bound (figure 10)."""
        times = self._reading.times
        if times is None:
            return after.watermark, None
        delay = self._reading.delay_of_files
        begun = [each.file for each in after.unread]
        waiting = self._waiting.first()
        bounds = [
            (times.of(file).earliest, f"file {file.path}, which is not read to its end")
            for file in (begun if waiting is None else [*begun, waiting])
            # A time of change in the far future is none, so it is no bound, either.
            if times.function is not None or times.of(file).earliest <= self._latest()
        ]
        if self._reading.expected is not None:
            paths = self._paths(after.seen)
            expected = set(self._reading.expected(paths)).difference(paths)
            bounds += [(times.of_name(path).earliest, f"file {path}, which is expected") for path in sorted(expected)]
        reached: int
        holder: str | None
        reached, holder = min(bounds, key=lambda bound: bound[0], default=(after.greatest, None))
        return max(after.watermark, reached - delay, MIN_TIMESTAMP), holder

    def _paths(self, seen: Seen) -> list[str]:
        """The paths of all files so far, sorted."""
        return sorted([*self._seen.paths(seen), *self._waiting.paths])

    def holder(self, position: object) -> str | None:
        """A description of the file that the watermark waits for; None if there is none."""
        return _FolderPosition.of(position).holder if _is_current(position) else None

    def _position_of_release_0_1(self, plain: object) -> _FolderPosition:
        """The position of a checkpoint of release 0.1: all paths, and all files that are not read to their end."""
        unread, paths, watermark = cast("tuple[tuple[tuple[str, int, int, int], ...], tuple[str, ...], int]", plain)
        files = tuple(map(UnreadFile.of, unread))
        seen = self._seen.added(Seen(), (MatchedFile(path, UNKNOWN, UNKNOWN) for path in paths))
        greatest = MIN_TIMESTAMP
        if (times := self._reading.times) is not None:
            bounds = map(times.of_name, paths) if times.function is not None else (times.of(u.file) for u in files)
            greatest = max((bound.end for bound in bounds), default=MIN_TIMESTAMP)
        inferred = None
        # That release took names and types from the first file that was there at each start.
        if paths and (there := match(self._reading.pattern)):
            _, inferred = self._format.of(None, lambda: there)
        return _FolderPosition(files, seen, watermark, greatest, inferred)


def _is_changed_in_place(file: MatchedFile) -> bool:
    """Whether a file of this machine has been written to since it was taken; its folder does not tell that."""
    path = file.path.removeprefix("file://")
    if is_url(path) or file.size == UNKNOWN:
        return False
    try:
        now = os.stat(path)
    except OSError:
        return False
    # What copies files may set their times back when it has copied them.
    return now.st_size != file.size or now.st_mtime_ns // 1000 > file.modified_us


def _is_current(position: object) -> bool:
    """Whether a position is in the present format."""
    return isinstance(position, tuple) and position[:1] == (_FORMAT_VERSION,)
