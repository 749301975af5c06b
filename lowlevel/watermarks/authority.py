"""The central watermark authority: an interval map of low watermarks for each computation (MillWheel paper §7.2).

Each owner of key intervals reports the intervals' low watermarks under its sequencer. An interval that does not report
keeps its last value; a stale report changes nothing; values never decrease. The values are journaled with each commit,
in one part per computation, so that computations can be divided among independent shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.watermarks.interval_watermarks import HashRange, Values, WatermarkMap

__all__ = ["Authority", "Sequencer", "ShardedAuthority", "shard_of"]


class Authority:
    """Low watermarks by computation and interval. A computation's low watermark is the least of its intervals'.

    The authority takes no minima over senders; consumers do that themselves (`Propagation`).

    >>> from headrace.lowlevel.intervals.interval_map import IntervalMap
    >>> authority = Authority()
    >>> authority.assign("count", IntervalMap.evenly(2), Sequencer(1, 1))
    True
    >>> authority.report("count", 0, Sequencer(1, 1), 50)
    True
    >>> authority.low_watermark("count") == MIN_TIMESTAMP  # interval 1 has not reported
    True
    >>> authority.report("count", 1, Sequencer(1, 1), 40), authority.low_watermark("count")
    (True, 40)
    >>> authority.report("count", 1, Sequencer(0, 7), 60)  # from a replaced owner
    False
    """

    def __init__(self) -> None:
        self._maps: dict[str, WatermarkMap] = {}
        self._parts: dict[str, bytes] = {}
        """Computation -> its encoded journal part; absent if its values have changed since."""
        self.refused = 0
        """Stale reports and assignments so far."""

    def assign(self, computation: str, intervals: Iterable[HashRange], sequencer: Sequencer) -> bool:
        """Set the intervals of a computation, under one sequencer; False if an old interval has had a later owner.

        The new intervals may have other bounds than the old ones: each begins with the least value of the old intervals
        that it overlaps. Raises ValueError if intervals overlap, leave a gap, or have the same number.
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
        """Forget a computation that was removed from the topology."""
        self._maps.pop(computation, None)
        self._parts.pop(computation, None)

    def report(self, computation: str, interval: int, sequencer: Sequencer, value: int) -> bool:
        """Set an interval's low watermark (microseconds UTC); False if the reporter does not own the interval.

        The greatest sequencer reported so far is the owner's; reports under smaller ones are refused.
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
        """`report` for many intervals of one owner. Returns the number of refused reports.

        Args:
            computation: Name of the computation.
            intervals: Interval numbers.
            sequencer: The owner's sequencer.
            values: The low watermark of each interval, microseconds UTC; as many as intervals.
        """
        known = self._maps.get(computation)
        refused = len(intervals) if known is None else known.report_all(intervals, sequencer, values)
        self.refused += refused
        self._parts.pop(computation, None)
        return refused

    def low_watermark(self, computation: str) -> int:
        """The computation's low watermark, microseconds UTC; `MIN_TIMESTAMP` for an unknown computation."""
        values = self._maps.get(computation)
        return MIN_TIMESTAMP if values is None else values.least()

    def values(self, computation: str) -> dict[int, int]:
        """Interval number -> low watermark, microseconds UTC; empty for an unknown computation."""
        values = self._maps.get(computation)
        return {} if values is None else values.by_number()

    def journal(self) -> dict[str, bytes]:
        """Computation -> its encoded values, to be committed with the epoch; `restore` reads them."""
        for computation, values in self._maps.items():
            if computation not in self._parts:
                self._parts[computation] = values.encode()
        return dict(self._parts)

    def restore(
        self, journal: Mapping[str, bytes], intervals: Mapping[str, Iterable[HashRange]], sequencer: Sequencer
    ) -> None:
        """Set the values that an earlier authority has journaled, under a new sequencer.

        `intervals` are those that were committed with the journal. Raises ValueError if they do not fit it.
        """
        for computation, part in journal.items():
            values = WatermarkMap(computation, intervals[computation], sequencer)
            values.restore(computation, part)
            self._maps[computation] = values
            self._parts[computation] = part


def shard_of(computation: str, shards: int) -> int:
    """Index of a computation's shard, which is the same in every process.

    >>> shard_of("count", 1)
    0
    """
    return crc32(computation.encode("utf-8", "surrogatepass")) % shards


class ShardedAuthority:
    """An authority of several shards, each with the computations that `shard_of` assigns to it (MillWheel paper §7.2).

    A shard is an `Authority` that is independent of the others: it can run in its own process or on its own machine,
    and commit its parts of the journal itself.

    >>> from headrace.lowlevel.intervals.interval_map import IntervalMap
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
        """See `Authority.journal`; the parts of all shards."""
        return {computation: part for shard in self.shards for computation, part in shard.journal().items()}

    def restore(
        self, journal: Mapping[str, bytes], intervals: Mapping[str, Iterable[HashRange]], sequencer: Sequencer
    ) -> None:
        """See `Authority.restore`. The journal may come from another number of shards."""
        for computation, part in journal.items():
            self.of(computation).restore({computation: part}, intervals, sequencer)
