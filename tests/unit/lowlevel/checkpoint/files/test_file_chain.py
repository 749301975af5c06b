from __future__ import annotations

import pickle
from dataclasses import replace
from random import Random
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lowlevel import BoundedInjector, Computation, Topology
from headrace.lowlevel.checkpoint import (
    DeltaFile,
    DeltaHeader,
    FileChain,
    Manifest,
    SnapshotOrder,
    SnapshotParts,
    write_deltas,
    write_snapshot,
)
from headrace.lowlevel.checkpoint.files.file_chain import merged
from headrace.lowlevel.checkpoint.inspection.stored_tables import StoredTables
from headrace.lowlevel.checkpoint.manifest.manifest import advanced, rearranged
from headrace.lowlevel.intervals.interval_map import SPACE, Interval, IntervalMap, key_position
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.segment import decode, encode
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.runners.local import Scheduler
from headrace.runners.local.executor import LocalExecutor
from tests.checkpoints import contents
from tests.depth import examples
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
        self.copy, self.position, self.made_again = MemoryStateStore(), "", 0

    def advance(self, store: DictStore, plan: FileChain) -> None:
        names = plan.names
        if self.position in names:
            names = names[names.index(self.position) + 1 :]
        elif self.position:
            self.made_again += 1
            self.copy = MemoryStateStore()
        for name in names:
            for delta in plan.read(store, name, "count"):
                self.copy.apply(delta)
            self.position = name


@given(st.integers(0, 2**32))
def test_every_copy_reaches_the_same_state(seed: int) -> None:
    random, store = Random(seed), DictStore()
    reference, plan, hosts = MemoryStateStore(), FileChain(1, 0), [Host() for _ in range(4)]
    snapshots: list[SnapshotParts] = []
    for epoch in range(1, 30):
        delta = random_delta(random, epoch)
        reference.apply(delta)
        plan = plan.with_delta(write_deltas(store, DeltaHeader(epoch, 1, 0, "t"), {"count": delta, "other": Delta()}))
        host = random.choice(hosts)
        host.advance(store, plan)
        assert contents(host.copy) == contents(reference)
        if random.random() < 0.3:
            # Made now, recorded some epochs later, perhaps after a newer one.
            order = SnapshotOrder(1, 0, epoch, plan.last, 1, f"s{epoch}")
            snapshots.append(write_snapshot(store, order, {"count": host.copy, "other": MemoryStateStore()}))
        if snapshots and random.random() < 0.3:
            plan = plan.on(snapshots.pop(random.randrange(len(snapshots))))
        covered = plan.snapshot.order.last if plan.snapshot else ""
        assert plan.replay_bytes == sum(int(name.split("-")[2]) for name in plan.deltas if name != covered)
    for host in hosts:
        host.advance(store, plan)
        assert contents(host.copy) == contents(reference)
    assert contents(plan.load(store, "count").get("count", MemoryStateStore())) == contents(reference)


@settings(max_examples=examples(40, 1_000))
@given(st.integers(0, 2**32))
def test_no_key_is_lost_and_none_is_in_two_places_whatever_becomes_of_intervals(seed: int) -> None:
    """Splits, merges, moves and snapshots at random, beside one copy that has it all."""
    random, store, reference = Random(seed), DictStore(), MemoryStateStore()
    intervals = IntervalMap.evenly(random.randrange(1, 4))
    plans = rearranged({}, {1: intervals})
    numbers = {interval.number for interval in intervals}
    for epoch in range(1, 25):
        for number, delta in spread_delta(random, epoch, intervals).items():
            reference.apply(delta)
            header = DeltaHeader(epoch, 1, number, "t")
            plans[1, number] = plans[1, number].with_delta(write_deltas(store, header, {"count": delta}))
        if random.random() < 0.2:
            place = random.choice(sorted(plans))
            order = SnapshotOrder(*place, epoch, plans[place].last, 1, "s")
            plans[place] = plans[place].on(write_snapshot(store, order, plans[place].load(store)))
        after = changed(random, intervals, epoch)
        fresh = {interval.number for interval in after} - {interval.number for interval in intervals}
        assert not fresh & numbers
        numbers, intervals = numbers | fresh, after
        plans = rearranged(plans, {1: intervals})
        copies = {place[1]: plan.load(store).get("count", MemoryStateStore()) for place, plan in plans.items()}
        for number, copy in copies.items():
            inside = intervals[number]
            assert all(inside.start <= key_position(row) < inside.stop for row, _ in contents(copy).cells)
        whole = contents(merged(copies.values()))
        assert (whole.keys, whole.cells, whole.marks) == (
            contents(reference).keys,
            contents(reference).cells,
            contents(reference).marks,
        )
        assert whole.ids.keys() >= contents(reference).ids.keys()


