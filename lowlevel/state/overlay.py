"""A key's cells as they are: committed ones below, what a bundle changed on top (paper §4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge


def overlaid(
    stored: Iterator[tuple[bytes, bytes]], changed: list[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, bytes]]:
    """Stored cells, but for `state`, with changed ones in their places; read no further than somebody asks.

    >>> list(overlaid(iter([(b"", b"state"), (b"a", b"1"), (b"c", b"3")]), [(b"a", None), (b"b", b"2")]))
    [(b'b', b'2'), (b'c', b'3')]
    """
    names = {cell for cell, _ in changed}
    unchanged = ((cell, data) for cell, data in stored if cell and cell not in names)
    yield from ((cell, data) for cell, data in merge(unchanged, changed) if data is not None)
