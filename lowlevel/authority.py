"""The central watermark authority: an interval map of low watermarks for each computation (MillWheel paper §7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.lowlevel.time import MIN_TIMESTAMP


class Sequencer(NamedTuple):
    """Names one ownership of an interval; a greater one makes every smaller one stale (paper §6.2).

    >>> Sequencer(2, 0) > Sequencer(1, 9)
    True
    """

    generation: int
    """Of the driver that holds the lease."""
    epoch: int
    """In which the interval's owner works."""


@dataclass(slots=True)
class _Entry:
    sequencer: Sequencer
    value: int


@dataclass(slots=True)
class Authority:
    """Low watermark values by computation and interval; the lowest is the computation's.

    An interval that does not report keeps its last value. A report under a stale sequencer is refused. Values never
    go back. Consumers take minima themselves (`Propagation`), so the authority never leads them.

    >>> authority = Authority()
    >>> authority.assign("count", range(2), Sequencer(1, 1))
    >>> authority.report("count", 0, Sequencer(1, 1), 50)
    True
    >>> authority.low_watermark("count") == MIN_TIMESTAMP  # interval 1 has not reported yet
    True
    >>> authority.report("count", 1, Sequencer(1, 1), 40), authority.low_watermark("count")
    (True, 40)
    >>> authority.report("count", 1, Sequencer(0, 7), 60)  # an owner that was replaced
    False
    """

    _entries: dict[str, dict[int, _Entry]] = field(default_factory=dict)
    refused: int = 0
    """Stale reports so far."""

    def assign(self, computation: str, intervals: range, sequencer: Sequencer) -> None:
        """Give intervals a new owner; their last values stay."""
        entries = self._entries.setdefault(computation, {})
        for interval in intervals:
            last = entries[interval].value if interval in entries else MIN_TIMESTAMP
            entries[interval] = _Entry(sequencer, last)

    def report(self, computation: str, interval: int, sequencer: Sequencer, value: int) -> bool:
        """Take an owner's low watermark (microseconds UTC); False if it does not own the interval any more."""
        entry = self._entries.get(computation, {}).get(interval)
        if entry is None or sequencer < entry.sequencer:
            self.refused += 1
            return False
        entry.value = max(entry.value, value)
        return True

    def low_watermark(self, computation: str) -> int:
        """The computation's low watermark: the least of its intervals."""
        entries = self._entries.get(computation, {})
        return min((entry.value for entry in entries.values()), default=MIN_TIMESTAMP)

    def journal(self) -> dict[str, dict[int, int]]:
        """Computation -> interval -> value, to be committed with the epoch."""
        return {
            computation: {interval: entry.value for interval, entry in entries.items()}
            for computation, entries in self._entries.items()
        }

    @classmethod
    def restore(cls, journal: Mapping[str, Mapping[int, int]], sequencer: Sequencer) -> Authority:
        """The authority of a new driver, from what an earlier one journaled."""
        return cls(
            {
                computation: {interval: _Entry(sequencer, value) for interval, value in values.items()}
                for computation, values in journal.items()
            }
        )
