"""Releases mapped pages of state stores from a worker's memory after many of them have been read.

LMDB maps its files into memory, so each page that is read counts as resident memory of the process until the file is
closed, and a bundle that fires many windows reads all pages. The page cache of the system holds these pages anyway. A
released page that is read again costs a page fault, which also brings its neighbours: 0.25 ms for 8 MiB.
"""

from __future__ import annotations

import os
from ctypes import c_size_t, c_void_p
from pathlib import Path

from headrace.runners.spark.memory.system import c_function, file_bytes

_GROWN = 8 << 20
"""Bytes of resident file pages by which a process may grow before it releases the pages of state stores."""
_OFTEN = 1 << 20
"""Bytes that are read between two checks of the resident size."""
_MAPS = Path("/proc/self/maps")
_DATA = "data.mdb"
"""Name of the data file of an LMDB environment."""
_DONTNEED = 4
"""The advice `MADV_DONTNEED` of madvise(2). Pages of a shared read-only mapping are read again from the file."""


class MappedPages:
    """Checks the resident size of mapped files after bulk reads and after tasks, and releases pages of open stores.

    Only the thread that opens, reads and closes the stores may use it. Mappings of other files are left alone: another
    thread may unmap one at any time, and its addresses may then belong to other memory.

    >>> pages = MappedPages()
    >>> pages.were_read(1 << 20)
    """

    def __init__(self) -> None:
        self._least = 0
        self._bytes = 0
        self._files: set[bytes] = set()

    def opened(self, folder: str | Path) -> None:
        """Note that the store in a folder has been opened."""
        self._files.add(_file_in(folder))

    def closed(self, folder: str | Path) -> None:
        """Note that the store in a folder is closed."""
        self._files.discard(_file_in(folder))

    def were_read(self, size: int) -> None:
        """Note a bulk read of `size` bytes of a store. Reads of single keys do not count: they are often repeated."""
        self._bytes += size
        if self._bytes >= _OFTEN:
            self.look()

    def look(self) -> None:
        """Release the pages of open stores if resident file pages have grown by more than 8 MiB."""
        self._bytes = 0
        held = file_bytes()
        if held > self._least + _GROWN:
            self.let_go()
            held = self._least = file_bytes()
        self._least = min(self._least, held)

    def let_go(self) -> None:
        """Release all resident pages of open stores; reads of the stores continue to work."""
        if (advise := c_function("madvise")) is None or not _MAPS.exists():
            return
        for line in _MAPS.read_bytes().splitlines():
            # The fields are: address, permissions, offset, device, inode, path.
            fields = line.split(maxsplit=5)
            # Only a shared read-only mapping is released: a private or writable one could lose data.
            if fields[1] == b"r--s" and fields[-1] in self._files:
                start, end = (int(bound, 16) for bound in fields[0].split(b"-"))
                advise(c_void_p(start), c_size_t(end - start), _DONTNEED)


def _file_in(folder: str | Path) -> bytes:
    """Return the path of the data file of a store, as /proc/self/maps gives it."""
    return os.fsencode(os.path.realpath(os.path.join(folder, _DATA)))


PAGES = MappedPages()
"""The `MappedPages` of this worker process."""
