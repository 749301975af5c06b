"""What runs beside the epochs, collections and snapshots, can fail without any harm to the run, and recovers."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, Record, Topology
from headrace.lowlevel.checkpoint import Checkpoint, FileChain, SnapshotOrder
from headrace.lowlevel.checkpoint.log.commit_log import read_entry
from headrace.lowlevel.checkpoint.log.fence import Seal
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStore, StoreError
from headrace.runners.engine.driver.snapshot_schedule import SnapshotSchedule
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.runners.local import executor as local
from tests.checkpoints import check, step
from tests.stores import DictStore, WrappedStore
from tests.unit.lowlevel.checkpoint.test_committer import opened


class Count(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.state = int(str(context.state or 0)) + 1
        context.produce("counts", (record.value, context.state))


def counting(epochs: int, delivered: list[int]) -> Topology:
    made = Topology()
    made.injector("in", BoundedInjector([(number % 3, number) for number in range(epochs)]))
    made.computation("count", Count(), {"in": lambda value: value}, ["counts"])
    made.sink("out", "counts", CallSink(lambda epoch, rows: delivered.append(epoch)))
    return made


class Noting(Scheduler):
    """Notes the steps of the protocol."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def step(self, name: str, epoch: int) -> None:
        self.noted.append(f"{name} {epoch}")


# Collections


class Forbidding(WrappedStore):
    """Allows no deletion, or none of some objects."""

    def __init__(self, inner: DictStore, names: str = "") -> None:
        super().__init__(inner)
        self.names, self.asked, self.read = names, 0, 0
        self.forbids = True

    def around(self, name, operation):
        self.read += name.startswith("get log/")
        if name.startswith(f"delete {self.names}"):
            self.asked += 1
            if self.forbids:
                raise StoreError("deleting is forbidden here")
        return operation()


def test_a_store_that_forbids_deletions_stops_neither_epochs_nor_deliveries(tmp_path, monkeypatch, caplog):
    scheduler, delivered = Noting(), []

    def delete(self: ObjectStore, path: str) -> None:
        scheduler.noted.append("delete")
        raise StoreError(f"deleting {path} is forbidden here")

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "delete", delete)
        options = RunOptions(checkpoint=str(tmp_path), max_records_per_epoch=1)
        # With one task, commits would carry the deltas, and there would be little to delete.
        runner = LocalRunner(scheduler=scheduler, parallelism=2)
        result = runner.run_topology(counting(100, delivered), options)
    assert delivered == list(range(1, 101)) and result.counters["in"]["records"] == 100
    # Four collections, each of which soon gave up, behind the delivery; the last one at the end of the run.
    asked = [place for place, name in enumerate(scheduler.noted) if name == "delete"]
    assert 4 <= len(asked) <= 12
    assert {scheduler.noted[place - 1] for place in asked} - {"delete"} == {
        "delivered 32",
        "delivered 64",
        "delivered 96",
        f"delivered {result.epochs}",
    }
    [record] = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert "could not all be deleted from the checkpoint; the run goes on and tries again every 32" in record.message
    assert "give this driver the right to delete there" in record.message and "is forbidden here" in record.message


def test_the_next_collection_takes_what_one_before_could_not(tmp_path, monkeypatch, caplog):
    def delete(self: ObjectStore, path: str) -> None:
        raise StoreError("deleting is forbidden here")

    options = RunOptions(checkpoint=str(tmp_path), max_records_per_epoch=1)

    class Allowing(Scheduler):
        def step(self, name: str, epoch: int) -> None:
            if (name, epoch) == ("plan", 40):
                monkeypatch.undo()

    monkeypatch.setattr(ObjectStore, "delete", delete)
    LocalRunner(scheduler=Allowing(), parallelism=2).run_topology(counting(64, []), options)
    assert len(ObjectStore(tmp_path).list(object_names.LOG)) == 2
    assert len(caplog.records) == 1


def test_what_cannot_be_deleted_keeps_nothing_else():
    inner = DictStore()
    store = Forbidding(inner, "log/00000000000000000002")
    checkpoint = opened(store)
    for _ in range(10):
        step(checkpoint, store)
    with pytest.raises(StoreError, match="forbidden"):
        checkpoint.collect_garbage()
    assert [object_names.number_of(path) for path in inner.list(object_names.LOG)] == [2, 9, 10]
    check(Checkpoint.read(store), 10)
    store.forbids = False
    assert checkpoint.collect_garbage() == [object_names.log_entry(2)]


