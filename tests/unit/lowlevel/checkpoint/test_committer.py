from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.lowlevel.checkpoint import Checkpoint, Fingerprint
from headrace.lowlevel.checkpoint.files.delta_file import DeltaHeader, delta_object, write_deltas
from headrace.lowlevel.checkpoint.log.commit_log import read_entry
from headrace.lowlevel.checkpoint.log.fence import Seal
from headrace.lowlevel.errors import CheckpointError, FencedError
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.envelope import wrap
from headrace.lowlevel.storage.object_store import ObjectStorage, ObjectStore, StoreError
from tests.checkpoints import (
    INTERVALS,
    PLACES,
    TOPOLOGY,
    check,
    contents,
    delta_of,
    expected,
    manifest_of,
    step,
    take_snapshot,
)
from tests.stores import CrashError, DictStore, FaultyStore, LostAnswerStore, WrappedStore


def opened(store: ObjectStorage, owner: str = "a", topology: Fingerprint = TOPOLOGY) -> Checkpoint:
    return Checkpoint.open(store, owner, topology, now_us=5)


def test_a_run_goes_on_where_it_was(store: ObjectStorage) -> None:
    for first in (1, 4, 7):
        checkpoint = opened(store)
        assert checkpoint.next_epoch == first
        for epoch in range(first, first + 3):
            step(checkpoint, store)
            check(Checkpoint.read(store), epoch)
    assert [checkpoint.generation, checkpoint.next_epoch] == [3, 10]


def test_an_empty_place_has_nothing_committed(store: ObjectStorage) -> None:
    checkpoint = opened(store)
    assert checkpoint.manifest is None
    assert checkpoint.chain(1, 0).names == ()
    assert checkpoint.needing_snapshot() == []
    assert checkpoint.collect_garbage() == []
    check(Checkpoint.read(store), 0)
    with pytest.raises(ValueError, match="before the first commit"):
        checkpoint.order_snapshot(1, 0, "s")


def test_what_was_written_is_returned(store: ObjectStorage) -> None:
    checkpoint = opened(store, "host 7")
    written = step(checkpoint, store)
    assert (written.generation, written.owner, written.topology) == (1, "host 7", TOPOLOGY)
    assert written == checkpoint.manifest == Checkpoint.read(store).manifest
    assert checkpoint.chain(1, 0) == written.chains[1, 0]


def test_epochs_are_committed_in_order(store: ObjectStorage) -> None:
    checkpoint = opened(store)
    with pytest.raises(ValueError, match="epoch 2 cannot be committed now; the next is 1"):
        checkpoint.commit(manifest_of(2, {}))


def test_a_checkpoint_has_an_identity(store: ObjectStorage) -> None:
    first = opened(store).identity
    assert first == opened(store).identity == Checkpoint.read(store).identity
    other = DictStore()
    assert Checkpoint.open(other, "another", TOPOLOGY, now_us=6).identity != first


def test_snapshots_count_from_the_commit_that_names_them(store: ObjectStorage) -> None:
    checkpoint = opened(store)
    for _ in range(3):
        step(checkpoint, store)
    snapshots = [take_snapshot(checkpoint, store, place) for place in PLACES]
    check(Checkpoint.read(store), 3)
    assert checkpoint.chain(1, 0).snapshot is None
    step(checkpoint, store, snapshots)
    assert checkpoint.chain(1, 0).snapshot == snapshots[0]
    assert len(checkpoint.chain(1, 0).names) == 3
    check(Checkpoint.read(store), 4)
    assert opened(store).chain(1, 0) == checkpoint.chain(1, 0)


