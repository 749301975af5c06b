"""Room on the disk for the copies of state of a host: told by name where there is none (paper §6.2)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp

import lmdb

from headrace.lowlevel.errors import HeadraceError

MAX_READERS = 1024
"""Of an environment."""
_LOCK_BYTES = 72 << 10
"""What LMDB's lock file takes for that many."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class CopyError(HeadraceError, OSError):
    """There is no room for a copy of state. Nothing of the epoch is committed; the checkpoint has all of the state."""


def reserve_lock(path: Path) -> None:
    """Give a new environment a lock file that has all of its blocks, or none at all.

    LMDB makes it without, and maps it: on a full disk, the first look at it would kill the process (SIGBUS). Zeros are
    written, as not every system that is POSIX can reserve blocks (macOS has no `posix_fallocate`).
    """
    lock = path / "lock.mdb"
    if lock.exists():
        return
    # Complete before it has its name: another process may open the environment at the same time.
    descriptor, temporary = mkstemp(dir=path, prefix="lock-")
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            if file.write(bytes(_LOCK_BYTES)) < _LOCK_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with suppress(FileExistsError):
            os.link(temporary, lock)
    finally:
        os.unlink(temporary)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Raise `CopyError` naming the copy, its remedy and its place for what LMDB or the system says of a full disk."""
    try:
        yield
    except (lmdb.Error, OSError) as error:
        number = getattr(error, "errno", None)
        full = number in _FULL or any(os.strerror(each) in str(error) for each in _FULL)
        if not full or isinstance(error, CopyError):
            raise
        raise CopyError(
            f"cannot write the copy of state {path}: {str(error).lower()}; free some space there, or name another "
            "place in HEADRACE_COPIES, and start again; nothing of this epoch is committed"
        ) from error
