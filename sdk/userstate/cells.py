"""What: the part of a key's storage that belongs to one window of a stateful step (MillWheel paper §4.4)."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lowlevel.topology.computation import Context

STATE = b"s"
"""First byte of the names of all cells of a window's state; length and code of the window follow."""
_LENGTH = 2


def prefix_of(code: bytes) -> bytes:
    """The prefix of the names of all cells of the window with this code."""
    return STATE + len(code).to_bytes(_LENGTH, "big") + code


class Cells:
    """The cells of one window, by name; records whether cells were written or erased."""

    __slots__ = ("context", "erased", "prefix", "written")

    def __init__(self, context: Context, prefix: bytes) -> None:
        self.context = context
        """Storage of the key."""
        self.prefix = prefix
        """Prefix of the cells' names in the storage of the key."""
        self.written = False
        """Whether a cell was written."""
        self.erased = False
        """Whether a cell was erased."""

    def read(self, name: bytes) -> bytes | None:
        """Contents of a cell; None if there is no such cell."""
        return self.context.read(self.prefix + name)

    def write(self, name: bytes, data: bytes) -> None:
        """Replace a cell's contents."""
        self.context.write(self.prefix + name, data)
        self.written = True

    def erase(self, name: bytes) -> None:
        """Delete a cell."""
        self.context.write(self.prefix + name, None)
        self.erased = True

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Names and contents of the cells whose names begin with `prefix`, ordered by name."""
        length = len(self.prefix)
        return ((cell[length:], data) for cell, data in self.context.scan(self.prefix + prefix))

    def erase_all(self, prefix: bytes = b"") -> None:
        """Delete all cells whose names begin with `prefix`."""
        self.context.erase(self.prefix + prefix)
        self.erased = True
