"""RELIABILITY rows 1 and 2: a driver dies at any store operation, and again while it recovers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from headrace.lowlevel.checkpoint import Checkpoint, SnapshotParts
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStorage
from tests.checkpoints import TOPOLOGY, check, manifest_of, step, take_snapshot
from tests.stores import CrashError, DictStore, FaultyStore

pytestmark = pytest.mark.faults

EPOCHS = 5


@dataclass
class Run:
    """A driver that runs to the last epoch, with snapshots and garbage collection; it notes how far it came."""

    store: ObjectStorage
    committed: int = 0
    generation: int = 0
    snapshots: list[SnapshotParts] = field(default_factory=list)

    def __call__(self) -> None:
        checkpoint = Checkpoint.open(self.store, "a", TOPOLOGY, 1)
        self.generation = checkpoint.generation
        self.committed = checkpoint.next_epoch - 1
        while checkpoint.next_epoch <= EPOCHS:
            if checkpoint.next_epoch == 4:
                # A commit with its bulk apart.
                checkpoint.commit(replace(manifest_of(4, {}), receipts={"out": (bytes(70_000),)}))
            else:
                step(checkpoint, self.store, self.snapshots, carries=True)
            self.committed = checkpoint.next_epoch - 1
            self.snapshots = [take_snapshot(checkpoint, self.store, (1, 0), f"s{self.committed}")]
            if self.committed % 2 == 0:
                checkpoint.collect_garbage()


def recovered(store: ObjectStorage) -> int:
    """The epoch that a reader finds; all of it is as it must be."""
    if store.get(object_names.MARKER) is None:
        return 0
    view = Checkpoint.read(store)
    epoch = 0 if view.manifest is None else view.manifest.epoch
    if epoch < 4:
        # Epoch 4 commits no deltas, which `check` does not know of.
        check(view, epoch)
    else:
        assert view.load("count").count()["keys"]
    return epoch


def operations() -> int:
    store = FaultyStore(DictStore(), 10**9, after=False)
    Run(store)()
    return len(store.operations)


CRASHES = [(at, after) for at in range(operations()) for after in (False, True)]


def test_there_are_crashes_at_every_kind_of_operation() -> None:
    store = FaultyStore(DictStore(), 10**9, after=False)
    Run(store)()
    kinds = {(name.split(" ")[0], name.split(" ")[-1].split("/")[0]) for name in store.operations}
    for kind in (
        ("put_if_absent", "headrace"),
        ("put_if_absent", "leases"),
        ("put_if_absent", "log"),
        ("put", "deltas"),
        ("put", "snapshots"),
        ("put", "blobs"),
        ("delete", "log"),
        ("delete", "deltas"),
        ("delete", "snapshots"),
        ("list", "log"),
    ):
        assert kind in kinds


@pytest.mark.parametrize(("at", "after"), CRASHES)
def test_a_crash_leaves_the_epoch_before_or_the_one_after(at: int, after: bool) -> None:
    store = DictStore()
    run = Run(FaultyStore(store, at, after))
    with pytest.raises(CrashError):
        run()
    epoch = recovered(store)
    assert epoch in (run.committed, run.committed + 1)
    again = Run(store)
    again()
    assert recovered(store) == EPOCHS
    assert again.generation == run.generation + 1 or run.generation == 0


@pytest.mark.parametrize(("at", "after"), CRASHES[::4])
def test_a_crash_while_recovering_from_one(at: int, after: bool) -> None:
    first = DictStore()
    with pytest.raises(CrashError):
        Run(FaultyStore(first, at, after))()
    epoch = recovered(first)
    for second_at in range(0, 16):
        store = DictStore(first.objects)
        run = Run(FaultyStore(store, second_at, not after))
        with suppress(CrashError):
            run()
        assert epoch <= recovered(store) <= max(epoch, run.committed + 1)
        Run(store)()
        assert recovered(store) == EPOCHS
