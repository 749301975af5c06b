"""Stragglers: weak productions that no sink has acknowledged in time (MillWheel paper §6.1.3, figure 11).

The task that released them puts them into the commit instead of waiting. From there the driver releases them again,
beside the epochs and after a restart, until they are acknowledged; later commits do not contain them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from headrace.lowlevel.checkpoint import PendingProduction
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.sinks.sink import ReleasingSink
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.background_calls import PendingCall, Release
from headrace.runners.engine.messages import SINK
from headrace.runners.engine.released_rows import release_again

_log = logging.getLogger(__name__)
_MOST_BYTES = 64 << 20
"""Stragglers are written with every commit: with more bytes, no input is read until sinks acknowledge some."""
_WARN_EVERY = 30
"""Releases of the same rows between two warnings."""


@dataclass(slots=True)
class _Waiting:
    """A straggler that is to be released again."""

    due: int
    """Time of the next release, microseconds UTC."""
    tries: int = 0
    call: PendingCall | None = None
    """The release that is running; None between releases."""


class Stragglers:
    """The stragglers of one driver. `begin` begins a release; the next one follows `delay` microseconds later."""

    def __init__(self, topology: Topology, begin: Callable[[Release], PendingCall], delay: int) -> None:
        self._sinks = {name: sink for name, (_, sink) in topology.sinks.items() if isinstance(sink, ReleasingSink)}
        self._begin = begin
        self._delay = delay
        self._waiting: dict[PendingProduction, _Waiting] = {}
        self._committed = 0

    def take(self, pending: Iterable[PendingProduction], due: int) -> None:
        """Take over the stragglers of a commit; new ones are released again from `due` on, microseconds UTC.

        Raises `CheckpointError` for a sink that the topology does not have.
        """
        committed = [straggler for straggler in pending if straggler.level == SINK]
        for straggler in committed:
            if straggler.consumer not in self._sinks:
                raise CheckpointError(
                    f"sink {straggler.consumer!r} has not acknowledged productions that it got before, and they are in "
                    "the checkpoint; this program has no sink of that name that takes weak productions. Run the "
                    "program that produced them until they are acknowledged"
                )
            if straggler not in self._waiting:
                self._waiting[straggler] = _Waiting(due)
        self._committed = len(committed)

    def unacknowledged(self) -> list[PendingProduction]:
        """Stragglers that the next commit must contain."""
        return list(self._waiting)

    @property
    def done(self) -> bool:
        """Whether the last commit contains stragglers that are acknowledged by now."""
        return len(self._waiting) < self._committed

    @property
    def too_many(self) -> bool:
        """Whether no further input should be read."""
        return sum(len(straggler.data) for straggler in self._waiting) > _MOST_BYTES

    def next_due(self) -> int | None:
        """Time of the next release, microseconds UTC; None if none is scheduled."""
        return min((waiting.due for waiting in self._waiting.values() if waiting.call is None), default=None)

    def release_due(self, now: int) -> None:
        """Begin releases that are due, and drop acknowledged stragglers. Raises the error of a release."""
        for straggler, waiting in list(self._waiting.items()):
            if waiting.call is None and waiting.due <= now:
                waiting.call = self._begin(partial(release_again, self._sinks[straggler.consumer], straggler))
            if waiting.call is not None and (acknowledged := waiting.call.result()) is not None:
                waiting.call = None
                if acknowledged:
                    del self._waiting[straggler]
                else:
                    self._again(straggler, waiting, now)

    def _again(self, straggler: PendingProduction, waiting: _Waiting, now: int) -> None:
        waiting.tries += 1
        waiting.due = now + self._delay
        if waiting.tries % _WARN_EVERY == 0:
            _log.warning(
                "sink %r has not acknowledged some rows in %d releases; they stay in the checkpoint, and the run goes "
                "on until it does",
                straggler.consumer,
                waiting.tries,
            )
