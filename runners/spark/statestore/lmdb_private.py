"""Properties of lmdb and LMDB that headrace uses although their documentation does not promise them (LMDB 0.9).

At an upgrade of lmdb, check each name here against the new sources, and that the files of an environment are still
called `data.mdb` and `lock.mdb`; then run `tests/unit/runners/spark` and
`tests/spark/faults/test_full_disk.py`.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import lmdb

if TYPE_CHECKING:
    Database = lmdb._Database
    """A table, as `Environment.open_db` returns it."""
    Transaction = lmdb.Transaction[bytes]

DAMAGE: tuple[type[Exception], ...] = (lmdb.Error,)
"""Errors that LMDB raises for a damaged file, or a file that is no database. Make the store again, once."""
LOCK_FILE_BYTES = 72 << 10
"""Size of LMDB's lock file for 1,024 readers, rounded up."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def is_full_disk(error: lmdb.Error | OSError) -> bool:
    """Whether LMDB or the system reports a full disk. Errors of LMDB end with the system's text.

    LMDB says that input or output failed if the disk takes only a part of what it writes, as the last bytes of a disk.
    """
    known = {*_FULL, errno.EIO} if isinstance(error, lmdb.Error) else _FULL
    return getattr(error, "errno", None) in known or any(os.strerror(each) in str(error) for each in known)
