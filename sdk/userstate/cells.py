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

    __slots__ = ("context", "erased", "prefix", "written")

    def __init__(self, context: Context, prefix: bytes) -> None:
        self.context = context
        """Where they are."""
        self.prefix = prefix
        """What their names begin with there."""
        self.written = False
        """Whether something was put in."""
        self.erased = False
        """Whether something was taken out."""

    def read(self, name: bytes) -> bytes | None:
        """Contents of a cell; None if there is none."""
        return self.context.read(self.prefix + name)

    def write(self, name: bytes, data: bytes) -> None:
        """Replace a cell's contents."""
        self.context.write(self.prefix + name, data)
        self.written = True

    def erase(self, name: bytes) -> None:
        """Take a cell away."""
        self.context.write(self.prefix + name, None)
        self.erased = True

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Cells whose names begin with a prefix, by name."""
        length = len(self.prefix)
        return ((cell[length:], data) for cell, data in self.context.scan(self.prefix + prefix))

    def erase_all(self, prefix: bytes = b"") -> None:
        """Take all cells away whose names begin with a prefix."""
        self.context.erase(self.prefix + prefix)
        self.erased = True
