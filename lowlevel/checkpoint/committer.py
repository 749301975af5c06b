"""The checkpoint as its driver uses it: open, commit, order snapshots, collect garbage (paper §6.2; `fence`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.lowlevel.checkpoint import fence, paths, plans
from headrace.lowlevel.checkpoint.change import Change, Consent, change_of
from headrace.lowlevel.checkpoint.copy_plan import CopyPlan
from headrace.lowlevel.checkpoint.fence import Lease, Seal
from headrace.lowlevel.checkpoint.fingerprint import Fingerprint
from headrace.lowlevel.checkpoint.garbage import Garbage
from headrace.lowlevel.checkpoint.log import Position, look, read_entry, take_over
from headrace.lowlevel.checkpoint.manifest import Manifest, encode_manifest
from headrace.lowlevel.checkpoint.marker import ensure_marker, ensure_same
from headrace.lowlevel.checkpoint.snapshot import Snapshot, SnapshotOrder
from headrace.lowlevel.checkpoint.succession import stored_in, succeeded
from headrace.lowlevel.checkpoint.view import CheckpointView
from headrace.lowlevel.coder import KeyCoder
from headrace.lowlevel.intervals import IntervalMap
from headrace.lowlevel.plaindata import PLAIN
from headrace.lowlevel.sequencer import Sequencer
from headrace.lowlevel.store import Store, StoreError
from headrace.lowlevel.topology import Topology


class Checkpoint:
    """The one place where a run's epochs are committed. Make it with `open`.

    >>> from headrace.lowlevel.store import ObjectStore
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

    def __init__(self, store: Store, identity: str, lease: Lease, topology: Fingerprint, position: Position) -> None:
        self.store = store
        self.identity = identity
        """The same for as long as the checkpoint exists; another one at the same place has another."""
        self.lease = lease
        self._topology = topology
        self._position = position
        self._before: Manifest | None = None
        self._garbage = Garbage()
        self._doubtful = False
        self.change: Change | None = None
        """From the topology of the last commit to that of this driver, as long as it is not committed."""

    @classmethod
    def open(
        cls, store: Store, owner: str, topology: Fingerprint, now_us: int, consent: Consent | None = None
    ) -> Checkpoint:
        """Become the driver of a checkpoint, or make an empty place one; the driver before is fenced off.

        `owner` describes this driver to the one that it replaces: host, process, and what else a person may want to
        know. Raises `CheckpointError`, before anything is changed, if the place holds something else or is damaged;
        `TopologyChangeError` if what it holds cannot go on with this topology, given what the user consents to;
        `FencedError` if a third driver takes over meanwhile; `StoreError`.

        Where the topology is another one than that of the last commit, `change` says what that means, and `succeed`
        has to commit it before anything else.
        """

        def check(position: Position) -> None:
            if position.manifest is not None:
                change = change_of(stored_in(position.manifest, topology), topology, consent or Consent())
                change.require_possible(f"the checkpoint {store.describe()}")
                changes.append(change)

        changes: list[Change] = []
        identity = ensure_marker(store, owner, now_us)
        check(look(store))
        lease = fence.take_lease(store, owner, now_us)
        opened = cls(store, identity, lease, topology, take_over(store, lease, check))
        opened.change = next((change for change in changes[-1:] if change.is_one), None)
        return opened

    @staticmethod
    def read(store: Store, key_coder: KeyCoder = PLAIN) -> CheckpointView:
        """Look at a checkpoint without becoming its driver. Raises `CheckpointError` if there is none to read."""
        return CheckpointView.of(store, key_coder)

    @property
    def generation(self) -> int:
        """Of this driver."""
        return self.lease.generation

    @property
    def manifest(self) -> Manifest | None:
        """The last commit; None before the first."""
        return self._position.manifest

    @property
    def next_epoch(self) -> int:
        """The epoch that the next commit is of: one after the last commit's, 1 for the first."""
        return 1 if self.manifest is None else self.manifest.epoch + 1

    def chain(self, level: int, interval: int) -> CopyPlan:
        """What a task must read to bring its copy to the last commit."""
        plan = None if self.manifest is None else self.manifest.plans.get((level, interval))
        return plan or CopyPlan(level, interval)

    def chains(self, intervals: Mapping[int, IntervalMap]) -> list[CopyPlan]:
        """What tasks must read to bring copies of these intervals to the last commit, though it may have had others."""
        return [] if self.manifest is None else list(plans.rearranged(self.manifest.plans, intervals).values())

    def commit(self, manifest: Manifest, snapshots: Iterable[Snapshot] = ()) -> Manifest:
        """Make an epoch happen, and count the given snapshots from now on; returns what was written.

        Raises `FencedError` if another driver has taken over: nothing is committed. Raises `StoreError` if the store
        fails: whether the epoch was committed shows when the checkpoint is opened again, and this object is no
        longer of use.
        """
        self._ensure_turn(manifest)
        manifest = self._completed(manifest, snapshots)
        self._write(manifest)
        return manifest

    def succeed(
        self, before: Manifest, change: Change, topology: Topology, starts: Mapping[str, bytes], tasks: int
    ) -> Manifest:
        """Commit a change of topology, as an epoch of its own in which nothing runs; returns what was written.

        Args:
            before: What is true now, as `commit` takes it.
            change: What the change means.
            topology: The new one.
            starts: See `succeeded`.
            tasks: See `succeeded`.
        """
        before = self.described(before)
        now = Sequencer(self.generation, self.next_epoch)
        manifest = succeeded(before, change, topology, starts, now, tasks)
        self._ensure_turn(manifest)
        self._write(manifest)
        self._topology, self.change = change.new, None
        return manifest

    def described(self, before: Manifest) -> Manifest:
        """What is true now, as `commit` takes it, with what only the checkpoint knows."""
        topology = self._topology if self.manifest is None else self.manifest.topology
        return replace(self._completed(replace(before, deltas={}), ()), topology=topology)

    def _ensure_turn(self, manifest: Manifest) -> None:
        if self._doubtful:
            raise StoreError("an earlier commit did not end, so it may have happened; open the checkpoint again")
        if manifest.epoch != self.next_epoch:
            raise ValueError(f"epoch {manifest.epoch} cannot be committed now; the next is {self.next_epoch}")
        ensure_same(self.store, self.identity, manifest.epoch - 1)
        if (newer := fence.read_lease(self.store, self.generation + 1)) is not None:
            raise fence.fenced(self.store, self.lease, newer, f"nothing of its epoch {manifest.epoch} is committed")

    def ensure_driving(self) -> None:
        """Raise `FencedError` if another driver has taken over. Ask when anything failed, to tell the true cause.

        A successor's garbage collection takes files away that the last commit of this driver names. Raises
        `CheckpointError` if the checkpoint is gone.
        """
        if not self._doubtful:
            ensure_same(self.store, self.identity, self.next_epoch - 1)
        fence.refuse_replaced(self.store, self.lease, "nothing more of it is committed")

    def _completed(self, manifest: Manifest, snapshots: Iterable[Snapshot]) -> Manifest:
        return replace(
            manifest,
            generation=self.generation,
            owner=self.lease.owner,
            previous=self._position.base,
            topology=self._topology,
            plans=plans.advanced(self.manifest, manifest, snapshots),
            archive=() if self.manifest is None else self.manifest.archive,
            left={} if self.manifest is None else self.manifest.left,
        )

    def _write(self, manifest: Manifest) -> None:
        blobs_path = paths.blobs(manifest.epoch, self.generation)
        encoded = encode_manifest(manifest, blobs_path)
        if encoded.blobs is not None:
            self.store.put(blobs_path, encoded.blobs)
        self._doubtful = True
        try:
            self._place(manifest, encoded.entry)
        except StoreError as error:
            raise StoreError(
                f"{error}; whether epoch {manifest.epoch} is committed is not known: run again to find out"
            ) from error
        self._doubtful = False

    def _place(self, manifest: Manifest, entry: bytes) -> None:
        """Write the entry into the first place that no driver before this one has taken."""
        place = self._position.last + 1
        while (rival := self._rival_at(place, entry)) is not None:
            if not isinstance(rival, Seal) or rival.lease.generation > self.generation:
                self._doubtful = False
                winner = rival.lease if isinstance(rival, Seal) else Lease(rival.generation, rival.owner, 0)
                what = f"nothing of its epoch {manifest.epoch} is committed"
                raise fence.fenced(self.store, self.lease, winner, what)
            place += 1
        self._before = self.manifest
        self._position = Position(place, place, manifest)
        self._garbage.commits.add(place)

    def _rival_at(self, place: int, entry: bytes) -> Manifest | Seal | None:
        """Write the entry at a place; if that is taken, what is there."""
        path = paths.log_entry(place)
        try:
            won = self.store.put_if_absent(path, entry)
        except StoreError:
            # Did it happen, and only the answer was lost? If not it may be tried again: nobody else writes these bytes.
            won = self.store.get(path) == entry or self.store.put_if_absent(path, entry)
        # A write that the store tried again on its own may have found itself there.
        if won or self.store.get(path) == entry:
            return None
        return read_entry(self.store, place)

    def needs_snapshot(self, level: int, interval: int) -> bool:
        """Whether so much would have to be replayed that a snapshot is worth its cost; quick to ask."""
        return self.chain(level, interval).needs_snapshot()

    def order_snapshot(self, level: int, interval: int, token: str) -> SnapshotOrder:
        """An order for `write_snapshot`, of the state of the last commit; give what it returns to a later `commit`.

        `token` is a fresh attempt token.
        """
        if self.manifest is None:
            raise ValueError("nothing is committed yet that a snapshot could hold")
        last = self.chain(level, interval).last
        return SnapshotOrder(level, interval, self.manifest.epoch, last, self.generation, token)

    def collect_garbage(self) -> list[str]:
        """Delete what neither the last two commits nor another driver can need; returns the names of what it was.

        Takes several operations: call it away from the hot path, every some epochs. Raises `StoreError` if some of it
        could not be deleted, which harms nobody and may be tried again; `CheckpointError` if the commit before the last
        cannot be read.
        """
        manifest = self.manifest
        if self._before is None and manifest is not None and manifest.previous:
            entry = read_entry(self.store, manifest.previous)
            self._before = entry if isinstance(entry, Manifest) else None
        return self._garbage.collect(self.store, self.generation, self._position, self._before)
