"""The part of a key's storage that belongs to one window of a stateful step (MillWheel paper §4.4)."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lowlevel.computation import Context

STATE = b"s"
"""First byte of the names of all cells of a window's state; length and code of the window follow."""
_LENGTH = 2


def prefix_of(code: bytes) -> bytes:
    """What the names of a window's cells begin with."""
    return STATE + len(code).to_bytes(_LENGTH, "big") + code


class Cells:
    """Cells by name, as `Context` has them, inside one window; remembers which way the window's storage went."""

    __slots__ = ("_context", "_prefix", "erased", "written")

    def __init__(self, context: Context, prefix: bytes) -> None:
        self._context = context
        self._prefix = prefix
        self.written = False
        """Whether something was put in."""
        self.erased = False
        """Whether something was taken out."""

    def read(self, name: bytes) -> bytes | None:
        """Contents of a cell; None if there is none."""
        return self._context.read(self._prefix + name)

    def write(self, name: bytes, data: bytes) -> None:
        """Replace a cell's contents."""
        self._context.write(self._prefix + name, data)
        self.written = True

    def erase(self, name: bytes) -> None:
        """Take a cell away."""
        self._context.write(self._prefix + name, None)
        self.erased = True

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Cells whose names begin with a prefix, by name."""
        length = len(self._prefix)
        return ((cell[length:], data) for cell, data in self._context.scan(self._prefix + prefix))

    def erase_all(self, prefix: bytes = b"") -> None:
        """Take all cells away whose names begin with a prefix."""
        for name, _ in list(self.scan(prefix)):
            self.erase(name)