def test_a_changed_number_of_intervals(store: ObjectStorage) -> None:
    checkpoint = opened(store)
    for _ in range(4):
        step(checkpoint, store)
    view = Checkpoint.read(store)
    copies = {"count": view.load("count")}
    whole = INTERVALS | {1: IntervalMap.evenly(1, first=2)}
    assert [plan.interval for plan in checkpoint.chains(whole)] == [2, 0]
    checkpoint.commit(replace(manifest_of(5, {}), intervals=whole))
    assert contents(Checkpoint.read(store).load("count")) == expected(4)["count"]
    assert Checkpoint.read(store).manifest.chains[1, 2] == checkpoint.chain(1, 2)
    assert all(name.startswith(("0/", "1/")) for name in checkpoint.chain(1, 2).names)
    assert (1, 2) in [(chain.level, chain.interval) for chain in checkpoint.needing_snapshot()]
    snapshot = take_snapshot(checkpoint, store, (1, 2))
    for epoch in (6, 7):
        checkpoint.commit(replace(manifest_of(epoch, {}), intervals=whole), [snapshot] if epoch == 6 else [])
    assert checkpoint.chain(1, 2).names == (snapshot.name,)
    checkpoint.collect_garbage()
    assert not [path for path in store.list("deltas") if "/1-" in path]
    assert contents(Checkpoint.read(store).load("count")) == contents(copies["count"])


# Who may open it


def test_a_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat").write_text("meow")
    for use in (opened, Checkpoint.read):
        with pytest.raises(CheckpointError, match=rf"{tmp_path} holds files but is no checkpoint of Headrace"):
            use(ObjectStore(tmp_path))
    assert [path.name for path in tmp_path.rglob("*")] == ["photos", "cat"]


def test_there_is_nothing_to_read(store: ObjectStorage) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint at"):
        Checkpoint.read(store)
    assert store.is_empty()


def test_another_format(store: ObjectStorage) -> None:
    store.put(object_names.MARKER, wrap("checkpoint", 2, [b"{}"]))
    with pytest.raises(
        CheckpointError, match=r"headrace in .* has format version 2 of a checkpoint, this release reads"
    ):
        opened(store)
    assert store.list(object_names.LEASES) == []


def test_another_pipeline_is_refused_and_disturbs_nobody(store: ObjectStorage) -> None:
    checkpoint = opened(store)
    step(checkpoint, store)
    changed = Fingerprint(TOPOLOGY.members[1:], (("top",),))
    with pytest.raises(CheckpointError, match="with the changed pipeline: computation 'count' is gone; give it its"):
        opened(store, "b", changed)
    step(checkpoint, store)
    assert checkpoint.generation == 1


def test_a_damaged_last_commit_is_refused_and_disturbs_nobody() -> None:
    store = DictStore()
    checkpoint = opened(store)
    step(checkpoint, store)
    step(checkpoint, store)
    path = object_names.log_entry(2)
    store.objects[path] = store.objects[path][:-1]
    with pytest.raises(CheckpointError, match=rf"{path} in dict:// is damaged"):
        opened(store, "b")
    assert store.list(object_names.LEASES) == [object_names.lease(1)]


def test_an_unknown_computation() -> None:
    store = DictStore()
    step(opened(store), store)
    with pytest.raises(CheckpointError, match=r"no state of a computation 'sum' \(computations: count, top\)"):
        Checkpoint.read(store).load("sum")


def test_looking_writes_nothing() -> None:
    store = DictStore()
    step(opened(store, "host a"), store)
    before = dict(store.objects)
    view = Checkpoint.read(store)
    check(view, 1)
    assert view.lease is not None
    assert (view.lease.owner, view.lease.taken) == ("host a", 5)
    assert store.objects == before


# Two drivers


def test_the_second_driver_fences_the_first(store: ObjectStorage) -> None:
    first = opened(store, "host a")
    step(first, store)
    second = opened(store, "host b")
    for _ in range(2):
        with pytest.raises(FencedError) as error:
            step(first, store, token="zombie")
        assert str(error.value) == (
            f"generation 1 (host a) on {store.describe()} was replaced by generation 2 (host b) and stops; "
            "nothing of its epoch 2 is committed. Run one driver on a checkpoint: stop the other one if it is not "
            "meant to go on from here"
        )
    step(second, store)
    check(Checkpoint.read(store), 2)


