"""A journal in a checkpoint: the driver's memory as manifests, snapshots when they are worth it, garbage collected."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from secrets import token_bytes

from headrace.lowlevel.checkpoint import (
    Change,
    Checkpoint,
    Consent,
    CopyPlan,
    DeltaFile,
    Fingerprint,
    Holder,
    Manifest,
    PendingProduction,
    Snapshot,
    SnapshotOrder,
)
from headrace.lowlevel.checkpoint.change import change_of
from headrace.lowlevel.checkpoint.envelope import understood
from headrace.lowlevel.checkpoint.signature import KEY_VARIABLE, signed
from headrace.lowlevel.checkpoint.succession import stored_in
from headrace.lowlevel.intervals import IntervalMap
from headrace.lowlevel.metric import decode_metrics, encode_metrics
from headrace.lowlevel.plaindata import PLAIN
from headrace.lowlevel.sequencer import attempt_token
from headrace.lowlevel.store import ObjectStore, Store, StoreError
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.clock import Clock
from headrace.runners.engine.epoch import Kind, Pending, Row, pack
from headrace.runners.engine.journal import State

_log = logging.getLogger(__name__)
_GARBAGE_EVERY = 32
"""Epochs between collections."""


class CheckpointJournal:
    """The `Journal` of a durable run."""

    def __init__(
        self, store: Store, topology: Topology, clock: Clock, runner: str, consent: Consent | None = None
    ) -> None:
        owner = f"{runner} on {socket.gethostname()}, process {os.getpid()}"
        self._checkpoint = Checkpoint.open(store, owner, Fingerprint.of(topology), clock.now(), consent)
        self.generation = self._checkpoint.generation
        self.identity = self._checkpoint.identity
        """The same for as long as the checkpoint exists."""
        self._untidy = False
        """Whether the last collection failed."""

    def recover(self) -> State | None:
        """The last commit."""
        manifest = self._checkpoint.manifest
        if manifest is None:
            return None
        with understood(f"the last commit in {self._checkpoint.store.describe()}"):
            return _state(manifest)

    def commit(
        self, state: State, deltas: Mapping[tuple[int, int], DeltaFile], snapshots: Iterable[Snapshot] = ()
    ) -> None:
        """One put-if-absent; raises `FencedError` if another driver has taken over."""
        self._checkpoint.commit(_manifest(state, deltas), snapshots)

    def tidy(self, epoch: int) -> None:
        """See `Journal`: what cannot be deleted stays until the next time, and is spoken of once."""
        if epoch % _GARBAGE_EVERY:
            return
        try:
            self._checkpoint.collect_garbage()
        except Exception as error:
            if not self._untidy:
                _log.warning(
                    "what no commit needs any more could not all be deleted from the checkpoint; the run goes on and "
                    "tries again every %d epochs, without saying this again. Until that succeeds the checkpoint "
                    "grows: let this driver delete there\n%s: %s",
                    *(_GARBAGE_EVERY, type(error).__name__, error),
                )
            self._untidy = True
        else:
            self._untidy = False

    @property
    def change(self) -> Change | None:
        """See `Journal`."""
        return self._checkpoint.change

    def change_to(self, state: State, topology: Topology, consent: Consent) -> Change:
        """See `Journal`; everything that was committed has been delivered."""
        before = self._checkpoint.described(_manifest(state, {}))
        wanted = Fingerprint.of(topology)
        change = change_of(stored_in(before, wanted, delivered=True), wanted, consent)
        change.require_possible("the running pipeline")
        return change

    def succeed(self, state: State, change: Change, topology: Topology, tasks: int) -> State:
        """One put-if-absent, as `commit`."""
        positions = State.beginning(topology).positions.items()
        starts = {stream: _position(stream, position) for stream, position in positions}
        return _state(self._checkpoint.succeed(_manifest(state, {}), change, topology, starts, tasks))

    def chains(self, intervals: Mapping[int, IntervalMap]) -> list[Row]:
        """For every interval the files that make up its state."""
        plans = self._checkpoint.chains(intervals)
        return [(intervals[plan.level][plan.interval].owner, plan.level, Kind.CHAIN, pack(plan)) for plan in plans]

    def snapshots_due(self) -> list[tuple[SnapshotOrder, CopyPlan]]:
        """Snapshots that are worth their cost now, with what makes up the state that they are to hold."""
        manifest = self._checkpoint.manifest
        due = []
        for level, interval in () if manifest is None else manifest.plans:
            if self._checkpoint.needs_snapshot(level, interval):
                order = self._checkpoint.order_snapshot(level, interval, attempt_token(token_bytes(8)))
                due.append((order, self._checkpoint.chain(level, interval)))
        return due

    def ensure_driving(self) -> None:
        """Raises `FencedError` if another driver has taken over."""
        # A store that fails now says nothing; what failed before is told then.
        with suppress(StoreError):
            self._checkpoint.ensure_driving()


def checkpoint_store(url: str, key: str | None = None) -> Store:
    """The place of a checkpoint; signed with the key given, or else with the one in `HEADRACE_CHECKPOINT_KEY`."""
    return signed(ObjectStore(url), os.environ.get(KEY_VARIABLE) if key is None else key)


def open_checkpoint(
    url: str,
    topology: Topology,
    clock: Clock,
    runner: str,
    key: str | None = None,
    consent: Consent | None = None,
) -> tuple[CheckpointJournal, Store]:
    """Become the driver of the checkpoint at a directory or URL. Raises `CheckpointError` if it is not ours."""
    store = checkpoint_store(url, key)
    return CheckpointJournal(store, topology, clock, runner, consent), store


def _position(stream: str, position: object) -> bytes:
    try:
        return PLAIN.encode(position)
    except TypeError as error:
        raise TypeError(f"the position of injector {stream!r} cannot be committed: {error}; nothing is") from None


def _manifest(state: State, deltas: Mapping[tuple[int, int], DeltaFile]) -> Manifest:
    manifest = Manifest(
        epoch=state.epoch,
        wall_clock=state.clock,
        intervals=dict(state.intervals),
        positions={stream: _position(stream, position) for stream, position in state.positions.items()},
        ended=frozenset(state.done),
        injector_watermarks={stream: progress.watermark for stream, progress in state.injectors.items()},
        greatest_timestamps={stream: progress.greatest for stream, progress in state.injectors.items()},
        lateness={
            stream: progress.lateness.counts for stream, progress in state.injectors.items() if progress.lateness.counts
        },
        input_watermarks=state.watermarks,
        output_watermarks=state.journal,
        holds=state.holds,
        holders={name: Holder(*holder) for name, holder in state.holders.items()},
        wall_timers=state.wall_timers,
        deltas=deltas,
        pending=tuple(
            PendingProduction(item.level, item.interval, item.consumer, item.oldest, item.parcel)
            for item in state.pending
        ),
        receipts={sink: tuple(receipts) for sink, receipts in state.receipts.items()},
        counters=state.counters,
        metrics=encode_metrics(state.metrics),
    )
    return replace(manifest, finished=manifest.is_over)


def _state(manifest: Manifest) -> State:
    return State(
        epoch=manifest.epoch,
        intervals=dict(manifest.intervals),
        clock=manifest.wall_clock,
        positions={stream: PLAIN.decode(position) for stream, position in manifest.positions.items()},
        done=set(manifest.ended),
        injectors=manifest.injectors(),
        watermarks=dict(manifest.input_watermarks),
        journal=dict(manifest.output_watermarks),
        holds={name: dict(values) for name, values in manifest.holds.items()},
        holders={name: (holder.timestamp, holder.key, holder.tag) for name, holder in manifest.holders.items()},
        wall_timers={name: dict(values) for name, values in manifest.wall_timers.items()},
        pending=[Pending(p.interval, p.level, p.consumer, p.oldest, p.data) for p in manifest.pending],
        counters={name: dict(counters) for name, counters in manifest.counters.items()},
        metrics=decode_metrics(manifest.metrics),
        receipts={sink: list(receipts) for sink, receipts in manifest.receipts.items()},
    )
