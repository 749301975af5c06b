"""Runs on a disk that is full at one write after another: `python -m tests.faults.fulldisk HOW FOLDER RUNS`.

Says of each run, as JSON: which write, what was raised, and what the sinks got after there was space again.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.state_store import Delta
from headrace.lowlevel.storage.object_store import ObjectStore, StoreError
from headrace.runners.spark.statestore.disk_full import StateDiskError
from headrace.runners.spark.statestore.lmdb_store import LmdbStateStore
from tests.checkpoints import contents
from tests.faults.checkpoint.test_checkpoint_crash import EPOCHS, Run, recovered
from tests.faults.crashes.test_crash_at_every_step import FixedSize, Outside, attempt
from tests.faults.smalldisk import Disk, small_disk
from tests.stores import WrappedStore

T = TypeVar("T")


class FullAt(WrappedStore):
    """A store whose disk is full from its write number `at` on, from 0."""

    def __init__(self, place: Path, disk: Disk | None, at: int = -1) -> None:
        super().__init__(ObjectStore(place))
        self._disk, self._at = disk, at
        self.writes: list[str] = []

    def around(self, name: str, operation: Callable[[], T]) -> T:
        if name.startswith("put"):
            self.writes.append(name)
            if len(self.writes) == self._at + 1 and self._disk is not None:
                self._disk.fill()
        return operation()


class FullAtStep(FixedSize):
    """The disk is full from one step of the protocol on."""

    def __init__(self, disk: Disk | None, at: int) -> None:
        super().__init__(0)
        self._disk, self._at = disk, at
        self.name = ""

    def step(self, name: str, epoch: int) -> None:
        super().step(name, epoch)
        if self.steps == self._at and self._disk is not None:
            self.name = f"{name} of epoch {epoch}"
            self._disk.fill()


def spread(total: int, runs: int) -> list[int]:
    """So many of a total, or all."""
    count = min(runs, total)
    return [number * total // count for number in range(count)]


def checkpoint(folder: Path, disk: Disk, runs: int) -> list[dict[str, object]]:
    """A checkpoint of a few epochs, full at each of its writes."""
    whole = FullAt(folder.parent / "whole", None)
    Run(whole)()
    told = []
    for at in spread(len(whole.writes), runs):
        place = folder / f"write-{at}"
        life = Run(FullAt(place, disk, at))
        error = raised(life)
        left = [str(path) for path in place.rglob("*") if "#" in path.name]
        disk.free()
        before = recovered(ObjectStore(place))
        Run(ObjectStore(place))()
        ended = recovered(ObjectStore(place))
        exact = ended == EPOCHS and life.committed <= before <= life.committed + 1 and not left
        told.append({"at": whole.writes[at], "error": error, "named": str(place) in error, "exact": exact})
    return told


def local(folder: Path, disk: Disk, runs: int) -> list[dict[str, object]]:
    """A whole run on the local runner, full from each step on."""
    expected, whole = Outside(), FullAtStep(None, 0)
    attempt(expected, folder.parent / "whole", whole)
    told = []
    for at in spread(whole.steps, runs):
        outside, place, scheduler = Outside(), folder / f"step-{at}", FullAtStep(disk, at + 1)
        error = raised(lambda o=outside, p=place, s=scheduler: attempt(o, p, s))
        disk.free()
        attempt(outside, place, FixedSize(0))
        exact = all(outside.values(sink) == expected.values(sink) for sink in ("minutes", "highest"))
        # Behind the last commit nothing is written any more.
        last = not error and at >= whole.steps - 3
        told.append({"at": scheduler.name, "error": error, "named": str(place) in error or last, "exact": exact})
    return told


def state_stores(folder: Path, disk: Disk, runs: int) -> list[dict[str, object]]:
    """Make and extend state stores in LMDB on a full disk, on which LMDB itself would kill the process."""
    told = []
    for at in range(runs):
        path, expected = folder / f"store-{at}", MemoryStateStore()
        errors = []
        if at % 2:
            disk.fill()
            errors.append(raised(lambda p=path: LmdbStateStore(p)))
            disk.free()
        store = LmdbStateStore(path)
        for number in range(at):
            delta = Delta(cells={(b"%016d" % number, b""): bytes(5000)})
            disk.fill()
            errors.append(raised(lambda s=store, d=delta: s.apply(d)))
            disk.free()
            store.apply(delta)
            expected.apply(delta)
        exact = contents(store) == contents(expected)
        store.close()
        # The disk is small: what is left of one run would be in the way of the next.
        shutil.rmtree(path)
        named = all(f"cannot write the state store {path}: " in error for error in errors)
        told.append({"at": f"store {at}", "error": " ".join(errors), "named": named, "exact": exact})
    return told


def raised(use: Callable[[], object]) -> str:
    try:
        use()
    except (StoreError, StateDiskError) as error:
        return str(error)
    return ""


def main(how: str, folder: str, runs: str) -> None:
    place = Path(folder)
    disk = small_disk(place)
    told = {"checkpoint": checkpoint, "local": local, "state-stores": state_stores}[how](place, disk, int(runs))
    print(json.dumps({"kind": disk.kind, "runs": told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