class Paused(WrappedStore):
    """Lets something else happen just before one operation: the process was stopped there."""

    def __init__(self, inner: ObjectStorage, at: str, meanwhile: Callable[[], object], skip: int = 0) -> None:
        super().__init__(inner)
        self.at, self.meanwhile, self.skip = at, meanwhile, skip

    def around(self, name: str, operation: Callable[[], object]) -> object:
        if name.startswith(self.at):
            self.skip -= 1
            if self.skip == -1:
                self.meanwhile()
        return operation()


@pytest.mark.parametrize("later_epochs", [0, 1, 5])
def test_a_commit_that_was_on_its_way_comes_too_late(later_epochs: int) -> None:
    """Figure 12: the write of the old driver lands after the new one has looked, and even after it has worked."""
    inner = DictStore()

    def successor() -> None:
        second = opened(inner, "host b")
        for _ in range(later_epochs):
            step(second, inner)
            second.collect_garbage()

    store = Paused(inner, "put_if_absent log/00000000000000000003", successor)
    first = opened(store, "host a")
    step(first, store)
    step(first, store)
    with pytest.raises(FencedError, match=r"\(host a\).* replaced by generation 2 \(host b\)"):
        step(first, store, token="zombie")
    check(Checkpoint.read(inner), 2 + later_epochs)


def test_a_driver_that_opens_while_the_old_one_still_commits() -> None:
    inner = DictStore()
    first = opened(inner, "host a")
    # The old driver has passed its look at the leases, and commits before the seal comes.
    second_store = Paused(
        inner, "put_if_absent log", lambda: first._write(lambda place: first._completed(manifest_of(1, {}), [], place))
    )
    second = opened(second_store, "host b")
    assert second.next_epoch == 2
    assert isinstance(read_entry(inner, 2), Seal)


def test_a_seal_that_lands_where_garbage_was_is_noticed() -> None:
    inner = DictStore()
    step(opened(inner, "host a"), inner)

    def others() -> None:
        # The slow driver wants to seal place 2; that place, and more, are used and collected meanwhile.
        third = opened(inner, "host c")
        for _ in range(5):
            step(third, inner)
        third.collect_garbage()
        inner.delete(object_names.log_entry(2))  # as if it had been a commit

    with pytest.raises(FencedError, match=r"generation 2 \(host b\).* replaced by generation 3 \(host c\).* not begun"):
        opened(Paused(inner, "put_if_absent log", others), "host b")
    check(Checkpoint.read(inner), 6)


def test_a_seal_that_comes_late_does_not_stop_the_driver_with_the_newer_lease() -> None:
    inner = DictStore()
    step(opened(inner, "host a"), inner)
    newer: list[Checkpoint] = []

    def overtakes() -> None:
        newer.append(opened(inner, "host c"))
        step(newer[0], inner)

    # Stopped between its lease and its look at the log, whose end it then seals.
    slow = Paused(inner, "list log", overtakes, skip=1)
    with pytest.raises(FencedError, match=r"generation 2 \(host b\).* replaced by generation 3 \(host c\)"):
        opened(slow, "host b")
    assert isinstance(read_entry(inner, 4), Seal)
    step(newer[0], inner)
    step(newer[0], inner)
    check(Checkpoint.read(inner), 4)
    last = opened(inner, "host d")
    step(last, inner)
    check(Checkpoint.read(inner), 5)


def test_who_is_replaced_can_ask() -> None:
    store = DictStore()
    first = opened(store, "host a")
    first.ensure_driving()
    opened(store, "host b")
    with pytest.raises(FencedError, match="replaced by generation 2"):
        first.ensure_driving()


