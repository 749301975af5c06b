"""The productions of a task: strong ones wait for the commit, weak ones leave before it (paper §6.1.2, §6.1.3).

A task calls the hooks of `Productions`, which are those of strong productions. A topology with weak productions has
`WeakProductions`, which release rows to sinks at once. Rows that a sink has not acknowledged in time are stragglers
(figure 11): the task puts them into the commit instead of waiting. From there the driver releases them again, beside
the epochs and after a restart, until they are acknowledged; later commits do not contain them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import cast

from headrace.lowlevel.checkpoint import PendingProduction
from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.metric import at
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.sink import AgreeingSink, ReleasingSink
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.topology.weak_productions import releasing_sinks, weak_streams
from headrace.lowlevel.user_errors import failing
from headrace.runners.engine.background_calls import PendingCall, Release
from headrace.runners.engine.messages import SINK, EpochSpec, TaskReport

_log = logging.getLogger(__name__)
_MOST_BYTES = 64 << 20
"""Stragglers are written with every commit: with more bytes, no input is read until sinks acknowledge some."""
_WARN_EVERY = 30
"""Releases of the same rows between two warnings."""
BeginRelease = Callable[[Release], PendingCall]
"""Begins a release, which then runs beside the task or the epochs."""


@dataclass
class Productions:
    """The productions of one attempt at a task. Its methods are the hooks that the task calls; these are strong."""

    topology: Topology
    begin_release: BeginRelease
    spec: EpochSpec
    report: TaskReport

    @staticmethod
    def of(topology: Topology) -> Callable[[BeginRelease, EpochSpec, TaskReport], Productions]:
        """Makes the productions of each attempt at a task of a topology."""
        if streams := weak_streams(topology):
            return partial(WeakProductions, topology, streams=streams, releasing=releasing_sinks(topology))
        return partial(Productions, topology)

    def note_sent(self, interval: int, block: Block) -> None:
        """Called for each block that is sent to an interval of a deeper level."""

    def digest(self, *reported: Mapping[str, object]) -> str:
        """A text that is equal for attempts that may replace each other; empty if none may replace this one.

        `reported` is what the task tells the next level besides blocks: progress of injectors, holds.
        """
        return ""

    def send_rows(self, rows: Mapping[str, Batch]) -> None:
        """Send the rows of each sink, at the end of the task."""
        for name, batch in rows.items():
            self.report.add_counters(name, {"rows": len(batch)})
            self._stage(name, batch)

    def _stage(self, name: str, batch: Batch) -> None:
        sink, agreement = self.topology.sinks[name][1], self.spec.agreements.get(name)
        with failing(name), at(name):
            if agreement is not None:
                cast(AgreeingSink, sink).agree(agreement)
            receipt = sink.stage(batch, *self._attempt())
        if receipt is not None:
            self.report.receipts[name] = receipt

    def _attempt(self) -> tuple[int, int, str]:
        return self.spec.epoch, self.report.sender.index, self.report.sender.token


@dataclass
class WeakProductions(Productions):
    """Productions of which some are weak: rows for a `ReleasingSink` leave before the commit.

    An attempt whose blocks are all weak may be replaced by another one. Some consumers may have the productions of one
    attempt, other consumers those of another. Together they have every record once, if both attempts sent as many
    records to the same keys and reported the same watermarks. The values may differ, as the productions are weak. If
    attempts differ in more, a mixture could lose records, and the epoch is given up.
    """

    streams: frozenset[str]
    releasing: Mapping[str, ReleasingSink]

    def __post_init__(self) -> None:
        self._are_all_weak = True
        self._hash = blake2b(digest_size=16)

    def note_sent(self, interval: int, block: Block) -> None:
        """See `Productions`."""
        self._are_all_weak &= block.stream in self.streams
        if self._are_all_weak:
            # In the order of sending, which differs only if user code goes through keys in another order.
            self._hash.update(repr((interval, block.consumer, block.stream, len(block.counts))).encode())
            self._hash.update(block.joined_hashes())
            self._hash.update(block.counts.tobytes())

    def digest(self, *reported: Mapping[str, object]) -> str:
        """See `Productions`."""
        if not self._are_all_weak:
            return ""
        digest = self._hash.copy()
        parts = [sorted(each.items(), key=lambda item: item[0]) for each in reported]
        digest.update(repr((self.spec.epoch, parts)).encode())
        return "weak " + digest.hexdigest()

    def send_rows(self, rows: Mapping[str, Batch]) -> None:
        """Release weak productions, stage strong ones, then wait for acknowledgements."""
        calls = {name: self._release(name, batch) for name, batch in rows.items() if name in self.releasing}
        super().send_rows({name: batch for name, batch in rows.items() if name not in calls})
        for name, call in calls.items():
            self.report.add_counters(name, {"rows": len(rows[name])})
            with failing(name):
                acknowledged = call.wait(self.spec.straggler_delay)
            if not acknowledged:
                # The rows become part of the commit, so that neither the task nor the epoch waits longer.
                self.report.pending.append(straggler(name, rows[name], *self._attempt()))
                self.report.add_counters(name, {"stragglers": len(rows[name])})

    def _release(self, name: str, batch: Batch) -> PendingCall:
        with failing(name):
            return self.begin_release(partial(self.releasing[name].release, batch, *self._attempt()))


def straggler(sink: str, batch: Batch, epoch: int, interval: int, token: str) -> PendingProduction:
    """Encode rows that were released and not acknowledged, as a part of the commit."""
    columns = (epoch, token, list(batch.values), list(batch.timestamps))
    data = dumps(columns)
    return PendingProduction(SINK, interval, sink, min(batch.timestamps), data)


@dataclass(slots=True)
class _Straggler:
    """A straggler that is to be released again."""

    due: int
    """Time of the next release, microseconds UTC."""
    tries: int = 0
    call: PendingCall | None = None
    """The release that is running; None between releases."""


class Stragglers:
    """The stragglers of one driver. `begin` begins a release; the next one follows `delay` microseconds later."""

    def __init__(self, topology: Topology, begin: BeginRelease, delay: int) -> None:
        self._sinks = {name: sink for name, (_, sink) in topology.sinks.items() if isinstance(sink, ReleasingSink)}
        self._begin = begin
        self._delay = delay
        self._waiting: dict[PendingProduction, _Straggler] = {}
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
                self._waiting[straggler] = _Straggler(due)
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
                waiting.call = self._begin(partial(_release_again, self._sinks[straggler.consumer], straggler))
            if waiting.call is not None and (acknowledged := waiting.call.result()) is not None:
                waiting.call = None
                if acknowledged:
                    del self._waiting[straggler]
                else:
                    self._again(straggler, waiting, now)

    def _again(self, straggler: PendingProduction, waiting: _Straggler, now: int) -> None:
        waiting.tries += 1
        waiting.due = now + self._delay
        if waiting.tries % _WARN_EVERY == 0:
            _log.warning(
                "sink %r has not acknowledged some rows in %d releases; they stay in the checkpoint, and the run goes "
                "on until it does",
                straggler.consumer,
                waiting.tries,
            )


def _release_again(sink: ReleasingSink, item: PendingProduction) -> bool:
    """Release the rows of a straggler once more; returns whether the sink acknowledged them. Raises `StepError`."""
    epoch, token, values, timestamps = loads(item.data)
    with failing(item.consumer):
        return sink.release(Batch(values, timestamps), epoch, item.interval, token)
