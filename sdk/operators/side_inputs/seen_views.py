"""What a shard of a gate stores where its main input may have retractions: which views elements were processed with.

A retraction must give the outputs that it takes back, so it is processed with the contents of the side inputs that its
element has seen. A view that is replaced is kept as long as such an element may be retracted: until it is, or until its
window closes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import cast

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.errors import KeyEncodingError
from headrace.lowlevel.topology.computation import Context
from headrace.sdk.windows.window_namespace import WindowNamespace

_SEEN = b"s"
"""First byte of the names of cells with the versions that equal elements of a window have seen; length and code of the
window and a hash of the element follow."""
_USES = b"u"
"""First byte of the names of cells with the number of elements that have seen a view; see `_view`."""
_KEPT = b"k"
"""First byte of the names of cells with the values of a view that was replaced; see `_view`."""
CLOSING = "seen "
"""Prefix of the tag of the timer that waits for the closing of a window of the main input."""

Versions = Sequence[bytes]
"""The version of the view of each side input."""


class SeenViews:
    """Versions of views that elements have seen, in the cells of a key; `context` is that of the bundle and key."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._uses: Counter[bytes] = Counter()
        """Changes of the numbers of uses, until the end of the bundle."""
        self._timed: set[str] = set()
        """Tags of the windows whose timer this bundle has set."""

    def note(self, main: WindowNamespace, value: object, sides: Sequence[WindowNamespace], versions: Versions) -> None:
        """Note that an element in a window has seen views."""
        cell = _seen(main) + element_hash(value)
        seen = [(side.code, version) for side, version in zip(sides, versions, strict=True)]
        self._write(cell, [*self._read(cell), seen])
        self._uses.update(_view(at, *each) for at, each in enumerate(seen))
        if main.tag not in self._timed:
            self._timed.add(main.tag)
            self._context.set_timer(f"{CLOSING}{main.tag}", main.closes)

    def take(self, main: WindowNamespace, value: object) -> Versions | None:
        """The versions that an element saw, which is retracted now; None if that is not known."""
        cell = _seen(main) + element_hash(value)
        seen = self._read(cell)
        if not seen:
            return None
        first, *others = seen
        self._write(cell, others)
        self._uses.subtract(_view(at, *each) for at, each in enumerate(first))
        return [version for _, version in first]

    def keep(self, number: int, code: bytes, version: bytes, data: bytes) -> None:
        """Keep a view that is about to be replaced, if an element has seen it."""
        name = _view(number, code, version)
        if self._context.read(_USES + name) is not None:
            self._context.write(_KEPT + name, data)

    def values(self, number: int, code: bytes, version: bytes) -> list[object] | None:
        """The contents of a view that was replaced, as a new list; None if it is not kept."""
        data = self._context.read(_KEPT + _view(number, code, version))
        return None if data is None else cast("list[object]", loads(data))

    def close(self, main: WindowNamespace) -> None:
        """Forget the elements of a window that has closed."""
        for cell, data in list(self._context.scan(_seen(main))):
            for seen in loads(data):
                self._uses.subtract(_view(at, *each) for at, each in enumerate(seen))
            self._context.write(cell, None)

    def finish(self) -> None:
        """End the bundle: write the numbers of uses, and delete views that no element has seen."""
        for name, change in self._uses.items():
            count = int(self._context.read(_USES + name) or b"0") + change
            self._context.write(_USES + name, b"%d" % count if count > 0 else None)
            if count <= 0:
                self._context.write(_KEPT + name, None)

    def _read(self, cell: bytes) -> list[list[tuple[bytes, bytes]]]:
        data = self._context.read(cell)
        return [] if data is None else cast("list[list[tuple[bytes, bytes]]]", loads(data))

    def _write(self, cell: bytes, seen: Sequence[object]) -> None:
        self._context.write(cell, dumps(list(seen)) if seen else None)


def element_hash(value: object) -> bytes:
    """A hash that equal elements have in common.

    >>> element_hash({"id": 1}) == element_hash({"id": 1}) != element_hash({"id": 2})
    True
    """
    try:
        code = encode_key(value)
    except KeyEncodingError:
        code = dumps(value)
    return blake2b(code, digest_size=16).digest()


def _seen(main: WindowNamespace) -> bytes:
    return _SEEN + len(main.code).to_bytes(2, "big") + main.code


def _view(number: int, code: bytes, version: bytes) -> bytes:
    """The name of a view: number of the side input, length and code of its window, version."""
    return bytes([number]) + len(code).to_bytes(2, "big") + code + version