def test_two_drivers_make_a_checkpoint_at_once() -> None:
    inner = DictStore()
    other: list[Checkpoint] = []
    store = Paused(inner, "is_empty", lambda: other.append(opened(inner, "host b")))
    second = opened(store, "host a")
    assert second.identity == other[0].identity
    assert second.generation == 2
    step(second, inner)
    with pytest.raises(FencedError):
        step(other[0], inner)


def test_a_lease_whose_number_was_free_again_is_not_enough() -> None:
    inner = DictStore()

    def others() -> None:
        for _ in range(3):
            checkpoint = opened(inner)
            step(checkpoint, inner)
            checkpoint.collect_garbage()

    late = opened(Paused(inner, "put_if_absent leases", others), "late")
    assert late.generation == 4
    step(late, inner)


def test_a_store_that_tries_again_on_its_own() -> None:
    inner = DictStore()
    checkpoint = opened(inner)
    checkpoint.store = LostAnswerStore(inner)
    for _ in range(3):
        step(checkpoint, checkpoint.store)
    check(Checkpoint.read(inner), 3)


class LoseLeasesNot(LostAnswerStore):
    def put_if_absent(self, path: str, data: bytes) -> bool:
        done = self.inner.put_if_absent(path, data)
        return done if path.startswith(object_names.LEASES) else False


def test_a_seal_or_marker_whose_answer_is_lost() -> None:
    inner = DictStore()
    for epoch in (1, 2, 3):
        checkpoint = opened(LoseLeasesNot(inner))
        step(checkpoint, inner)
        check(Checkpoint.read(inner), epoch)
    assert checkpoint.generation == 3


def test_after_a_commit_of_unknown_outcome_the_checkpoint_must_be_opened_again() -> None:
    inner = DictStore()
    checkpoint = opened(inner)
    step(checkpoint, inner)
    operations = FaultyStore(inner, 10**9, after=False)
    checkpoint.store = operations
    step(checkpoint, inner)
    commit_at = next(i for i, name in enumerate(operations.operations) if name.startswith("put_if_absent log"))
    checkpoint.store = FaultyStore(inner, commit_at, after=True)
    with pytest.raises(CrashError):
        step(checkpoint, inner)
    checkpoint.store = inner
    with pytest.raises(StoreError, match="failed and may or may not be in the log; open the checkpoint again"):
        step(checkpoint, inner)
    assert opened(inner).next_epoch == 4


def test_a_damaged_lease_still_counts() -> None:
    store = DictStore()
    first = opened(store, "host a")
    opened(store, "host b")
    store.objects[object_names.lease(2)] = b"???"
    with pytest.raises(FencedError, match="replaced by generation 2"):
        step(first, store)
    assert opened(store, "host c").generation == 3


# Garbage


def everything_named(store: DictStore, checkpoint: Checkpoint) -> set[str]:
    """Seals, the last two commits, and what these name."""
    entries = {path: read_entry(store, object_names.number_of(path) or 0) for path in store.list(object_names.LOG)}
    commits = [path for path, entry in entries.items() if not isinstance(entry, Seal)]
    manifests = [entries[path] for path in commits[-2:]]
    seals = entries.keys() - set(commits)
    named = {path for one in manifests for plan in one.chains.values() for path in plan.objects()}
    named |= {path for one in manifests if (path := object_names.blobs(one.epoch, one.generation)) in store.objects}
    return named | {object_names.MARKER, object_names.lease(checkpoint.generation), *seals, *commits[-2:]}