def test_what_failed_once_is_tried_last():
    inner = DictStore()
    store = Forbidding(inner, "log/")
    checkpoint = opened(store)
    for _ in range(12):
        step(checkpoint, store)
    for _ in range(6):
        with pytest.raises(StoreError, match="forbidden"):
            checkpoint.collect_garbage()
    # Ten entries stay, tried by threes; everything else has gone.
    assert store.asked <= 6 * 3
    assert len(inner.list(object_names.LOG)) == 12 and len(inner.list(object_names.LEASES)) == 1
    check(Checkpoint.read(store), 12)


def test_a_collection_reads_no_entry_that_its_driver_wrote():
    inner = DictStore()
    store = Forbidding(inner, "nothing")
    for generation in (1, 2):
        checkpoint = opened(store)
        for _ in range(40):
            step(checkpoint, store)
        store.read = 0
        assert checkpoint.collect_garbage()
        # Of the driver before: the seal and the two commits that its own collection left.
        assert store.read == (0 if generation == 1 else 3)
        assert checkpoint.collect_garbage() == [] and store.read == (0 if generation == 1 else 3)


def test_a_damaged_old_entry_stays_and_harms_nobody():
    store = DictStore()
    first = opened(store)
    for _ in range(3):
        step(first, store)
    second = opened(store)
    for _ in range(3):
        step(second, store)
    store.objects[object_names.log_entry(1)] = b"damaged"
    second.collect_garbage()
    left = [object_names.number_of(path) or 0 for path in store.list(object_names.LOG)]
    assert left == [1, 4, 6, 7] and isinstance(read_entry(store, 4), Seal)
    check(Checkpoint.read(store), 6)


# Snapshots

ORDERS = [("an order", "a plan")]


def ordered(failing: set[int], epochs: int) -> list[int]:
    """Epochs after which a snapshot is ordered, where the orders of some numbers fail."""
    orders: list[int] = []

    def begin(due: object) -> object:
        assert due == ORDERS
        number = len(orders)
        orders.append(epoch)

        def making() -> list[object]:
            if number in failing:
                raise StoreError(f"no room for {number}")
            return []

        return making

    some = SnapshotSchedule(begin)  # type: ignore[arg-type]  # a stand-in
    for epoch in range(1, epochs + 1):
        some.take_ready(epoch)
        some.order(epoch, lambda: ORDERS)  # type: ignore[arg-type, return-value]  # a stand-in
    return orders


def test_snapshots_that_fail_are_ordered_ever_more_seldom_and_once_spoken_of(caplog):
    orders = ordered(set(range(1000)), 1000)
    pauses = [after - before for before, after in pairwise(orders)]
    assert pauses[:8] == [3, 4, 6, 10, 18, 34, 66, 66] and set(pauses[8:]) == {66}
    [record] = caplog.records
    assert "no snapshot could be made" in record.message and "StoreError: no room for 0" in record.message


def test_snapshots_recover(caplog):
    orders = ordered({0, 1, 2}, 40)
    assert orders[:4] == [1, 4, 8, 14] and orders[4:] == list(range(15, 41))
    assert [one.message for one in caplog.records][1:] == ["snapshots are made again, after 3 that failed"]


def test_a_run_goes_on_without_snapshots_and_makes_them_when_it_can(tmp_path, monkeypatch, caplog):
    made: list[SnapshotOrder] = []
    write, delivered = local.write_snapshot, []

    def failing(store, order, stores):
        made.append(order)
        if order.epoch < 60:
            raise StoreError("no room")
        return write(store, order, stores)

    monkeypatch.setattr(local, "write_snapshot", failing)
    monkeypatch.setattr(FileChain, "needs_snapshot", lambda *rule: True)
    options = RunOptions(checkpoint=str(tmp_path), max_records_per_epoch=1)
    LocalRunner().run_topology(counting(100, delivered), options)
    assert delivered == list(range(1, 101))
    assert len([order for order in made if order.epoch < 60]) == 6
    assert [one.levelno for one in caplog.records] == [logging.WARNING] * 2
    view = Checkpoint.read(ObjectStore(tmp_path))
    assert all(plan.snapshot is not None for plan in view.manifest.chains.values())


def test_a_crash_is_no_failed_snapshot(tmp_path, monkeypatch):
    def crash(store, order, stores):
        raise Crash

    monkeypatch.setattr(local, "write_snapshot", crash)
    monkeypatch.setattr(FileChain, "needs_snapshot", lambda *rule: True)
    with pytest.raises(Crash):
        LocalRunner().run_topology(counting(9, []), RunOptions(checkpoint=str(tmp_path), max_records_per_epoch=1))
