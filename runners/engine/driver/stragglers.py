"""Stragglers: weak productions that no sink has acknowledged in time (MillWheel paper §6.1.3, figure 11).

The task that released them puts them into the commit instead of waiting. From there the driver releases them again,
beside the epochs and after a restart, until they are acknowledged; the commit after that is without them.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from headrace.lowlevel.errors import CheckpointError, HeadraceError
from headrace.lowlevel.failure import failed_step
from headrace.lowlevel.record import Batch
from headrace.lowlevel.sink import ReleasingSink
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.beside import Call, Release
from headrace.runners.engine.epoch import SINK, Pending

_log = logging.getLogger(__name__)
_MOST_BYTES = 64 << 20
"""Of stragglers, which are written with every commit: with more, no further input is read until some are taken."""
_WARN_EVERY = 30
"""Releases of the same rows between two warnings."""


def straggler(sink: str, batch: Batch, epoch: int, interval: int, token: str) -> Pending:
    """Rows that were released and not acknowledged, as a part of the commit."""
    columns = (epoch, token, list(batch.values), list(batch.timestamps))
    data = pickle.dumps(columns, pickle.HIGHEST_PROTOCOL)
    return Pending(interval, SINK, sink, min(batch.timestamps), data)


def _release(sink: ReleasingSink, item: Pending) -> bool:
    epoch, token, values, timestamps = pickle.loads(item.parcel)
    try:
        return sink.release(Batch(values, timestamps), epoch, item.interval, token)
    except HeadraceError:
        raise
    except Exception as error:
        raise failed_step(error, item.consumer, None, None) from error


@dataclass(slots=True)
class _Waiting:
    """A straggler that is to be released again."""

    due: int
    """When, microseconds UTC."""
    tries: int = 0
    call: Call | None = None
    """The release that goes on now."""


class Stragglers:
    """Those of one driver. `begin` makes a release beside the epochs, `delay` (microseconds) is between two of them."""

    def __init__(self, topology: Topology, begin: Callable[[Release], Call], delay: int) -> None:
        self._sinks = {name: sink for name, (_, sink) in topology.sinks.items() if isinstance(sink, ReleasingSink)}
        self._begin = begin
        self._delay = delay
        self._waiting: dict[Pending, _Waiting] = {}
        self._committed = 0

    def take(self, pending: Iterable[Pending], due: int) -> None:
        """Care for the stragglers of a commit: new ones are released again from `due` on, microseconds UTC.

        Raises `CheckpointError` for a sink that the topology does not have.
        """
        committed = [item for item in pending if item.level == SINK]
        for item in committed:
            if item.consumer not in self._sinks:
                raise CheckpointError(
                    f"sink {item.consumer!r} has not acknowledged productions that it got before, and they are in the "
                    "checkpoint; this program has no such sink that takes weak productions. Run the program that "
                    "made them until they are acknowledged"
                )
            if item not in self._waiting:
                self._waiting[item] = _Waiting(due)
        self._committed = len(committed)

    def unacknowledged(self) -> list[Pending]:
        """What the next commit must still have."""
        return list(self._waiting)

    @property
    def done(self) -> bool:
        """Whether some are acknowledged that the last commit still has."""
        return len(self._waiting) < self._committed

    @property
    def too_many(self) -> bool:
        """Whether no more should be added."""
        return sum(len(item.parcel) for item in self._waiting) > _MOST_BYTES

    def next_due(self) -> int | None:
        """When the next release is to begin, microseconds UTC; None if none waits for its time."""
        return min((one.due for one in self._waiting.values() if one.call is None), default=None)

    def work(self, now: int) -> None:
        """Release what is due, and note what is acknowledged. Raises what a release raised."""
        for item, one in list(self._waiting.items()):
            if one.call is None and one.due <= now:
                one.call = self._begin(partial(_release, self._sinks[item.consumer], item))
            if one.call is not None and (acknowledged := one.call.result()) is not None:
                one.call = None
                if acknowledged:
                    del self._waiting[item]
                else:
                    self._again(item, one, now)

    def _again(self, item: Pending, one: _Waiting, now: int) -> None:
        one.tries += 1
        one.due = now + self._delay
        if one.tries % _WARN_EVERY == 0:
            _log.warning(
                "sink %r has not acknowledged some rows in %d releases; they stay in the checkpoint, and the run goes "
                "on until it does",
                item.consumer,
                one.tries,
            )
