"""What a checkpoint tells somebody who only looks, against what loading all of its state gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lowlevel import (
    BoundedInjector,
    CheckpointError,
    CheckpointView,
    CollectedError,
    Computation,
    Context,
    InjectorState,
    PickleCoder,
    Record,
    StoredHold,
    StoredState,
    StoredTimer,
    TimeDomain,
    Timer,
    Topology,
)
from headrace.lowlevel.checkpoint import Checkpoint, DeltaHeader, FileChain, SnapshotOrder, write_deltas, write_snapshot
from headrace.lowlevel.checkpoint.files.file_chain import merged
from headrace.lowlevel.checkpoint.inspection.stored_tables import StoredTables
from headrace.lowlevel.checkpoint.inspection.values import pending_records
from headrace.lowlevel.checkpoint.manifest.manifest import rearranged
from headrace.lowlevel.coders.coder import STANDARD_KEYS
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.state_store import Delta
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from tests.checkpoints import TOPOLOGY, contents, step, take_snapshot
from tests.stores import DictStore
from tests.unit.lowlevel.checkpoint.files.test_file_chain import changed, random_delta, spread_delta

ALL = frozenset([0, 1, 2])


def told(plans: list[FileChain], store: DictStore) -> tuple[object, object]:
    """Marks and cells as they are listed, by encoded key."""
    tables = [StoredTables(store, plan, "count", 0) for plan in plans]
    marks = [(key, mark, time) for one in tables for key, mark, time in one.marks(ALL)]
    cells = [(key, sorted(of.items())) for one in tables for key, of in one.cells()]
    return sorted(marks), sorted(cells)


def loaded(copy: MemoryStateStore) -> tuple[object, object]:
    """The same from a copy."""
    whole = contents(copy)
    marks = [(whole.keys[mark[0]], mark, time) for mark, time in whole.marks.items()]
    rows = dict.fromkeys(row for row, _ in whole.cells)
    return sorted(marks), sorted((whole.keys[row], sorted(copy.scan(row, b""))) for row in rows)


@given(st.integers(0, 2**32))
def test_listings_say_what_loading_gives(seed: int) -> None:
    """With snapshots that begin the plan at any time."""
    random, store, plan = Random(seed), DictStore(), FileChain(1, 0)
    for epoch in range(1, 20):
        delta = random_delta(random, epoch)
        plan = plan.with_delta(write_deltas(store, DeltaHeader(epoch, 1, 0, "t"), {"count": delta, "other": Delta()}))
        if random.random() < 0.3:
            order = SnapshotOrder(1, 0, epoch, plan.last, 1, f"s{epoch}")
            plan = plan.on(write_snapshot(store, order, plan.load(store)))
        if epoch < 19 and random.random() < 0.7:
            continue
        copy = plan.load(store, "count").get("count", MemoryStateStore())
        assert told([plan], store) == loaded(copy)
        tables = StoredTables(store, plan, "count", 0)
        assert tables.count_ids() == copy.count()["ids"]
        assert all(tables.cells_of(b"%d" % row) == dict(copy.scan(b"%d" % row, b"")) for row in range(5))


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_listings_follow_intervals_that_split_and_merge(seed: int) -> None:
    random, store, intervals = Random(seed), DictStore(), IntervalMap.evenly(2)
    plans = rearranged({}, {1: intervals})
    for epoch in range(1, 16):
        for number, delta in spread_delta(random, epoch, intervals).items():
            header = DeltaHeader(epoch, 1, number, "t")
            plans[1, number] = plans[1, number].with_delta(write_deltas(store, header, {"count": delta}))
        if random.random() < 0.2:
            place = random.choice(sorted(plans))
            order = SnapshotOrder(*place, epoch, plans[place].last, 1, "s")
            plans[place] = plans[place].on(write_snapshot(store, order, plans[place].load(store)))
        intervals = changed(random, intervals, epoch)
        plans = rearranged(plans, {1: intervals})
        if epoch < 15 and random.random() < 0.7:
            continue
        copies = [plan.load(store).get("count", MemoryStateStore()) for plan in plans.values()]
        assert told(list(plans.values()), store) == loaded(merged(copies))


def test_a_key_whose_cells_lie_in_two_parts_of_a_snapshot() -> None:
    class InParts(MemoryStateStore):
        def dump(self) -> Iterator[Delta]:
            yield Delta(keys={b"r": b"key"}, cells={(b"r", b"a"): b"1", (b"r", b"b"): b"2"})
            yield Delta(keys={b"r": b"key", b"s": b"other"}, cells={(b"r", b"c"): b"3", (b"s", b"a"): b"4"})

    store = DictStore()
    snapshot = write_snapshot(store, SnapshotOrder(1, 0, 1, "", 1, "s"), {"count": InParts()})
    found = list(StoredTables(store, FileChain(1, 0, snapshot=snapshot), "count", 1).cells())
    assert found == [(b"key", {b"a": b"1", b"b": b"2", b"c": b"3"}), (b"other", {b"a": b"4"})]


def test_a_snapshot_is_passed_through_part_by_part() -> None:
    """State of any size is listed in the memory of a part."""

    class Large(MemoryStateStore):
        def dump(self) -> Iterator[Delta]:
            for part in range(10):
                row = b"%016d" % part
                yield Delta(keys={row: row}, cells={(row, b"a"): row}, marks={(row, 0, "t"): 100 - part})

    read: list[str] = []

    class Spying(DictStore):
        def get(self, path: str) -> bytes | None:
            read.append(path)
            return super().get(path)

    store = Spying()
    snapshot = write_snapshot(store, SnapshotOrder(1, 0, 1, "", 1, "s"), {"count": Large()})
    tables = StoredTables(store, FileChain(1, 0, snapshot=snapshot), "count", 1)
    cells, marks = tables.cells(), tables.marks(ALL)
    assert read == []
    next(cells), next(marks)
    assert len(read) <= 2 + 1, "the first part, twice, and one to see that a row ends"
    assert len([*cells, *marks]) == 18


class Visits(Computation):
    """Counts what comes; a timer on each clock, a hold with one of them and another of its own."""

    def process_record(self, record: Record, context: Context) -> None:
        context.state = cast(int, context.state or 0) + 1
        context.write(b"last", b"%d" % record.timestamp)
        context.set_timer("end", record.timestamp + 1000, hold=record.timestamp)
        context.set_timer("clock", 2**60 + record.timestamp, TimeDomain.WALL_TIME)
        context.hold(record.timestamp + 7, "own")
        context.produce("round", record.value)

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.release("own")


class Round(Computation):
    """Sends everything once more round a circle: what is on its way is part of the commit."""

    def process_record(self, record: Record, context: Context) -> None:
        context.produce("again", (context.key, Secret()))


class Secret:
    """Runs code when it is unpickled."""

    ran = 0

    def __reduce__(self) -> object:
        return _come_back, ("x",)


def _come_back(text: str) -> Secret:
    Secret.ran += 1
    return Secret()


class StopAfter(Scheduler):
    """Stops the driver when an epoch is committed."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self._epoch = epoch

    def bundle_size(self, epoch: int, limit: int) -> int:
        return 2

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("committed", self._epoch):
            raise Crash("as planned")


