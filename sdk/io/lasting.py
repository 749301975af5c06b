"""Files that a loss of power does not take back: what is written to a disk of this machine is synced.

What a store elsewhere needs for it is in `docs/connectors.md`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
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
    """Return when what was renamed, made or removed in folders is on the disk, so far as they are there."""
    if not isinstance(system, fs.LocalFileSystem):
        return
    found = [folder for place in set(places) if (folder := Path(place or "/").resolve()).is_dir()]
    if found:
        top = Path(os.path.commonpath(found))
        below = {one for folder in found for one in (folder, *folder.parents) if top in one.parents}
        try:
            for folder in sorted(below):
                folders.fsync(folder)
            _known.keep(top, _root(top))
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise


def _root(folder: Path) -> Path:
    """The folder above which no name can be new: where a disk is mounted, or below what may not be read."""
    while not os.path.ismount(folder) and os.access(folder.parent, os.R_OK):
        folder = folder.parent
    return folder
