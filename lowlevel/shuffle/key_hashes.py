"""The encodings and hashes of keys on their way to an interval (paper §4.2), kept by the process from task to task."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lowlevel.coders.coder import encode_key, joined_hashes, key_hash_of

MOST = 50_000
"""Number of keys in the cache: some 15 MB."""
_LONGEST = 256
"""Largest encoding in the cache, in bytes."""
HashedKey = tuple[bytes, bytes]
"""The encoding of a key, and the 16-byte hash of the encoding."""


class KeyHashCache:
    """A cache of two generations, each of up to `most` / 2 keys.

    A lookup moves a key to the younger generation. A full younger generation becomes the older one, whose keys are
    removed. So frequent keys stay, however many rare keys there are. In one call only the first keys enter, at most a
    generation: frequent keys come early, and later keys would replace them.

    Args:
        most: Largest number of keys in the cache.

    >>> cache = KeyHashCache(most=4)
    >>> cache.of(["a", "b"]) == [(b"sa", key_hash_of(b"sa")), (b"sb", key_hash_of(b"sb"))]
    True
    >>> [len(cache) for key in "cdaefga" if cache.of([key])]
    [3, 4, 3, 4, 3, 4, 3]
    >>> cache = KeyHashCache(most=4)
    >>> cache.of(list("stuv")) == [hashed for key in "stuv" for hashed in KeyHashCache().of([key])], len(cache)
    (True, 2)
    """

    def __init__(self, most: int = MOST) -> None:
        self._half = most // 2
        self._young: dict[object, HashedKey] = {}
        self._old: dict[object, HashedKey] = {}
        self._room = self._half
        """Number of further keys that may enter in the current call."""

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(self, keys: Sequence[object]) -> list[HashedKey]:
        """The encoding and hash of each key; keys of type `bytes` are encodings already."""
        self._room = self._half
        return [hashed or self._find(key) for key, hashed in zip(keys, map(self._young.get, keys), strict=True)]

    def _find(self, key: object) -> HashedKey:
        """The encoding and hash of a key that was not in the younger generation at the start of the call."""
        hashed = self._old.pop(key, None) if self._room else self._old.get(key)
        if hashed is None:
            encoded = key if isinstance(key, bytes) else encode_key(key)
            hashed = (encoded, key_hash_of(encoded))
            if len(encoded) > _LONGEST:
                return hashed
        if self._room:
            self._room -= 1
            if len(self._young) >= self._half:
                self._old, self._young = self._young, {}
            self._young[key] = hashed
        return hashed

    def joined(self, encoded: Sequence[bytes]) -> bytes:
        """The hashes of encoded keys, one behind the other. So many that they would not stay do not enter."""
        if len(encoded) > self._half:
            return joined_hashes(encoded)
        return b"".join([key_hash for _, key_hash in self.of(encoded)])