def key_of(value: object) -> object:
    return cast("tuple[object, object]", value)[0] if isinstance(value, tuple) else value


def topology() -> Topology:
    made = Topology()
    made.injector("in", BoundedInjector([("a", 10), ("b", 20), ("a", 30), ("c", 40), ("d", 50)], max_delay=5))
    made.computation("visits", Visits(), {"in": key_of}, ["round"])
    made.computation("round", Round(), {"round": key_of, "again": key_of}, ["again"])
    return made


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """A checkpoint whose driver stopped after the second epoch."""
    options = RunOptions(checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(Crash):
        LocalRunner(scheduler=StopAfter(2), intervals=2).run_topology(topology(), options)
    return ObjectStore(str(tmp_path / "checkpoint"))


def test_everything_that_is_stored(store: ObjectStore) -> None:
    before = {path: store.get(path) for folder in ("log", "leases", "deltas") for path in store.list(folder)}
    view = CheckpointView.of(store)
    assert [(one.epoch, one.generation, one.finished) for one in view.epochs()] == [(1, 1, False), (2, 1, False)]
    assert view.computations() == ("visits", "round")
    assert view.timers("visits", domain=TimeDomain.LOW_WATERMARK) == [
        StoredTimer("visits", "b", "end", TimeDomain.LOW_WATERMARK, 1020),
        StoredTimer("visits", "a", "end", TimeDomain.LOW_WATERMARK, 1030),
        StoredTimer("visits", "c", "end", TimeDomain.LOW_WATERMARK, 1040),
    ]
    assert view.timers(limit=4)[3:] == [StoredTimer("visits", "b", "clock", TimeDomain.WALL_TIME, 2**60 + 20)]
    assert len(view.timers()) == 6
    assert view.holds(limit=3) == [
        StoredHold("visits", "b", "end", 20, TimeDomain.LOW_WATERMARK),
        StoredHold("visits", "b", "own", 27, None),
        StoredHold("visits", "a", "end", 30, TimeDomain.LOW_WATERMARK),
    ]
    assert view.holders() == (StoredHold("visits", "b", "end", 20, TimeDomain.LOW_WATERMARK),)
    assert sorted(view.states("visits", PickleCoder()), key=repr) == [
        StoredState("visits", "a", 2, {b"last": b"30"}),
        StoredState("visits", "b", 1, {b"last": b"20"}),
        StoredState("visits", "c", 1, {b"last": b"40"}),
    ]
    assert view.state_of("visits", "a", PickleCoder()) == StoredState("visits", "a", 2, {b"last": b"30"})
    assert view.state_of("visits", "b") == StoredState("visits", "b", PickleCoder().encode(1), {b"last": b"20"})
    assert view.state_of("visits", "nobody") is None
    assert view.injectors() == (InjectorState("in", view.injectors()[0].position, 35, 40, False),)
    visits, circle = view.watermarks()
    assert (visits.computation, visits.level, visits.input, visits.output) == ("visits", 1, 35, 20)
    assert sorted(visits.intervals.values()) == [20, 30] and circle.output == 10, "what is on its way holds it"
    assert view.manifest is not None and view.manifest.counters["visits"]["records"] == 4
    after = {path: store.get(path) for folder in ("log", "leases", "deltas") for path in store.list(folder)}
    assert before == after


def test_records_on_their_way_are_counted_and_none_of_their_code_runs(store: ObjectStore) -> None:
    Secret.ran = 0
    waiting = CheckpointView.of(store).pending()
    assert {(one.consumer, one.stream) for one in waiting} == {("round", "again")}
    assert sum(one.records for one in waiting) == 4, "two of the second epoch, two that have gone round"
    assert min(one.oldest for one in waiting) == 10
    assert Secret.ran == 0


def test_values_of_all_kinds_are_passed_over() -> None:
    values = [Secret(), {Secret(): 1}, [Secret()], replace(TOPOLOGY_PLAN, level=2), {1, 2}, "text", ValueError("x")]
    parcel = Block("consumer", "stream", keys=[b"k"], key_hashes=[bytes(16)], values=list(values))
    parcel.timestamps.extend(range(len(values)))
    Secret.ran = 0
    found = pending_records("consumer", 0, parcel.encode())
    assert (found.stream, found.records, Secret.ran) == ("stream", len(values), 0)


TOPOLOGY_PLAN = FileChain(1, 0)


def test_keys_of_classes_are_decoded_by_whoever_knows_them(tmp_path: Path) -> None:
    made = Topology()
    made.injector("in", BoundedInjector([(1, 10)], max_delay=5))
    made.computation("visits", Visits(), {"in": lambda value: TimeDomain.WALL_TIME}, ["round"])
    options = RunOptions(checkpoint=str(tmp_path))
    with pytest.raises(Crash):
        LocalRunner(scheduler=StopAfter(1)).run_topology(made, options)
    plain, knowing = (Checkpoint.read(ObjectStore(str(tmp_path)), *coder) for coder in ((), (STANDARD_KEYS,)))
    assert [timer.key for timer in plain.timers(limit=1)] == [STANDARD_KEYS.encode(TimeDomain.WALL_TIME)]
    assert [timer.key for timer in knowing.timers(limit=1)] == [TimeDomain.WALL_TIME]
    assert knowing.state_of("visits", TimeDomain.WALL_TIME, PickleCoder()) == plain.state_of(
        "visits", TimeDomain.WALL_TIME, PickleCoder()
    )


def run(checkpoint: Checkpoint, store: DictStore, epochs: int) -> None:
    for _ in range(epochs):
        step(checkpoint, store)


def test_files_with_their_sizes() -> None:
    store = DictStore()
    checkpoint = Checkpoint.open(store, "host", TOPOLOGY, now_us=0)
    run(checkpoint, store, 3)
    step(checkpoint, store, [take_snapshot(checkpoint, store, (1, 0))])
    files = CheckpointView.of(store).files()
    assert [(one.kind, one.level, one.interval, one.epoch) for one in files] == [
        ("snapshot", 1, 0, 3),
        ("delta", 1, 0, 3),
        ("delta", 1, 0, 4),
        ("delta", 1, 1, 2),
        ("delta", 1, 1, 4),
        *(("delta", 2, 0, epoch) for epoch in (1, 2, 3, 4)),
    ]
    plans = CheckpointView.of(store).manifest.chains.values()
    assert sum(one.size for one in files) == sum(len(store.objects[path]) for plan in plans for path in plan.objects())


def test_another_epoch_as_long_as_its_files_are_there() -> None:
    store = DictStore()
    checkpoint = Checkpoint.open(store, "host", TOPOLOGY, now_us=0)
    run(checkpoint, store, 3)
    second = CheckpointView.of(store).at_epoch(2)
    assert [timer.timestamp for timer in second.timers("top")] == [1000, 2000]
    with pytest.raises(CheckpointError, match=r"epoch 9 is not in the log of dict:// \(epochs: 1, 2, 3\)"):
        second.at_epoch(9)
    path = next(iter(second.manifest.chains[1, 0].objects()))
    store.delete(path)
    with pytest.raises(CollectedError, match=r"epoch 2 is in the log .* 1 of its files .* look at a newer epoch"):
        CheckpointView.of(store).at_epoch(2)


def test_a_reader_whose_files_are_collected_is_told_to_read_again() -> None:
    store = DictStore()
    checkpoint = Checkpoint.open(store, "host", TOPOLOGY, now_us=0)
    run(checkpoint, store, 3)
    view = CheckpointView.of(store)
    snapshots = [take_snapshot(checkpoint, store, place) for place in ((1, 0), (1, 1), (2, 0))]
    step(checkpoint, store, snapshots)
    run(checkpoint, store, 2)
    assert checkpoint.collect_garbage()
    for look in (
        lambda: list(view.states("count")),
        view.timers,
        lambda: view.count_ids("top"),
        lambda: view.state_of("top", 1),
    ):
        with pytest.raises(CollectedError, match=r"has gone on from epoch 3 to 6.*read the checkpoint again"):
            look()
    assert CheckpointView.of(store).timers("top")


def test_a_damaged_file_is_no_reason_to_read_again() -> None:
    store = DictStore()
    checkpoint = Checkpoint.open(store, "host", TOPOLOGY, now_us=0)
    run(checkpoint, store, 2)
    view = CheckpointView.of(store)
    path = next(iter(view.manifest.chains[1, 0].objects()))
    store.objects[path] = store.objects[path][:-1]
    with pytest.raises(CheckpointError, match=path) as caught:
        view.timers()
    assert not isinstance(caught.value, CollectedError)


def test_nothing_is_committed_yet() -> None:
    store = DictStore()
    Checkpoint.open(store, "host", TOPOLOGY, now_us=0)
    view = CheckpointView.of(store)
    listed = (view.epochs(), view.watermarks(), view.holders(), view.pending(), view.injectors(), view.files())
    assert listed == ((),) * 6 and view.timers() == view.holds() == []
    with pytest.raises(CheckpointError, match="no state of a computation 'count'"):
        list(view.states("count"))