def lines_of(copy: StateStore) -> list[tuple[bytes, int]]:
    """Row and number of each line in a copy's segments, in order."""
    return sorted(line for name in copy.segment_names() for line in lines(copy.segment(name)))


class Appending:
    """A computation that keeps lines in segments, beside a model that has them all in one place."""

    def __init__(self, random: Random) -> None:
        self.random, self.lines = random, set[tuple[bytes, int]]()

    def change(self, copy: StateStore, inside: Interval, epoch: int) -> Delta:
        """Some new segments, some old ones taken away or written again."""
        # The same names in every interval, and some again in later epochs.
        fresh = [b"%d" % self.random.choice([epoch, 100]) for _ in range(self.random.randrange(3))]
        old = [name for name in copy.segment_names() if self.random.random() < 0.2]
        delta = Delta(segments=dict.fromkeys(old))
        for name in {*fresh, *(name for name in old if self.random.random() < 0.4)}:
            delta.segments[name] = self._new(inside, epoch)
        gone = {line for name in delta.segments for line in lines(copy.segment(name))}
        self.lines -= gone
        self.lines |= {line for contents in delta.segments.values() for line in lines(contents)}
        return delta

    def _new(self, inside: Interval, epoch: int) -> bytes:
        places = [self.random.randrange(inside.start, inside.stop) for _ in range(self.random.randrange(5))]
        rows = [
            place.to_bytes(8, "big") + self.random.randbytes(8) for place in (*places, inside.start, inside.stop - 1)
        ]
        return encode(pa.RecordBatch.from_pydict({"row": pa.array(rows, pa.binary(16)), "epoch": [epoch] * len(rows)}))


def lines(contents: bytes | None) -> list[tuple[bytes, int]]:
    """Row and number of each line of a segment, if it is there."""
    columns = () if contents is None else [column.to_pylist() for column in decode(contents)]
    return list(zip(*columns, strict=True))


@settings(max_examples=examples(15, 500))
@given(st.integers(0, 2**32))
def test_every_line_of_a_segment_stays_whatever_becomes_of_intervals(seed: int) -> None:
    """Splits, merges, moves and snapshots at random: the lines are those of one interval that nothing happens to.

    Copies that go on say the same as those that are made of the checkpoint, names of segments too.
    """
    random, store = Random(seed), DictStore()
    living = LocalExecutor(SUMS, 1, Scheduler(), None, 1)
    model, intervals = Appending(random), IntervalMap.evenly(random.randrange(1, 4))
    plans = rearranged({}, {1: intervals})
    for epoch in range(1, 20):
        copies = {place[1]: plan.load(store).get("sums", MemoryStateStore()) for place, plan in plans.items()}
        found = {number: lines_of(copy) for number, copy in copies.items()}
        for number, its in found.items():
            assert all(intervals[number].start <= key_position(row) < intervals[number].stop for row, _ in its)
        assert sorted(line for its in found.values() for line in its) == sorted(model.lines)
        for number, copy in copies.items():
            lives = living.state_store("sums", 1, number, epoch, None)
            assert contents(lives).segments == contents(copy).segments
            delta = model.change(copy, intervals[number], epoch)
            cast(MemoryStateStore, lives).apply(delta)
            header = DeltaHeader(epoch, 1, number, "t")
            plans[1, number] = plans[1, number].with_delta(write_deltas(store, header, {"sums": delta}))
        if random.random() < 0.2:
            place = random.choice(sorted(plans))
            order = SnapshotOrder(*place, epoch, plans[place].last, 1, "s")
            plans[place] = plans[place].on(write_snapshot(store, order, plans[place].load(store)))
        listed = [batch for plan in plans.values() for batch in StoredTables(store, plan, "sums", epoch).segments()]
        assert sorted(line for batch in listed for line in lines(encode(batch))) == sorted(model.lines)
        whole = merged(plan.load(store).get("sums", MemoryStateStore()) for plan in plans.values())
        assert lines_of(whole) == sorted(model.lines)
        before, intervals = intervals, changed(random, intervals, epoch)
        plans = rearranged(plans, {1: intervals})
        living.rearrange({1: before}, {1: intervals})


