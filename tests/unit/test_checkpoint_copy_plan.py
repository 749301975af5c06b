from __future__ import annotations

import pickle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.checkpoint import (
    CopyPlan,
    DeltaFile,
    DeltaHeader,
    Manifest,
    Snapshot,
    SnapshotOrder,
    write_deltas,
    write_snapshot,
)
from headrace.lowlevel.checkpoint.plans import advanced
from headrace.lowlevel.sequencer import split_evenly
from headrace.lowlevel.state import Delta, MemoryCopy
from tests.checkpoints import contents
from tests.stores import DictStore


def random_delta(random: Random, epoch: int) -> Delta:
    delta = Delta()
    for _ in range(random.randrange(6)):
        row = b"%d" % random.randrange(4)
        delta.keys[row] = b"key " + row
        delta.cells[row, b"%d" % random.randrange(2)] = random.choice([None, b"%d" % epoch])
        delta.marks[row, random.randrange(2), "t"] = random.choice([None, epoch])
        delta.ids[b"%d" % random.randrange(30)] = random.randrange(epoch, epoch + 9)
    delta.forget_ids_before = random.choice([None, epoch])
    return delta


class Host:
    """A copy somewhere that is brought up to date now and then, as a runner does it."""

    def __init__(self) -> None:
        self.copy, self.position, self.made_again = MemoryCopy(), "", 0

    def advance(self, store: DictStore, plan: CopyPlan) -> None:
        names = plan.names
        if self.position in names:
            names = names[names.index(self.position) + 1 :]
        elif self.position:
            self.made_again += 1
            self.copy = MemoryCopy()
        for name in names:
            for delta in plan.read(store, name, "count"):
                self.copy.apply(delta)
            self.position = name


@given(st.integers(0, 2**32))
def test_every_copy_reaches_the_same_state(seed: int) -> None:
    random, store = Random(seed), DictStore()
    reference, plan, hosts = MemoryCopy(), CopyPlan(1, 0), [Host() for _ in range(4)]
    snapshots: list[Snapshot] = []
    for epoch in range(1, 30):
        delta = random_delta(random, epoch)
        reference.apply(delta)
        plan = plan.after(write_deltas(store, DeltaHeader(epoch, 1, 0, "t"), {"count": delta, "other": Delta()}))
        host = random.choice(hosts)
        host.advance(store, plan)
        assert contents(host.copy) == contents(reference)
        if random.random() < 0.3:
            # Made now, recorded some epochs later, perhaps after a newer one.
            order = SnapshotOrder(1, 0, epoch, plan.last, 1, f"s{epoch}")
            snapshots.append(write_snapshot(store, order, {"count": host.copy, "other": MemoryCopy()}))
        if snapshots and random.random() < 0.3:
            plan = plan.on(snapshots.pop(random.randrange(len(snapshots))))
        covered = plan.snapshot.order.last if plan.snapshot else ""
        assert plan.replay_bytes == sum(int(name.split("-")[2]) for name in plan.deltas if name != covered)
    for host in hosts:
        host.advance(store, plan)
        assert contents(host.copy) == contents(reference)
    assert contents(plan.load(store, "count").get("count", MemoryCopy())) == contents(reference)


def grown(epochs: int, size: int = 10) -> CopyPlan:
    plan = CopyPlan(1, 0)
    for epoch in range(1, epochs + 1):
        plan = plan.after(DeltaFile(epoch, f"t{epoch}", size))
    return plan


def snapshot_of(plan: CopyPlan, size: int = 100, token: str = "s") -> Snapshot:
    epoch = int(plan.last.split("-")[0]) if plan.deltas else 0
    return Snapshot(SnapshotOrder(1, 0, epoch, plan.last, 1, token), (("count", 1),), size)


def test_a_snapshot_takes_the_place_of_what_it_covers() -> None:
    plan = grown(3).on(snapshot_of(grown(2)))
    assert plan.names == ("s2-1-s", "2-t2-10", "3-t3-10")
    assert plan.replay_bytes == 10
    assert list(plan.objects()) == [
        "snapshots/1-0/00000000000000000002-00000000000000000001-s/000000",
        "deltas/00000000000000000002/1-0-t2",
        "deltas/00000000000000000003/1-0-t3",
    ]


def test_a_snapshot_of_the_state_on_a_snapshot() -> None:
    once = grown(2).on(snapshot_of(grown(2)))
    bare = CopyPlan(1, 0, once.snapshot)
    again = bare.on(snapshot_of(bare, token="again"))
    assert again.names == ("s0-1-again",)
    assert again.last == "s0-1-again"


