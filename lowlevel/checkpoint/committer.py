"""The driver's interface to a checkpoint: open, commit, order snapshots, collect garbage (MillWheel paper §6.2)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headrace.lowlevel.checkpoint.compatibility import Consent, TopologyDifference, change_of
from headrace.lowlevel.checkpoint.files.file_chain import FileChain
from headrace.lowlevel.checkpoint.files.snapshot import SnapshotOrder, SnapshotParts
from headrace.lowlevel.checkpoint.inspection.checkpoint_view import CheckpointView
from headrace.lowlevel.checkpoint.log import fence
from headrace.lowlevel.checkpoint.log.commit_log import LogPosition, look, read_before, read_entry, take_over
from headrace.lowlevel.checkpoint.log.fence import Lease, Seal
from headrace.lowlevel.checkpoint.log.garbage import Garbage
from headrace.lowlevel.checkpoint.log.marker import ensure_marker, ensure_same, read_marker
from headrace.lowlevel.checkpoint.manifest.fingerprint import Fingerprint
from headrace.lowlevel.checkpoint.manifest.manifest import Manifest, advanced, encode_manifest, rearranged
from headrace.lowlevel.checkpoint.migration import stored_in, succeeded
from headrace.lowlevel.coders.coder import PLAIN, KeyCoder
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStorage, StoreError
from headrace.lowlevel.topology.topology import Topology

_log = logging.getLogger(__name__)
_SOON = 1.25
"""By how much a chain may have to grow until it needs a snapshot, to get one together with others."""


class Checkpoint:
    """A checkpoint that this process drives. `open` makes it.

    >>> from headrace.lowlevel.storage.object_store import ObjectStore
    >>> store = ObjectStore("memory://")
    >>> first = Checkpoint.open(store, "host a", Fingerprint(()), now_us=0)
    >>> manifest = Manifest(epoch=first.next_epoch, wall_clock=0, intervals={1: IntervalMap.evenly(2)})
    >>> first.commit(manifest).epoch
    1
    >>> second = Checkpoint.open(store, "host b", Fingerprint(()), now_us=9)
    >>> second.next_epoch
    2
    >>> first.commit(replace(manifest, epoch=2))
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.FencedError: generation 1 (host a) on memory:// was replaced by generation 2 (host b) ...
    """

    def __init__(
        self, store: ObjectStorage, identity: str, lease: Lease, topology: Fingerprint, position: LogPosition
    ) -> None:
        self.store = store
        self.identity = identity
        """Unique id of the checkpoint; a new checkpoint at the same location has another id."""
        self.lease = lease
        self._topology = topology
        self._position = position
        self._before: Manifest | None = None
        self._garbage = Garbage()
        self._doubtful = False
        self.may_have_garbage = True
        """Whether something may have become garbage since the last collection."""
        self._leaving = 0
        """Bytes that the last commit has stopped to name; the commit before it may name them still."""
        self.garbage_bytes = 0
        """Bytes that have become garbage since the last collection, as far as this driver has written them."""
        self.change: TopologyDifference | None = None
        """The change from the topology of the last commit to that of this driver; None if there is none to commit."""

    @classmethod
    def open(
        cls, store: ObjectStorage, owner: str, topology: Fingerprint, now_us: int, consent: Consent | None = None
    ) -> Checkpoint:
        """Become the driver of a checkpoint, and fence off its previous driver. An empty store becomes a checkpoint.

        If the topology differs from that of the last commit, `change` describes the difference, and `succeed` must
        commit it before anything else is committed.

        Args:
            store: The store of the checkpoint.
            owner: Description of this driver (such as host and process) for the driver that it replaces.
            topology: The fingerprint of this driver's topology.
            now_us: The wall-clock time, microseconds UTC.
            consent: What the user agrees to with a change of topology.

        Raises:
            CheckpointError: The store contains something else, or is damaged. Nothing was changed.
            TopologyChangeError: The run cannot continue with this topology. Nothing was changed, or only a lease taken.
            FencedError: Another driver took over meanwhile.
            StoreError: The store failed.
        """

        def check(position: LogPosition) -> None:
            changes.extend(_possible_change(store, position, topology, consent))

        changes: list[TopologyDifference] = []
        identity = ensure_marker(store, owner, now_us)
        check(look(store))
        lease = fence.take_lease(store, owner, now_us)
        opened = cls(store, identity, lease, topology, take_over(store, lease, check))
        for unmatched in (text for change in changes[-1:] for text in change.unmatched):
            _log.warning("%s", unmatched)
        opened.change = next((change for change in changes[-1:] if change.is_one), None)
        return opened

    @staticmethod
    def require_possible(store: ObjectStorage, topology: Fingerprint, consent: Consent | None = None) -> None:
        """Raise as `open` does if a run cannot continue with a topology; takes no lease, and writes nothing."""
        if read_marker(store) is not None:
            _possible_change(store, look(store), topology, consent)

    @staticmethod
    def read(store: ObjectStorage, key_coder: KeyCoder = PLAIN) -> CheckpointView:
        """Read a checkpoint without becoming its driver. Raises `CheckpointError` if there is none or it is damaged."""
        return CheckpointView.of(store, key_coder)

    def view(self) -> CheckpointView:
        """The contents of the last commit."""
        return CheckpointView(self.store, self.identity, self.manifest, self.lease)

    def describe(self, topology: Fingerprint) -> None:
        """Take another fingerprint for this driver's topology, which differs in how keys name their classes alone."""
        self._topology = topology
        if self.change is not None:
            self.change = replace(self.change, new=topology)

    @property
    def generation(self) -> int:
        """Generation of this driver."""
        return self.lease.generation

    @property
    def manifest(self) -> Manifest | None:
        """The last commit; None before the first."""
        return self._position.manifest

    @property
    def next_epoch(self) -> int:
        """The epoch of the next commit, which is 1 for the first."""
        return 1 if self.manifest is None else self.manifest.epoch + 1

    def chain(self, level: int, interval: int) -> FileChain:
        """The files that a task must read to bring the state store of an interval up to the last commit."""
        chain = None if self.manifest is None else self.manifest.chains.get((level, interval))
        return chain or FileChain(level, interval)

    def chains(self, intervals: Mapping[int, IntervalMap]) -> list[FileChain]:
        """The file chains of these intervals, as of the last commit, whose intervals may have been different.

        Args:
            intervals: Level -> its intervals.
        """
        return [] if self.manifest is None else list(rearranged(self.manifest.chains, intervals).values())

    @property
    def stored_bytes(self) -> int:
        """Size of all state files that the last commit names."""
        return 0 if self.manifest is None else sum(chain.size for chain in self.manifest.chains.values())

    def commit(self, manifest: Manifest, snapshots: Iterable[SnapshotParts] = ()) -> Manifest:
        """Commit an epoch, and start to use the given snapshots.

        Returns:
            The manifest as it was written.

        Raises:
            FencedError: Another driver has taken over. Nothing is committed.
            CheckpointError: The checkpoint was removed or replaced. Nothing is committed.
            StoreError: The store failed. The epoch may or may not be committed; open the checkpoint again to find out.
                This object can no longer commit.
            ValueError: `manifest` is not of the next epoch, or would lose state.
        """
        self._ensure_turn(manifest)
        snapshots, before = list(snapshots), self.stored_bytes
        written = self._write(lambda place: self._completed(manifest, snapshots, place))
        added = [*(file.size for file in manifest.deltas.values() if file), *(each.size for each in snapshots)]
        self._leaving += before + sum(added) - self.stored_bytes
        # As long as file chains name each log entry, and nothing else is written, nothing becomes garbage.
        files = [file for file in manifest.deltas.values() if file is not None]
        self.may_have_garbage |= self._leaving > 0 or not files or not all(file.contents for file in files)
        return written

    def succeed(
        self, before: Manifest, change: TopologyDifference, topology: Topology, starts: Mapping[str, bytes], tasks: int
    ) -> Manifest:
        """Commit a change of topology, as an epoch in which no computation runs. Raises as `commit` does.

        Args:
            before: The current state, as for `commit`.
            change: The change, from `Checkpoint.change`.
            topology: The new topology.
            starts: See `succeeded`.
            tasks: See `succeeded`.

        Returns:
            The manifest as it was written.
        """
        before = self.described(before)
        now = Sequencer(self.generation, self.next_epoch)
        manifest = succeeded(before, change, topology, starts, now, tasks)
        self._ensure_turn(manifest)
        self._write(lambda place: manifest)
        self._topology, self.change = change.new, None
        return manifest

    def described(self, before: Manifest) -> Manifest:
        """Complete a manifest of the current state with the fields that only the checkpoint knows."""
        topology = self._topology if self.manifest is None else self.manifest.topology
        return replace(self._completed(replace(before, deltas={}), (), 0), topology=topology)

    def _ensure_turn(self, manifest: Manifest) -> None:
        if self._doubtful:
            raise StoreError("an earlier commit failed and may or may not be in the log; open the checkpoint again")
        if manifest.epoch != self.next_epoch:
            raise ValueError(f"epoch {manifest.epoch} cannot be committed now; the next is {self.next_epoch}")
        ensure_same(self.store, self.identity, manifest.epoch - 1)
        if (newer := fence.read_lease(self.store, self.generation + 1)) is not None:
            raise fence.fenced(self.store, self.lease, newer, f"nothing of its epoch {manifest.epoch} is committed")

    def ensure_driving(self) -> None:
        """Raise `FencedError` if another driver has taken over. Call it after any failure, to find the true cause.

        Tasks of a replaced driver can fail because the new driver has deleted files as garbage. Raises
        `CheckpointError` if the checkpoint was removed or replaced.
        """
        if not self._doubtful:
            ensure_same(self.store, self.identity, self.next_epoch - 1)
        fence.refuse_replaced(self.store, self.lease, "nothing more of it is committed")

    def _completed(self, manifest: Manifest, snapshots: Iterable[SnapshotParts], place: int) -> Manifest:
        return replace(
            manifest,
            generation=self.generation,
            owner=self.lease.owner,
            previous=self._position.base,
            topology=self._topology,
            chains=advanced(self.manifest, manifest, snapshots, place),
            archive=() if self.manifest is None else self.manifest.archive,
            left={} if self.manifest is None else self.manifest.left,
        )

    def _write(self, at: Callable[[int], Manifest]) -> Manifest:
        """Write a commit at the first place of the log without an entry of a replaced driver; returns it.

        Args:
            at: From the place to the commit there.

        Raises:
            FencedError: Another driver has committed, or has sealed the log.
        """
        place = self._position.last + 1
        while (rival := self._written(manifest := at(place), place)) is not None:
            if not isinstance(rival, Seal) or rival.lease.generation > self.generation:
                self._doubtful = False
                winner = rival.lease if isinstance(rival, Seal) else Lease(rival.generation, rival.owner, 0)
                loss = f"nothing of its epoch {manifest.epoch} is committed"
                raise fence.fenced(self.store, self.lease, winner, loss)
            place += 1
        self._doubtful = False
        self._before = self.manifest
        self._position = LogPosition(place, place, manifest)
        self._garbage.commits.add(place)
        return manifest

    def _written(self, manifest: Manifest, place: int) -> Manifest | Seal | None:
        """Write a commit at a place; return the entry of another driver that is there, otherwise None."""
        blobs_path = object_names.blobs(manifest.epoch, self.generation)
        encoded = encode_manifest(manifest, blobs_path)
        if encoded.blobs is not None:
            self.store.put(blobs_path, encoded.blobs)
        # What left with the last commit is garbage with this one; its own bulk leaves with the next.
        self.garbage_bytes, self._leaving = self.garbage_bytes + self._leaving, len(encoded.blobs or b"")
        self._doubtful = True
        try:
            return self._rival_at(place, encoded.entry)
        except StoreError as error:
            raise StoreError(
                f"{error}; whether epoch {manifest.epoch} is committed is not known: run again to find out"
            ) from error

    def _rival_at(self, number: int, entry: bytes) -> Manifest | Seal | None:
        """Write the log entry at a position; return the entry of another driver that is there, otherwise None."""
        path = object_names.log_entry(number)
        try:
            won = self.store.put_if_absent(path, entry)
        except StoreError:
            # The write may have happened although the answer was lost. If not, it is safe to retry, as no other driver
            # writes these bytes.
            won = self.store.get(path) == entry or self.store.put_if_absent(path, entry)
        # If the store retried the write on its own, the retry may have found the first attempt's object.
        if won or self.store.get(path) == entry:
            return None
        return read_entry(self.store, number)

    def needing_snapshot(self) -> list[FileChain]:
        """The chains with so many deltas to replay that a snapshot is worthwhile, and those that soon will have.

        There are none of the latter alone: one job makes all snapshots.
        """
        chains = [] if self.manifest is None else list(self.manifest.chains.values())
        if not any(chain.needs_snapshot(len(chains)) for chain in chains):
            return []
        return [chain for chain in chains if chain.needs_snapshot(len(chains), _SOON)]

    def order_snapshot(self, level: int, interval: int, token: str) -> SnapshotOrder:
        """An order for `write_snapshot`, whose result is passed to a later `commit`.

        The snapshot contains the state of the last commit. `token` is a new attempt token. Raises ValueError before the
        first commit.
        """
        if self.manifest is None:
            raise ValueError("a snapshot cannot be ordered before the first commit; commit an epoch first")
        last = self.chain(level, interval).last
        return SnapshotOrder(level, interval, self.manifest.epoch, last, self.generation, token)

    def collect_garbage(self) -> list[str]:
        """Delete objects that neither the last two commits nor another driver can need; return their names.

        Raises `StoreError` if some objects could not be deleted, which does no harm and can be retried;
        `CheckpointError` if the commit before the last cannot be read.
        """
        self.find_garbage()
        return self.delete_garbage()

    def find_garbage(self) -> int:
        """Look for what `collect_garbage` deletes; returns the number of objects.

        It needs several operations on the store, so it should be called once in several epochs. Raises as
        `collect_garbage`.
        """
        if self._before is None and self.manifest is not None:
            self._before = read_before(self.store, self.manifest)
        self._garbage.find(self.store, self.generation, self._position, self._before)
        self.may_have_garbage, self.garbage_bytes = False, 0
        return self._garbage.count

    def delete_garbage(self, most: int | None = None) -> list[str]:
        """Delete up to `most` of the objects that were found. Raises and returns as `collect_garbage`."""
        try:
            return self._garbage.delete(self.store, most)
        except StoreError:
            self.may_have_garbage = True
            raise


def _possible_change(
    store: ObjectStorage, position: LogPosition, topology: Fingerprint, consent: Consent | None
) -> list[TopologyDifference]:
    """The difference from the last commit, if there is a commit. Raises `TopologyChangeError`."""
    if position.manifest is None:
        return []
    change = change_of(stored_in(position.manifest, topology), topology, consent or Consent())
    change.require_possible(f"the checkpoint {store.describe()}")
    return [change]