SUMS = Topology()
SUMS.injector("in", BoundedInjector([]))
SUMS.computation("sums", Computation(), {"in": str})


def spread_delta(random: Random, epoch: int, intervals: IntervalMap) -> dict[int, Delta]:
    deltas: dict[int, Delta] = {}
    for _ in range(random.randrange(6)):
        row = random.randrange(16).to_bytes(1, "big") * 16
        row = bytes([row[0] * 17]) + row[1:]
        delta = deltas.setdefault(intervals.of(row).number, Delta())
        delta.keys[row] = b"key " + row
        delta.cells[row, b"%d" % random.randrange(2)] = random.choice([None, b"%d" % epoch])
        delta.marks[row, random.randrange(2), "t"] = random.choice([None, epoch])
        delta.ids[row + b"%d" % epoch] = epoch + 100
    return deltas


def changed(random: Random, intervals: IntervalMap, epoch: int) -> IntervalMap:
    """One change at random, or none."""
    one, now = random.choice(intervals.intervals), Sequencer(1, epoch)
    kind = random.randrange(4)
    if kind == 1 and one.stop - one.start > 1:
        return intervals.split(one.number, random.randrange(one.start + 1, one.stop), random.randrange(3), now)
    if kind == 2 and one.stop < SPACE:
        return intervals.merge(one.number, random.randrange(3), now)
    return intervals.move(one.number, random.randrange(3), now) if kind == 3 else intervals


def grown(epochs: int, size: int = 10, contents: bytes = b"") -> FileChain:
    plan = FileChain(1, 0)
    for epoch in range(1, epochs + 1):
        plan = plan.with_delta(DeltaFile(epoch, f"t{epoch}", size, contents))
    return plan


def snapshot_of(plan: FileChain, size: int = 100, token: str = "s") -> SnapshotParts:
    epoch = int(plan.last.split("-")[0]) if plan.deltas else 0
    return SnapshotParts(SnapshotOrder(1, 0, epoch, plan.last, 1, token), (("count", 1),), size)


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
    bare = FileChain(1, 0, snapshot=once.snapshot)
    again = bare.on(snapshot_of(bare, token="again"))
    assert again.names == ("s0-1-again",)
    assert again.last == "s0-1-again"


def test_a_snapshot_that_comes_too_late_changes_nothing() -> None:
    plan = grown(4).on(snapshot_of(grown(3)))
    assert plan.on(snapshot_of(grown(2))) == plan


def test_copies_at_the_last_covered_delta_go_on() -> None:
    store, host, plan = DictStore(), Host(), FileChain(1, 0)
    for epoch in (1, 2):
        plan = plan.with_delta(
            write_deltas(store, DeltaHeader(epoch, 1, 0, "t"), {"count": Delta(ids={b"%d" % epoch: 1})})
        )
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
        (FileChain(1, 0), False),
        (grown(31), False),
        (grown(32), True),
        (grown(1, 10**9), False),
        (grown(2, 9 << 20), True),
        # What soon is gone again is not worth writing it all once more.
        (grown(10).on(snapshot_of(grown(2))).with_delta(DeltaFile(11, "t11", 15 << 20)), False),
        (grown(10).on(snapshot_of(grown(2))).with_delta(DeltaFile(11, "t11", 17 << 20)), True),
        (grown(10).on(snapshot_of(grown(10))), False),
        (grown(41).on(snapshot_of(grown(10))), False),
        (grown(42).on(snapshot_of(grown(10))), True),
        # A large state is not written again for a few small changes, but no plan grows for ever.
        (grown(42).on(snapshot_of(grown(10), size=10**9)), False),
        (grown(523).on(snapshot_of(grown(10), size=10**9)), True),
        # Sixteen that commits carry count as one.
        (grown(511, contents=b"c"), False),
        (grown(512, contents=b"c"), True),
        (grown(1024, contents=b"c").on(snapshot_of(grown(1, contents=b"c"), size=10**9)), False),
        (grown(1025, contents=b"c").on(snapshot_of(grown(1, contents=b"c"), size=10**9)), True),
    ],
)
def test_when_a_snapshot_is_needed(plan: FileChain, needed: bool) -> None:
    assert plan.needs_snapshot() == needed


