"""The central watermark authority: an interval map of low watermarks for each computation (MillWheel paper §7.2).

Every owner of key intervals reports their low watermarks under its sequencer. An interval that does not report keeps
its last value; a stale report changes nothing; values never go back. What the authority knows is journaled with the
commit, a part for each computation, so that it can be spread over shards that know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

from headrace.lowlevel.sequencer import Sequencer
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.watermarkmap import Range, Values, WatermarkMap

__all__ = ["Authority", "Sequencer", "ShardedAuthority", "shard_of"]


class Authority:
    """Low watermark values by computation and interval; the lowest is the computation's.

    Consumers take minima over their senders themselves (`Propagation`), so the authority never leads them.

    >>> from headrace.lowlevel.intervals import IntervalMap
    >>> authority = Authority()
    >>> authority.assign("count", IntervalMap.evenly(2), Sequencer(1, 1))
    True
    >>> authority.report("count", 0, Sequencer(1, 1), 50)
    True
    >>> authority.low_watermark("count") == MIN_TIMESTAMP  # interval 1 has not reported yet
    True
    >>> authority.report("count", 1, Sequencer(1, 1), 40), authority.low_watermark("count")
    (True, 40)
    >>> authority.report("count", 1, Sequencer(0, 7), 60)  # an owner that was replaced
    False
    """

    def __init__(self) -> None:
        self._maps: dict[str, WatermarkMap] = {}
        self._parts: dict[str, bytes] = {}
        """Parts of the journal that are still true."""
        self.refused = 0
        """Stale reports and assignments so far."""

    def assign(self, computation: str, intervals: Iterable[Range], sequencer: Sequencer) -> bool:
        """Give a computation intervals under a new owner; False if there has been a later one.

        The new intervals may divide the key space in another way: each begins with the least value of those that it
        overlaps. Raises ValueError for intervals that do not divide it.
        """
        old = self._maps.get(computation)
        if old is not None and old.stale(sequencer):
            self.refused += 1
            return False
        new = WatermarkMap(computation, intervals, sequencer)
        if old is not None:
            new.take_over(old)
        self._maps[computation] = new
        self._parts.pop(computation, None)
        return True

    def remove(self, computation: str) -> None:
        """Forget a computation that has left the topology."""
        self._maps.pop(computation, None)
        self._parts.pop(computation, None)

    def report(self, computation: str, interval: int, sequencer: Sequencer, value: int) -> bool:
        """Take an owner's low watermark (microseconds UTC); False if it does not own the interval any more.

        The greatest sequencer seen is the owner's: whoever reports under a smaller one from then on is refused.
        """
        values = self._maps.get(computation)
        if values is None or not values.report(interval, sequencer, value):
            self.refused += 1
            return False
        self._parts.pop(computation, None)
        return True

    def report_all(
        self, computation: str, intervals: Sequence[int] | Values, sequencer: Sequencer, values: Sequence[int] | Values
    ) -> int:
        """`report` for many intervals of one owner at once; how many were refused."""
        known = self._maps.get(computation)
        refused = len(intervals) if known is None else known.report_all(intervals, sequencer, values)
        self.refused += refused
        self._parts.pop(computation, None)
        return refused

    def low_watermark(self, computation: str) -> int:
        """The computation's low watermark: the least of its intervals."""
        values = self._maps.get(computation)
        return MIN_TIMESTAMP if values is None else values.least()

    def values(self, computation: str) -> dict[int, int]:
        """Interval -> its low watermark, microseconds UTC."""
        values = self._maps.get(computation)
        return {} if values is None else values.by_number()

    def journal(self) -> dict[str, bytes]:
        """Computation -> the values of its intervals, to be committed with the epoch; `restore` reads it."""
        for computation, values in self._maps.items():
            if computation not in self._parts:
                self._parts[computation] = values.encode()
        return dict(self._parts)

    def restore(
        self, journal: Mapping[str, bytes], intervals: Mapping[str, Iterable[Range]], sequencer: Sequencer
    ) -> None:
        """Begin with what an earlier authority journaled, under a new owner.

        `intervals` are those that were committed with the journal. Raises ValueError if they cannot be.
        """
        for computation, part in journal.items():
            values = WatermarkMap(computation, intervals[computation], sequencer)
            values.restore(computation, part)
            self._maps[computation] = values
            self._parts[computation] = part


def shard_of(computation: str, shards: int) -> int:
    """The shard that a computation's watermarks are at, the same in every process.

    >>> shard_of("count", 1)
    0
    """
    return crc32(computation.encode("utf-8", "surrogatepass")) % shards


class ShardedAuthority:
    """An authority of several shards, each with the computations that `shard_of` gives it (paper §7.2).

    A shard is an `Authority` and needs nothing of the others: it can live in a process or on a machine of its own and
    commit its own part of the journal.

    >>> from headrace.lowlevel.intervals import IntervalMap
    >>> authority = ShardedAuthority(4)
    >>> authority.of("count").assign("count", IntervalMap.evenly(1), Sequencer(1, 1))
    True
    >>> authority.of("count").report("count", 0, Sequencer(1, 1), 40)
    True
    >>> authority.of("count").low_watermark("count"), list(authority.journal())
    (40, ['count'])
    """

    def __init__(self, shards: int) -> None:
        if shards < 1:
            raise ValueError(f"an authority cannot have {shards} shards; give 1 or more")
        self.shards = tuple(Authority() for _ in range(shards))

    def of(self, computation: str) -> Authority:
        """The shard of a computation."""
        return self.shards[shard_of(computation, len(self.shards))]

    @property
    def refused(self) -> int:
        """Stale reports and assignments so far."""
        return sum(shard.refused for shard in self.shards)

    def journal(self) -> dict[str, bytes]:
        """The parts of all shards."""
        return {computation: part for shard in self.shards for computation, part in shard.journal().items()}

    def restore(
        self, journal: Mapping[str, bytes], intervals: Mapping[str, Iterable[Range]], sequencer: Sequencer
    ) -> None:
        """See `Authority.restore`. The journal may be that of any number of shards."""
        for computation, part in journal.items():
            self.of(computation).restore({computation: part}, intervals, sequencer)
