"""Durable files: files written to a local disk are synced, so that a loss of power does not undo them."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

from headrace.lowlevel.storage import directory_sync

_lasting = directory_sync.LastingFolders()
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""Errors of file systems that cannot sync folders, as they make names durable by themselves."""


def keep_files(system: fs.FileSystem, paths: Iterable[str]) -> None:
    """Sync new local files and the names that lead to them. Raises `OSError`."""
    if isinstance(system, fs.LocalFileSystem):
        files = list(map(Path, paths))
        for file in files:
            directory_sync.fsync(file)
        keep_names(system, {str(file.parent) for file in files})


def keep_names(system: fs.FileSystem, folders: Iterable[str]) -> None:
    """Sync the names in existing local folders and the names that lead to these folders."""
    existing = _existing(system, folders)
    if existing:
        top = Path(os.path.commonpath(existing))
        sync_names(system, {str(f) for folder in existing for f in (folder, *folder.parents) if top in f.parents})
        with _sync_may_be_missing():
            _lasting.keep(top, _root(top))


def sync_names(system: fs.FileSystem, folders: Iterable[str]) -> None:
    """Sync the local folders that exist, so that renamed and removed files in them are durable."""
    for folder in sorted(_existing(system, folders)):
        with _sync_may_be_missing():
            directory_sync.fsync(folder)


def make_folders(system: fs.FileSystem, folders: Collection[str]) -> None:
    """Make folders durably: a loss of power does not remove them with the files moved into them."""
    for folder in folders:
        system.create_dir(folder, recursive=True)
    keep_names(system, map(folder_of, folders))


def folder_of(path: str) -> str:
    """The part of a path before its last slash."""
    return path.rpartition("/")[0]


def moved(system: fs.FileSystem, path: str, to: str) -> bool:
    """Rename a file; False if it does not exist."""
    try:
        system.move(path, to)
    except FileNotFoundError:
        return False
    return True


def _existing(system: fs.FileSystem, folders: Iterable[str]) -> list[Path]:
    if not isinstance(system, fs.LocalFileSystem):
        return []
    return [path for folder in set(folders) if (path := Path(folder or "/").resolve()).is_dir()]


@contextmanager
def _sync_may_be_missing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _root(folder: Path) -> Path:
    """The folder above which no name can be new: the mount point, or the last folder whose parent is not readable."""
    while not os.path.ismount(folder) and os.access(folder.parent, os.R_OK):
        folder = folder.parent
    return folder
