"""Full disks under state stores: an error that names the folder and the remedy (paper §6.2)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from tempfile import mkstemp

import lmdb

from headrace.lowlevel.errors import HeadraceError
from headrace.runners.spark.statestore.lmdb_private import LOCK_FILE_BYTES, is_full_disk

MAX_READERS = 1024
"""Processes and threads that may read an environment at once."""


class StateDiskError(HeadraceError, OSError):
    """The disk has no room for a state store. Nothing of the epoch is committed; the checkpoint has all state."""


def reserve_lock(path: Path) -> None:
    """Make the lock file of a new environment with all of its blocks, or raise OSError and make none.

    LMDB would make a sparse file and map it: on a full disk, the first access would kill the process (SIGBUS). The file
    is filled with zeros, as not every POSIX system can reserve blocks (macOS has no `posix_fallocate`).
    """
    lock = path / "lock.mdb"
    if lock.exists():
        return
    # The file gets its name when it is complete, as another process may open the environment at the same time.
    descriptor, temporary = mkstemp(dir=path, prefix="lock-")
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            if file.write(bytes(LOCK_FILE_BYTES)) < LOCK_FILE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with suppress(FileExistsError):
            os.link(temporary, lock)
    finally:
        os.unlink(temporary)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Raise `StateDiskError` if LMDB or the system reports a full disk; it names the folder and the remedy."""
    try:
        yield
    except (lmdb.Error, OSError) as error:
        if not is_full_disk(error) or isinstance(error, StateDiskError):
            raise
        raise StateDiskError(
            f"cannot write the state store {path}: {str(error).lower()}; free some space there "
            f"({_free(path):,} bytes are free), or name another folder in HEADRACE_STATE_STORES, and start "
            "again; nothing of this epoch is committed"
        ) from error


def _free(path: Path) -> int:
    """Number of free bytes at a path, which need not exist."""
    return next(disk_usage(folder).free for folder in (path, *path.parents) if folder.exists())
