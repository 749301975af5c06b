"""Files that a loss of power does not take back: what is written to a disk of this machine is synced.

What a store elsewhere needs for it is in `docs/connectors.md`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

from headrace.lowlevel import folders

_known = folders.LastingFolders()
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""What file systems answer that keep names by themselves."""


def keep_files(system: fs.FileSystem, paths: Iterable[str]) -> None:
    """Return when new files, and the names that lead to them, are on the disk. Raises `OSError`."""
    if isinstance(system, fs.LocalFileSystem):
        files = list(map(Path, paths))
        for file in files:
            folders.fsync(file)
        keep_names(system, {str(file.parent) for file in files})


def keep_names(system: fs.FileSystem, places: Iterable[str]) -> None:
    """Return when the names in folders, and the names that lead to these, are on the disk, so far as they are there."""
    found = _folders(system, places)
    if found:
        top = Path(os.path.commonpath(found))
        sync_names(system, {str(one) for folder in found for one in (folder, *folder.parents) if top in one.parents})
        with _taken_at_its_word():
            _known.keep(top, _root(top))


def sync_names(system: fs.FileSystem, places: Iterable[str]) -> None:
    """Return when what was renamed or removed in folders is on the disk, so far as they are there."""
    for folder in sorted(_folders(system, places)):
        with _taken_at_its_word():
            folders.fsync(folder)


def make_folders(system: fs.FileSystem, places: Collection[str]) -> None:
    """Make folders that last: what is moved into one that a loss of power takes back is gone with it."""
    for place in places:
        system.create_dir(place, recursive=True)
    keep_names(system, map(folder_of, places))


def folder_of(path: str) -> str:
    """What a path says before its last slash."""
    return path.rpartition("/")[0]


def moved(system: fs.FileSystem, path: str, to: str) -> bool:
    """Rename a file; False if it is not there."""
    try:
        system.move(path, to)
    except FileNotFoundError:
        return False
    return True


def _folders(system: fs.FileSystem, places: Iterable[str]) -> list[Path]:
    if not isinstance(system, fs.LocalFileSystem):
        return []
    return [folder for place in set(places) if (folder := Path(place or "/").resolve()).is_dir()]


@contextmanager
def _taken_at_its_word() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _root(folder: Path) -> Path:
    """The folder above which no name can be new: where a disk is mounted, or below what may not be read."""
    while not os.path.ismount(folder) and os.access(folder.parent, os.R_OK):
        folder = folder.parent
    return folder
