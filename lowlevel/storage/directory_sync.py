"""Synchronization of directories to disk, with a cache of the folders whose names are on the disk already.

Windows cannot open a folder: there the names of files are as durable as the file system makes them by itself.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from threading import Lock

try:
    import fcntl
except ModuleNotFoundError:
    # Windows has none.
    _FULL_SYNC: int | None = None
else:
    _FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)
    """The request of fcntl(2) for it on macOS; other systems have none."""

_MOST = 16
_OPENS_FOLDERS = hasattr(os, "O_DIRECTORY")
"""Whether a folder can be opened, which POSIX has and Windows has not."""


class _Pin:
    """A folder that is held open, so that no other folder can get its inode number."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder, os.O_RDONLY)

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)

    def is_at(self, folder: Path) -> bool:
        """Whether the path still names this folder, and not one made after this folder was deleted."""
        pinned, named = os.fstat(self._descriptor), folder.stat()
        return (pinned.st_dev, pinned.st_ino) == (named.st_dev, named.st_ino)


class LastingFolders:
    """A cache of folders whose names would survive a power loss. It is safe to use from several threads."""

    def __init__(self) -> None:
        self._pins: OrderedDict[Path, _Pin] = OrderedDict()
        self._lock = Lock()

    def sync(self, file: Path, root: Path) -> None:
        """Write a new file, its name, and the names of the folders between `root` and the file to disk.

        Raises OSError.
        """
        fsync(file)
        self.keep(file.parent, root)

    def keep(self, folder: Path, root: Path) -> None:
        """Write the names in a folder, and the names of the folders between `root` and the folder, to disk.

        Raises OSError.
        """
        if not _OPENS_FOLDERS:
            return
        # A file's name is stored in its folder, and a folder's name in its parent folder.
        fsync(folder)
        while folder != root and not self._lasts(folder):
            pin = _Pin(folder)
            fsync(folder.parent)
            self._add(folder, pin)
            folder = folder.parent

    def _lasts(self, folder: Path) -> bool:
        with self._lock:
            pin = self._pins.get(folder)
            if pin is not None:
                self._pins.move_to_end(folder)
        return pin is not None and pin.is_at(folder)

    def _add(self, folder: Path, pin: _Pin) -> None:
        with self._lock:
            self._pins[folder] = pin
            self._pins.move_to_end(folder)
            while len(self._pins) > _MOST:
                self._pins.popitem(last=False)


def fsync(place: Path) -> None:
    """Write a file or folder to disk. Raises OSError."""
    if not _OPENS_FOLDERS and os.path.isdir(place):
        return
    # Windows syncs only what is opened for writing.
    descriptor = os.open(place, os.O_RDONLY if _OPENS_FOLDERS else os.O_RDWR)
    try:
        fsync_open(descriptor)
    finally:
        os.close(descriptor)


def fsync_open(descriptor: int) -> None:
    """Write an open file or folder to disk. Raises OSError.

    On macOS `fsync` leaves the bytes in the memory of the disk itself, which a power loss empties.
    """
    if _FULL_SYNC is not None:
        # Some file systems, such as those of the network, do not know it.
        with suppress(OSError):
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
    os.fsync(descriptor)