def test_a_snapshot_that_comes_too_late_changes_nothing() -> None:
    plan = grown(4).on(snapshot_of(grown(3)))
    assert plan.on(snapshot_of(grown(2))) == plan


def test_copies_at_the_last_covered_delta_go_on() -> None:
    store, host, plan = DictStore(), Host(), CopyPlan(1, 0)
    for epoch in (1, 2):
        plan = plan.after(write_deltas(store, DeltaHeader(epoch, 1, 0, "t"), {"count": Delta(ids={b"%d" % epoch: 1})}))
    host.advance(store, plan)
    plan = plan.on(write_snapshot(store, SnapshotOrder(1, 0, 2, plan.last, 1, "s"), {"count": host.copy}))
    host.advance(store, plan)
    assert host.made_again == 0


def test_a_plan_is_small() -> None:
    plan = grown(32)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert len(pickle.dumps(plan)) < 32 * 20


@pytest.mark.parametrize(
    ("plan", "needed"),
    [
        (CopyPlan(1, 0), False),
        (grown(31), False),
        (grown(32), True),
        (grown(1, 10**9), False),
        (grown(2, 600_000), True),
        (grown(10).on(snapshot_of(grown(10))), False),
        (grown(41).on(snapshot_of(grown(10))), False),
        (grown(42).on(snapshot_of(grown(10))), True),
        # A large state is not written again for a few small changes, but no plan grows for ever.
        (grown(42).on(snapshot_of(grown(10), size=10**9)), False),
        (grown(523).on(snapshot_of(grown(10), size=10**9)), True),
    ],
)
def test_when_a_snapshot_is_needed(plan: CopyPlan, needed: bool) -> None:
    assert plan.needs_snapshot() == needed


# How a commit changes the plans


def manifest(
    epoch: int, intervals: int, plans: dict[tuple[int, int], CopyPlan] | None = None, **more: object
) -> Manifest:
    return Manifest(epoch=epoch, wall_clock=0, intervals={1: split_evenly(intervals)}, plans=plans or {}, **more)


def test_each_interval_keeps_its_files() -> None:
    first = advanced(None, manifest(1, 2, deltas={(1, 0): DeltaFile(1, "a", 5), (1, 1): None}), [])
    assert {place: plan.names for place, plan in first.items()} == {(1, 0): ("1-a-5",), (1, 1): ()}
    second = advanced(manifest(1, 2, first), manifest(2, 2, deltas={(1, 1): DeltaFile(2, "b", 6)}), [])
    assert {place: plan.names for place, plan in second.items()} == {(1, 0): ("1-a-5",), (1, 1): ("2-b-6",)}


def test_intervals_that_change_begin_with_snapshots() -> None:
    before = manifest(1, 1, advanced(None, manifest(1, 1, deltas={(1, 0): DeltaFile(1, "a", 5)}), []))
    made = [Snapshot(SnapshotOrder(1, index, 1, "", 1, f"n{index}"), (), 0) for index in range(2)]
    after = advanced(before, manifest(2, 2, deltas={(1, 1): DeltaFile(2, "b", 6)}), made)
    assert {place: plan.names for place, plan in after.items()} == {(1, 0): ("s1-1-n0",), (1, 1): ("s1-1-n1", "2-b-6")}


@pytest.mark.parametrize(
    "order", [None, SnapshotOrder(1, 1, 0, "", 1, "old"), SnapshotOrder(1, 1, 1, "1-a-5", 1, "of the old interval")]
)
def test_intervals_that_change_lose_nothing(order: SnapshotOrder | None) -> None:
    before = manifest(1, 1, advanced(None, manifest(1, 1, deltas={(1, 0): DeltaFile(1, "a", 5)}), []))
    made = [Snapshot(SnapshotOrder(1, 0, 1, "", 1, "n0"), (), 0)]
    made += [] if order is None else [Snapshot(order, (), 0)]
    with pytest.raises(ValueError, match="intervals of level 1 change, but interval 1 comes without a snapshot"):
        advanced(before, manifest(2, 2), made)


def test_intervals_without_state_may_change_freely() -> None:
    before = manifest(1, 1, advanced(None, manifest(1, 1), []))
    assert len(advanced(before, manifest(2, 3), [])) == 3


def test_places_outside_the_interval_map() -> None:
    with pytest.raises(ValueError, match="level 1 has no interval 5 in epoch 1's interval map"):
        advanced(None, manifest(1, 2, deltas={(1, 5): DeltaFile(1, "a", 5)}), [])
    with pytest.raises(ValueError, match="level 1 is not in epoch 2's interval map, but has state"):
        advanced(manifest(1, 1), Manifest(epoch=2, wall_clock=0, intervals={2: split_evenly(1)}), [])
