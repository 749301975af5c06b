"""Looks for new files of a pattern, at a cost that grows with what is new rather than with what lies there."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyarrow import fs

from headrace.sdk.io.files.filesystem import (
    MatchedFile,
    Search,
    matched_file,
    reaching,
    say_link_to_nothing,
    single_file,
)
from headrace.sdk.io.path_patterns import Places, walked

_TRUSTED_NS = 10_000_000_000
"""Nanoseconds for which a folder counts as unchanged because the time of its last change is: not all file systems tell
it."""
_TICK_NS = 2_000_000_000
"""Nanoseconds in which a folder may change twice at what its file system takes for one time."""

_NEVER: Places = frozenset()
"""What was looked for in a folder at which nobody has looked."""


@dataclass
class _Folder:
    """A folder of this machine as it was read last."""

    changed_ns: int
    """Time of its last change."""
    read_ns: int
    """When it was read."""
    files: dict[str, int]
    """Name of each entry that is no folder -> its number in the file system, which a replaced file does not keep."""
    folders: list[tuple[str, bool]]
    """Name of each folder, and whether it is a link."""

    def is_current(self, changed_ns: int, now_ns: int) -> bool:
        """Whether the folder need not be read again."""
        settled = self.changed_ns < self.read_ns - _TICK_NS
        return changed_ns == self.changed_ns and settled and 0 <= now_ns - self.read_ns < _TRUSTED_NS


@dataclass
class DirectoryListing:
    """The files of a pattern that are new since the last look.

    On this machine a folder is read only if it has changed, and only new files are examined. Elsewhere each look lists
    all files.
    """

    pattern: str
    now_ns: Callable[[], int] = time.time_ns
    _folders: dict[str, _Folder] = field(default_factory=dict, repr=False)
    _places: dict[str, Places | None] = field(default_factory=dict, repr=False)
    """What of the pattern was looked for in each folder."""
    _elsewhere: dict[str, int] = field(default_factory=dict, repr=False)
    """Path -> time of the last change, of all files at the last look; for other file systems."""
    is_missing: bool = False
    """Whether the folder did not exist at the last look; other file systems do not tell."""

    def look(self) -> list[MatchedFile]:
        """Files that were not there at the last look, or were replaced since; in no order.

        Raises:
            ValueError: A match is neither a file nor a folder, or its name is not UTF-8.
            ReachError: The file system of a URL does not answer.
        """
        with reaching(self.pattern):
            if (single := single_file(self.pattern)) is not None:
                return [single] if self._is_new(single) else []
            search = Search.of(self.pattern)
            if isinstance(search.system, fs.LocalFileSystem):
                return list(self._local(search))
            return self._remote(search)

    def forget(self, path: str) -> None:
        """Take the file for new when it is there again."""
        self._elsewhere.pop(path, None)
        folder, name = os.path.split(path)
        if (known := self._folders.get(folder)) is not None:
            known.files.pop(name, None)

    def _is_new(self, file: MatchedFile) -> bool:
        before, self._elsewhere = self._elsewhere, {file.path: file.modified_us}
        return before != self._elsewhere

    def _remote(self, search: Search) -> list[MatchedFile]:
        infos = {info.path: info for info in search.infos()}
        before, self._elsewhere = self._elsewhere, {path: info.mtime_ns or 0 for path, info in infos.items()}
        new = [path for path, changed in self._elsewhere.items() if before.get(path) != changed]
        return [matched_file(self.pattern, infos[path]) for path in new if search.expression.fullmatch(path)]

    def _local(self, search: Search) -> Iterator[MatchedFile]:
        before, self._folders = self._folders, {}
        places_before, self._places = self._places, {}
        self.is_missing = not os.path.isdir(search.folder)

        def listed(folder: str) -> list[tuple[str, bool]]:
            self._folders[folder] = self._read(folder, before.get(folder))
            return self._folders[folder].folders

        for folder, places in walked(search.folder, search.below, listed):
            self._places[folder] = places
            files = self._folders[folder].files
            known = before[folder].files if places_before.get(folder, _NEVER) == places else {}
            for name in [] if files is known else [name for name, number in files.items() if known.get(name) != number]:
                if search.matches(folder, places, name) and (file := self._examined(folder, name)) is not None:
                    yield file

    def _read(self, folder: str, before: _Folder | None) -> _Folder:
        """The folder as it is now. Raises `FileNotFoundError` if it does not exist."""
        now = self.now_ns()
        changed = os.stat(folder).st_mtime_ns
        if before is not None and before.is_current(changed, now):
            return before
        files: dict[str, int] = {}
        folders: list[tuple[str, bool]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append((entry.name, entry.is_symlink()))
                else:
                    files[entry.name] = entry.inode()
        return _Folder(changed, now, files, folders)

    def _examined(self, folder: str, name: str) -> MatchedFile | None:
        """The file; None if it is gone again."""
        path = os.path.join(folder, name)
        try:
            path.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"a file in {folder} has the name {os.fsencode(name)!r}, which is not UTF-8; rename it, or choose a "
                "pattern that leaves it out"
            ) from None
        try:
            found = os.stat(path)
        except FileNotFoundError:
            del self._folders[folder].files[name]
            say_link_to_nothing(path)
            return None
        kind = fs.FileType.File if stat.S_ISREG(found.st_mode) else fs.FileType.Unknown
        info = fs.FileInfo(path, kind, size=found.st_size, mtime_ns=found.st_mtime_ns)
        return matched_file(self.pattern, info)
