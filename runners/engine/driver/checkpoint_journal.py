"""The journal in a checkpoint: commits epochs as manifests, orders snapshots, and collects garbage."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from secrets import token_bytes

from headrace.lowlevel.checkpoint import (
    Checkpoint,
    Consent,
    DeltaFile,
    FileChain,
    Fingerprint,
    Manifest,
    SnapshotOrder,
    SnapshotParts,
    TopologyDifference,
)
from headrace.lowlevel.checkpoint.compatibility import change_of
from headrace.lowlevel.checkpoint.key_spelling import continued
from headrace.lowlevel.checkpoint.migration import stored_in
from headrace.lowlevel.coders.coder import PLAIN
from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.intervals.sequencer import attempt_token
from headrace.lowlevel.metric import decode_metrics, encode_metrics
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.envelope import understood
from headrace.lowlevel.storage.object_store import ObjectStorage, StoreError
from headrace.lowlevel.storage.signed_store import checkpoint_store
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.clock import Clock
from headrace.runners.engine.driver.journal import Journal, JournalState
from headrace.runners.engine.messages import Message, MessageKind, pack

_log = logging.getLogger(__name__)
_GARBAGE_EVERY = 32
"""Epochs between looks for garbage."""
_GARBAGE_BYTES = 16 << 20
"""Garbage of more bytes is looked for at once, if it is more than the state."""
_SOON = 4
"""Epochs within which so much garbage is deleted."""


class CheckpointJournal(Journal):
    """The `Journal` of a durable run."""

    def __init__(
        self, store: ObjectStorage, topology: Topology, clock: Clock, runner: str, consent: Consent | None = None
    ) -> None:
        owner = f"{runner} on {socket.gethostname()}, process {os.getpid()}"
        self._checkpoint = Checkpoint.open(store, owner, Fingerprint.of(topology), clock.now(), consent)
        self.topology = self.continued(topology)
        """The topology whose keys are spelled as in the checkpoint."""
        self._checkpoint.describe(Fingerprint.of(self.topology))
        self.generation = self._checkpoint.generation
        self.identity = self._checkpoint.identity
        """Identity of the checkpoint, which never changes."""
        self._untidy = False
        """Whether the last collection failed."""
        self._portion = 0
        """How many files are deleted after each epoch."""

    def recover(self) -> JournalState | None:
        """See `Journal`."""
        manifest = self._checkpoint.manifest
        if manifest is None:
            return None
        with understood(f"the last commit in {self._checkpoint.store.describe()}"):
            return state_of(manifest)

    def commit(
        self, state: JournalState, deltas: Mapping[tuple[int, int], DeltaFile], snapshots: Iterable[SnapshotParts] = ()
    ) -> None:
        """See `Journal`; writes with one put-if-absent."""
        self._checkpoint.commit(_manifest(state, deltas), snapshots)

    def tidy(self, epoch: int, is_last: bool = False) -> None:
        """See `Journal`. Files that cannot be deleted are tried again later; only the first failure is logged."""
        is_much = self._checkpoint.garbage_bytes > max(_GARBAGE_BYTES, self._checkpoint.stored_bytes)
        is_due = (epoch % _GARBAGE_EVERY == 0 or is_last or is_much) and self._checkpoint.may_have_garbage
        try:
            if is_due:
                # A part after each epoch, as many deletions at once take longer than short epochs.
                epochs = _SOON if is_much else _GARBAGE_EVERY
                self._portion = -(-self._checkpoint.find_garbage() // epochs)
            self._checkpoint.delete_garbage(None if is_last else self._portion)
        except Exception as error:
            if not self._untidy:
                _log.warning(
                    "files that no commit needs could not all be deleted from the checkpoint; the run goes on and "
                    "tries again every %d epochs, without another warning. Until that succeeds, the checkpoint grows: "
                    "give this driver the right to delete there\n%s: %s",
                    *(_GARBAGE_EVERY, type(error).__name__, error),
                )
            self._untidy = True
        else:
            self._untidy &= not is_due

    @property
    def change(self) -> TopologyDifference | None:
        """See `Journal`."""
        return self._checkpoint.change

    def continued(self, topology: Topology) -> Topology:
        """See `Journal`."""
        view = self._checkpoint.view()
        with understood(f"the last commit in {view.store.describe()}"):
            return continued(topology, view)

    def change_to(self, state: JournalState, topology: Topology, consent: Consent) -> TopologyDifference:
        """See `Journal`. The last commit must have been delivered to the sinks."""
        before = self._checkpoint.described(_manifest(state, {}))
        fingerprint = Fingerprint.of(topology)
        change = change_of(stored_in(before, fingerprint, delivered=True), fingerprint, consent)
        change.require_possible("the running pipeline")
        return change

    def succeed(self, state: JournalState, change: TopologyDifference, topology: Topology, tasks: int) -> JournalState:
        """See `Journal`; writes with one put-if-absent."""
        positions = JournalState.beginning(topology).positions.items()
        starts = {stream: _position(stream, position) for stream, position in positions}
        return state_of(self._checkpoint.succeed(_manifest(state, {}), change, topology, starts, tasks))

    def chains(self, intervals: Mapping[int, IntervalMap]) -> list[Message]:
        """See `Journal`: one file chain for each interval, addressed to its owner."""
        return [
            (intervals[chain.level][chain.interval].owner, chain.level, MessageKind.CHAIN, pack(chain))
            for chain in self._checkpoint.chains(intervals)
        ]

    def snapshots_due(self) -> list[tuple[SnapshotOrder, FileChain]]:
        """See `Journal`."""
        return [
            (self._checkpoint.order_snapshot(chain.level, chain.interval, attempt_token(token_bytes(8))), chain)
            for chain in self._checkpoint.needing_snapshot()
        ]

    def source_objects(self, stream: str) -> SourceObjects:
        """See `Journal`."""
        return SourceObjects(self._checkpoint.store, object_names.source(stream))

    def ensure_driving(self) -> None:
        """See `Journal`."""
        # A failing store does not mean that another driver has taken over; after an error, that one is raised.
        with suppress(StoreError):
            self._checkpoint.ensure_driving()


def open_checkpoint(
    url: str,
    topology: Topology,
    clock: Clock,
    runner: str,
    key: str | None = None,
    consent: Consent | None = None,
) -> tuple[CheckpointJournal, ObjectStorage]:
    """Become the driver of the checkpoint at a directory or URL, which is made if there is none.

    Raises:
        CheckpointError: The location has something else, or the checkpoint cannot be read.
    """
    store = checkpoint_store(url, key)
    return CheckpointJournal(store, topology, clock, runner, consent), store


def require_possible(url: str, topology: Topology, key: str | None = None, consent: Consent | None = None) -> None:
    """Raise as `open_checkpoint` does if the checkpoint refuses the topology, without becoming its driver.

    It is for what takes long to start and is needed only by a run that goes on.
    """
    Checkpoint.require_possible(checkpoint_store(url, key), Fingerprint.of(topology), consent)


def _position(stream: str, position: object) -> bytes:
    try:
        return PLAIN.encode(position)
    except TypeError as error:
        raise TypeError(
            f"the position of source {stream!r} cannot be committed: {error}; nothing is committed"
        ) from None


def _manifest(state: JournalState, deltas: Mapping[tuple[int, int], DeltaFile]) -> Manifest:
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
        skew_limit=state.skew_limit,
        input_watermarks=state.watermarks,
        output_watermarks=state.journal,
        holds=state.holds,
        holders=state.holders,
        wall_timers=state.wall_timers,
        deltas=deltas,
        pending=tuple(state.pending),
        receipts={sink: tuple(receipts) for sink, receipts in state.receipts.items()},
        counters=state.counters,
        metrics=encode_metrics(state.metrics),
    )
    return replace(manifest, finished=manifest.is_over)


def state_of(manifest: Manifest) -> JournalState:
    """The state of the driver at a commit."""
    return JournalState(
        epoch=manifest.epoch,
        intervals=dict(manifest.intervals),
        clock=manifest.wall_clock,
        positions={stream: PLAIN.decode(position) for stream, position in manifest.positions.items()},
        done=set(manifest.ended),
        injectors=manifest.injectors(),
        skew_limit=manifest.skew_limit,
        watermarks=dict(manifest.input_watermarks),
        journal=dict(manifest.output_watermarks),
        holds={name: dict(values) for name, values in manifest.holds.items()},
        holders=dict(manifest.holders),
        wall_timers={name: dict(values) for name, values in manifest.wall_timers.items()},
        pending=list(manifest.pending),
        counters={name: dict(counters) for name, counters in manifest.counters.items()},
        metrics=decode_metrics(manifest.metrics),
        receipts={sink: list(receipts) for sink, receipts in manifest.receipts.items()},
    )
