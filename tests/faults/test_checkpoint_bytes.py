"""RELIABILITY row 5: a checkpoint file that was cut short or changed is refused by name, or an earlier one is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from headrace.lowlevel.checkpoint import Checkpoint, paths
from headrace.lowlevel.errors import CheckpointError
from tests.checkpoints import TOPOLOGY, check, manifest_of, step, take_snapshot
from tests.stores import DictStore


def small_checkpoint() -> DictStore:
    """Every kind of object: marker, leases, commits, a seal, deltas, a snapshot and bulk that lies apart."""
    store = DictStore()
    checkpoint = Checkpoint.open(store, "a", TOPOLOGY, 1)
    step(checkpoint, store)
    step(checkpoint, store)
    checkpoint = Checkpoint.open(store, "b", TOPOLOGY, 2)
    step(checkpoint, store, [take_snapshot(checkpoint, store, (1, 0))])
    return store


def damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Every truncation, and every byte changed."""
    for length in range(len(data)):
        yield f"cut to {length}", data[:length]
    for place in range(len(data)):
        flipped = data[place] ^ (1 << place % 8)
        yield f"byte {place} changed", data[:place] + bytes([flipped]) + data[place + 1 :]
    yield "too long", data + b"\0"


KINDS = {
    "marker": paths.MARKER,
    "leases": paths.LEASES,
    "log": paths.LOG,
    "delta that is needed": f"{paths.DELTAS}/00000000000000000003/1-0",
    "delta that a snapshot covers": f"{paths.DELTAS}/00000000000000000001/1-0",
    "snapshots": paths.SNAPSHOTS,
}


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_refused_by_name_or_harmless(kind: str) -> None:
    whole = small_checkpoint()
    check(Checkpoint.read(whole), 3)
    refused = harmless = 0
    for path in [path for path in whole.objects if path.startswith(KINDS[kind])]:
        for what, data in damaged(whole.objects[path]):
            store = DictStore(whole.objects | {path: data})
            try:
                check(Checkpoint.read(store), 3)
                harmless += 1
            except CheckpointError as error:
                assert path in str(error), (path, what)
                assert "damaged" in str(error), (path, what)
                refused += 1
    # What is not needed to read the last commit may be damaged: earlier entries of the log among it.
    assert (refused > 0) == (kind not in ("leases", "delta that a snapshot covers"))
    assert (harmless > 0) == (kind in ("leases", "delta that a snapshot covers", "log"))


def test_a_driver_refuses_what_a_reader_refuses_and_leaves_it_as_it_was() -> None:
    whole = small_checkpoint()
    last = whole.list(paths.LOG)[-1]
    for what, data in damaged(whole.objects[last]):
        store = DictStore(whole.objects | {last: data})
        before = dict(store.objects)
        with pytest.raises(CheckpointError, match=last):
            Checkpoint.open(store, "c", TOPOLOGY, 3)
        assert store.objects == before, what


def test_bulk_that_lies_apart() -> None:
    whole = DictStore()
    checkpoint = Checkpoint.open(whole, "a", TOPOLOGY, 1)
    checkpoint.commit(replace(manifest_of(1, {}), receipts={"out": (bytes(range(256)) * 257,)}))
    path = paths.blobs(1, 1)
    data = whole.objects[path]
    for place in [*range(0, len(data), 97), len(data) - 1]:
        for wrong in (data[:place], data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]):
            with pytest.raises(CheckpointError, match=f"{path} in dict:// is damaged"):
                Checkpoint.read(DictStore(whole.objects | {path: wrong}))


def test_the_last_commit_torn_off_gives_the_one_before() -> None:
    store = small_checkpoint()
    store.delete(store.list(paths.LOG)[-1])
    check(Checkpoint.read(store), 2)
    checkpoint = Checkpoint.open(store, "c", TOPOLOGY, 3)
    step(checkpoint, store)
    check(Checkpoint.read(store), 3)


@pytest.mark.parametrize("kind", ["deltas", "snapshots"])
def test_a_file_that_is_lost_is_named(kind: str) -> None:
    whole = small_checkpoint()
    plans = Checkpoint.read(whole).manifest.plans.values()
    needed = [path for plan in plans for path in plan.objects() if path.startswith(kind)]
    assert needed
    for path in needed:
        store = DictStore(whole.objects)
        store.delete(path)
        with pytest.raises(CheckpointError, match=f"{path} in dict:// is missing"):
            check(Checkpoint.read(store), 3)


def test_files_that_changed_places_are_noticed() -> None:
    whole = small_checkpoint()
    plans = Checkpoint.read(whole).manifest.plans.values()
    needed = [path for plan in plans for path in plan.objects()]
    for one, other in pairwise(needed):
        store = DictStore(whole.objects | {one: whole.objects[other], other: whole.objects[one]})
        with pytest.raises(CheckpointError, match="files were moved or renamed"):
            check(Checkpoint.read(store), 3)