# How a commit changes the plans


def manifest(
    epoch: int, intervals: int, plans: dict[tuple[int, int], FileChain] | None = None, **more: object
) -> Manifest:
    return Manifest(epoch=epoch, wall_clock=0, intervals={1: IntervalMap.evenly(intervals)}, chains=plans or {}, **more)


FILE = DeltaFile(1, "a", 5)


def test_each_interval_keeps_its_files() -> None:
    first = advanced(None, manifest(1, 2, deltas={(1, 0): DeltaFile(1, "a", 5), (1, 1): None}), [], 1)
    assert {place: plan.names for place, plan in first.items()} == {(1, 0): ("1-a-5",), (1, 1): ()}
    second = advanced(manifest(1, 2, first), manifest(2, 2, deltas={(1, 1): DeltaFile(2, "b", 6)}), [], 1)
    assert {place: plan.names for place, plan in second.items()} == {(1, 0): ("1-a-5",), (1, 1): ("2-b-6",)}


def test_an_interval_that_stays_keeps_its_files_and_a_new_one_begins_with_others() -> None:
    halves = IntervalMap.evenly(2)
    before = manifest(1, 2, advanced(None, manifest(1, 2, deltas={place: FILE for place in ((1, 0), (1, 1))}), [], 1))
    cut = halves.split(1, 3 << 62, owner=0, sequencer=Sequencer(1, 2))
    after = advanced(before, replace(manifest(2, 1), intervals={1: cut}, deltas={(1, 3): FILE}), [], 1)
    assert {place: plan.names for place, plan in after.items()} == {
        (1, 0): ("1-a-5",),
        (1, 2): ("0/1-a-5",),
        (1, 3): ("0/1-a-5", "1-a-5"),
    }
    assert set(after[1, 3].objects()) == {f"deltas/00000000000000000001/1-{number}-a" for number in (1, 3)}


def test_a_snapshot_of_an_interval_that_is_gone_counts_for_nothing() -> None:
    before = manifest(1, 1, advanced(None, manifest(1, 1, deltas={(1, 0): FILE}), [], 1))
    late = [SnapshotParts(SnapshotOrder(1, 0, 1, "1-a-5", 1, "s"), (), 0)]
    after = advanced(before, replace(manifest(2, 1), intervals={1: IntervalMap.evenly(2, first=1)}), late, 1)
    assert [plan.names for plan in after.values()] == [("0/1-a-5",), ("0/1-a-5",)]


def test_intervals_without_state_may_change_freely() -> None:
    before = manifest(1, 1, advanced(None, manifest(1, 1), [], 1))
    after = advanced(before, replace(manifest(2, 1), intervals={1: IntervalMap.evenly(3, first=1)}), [], 1)
    assert [plan.origins for plan in after.values()] == [(), (), ()]


def test_a_number_is_never_used_again() -> None:
    before = manifest(1, 1, advanced(None, manifest(1, 1, deltas={(1, 0): FILE}), [], 1))
    with pytest.raises(ValueError, match="interval 0 of level 1 has new bounds; give it a number of its own"):
        advanced(before, manifest(2, 2), [], 1)


def test_places_outside_the_interval_map() -> None:
    with pytest.raises(ValueError, match="level 1 has no interval 5 in epoch 1's interval map"):
        advanced(None, manifest(1, 2, deltas={(1, 5): DeltaFile(1, "a", 5)}), [], 1)
    with pytest.raises(ValueError, match="level 1 is not in epoch 2's interval map, but has state"):
        advanced(manifest(1, 1), Manifest(epoch=2, wall_clock=0, intervals={2: IntervalMap.evenly(1)}), [], 1)
