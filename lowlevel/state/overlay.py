"""The cells of a key: committed cells merged with the changes of a bundle (MillWheel paper §4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge


def overlaid(
    stored: Iterator[tuple[bytes, bytes]], changed: list[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, bytes]]:
    """Merge stored and changed cells of a key, without the cell `b""`, in order of names; reads lazily.

    Args:
        stored: Name and contents of stored cells, in order of names.
        changed: Name and new contents, None for a removed cell, in order of names.

    >>> list(overlaid(iter([(b"", b"state"), (b"a", b"1"), (b"c", b"3")]), [(b"a", None), (b"b", b"2")]))
    [(b'b', b'2'), (b'c', b'3')]
    """
    names = {cell for cell, _ in changed}
    unchanged = ((cell, data) for cell, data in stored if cell and cell not in names)
    yield from ((cell, data) for cell, data in merge(unchanged, changed) if data is not None)
