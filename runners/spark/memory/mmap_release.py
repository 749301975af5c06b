"""Pages of copies of state that lie in a worker's memory: they go when many have been read.

LMDB maps its files, so whatever is looked at stays in the process's resident size until the file is closed, and a
bundle that fires much looks at all of it. The system has these pages in its cache of the file anyway. A page that is
let go and looked at once more costs a fault, which brings its neighbours too: a quarter of a millisecond for 8 MiB.
"""

from __future__ import annotations

import os
from ctypes import c_size_t, c_void_p
from pathlib import Path

from headrace.runners.spark.system import c_function, file_bytes

_GROWN = 8 << 20
"""Bytes of files by which a process may grow before it lets those go that are of copies."""
_OFTEN = 1 << 20
"""Bytes that are read between two looks at how much has come."""
_MAPS = Path("/proc/self/maps")
_DATA = "data.mdb"
"""How LMDB calls its files."""
_DONTNEED = 4
"""`MADV_DONTNEED` of madvise(2); pages of a shared mapping that is only read are found again in the file."""


class CopyPages:
    """Looks how much of files lies in memory where a bulk of it was read, and when a task has done with its state.

    For one thread: that which opens, reads and closes the copies. Files that somebody else maps are left alone, as they
    may be closed at any time, and there is somebody's memory then.

    >>> pages = CopyPages()
    >>> pages.were_read(1 << 20)
    """

    def __init__(self) -> None:
        self._least = 0
        self._bytes = 0
        self._files: set[bytes] = set()

    def opened(self, folder: str | Path) -> None:
        """A copy is open."""
        self._files.add(_file_in(folder))

    def closed(self, folder: str | Path) -> None:
        """It no longer is."""
        self._files.discard(_file_in(folder))

    def were_read(self, size: int) -> None:
        """So many bytes of a copy were, in bulk. Keys here and there do not count: they may well be read again."""
        self._bytes += size
        if self._bytes >= _OFTEN:
            self.look()

    def look(self) -> None:
        """Let pages go if there are many more than there were when that was done last."""
        self._bytes = 0
        held = file_bytes()
        if held > self._least + _GROWN:
            self.let_go()
            held = self._least = file_bytes()
        self._least = min(self._least, held)

    def let_go(self) -> None:
        """All pages of open copies leave this process's memory; reading goes on as before."""
        if (advise := c_function("madvise")) is None or not _MAPS.exists():
            return
        for line in _MAPS.read_bytes().splitlines():
            # Address, permissions, offset, device, inode, path.
            fields = line.split(maxsplit=5)
            # A shared mapping that nobody writes to; a private one, or one for writing, has more to lose than time.
            if fields[1] == b"r--s" and fields[-1] in self._files:
                start, end = (int(bound, 16) for bound in fields[0].split(b"-"))
                advise(c_void_p(start), c_size_t(end - start), _DONTNEED)


def _file_in(folder: str | Path) -> bytes:
    """As the system names it."""
    return os.fsencode(os.path.realpath(os.path.join(folder, _DATA)))


PAGES = CopyPages()
"""Of this process."""
