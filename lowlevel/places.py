"""Where keys lie: their bytes and rows, remembered by a process from task to task (paper §4.2)."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lowlevel.coder import encode_key, row_of

MOST = 50_000
"""Keys that are remembered: some 15 MB."""
_LONGEST = 256
"""Bytes of an encoding that is remembered; longer ones are made again."""

Place = tuple[bytes, bytes]
"""A key's encoding and its row."""


class Places:
    """Encodings and rows of the keys that came last; most keys come again.

    There are two generations. What comes moves to the younger one; when that is full, the older one goes and the
    younger takes its place. So what comes often stays, however many keys come once. Of keys asked for together no more
    are taken in than a generation holds, the first ones: what comes often comes early, and would be gone at the end.

    >>> places = Places(most=4)
    >>> places.of(["a", "b", "a"]) == [(b"sa", row_of(b"sa")), (b"sb", row_of(b"sb")), (b"sa", row_of(b"sa"))]
    True
    >>> [len(places) for key in "cdaefga" if places.of([key])]
    [3, 4, 3, 4, 3, 4, 3]
    >>> places = Places(most=4)
    >>> places.of(list("stuv")) == [place for key in "stuv" for place in Places().of([key])], len(places)
    (True, 2)
    """

    def __init__(self, most: int = MOST) -> None:
        self._half = most // 2
        self._young: dict[object, Place] = {}
        self._old: dict[object, Place] = {}
        self._left = self._half
        """Keys that are still taken in of those asked for together."""

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(self, keys: Sequence[object]) -> list[Place]:
        """The place of each key; keys that are bytes are encoded already."""
        self._left = self._half
        return [place or self._find(key) for key, place in zip(keys, map(self._young.get, keys), strict=True)]

    def _find(self, key: object) -> Place:
        """The place of a key that is not in the younger generation, or was not when it was looked for."""
        place = self._old.pop(key, None) if self._left else self._old.get(key)
        if place is None:
            encoded = key if isinstance(key, bytes) else encode_key(key)
            place = (encoded, row_of(encoded))
            if len(encoded) > _LONGEST:
                return place
        if self._left:
            self._left -= 1
            if len(self._young) >= self._half:
                self._old, self._young = self._young, {}
            self._young[key] = place
        return place
