"""Which folders' names are known to be on the disk, so that a write need not bring all of them there again."""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from threading import Lock

_MOST = 16


class _Pin:
    """A folder held open: while it is, no other folder gets its number."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder, os.O_RDONLY)

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)

    def is_at(self, folder: Path) -> bool:
        """Whether the folder of that name is still this one, and not one made after this one was deleted."""
        mine, its = os.fstat(self._descriptor), folder.stat()
        return (mine.st_dev, mine.st_ino) == (its.st_dev, its.st_ino)


class LastingFolders:
    """Folders of one process whose names will survive a loss of power. For several threads."""

    def __init__(self) -> None:
        self._pins: OrderedDict[Path, _Pin] = OrderedDict()
        self._lock = Lock()

    def sync(self, file: Path, root: Path) -> None:
        """Bring a file that is new, its name, and the names of the folders from `root` to it, to the disk."""
        fsync(file)
        self.keep(file.parent, root)

    def keep(self, folder: Path, root: Path) -> None:
        """Bring the names in a folder, and the names of the folders from `root` to it, to the disk."""
        # A file's name is in its folder, and a folder's in the one above: once it is there it stays.
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
    """Bring a file or folder to the disk."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
