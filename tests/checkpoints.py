"""A small pipeline's epochs on a checkpoint, and what must be found there afterwards."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from headrace.lowlevel.checkpoint import (
    Checkpoint,
    CheckpointView,
    DeltaHeader,
    Fingerprint,
    Manifest,
    PendingProduction,
    SnapshotParts,
    write_deltas,
    write_snapshot,
)
from headrace.lowlevel.checkpoint.files.delta_file import delta_object
from headrace.lowlevel.checkpoint.manifest.fingerprint import Member
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.lowlevel.watermarks.authority import Holder

TOPOLOGY = Fingerprint(
    (
        Member("computation", "count", "Count", ("words",), ("counts",), (("class", "Count"),)),
        Member("computation", "top", "Top", ("counts",), ("tops",)),
        Member("injector", "words", "BoundedInjector", (), ("words",)),
        Member("sink", "out", "CallSink", ("tops",), ()),
    ),
    (("count",), ("top",)),
)
INTERVALS = {1: IntervalMap.evenly(2), 2: IntervalMap.evenly(1)}
PLACES = {(1, 0): "count", (1, 1): "count", (2, 0): "top"}
"""Level and interval -> the computation there."""


def row(place: tuple[int, int], number: int) -> bytes:
    """A row that lies in the interval."""
    return INTERVALS[place[0]][place[1]].start.to_bytes(8, "big") + number.to_bytes(8, "big")


def delta_of(place: tuple[int, int], epoch: int) -> Delta:
    """What an epoch changes: something new, something changed, something taken away again."""
    if place == (1, 1) and epoch % 2:
        return Delta()
    here, old = row(place, epoch % 5), row(place, (epoch + 2) % 5)
    return Delta(
        keys={here: b"key %d" % (epoch % 5)},
        cells={(here, b""): b"%d" % epoch, (here, b"extra"): None, (old, b""): None, (old, b"extra"): None},
        marks={(here, 0, "end"): 1000 * epoch, (old, 0, "end"): None},
        ids={b"id %d %d" % (place[1], epoch): epoch},
        forget_ids_before=epoch - 3 if epoch > 3 else None,
    )


def step(
    checkpoint: Checkpoint,
    store: ObjectStorage,
    snapshots: Iterable[SnapshotParts] = (),
    token: str = "t",
    carries: bool = False,
) -> Manifest:
    """Run and commit the next epoch; with `carries` some of its deltas are in the commit itself."""
    epoch = checkpoint.next_epoch
    deltas = {}
    for place, computation in PLACES.items():
        if delta := delta_of(place, epoch):
            header = DeltaHeader(epoch, *place, f"{token}{checkpoint.generation}")
            if carries and (epoch + place[1]) % 3 == 0:
                _, data, file = delta_object(header, {computation: delta})
                deltas[place] = file._replace(contents=data)
            else:
                deltas[place] = write_deltas(store, header, {computation: delta})
    return checkpoint.commit(manifest_of(epoch, deltas), snapshots)


def parcel_of(epoch: int) -> Block:
    """What is on its way after an epoch: one record."""
    return Block("count", "words", [b"sp%d" % epoch], [bytes(16)], array("q", [1]), array("q", [epoch]), [epoch])


def manifest_of(epoch: int, deltas: dict) -> Manifest:
    return Manifest(
        epoch=epoch,
        wall_clock=epoch * 10,
        intervals=INTERVALS,
        positions={"words": b"%d" % epoch},
        ended=frozenset(["words"] if epoch > 99 else []),
        injector_watermarks={"words": epoch},
        greatest_timestamps={"words": epoch + 1},
        input_watermarks={"count": epoch, "top": epoch - 1},
        output_watermarks={"count": b"%d" % epoch, "top": b"%d" % (epoch - 1)},
        holds={"count": {1: epoch}},
        holders={"count": Holder(epoch, b"skey", "end")},
        wall_timers={"top": {0: epoch + 5}},
        deltas=deltas,
        pending=(PendingProduction(1, 0, "count", epoch, parcel_of(epoch).encode()),),
        receipts={"out": (b"r%d" % epoch, b"")},
        counters={"count": {"records": epoch}},
    )


def take_snapshot(
    checkpoint: Checkpoint, store: ObjectStorage, place: tuple[int, int], token: str = "s"
) -> SnapshotParts:
    """A snapshot of a place as of the last commit."""
    order = checkpoint.order_snapshot(*place, token)
    return write_snapshot(store, order, checkpoint.chain(*place).load(store))


def expected(epoch: int) -> dict[str, Delta]:
    """The state of each computation after an epoch, computed without any checkpoint."""
    stores: dict[str, MemoryStateStore] = {}
    for place, computation in PLACES.items():
        own = MemoryStateStore()
        for number in range(1, epoch + 1):
            own.apply(delta_of(place, number))
        stores.setdefault(computation, MemoryStateStore()).apply(contents(own))
    return {computation: contents(store) for computation, store in stores.items()}


def contents(store: StateStore) -> Delta:
    """Everything in a store as one value."""
    total = Delta()
    for delta in store.dump():
        total.keys |= delta.keys
        total.cells |= delta.cells
        total.marks |= delta.marks
        total.ids |= delta.ids
        total.segments |= delta.segments
    return total


def check(view: CheckpointView, epoch: int) -> None:
    """The checkpoint says exactly what is true after an epoch, nothing of it from another one."""
    if view.manifest is None:
        assert epoch == 0
        return
    assert view.manifest.epoch == epoch
    said = manifest_of(epoch, {place: file for place, file in view.manifest.deltas.items()})
    for field in ("positions", "pending", "receipts", "counters", "holders", "output_watermarks", "wall_clock"):
        assert getattr(view.manifest, field) == getattr(said, field), field
    assert {name: contents(view.load(name)) for name in ("count", "top")} == expected(epoch)
