"""The central watermark authority: an interval map of low watermarks for each computation (MillWheel paper §7.2).

Each owner of key intervals reports the intervals' low watermarks under its sequencer. An interval that does not report
keeps its last value; a stale report changes nothing; values never decrease. The values are journaled with each commit,
in one part per computation, so that computations can be divided among independent shards.

The values of a map are one array, divided into blocks whose minima are cached. As values never decrease, a report can
only raise the minimum of a block if the reporting interval had that minimum. The cost of a report therefore does not
depend on the number of intervals, and the low watermark is computed from the few blocks whose minimum may have risen.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from headrace.lowlevel.intervals.interval_map import SPACE
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP

Values = npt.NDArray[np.int64]
"""Low watermarks, microseconds UTC."""

_BLOCK = 512
"""Intervals in a block, of which the minimum takes a microsecond or two."""
_EPOCHS = 1 << 40
_GENERATIONS = 1 << 23
_RUNS, _PLAIN = b"R", b"P"
"""Forms of a journal part: runs of equal values, or plain values."""


class HashRange(Protocol):
    """The properties of an interval that the authority uses."""

    @property
    def number(self) -> int:
        """The number by which reports name the interval."""

    @property
    def start(self) -> int:
        """The first key hash of the interval."""

    @property
    def stop(self) -> int:
        """The key hash behind the last one of the interval."""


class WatermarkMap:
    """Low watermarks and owners of the intervals of one computation, in order of their ranges.

    Raises ValueError if intervals overlap, leave a gap, or have the same number.
    """

    def __init__(self, computation: str, intervals: Iterable[HashRange], sequencer: Sequencer) -> None:
        ordered = sorted(intervals, key=lambda interval: interval.start)
        _check_cover(computation, ordered)
        count = len(ordered)
        self._numbers = np.fromiter((interval.number for interval in ordered), np.int64, count)
        self._starts = np.fromiter((interval.start for interval in ordered), np.uint64, count)
        self._first = int(self._numbers.min())
        # Interval number, less the first -> index: three times as fast as a large dictionary at random numbers.
        self._indices = np.full(int(self._numbers.max()) - self._first + 1, -1, np.int32)
        self._indices[self._numbers - self._first] = np.arange(count)
        if (self._indices >= 0).sum() < count:
            raise ValueError(f"two intervals of {computation!r} have the same number; give each its own")
        self._owners = np.full(count, _packed(sequencer), np.int64)
        padded = np.full(-(-count // _BLOCK) * _BLOCK, MAX_TIMESTAMP, np.int64)
        self.values: Values = padded[:count]
        """The low watermark of each interval, in order of ranges."""
        self.values[:] = MIN_TIMESTAMP
        self._blocks = padded.reshape(-1, _BLOCK)
        self._minima = self._blocks.min(axis=1)
        self._risen: set[int] = set()
        """Blocks whose minimum may have risen."""
        self._least = MIN_TIMESTAMP

    def __len__(self) -> int:
        return len(self._numbers)

    def report_all(self, numbers: Sequence[int] | Values, sequencer: Sequencer, values: Sequence[int] | Values) -> int:
        """Set the values of intervals; returns how many there are not, or have had a later owner."""
        indices = self._indices_of(np.asarray(numbers, np.int64))
        reported = np.asarray(values, np.int64)
        packed = _packed(sequencer)
        valid = (indices >= 0) & (self._owners[indices] <= packed)
        if not valid.all():
            indices, reported = indices[valid], reported[valid]
        self._owners[indices] = packed
        np.maximum.at(self.values, indices, reported)
        self._risen.update(np.unique(indices // _BLOCK).tolist())
        return len(valid) - len(indices)

    def least(self) -> int:
        """The computation's low watermark: the least value."""
        if self._risen:
            blocks = list(self._risen)
            self._minima[blocks] = self._blocks[blocks].min(axis=1)
            self._risen.clear()
            self._least = int(self._minima.min())
        return self._least

    def take_over(self, old: WatermarkMap) -> None:
        """Set each interval's value to the least value of the old intervals that it overlaps."""
        first = np.searchsorted(old._starts, self._starts, side="right") - 1
        # The index behind the last old interval that begins before this interval's end.
        behind = np.append(np.searchsorted(old._starts, self._starts[1:], side="left"), len(old))
        # One value more, as `reduceat` takes no index that is equal to the length.
        values = np.append(old.values, MAX_TIMESTAMP)
        self._set(np.minimum.reduceat(values, np.column_stack([first, behind]).ravel())[::2])

    def stale(self, sequencer: Sequencer) -> bool:
        """Whether some interval has had a later owner than the one with this sequencer."""
        return bool((self._owners > _packed(sequencer)).any())

    def by_number(self) -> dict[int, int]:
        """Interval number -> low watermark."""
        return dict(zip(self._numbers.tolist(), self.values.tolist(), strict=True))

    def encode(self) -> bytes:
        """Encode the values in order of the ranges, as runs of equal values if that is shorter."""
        form, column = _PLAIN, self.values
        starts = np.flatnonzero(np.diff(self.values, prepend=~self.values[:1]))
        if 2 * len(starts) < len(self):
            form, column = _RUNS, np.append(np.diff(starts, append=len(self)), self.values[starts])
        return form + struct.pack("<q", len(self)) + column.astype("<i8").tobytes()

    def restore(self, computation: str, part: bytes) -> None:
        """Set the values that `encode` wrote. Raises ValueError if they are malformed or do not fit in number."""
        values = decoded(part)
        if len(values) != len(self):
            raise ValueError(
                f"the journal has watermarks of {len(values)} intervals of {computation!r}, which has {len(self)}; "
                "restore it with the intervals that were committed with it"
            )
        self._set(values)

    def _set(self, values: Values) -> None:
        self.values[:] = values
        self._risen.update(range(len(self._minima)))

    def _indices_of(self, numbers: Values) -> Values:
        """Indices of intervals by number; -1 for an unknown number."""
        offsets = numbers - self._first
        known = (offsets >= 0) & (offsets < len(self._indices))
        return np.where(known, self._indices[np.where(known, offsets, 0)], -1)


