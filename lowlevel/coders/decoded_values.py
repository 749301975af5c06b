"""Decoded immutable values that a process keeps from bundle to bundle (MillWheel paper §6.2, §8.3: soft state)."""

from __future__ import annotations

from headrace.lowlevel.class_lookup import loads
from headrace.lowlevel.coders.immutable_values import is_immutable

_LEAST_BYTES = 100
"""Length of a pickle from which it is worth keeping: one that names a class, or a tuple of thirty numbers."""
_EXPANSION = 10
"""Upper estimate of an object's bytes for each byte of its pickle."""
_ENTRY_BYTES = 200
"""Upper estimate of the bytes of an entry without its object."""
_REST = 10
"""Number of values for each entry of a generation that are not taken after one of which little was read."""
_MISSING = object()


class DecodedValues:
    """Unpickled values by the bytes of their pickles, within `limit` bytes.

    A value stands for these very bytes, which are read in any case. So nothing needs to be told to the cache: commits
    of other processes, attempts that were given up, and keys that have moved all show in the bytes. All readers share a
    value, so only those are kept that user code cannot change (`is_immutable`).

    A value is taken when a visit of its key has left it as it was, as the same bytes are read again then. The value of
    a state that changes with each visit would be looked for in vain, and looking at its parts takes as long as
    unpickling it (`benchmarks/cache.py`). Short pickles are never kept: unpickling them is as quick as finding them.

    Entries are in two generations. When the young one has half of the limit, it becomes the old one, and what is left
    of the old one goes; an entry that is read becomes young again. If less was read of a generation than it has
    entries, as when there are more keys than the limit has room for, nothing is taken for a while.

    >>> from headrace.lowlevel.class_lookup import dumps
    >>> values, data = DecodedValues(limit=100_000), dumps(tuple(range(1000, 1100)))
    >>> first = values.decode(data)
    >>> values.left_unchanged(data, first)
    >>> values.decode(data) is first
    True
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Greatest number of bytes (an upper estimate)."""
        self.hits = 0
        """Number of pickles whose value was there."""
        self.misses = 0
        """Number of pickles, long enough to be kept, whose value was not there although others were."""
        self._young: dict[bytes, object] = {}
        """Without entries only while there are no old ones."""
        self._old: dict[bytes, object] = {}
        self._young_bytes = self._old_bytes = 0
        self._hits_before = 0
        """Number of hits before the young generation began."""
        self._resting = 0
        """Number of values that are not taken before the next one is."""

    @property
    def used(self) -> int:
        """Upper estimate of the bytes in use."""
        return self._young_bytes + self._old_bytes

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def decode(self, data: bytes) -> object:
        """The value that is pickled in `data`, which may be shared. Raises the errors of `loads`."""
        if not self._young or len(data) < _LEAST_BYTES:
            return loads(data)
        value = self._young.get(data, _MISSING)
        if value is _MISSING:
            value = self._old.pop(data, _MISSING) if self._old else _MISSING
            if value is _MISSING:
                self.misses += 1
                return loads(data)
            self._old_bytes -= _size(data)
            self._put(data, value)
        self.hits += 1
        return value

    def holds(self, data: bytes, value: object) -> bool:
        """Whether `value` is the object that stands for `data`; pickling it would give `data` again."""
        return len(data) >= _LEAST_BYTES and self._young.get(data, _MISSING) is value

    def left_unchanged(self, data: bytes, value: object) -> None:
        """Keep a value that was unpickled from `data` and is pickled to `data` again, if it can be kept."""
        if len(data) < _LEAST_BYTES or 2 * _size(data) > self.limit or data in self._young:
            return
        if self._resting:
            self._resting -= 1
        elif is_immutable(value):
            if self._old.pop(data, _MISSING) is not _MISSING:
                self._old_bytes -= _size(data)
            self._put(data, value)

    def resize(self, limit: int) -> None:
        """Change the limit, in bytes; what is too much goes, older entries first."""
        self.limit = limit
        if self._young_bytes > limit:
            self._young, self._young_bytes = {}, 0
        if self.used > limit or not self._young:
            self._old, self._old_bytes = {}, 0

    def _put(self, data: bytes, value: object) -> None:
        size = _size(data)
        if 2 * (self._young_bytes + size) > self.limit and self._young:
            self._age()
        self._young[data] = value
        self._young_bytes += size

    def _age(self) -> None:
        """Make the young generation the old one."""
        if self._old and self.hits - self._hits_before < len(self._young):
            self._resting = _REST * len(self._young)
        self._old, self._old_bytes = self._young, self._young_bytes
        self._young, self._young_bytes, self._hits_before = {}, 0, self.hits


def _size(data: bytes) -> int:
    return _EXPANSION * len(data) + _ENTRY_BYTES
