"""Objects in a local directory, on the disk before anybody is told of them (MillWheel paper §7.1).

A write is a file under a temporary name in the root, synced; then its name, by a link that fails if the name is taken
or by a replacing rename; then its folder, synced. A loss of power leaves a whole object or none, never an empty one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from headrace.lowlevel import folders
from headrace.lowlevel.folders import LastingFolders

_TEMPORARY = "write#"
"""Followed by digits: names of obstore's own kind for files that are not finished, which it never lists."""
_NUMBERS = count()
_TRIES = 10
_SHARED = 0o666
"""For the umask to restrict, as with any other new file."""


class LocalObjects:
    """Writes into a directory, which is made by `make` and never again.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     objects = LocalObjects(Path(place))
    ...     objects.put_if_absent("a/b", b"1"), objects.put_if_absent("a/b", b"2"), (Path(place) / "a/b").read_bytes()
    (True, False, b'1')
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders = LastingFolders()
        self._lasts = False
        """Whether the root's own name is known to be on the disk."""

    def make(self) -> None:
        """Make the directory with those that lead to it, unless it is there."""
        missing = []
        folder = self.root
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        self.root.mkdir(parents=True, exist_ok=True)
        for made in reversed(missing):
            _keep_name(made)
        self._lasts = bool(missing)

    def put(self, path: str, data: bytes) -> None:
        """Write an object, replacing one of that name. Raises OSError."""
        self._place(path, data, os.replace)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object unless the name is taken. Raises OSError."""
        try:
            self._place(path, data, os.link)
        except FileExistsError:
            # Its writer may have come no further than the name, and whoever is told of it builds on it.
            self._keep(path)
            return False
        return True

    def _place(self, path: str, data: bytes, name: Callable[[Path, Path], None]) -> None:
        final = self.root / path
        for attempt in range(_TRIES):
            # First, as it fails if the root is gone: only folders in it are made here.
            temporary = self._written(data)
            try:
                self._make_folders(final.parent)
                name(temporary, final)
                break
            except FileNotFoundError:
                # A folder goes with its last object, also between the two steps.
                if attempt == _TRIES - 1:
                    raise
            finally:
                temporary.unlink(missing_ok=True)
        self._keep(path)

    def _written(self, data: bytes) -> Path:
        """A new temporary file, on the disk."""
        while True:
            # Processes of other hosts may have the same number.
            path = self.root / f"{_TEMPORARY}{os.getpid()}{next(_NUMBERS):06}"
            with suppress(FileExistsError):
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _SHARED)
                break
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(descriptor)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def _make_folders(self, folder: Path) -> None:
        if folder == self.root or folder.is_dir():
            return
        self._make_folders(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir()
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, str(folder))

    def _keep(self, path: str) -> None:
        # An object that is gone already was somebody's garbage.
        with suppress(FileNotFoundError):
            self._folders.keep((self.root / path).parent, self.root)
        if not self._lasts:
            _keep_name(self.root)
            self._lasts = True

    def sweep(self, before_ns: int) -> None:
        """Delete temporary files that were last written to before that: of processes that died, or as good as.

        A writer that is that slow finds its file gone and writes it again.
        """
        for entry in os.scandir(self.root):
            if entry.name.startswith(_TEMPORARY):
                with suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime_ns < before_ns:
                        os.unlink(entry.path)


def _keep_name(folder: Path) -> None:
    # Who may not read the folder above has not made this one: whoever did is to bring its name to the disk.
    with suppress(PermissionError):
        folders.fsync(folder.parent)