def decoded(part: bytes) -> Values:
    """Decode a part of the journal to values in order of the intervals' ranges. Raises ValueError if it is malformed.

    >>> from headrace.lowlevel.intervals.interval_map import IntervalMap
    >>> decoded(WatermarkMap("count", IntervalMap.evenly(2), Sequencer(1, 1)).encode()).tolist() == 2 * [MIN_TIMESTAMP]
    True
    """
    form, column = part[:1], np.frombuffer(part[9:], "<i8").astype(np.int64)
    (count,) = struct.unpack("<q", part[1:9])
    runs = len(column) // 2
    values = np.repeat(column[runs:], column[:runs]) if form == _RUNS else column
    if form not in (_RUNS, _PLAIN) or len(values) != count:
        raise ValueError(f"{part[:40]!r}… is no part of an authority's journal")
    return values


def _packed(sequencer: Sequencer) -> int:
    """A sequencer as an integer that is ordered alike. Raises ValueError for one that does not fit 63 bits."""
    generation, epoch = sequencer
    if not (0 <= generation < _GENERATIONS and 0 <= epoch < _EPOCHS):
        raise ValueError(f"{sequencer} is out of range; generations are below 2**23, epochs below 2**40")
    return generation * _EPOCHS + epoch


def _check_cover(computation: str, ordered: Sequence[HashRange]) -> None:
    due = 0
    for interval in ordered:
        if interval.start != due or interval.stop <= interval.start:
            raise ValueError(
                f"the intervals of {computation!r} do not divide the key space: interval {interval.number} is "
                f"[{interval.start}, {interval.stop}), but the next must begin at {due}; "
                "give each key hash one interval"
            )
        due = interval.stop
    if due != SPACE:
        raise ValueError(
            f"the intervals of {computation!r} end at {due}, the key space ends at {SPACE}; give intervals for the rest"
        )


class Holder(NamedTuple):
    """The timestamp, key and tag of a computation's oldest hold. Persisted: every field."""

    timestamp: int
    """Microseconds UTC."""
    key: bytes
    """The encoded key."""
    tag: str
    """Tag of the hold, or of the hold of a timer."""


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
        return not self.report_all(computation, [interval], sequencer, [value])

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