@pytest.mark.parametrize("carries", [False, True])
def test_garbage_collection_leaves_exactly_what_is_named(carries: bool) -> None:
    store = DictStore()
    for generation in range(1, 4):
        checkpoint = opened(store)
        for _ in range(10):
            snapshots = (
                [take_snapshot(checkpoint, store, (1, 0), f"s{len(store.objects)}")] if checkpoint.manifest else []
            )
            step(checkpoint, store, snapshots, carries=carries)
            # Attempts that did not count, bulk of a commit that did not happen, a snapshot that was superseded.
            store.put(object_names.delta(checkpoint.next_epoch - 1, 1, 0, "lost"), b"")
            store.put(object_names.blobs(checkpoint.next_epoch - 1, 0), b"")
        deleted = checkpoint.collect_garbage()
        assert deleted
        assert not set(deleted) & set(store.objects)
        assert set(store.objects) == everything_named(store, checkpoint)
        check(Checkpoint.read(store), generation * 10)
        assert checkpoint.collect_garbage() == []
    commits = [
        path
        for path in store.list(object_names.LOG)
        if not isinstance(read_entry(store, object_names.number_of(path) or 0), Seal)
    ]
    assert (len(commits) == 2) != carries


def test_snapshots_are_made_together() -> None:
    """Of the places those with as many deltas, or nearly as many; none before one of them needs it."""
    store = DictStore()
    checkpoint = opened(store)
    for epoch in range(1, 33):
        # One chain grows with each epoch, one begins a little later, and one has few deltas.
        places = [(1, 0)] + [(1, 1)] * (epoch > 4) + [(2, 0)] * (epoch % 4 == 0)
        deltas = {place: write_deltas(store, DeltaHeader(epoch, *place, "t"), {}) for place in places}
        assert checkpoint.needing_snapshot() == []
        checkpoint.commit(manifest_of(epoch, deltas))
    assert [(chain.level, chain.interval) for chain in checkpoint.needing_snapshot()] == [(1, 0), (1, 1)]


def test_commits_that_carry_all_their_deltas_leave_nothing_to_collect() -> None:
    store = DictStore()
    checkpoint = opened(store)

    def carried(epoch: int) -> None:
        header = DeltaHeader(epoch, 1, 0, "t")
        _, data, file = delta_object(header, {"count": delta_of((1, 0), epoch)})
        checkpoint.commit(manifest_of(epoch, {(1, 0): file._replace(contents=data)}))

    carried(1)
    checkpoint.collect_garbage()
    for epoch in (2, 3, 4):
        carried(epoch)
    assert not checkpoint.may_have_garbage and checkpoint.collect_garbage() == []
    checkpoint.commit(manifest_of(5, {}))
    carried(6)
    carried(7)
    assert checkpoint.may_have_garbage
    assert checkpoint.collect_garbage() == [object_names.log_entry(5)], "nothing names the entry without deltas"


def test_garbage_collection_spares_what_is_being_made() -> None:
    store = DictStore()
    checkpoint = opened(store)
    for _ in range(3):
        step(checkpoint, store)
    own = take_snapshot(checkpoint, store, (1, 0), "own")
    store.put(object_names.delta(4, 1, 0, "running"), b"")
    store.put(object_names.snapshot_part(object_names.SnapshotName(1, 0, 3, 2), "successors", 0), b"")
    store.put(object_names.delta(5, 1, 0, "successors"), b"")
    store.put(object_names.blobs(4, 2), b"")
    store.put(object_names.lease(2), b"")
    made = set(own.objects()) | {path for path in store.objects if "successors" in path or "running" in path}
    checkpoint.collect_garbage()
    assert made | {object_names.blobs(4, 2), object_names.lease(2)} <= set(store.objects)


def test_garbage_collection_by_a_driver_that_was_replaced() -> None:
    store = DictStore()
    old = opened(store, "host a")
    for _ in range(4):
        step(old, store)
    new = opened(store, "host b")
    snapshot = take_snapshot(new, store, (1, 0), "new")
    for _ in range(3):
        step(new, store, [snapshot])
    old.collect_garbage()
    check(Checkpoint.read(store), 7)
    new.collect_garbage()
    old.collect_garbage()
    check(Checkpoint.read(store), 7)
    assert opened(store).next_epoch == 8
