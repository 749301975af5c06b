"""RELIABILITY row 5: a file that was cut short, changed or lost is refused by name, or an earlier epoch is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import pytest

from headrace.lowlevel.checkpoint import Checkpoint, CheckpointView, Manifest
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.state.state_store import Delta
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.lowlevel.storage.signed_store import SignedStore
from tests.checkpoints import TOPOLOGY, check, contents, manifest_of, step, take_snapshot
from tests.depth import faults
from tests.faults.tally import Tally
from tests.stores import DictStore

pytestmark = pytest.mark.faults

KEYS = {"unsigned": None, "signed": "a key for the tests only"}
KINDS = {
    "marker": object_names.MARKER,
    "lease": object_names.LEASES,
    "log": object_names.LOG,
    "delta": object_names.DELTAS,
    "snapshot": object_names.SNAPSHOTS,
    "bulk": object_names.BLOBS,
}


class Seen(NamedTuple):
    """All that a checkpoint says."""

    manifest: Manifest | None
    state: dict[str, Delta]

    @classmethod
    def of(cls, view: CheckpointView) -> Seen:
        return cls(view.manifest, {name: contents(view.load(name)) for name in ("count", "top")})


class Whole(NamedTuple):
    """An undamaged checkpoint, and what was true after each of its epochs."""

    objects: dict[str, bytes]
    after: list[Seen]


def opened(objects: dict[str, bytes], key: str | None) -> ObjectStorage:
    store = DictStore(objects)
    return store if key is None else SignedStore(store, key)


@cache
def whole(key: str | None = None) -> Whole:
    """Every kind of object: marker, leases, commits, a seal, deltas, a snapshot, and the last commit's bulk apart."""
    inner = DictStore()
    store = inner if key is None else SignedStore(inner, key)
    checkpoint = Checkpoint.open(store, "a", TOPOLOGY, 1)
    after = []
    for _ in range(2):
        step(checkpoint, store, carries=True)
        after.append(Seen.of(Checkpoint.read(store)))
    checkpoint = Checkpoint.open(store, "b", TOPOLOGY, 2)
    step(checkpoint, store, [take_snapshot(checkpoint, store, (1, 0))], carries=True)
    after.append(Seen.of(Checkpoint.read(store)))
    receipts = {"out": (bytes(range(256)) * 257,)}
    checkpoint.commit(replace(manifest_of(4, {}), receipts=receipts))
    after.append(Seen.of(Checkpoint.read(store)))
    return Whole(dict(inner.objects), after)


def damages(data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Lost, too long, cut at every byte, every byte changed; or some of these, as HEADRACE_FAULTS says."""
    yield "lost", None
    yield "too long", data + b"\0"
    stride = -(-len(data) // faults(quick=12, full=len(data)))
    for place in range(0, len(data), stride):
        yield f"cut to {place}", data[:place]
        flipped = data[place] ^ (1 << place % 8)
        yield f"byte {place} changed", data[:place] + bytes([flipped]) + data[place + 1 :]


def outcome(use: Callable[[], Seen], path: str, what: str, after: list[Seen]) -> str:
    """What came of it; never anything that was not true after some epoch."""
    try:
        seen = use()
    except CheckpointError as error:
        assert path in str(error), (path, what, str(error))
        return "refused"
    assert seen in after, f"silently wrong: {path}, {what}"
    return "unharmed" if seen == after[-1] else "previous epoch"


def driven(objects: dict[str, bytes], key: str | None) -> Seen:
    """What the next driver goes on from, which commits an epoch."""
    store = opened(objects, key)
    checkpoint = Checkpoint.open(store, "c", TOPOLOGY, 3)
    seen = Seen.of(CheckpointView(store, checkpoint.identity, checkpoint.manifest, None))
    step(checkpoint, store)
    assert Checkpoint.read(store).manifest is not None
    return seen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("signing", KEYS)
def test_damage_is_refused_by_name_or_an_epoch_is_read_that_was_true(
    tally: Callable[[int], Tally], signing: str, kind: str
) -> None:
    run, key = tally(5), KEYS[signing]
    objects, after = whole(key)
    outcomes = {"refused": 0, "previous epoch": 0, "unharmed": 0}
    for path in [path for path in objects if path.startswith(KINDS[kind])]:
        run.note("files")
        run.note("bytes", len(objects[path]))
        for what, data in damages(objects[path]):
            run.plan()
            damaged = {name: kept for name, kept in (objects | {path: data}).items() if kept is not None}
            assert damaged != objects
            run.fire()
            looked = outcome(lambda d=damaged: Seen.of(Checkpoint.read(opened(d, key))), path, what, after)
            assert outcome(lambda d=damaged: driven(d, key), path, what, after) == looked, (path, what)
            outcomes[looked] += 1
    for name, count in outcomes.items():
        run.note(name, count)
    print(f"row 5, {signing}, {kind}: {run.notes}")
    # Leases and entries and deltas of earlier epochs are not needed; a lost last entry gives the epoch before.
    assert (outcomes["refused"] > 0) == (kind != "lease")
    assert (outcomes["unharmed"] > 0) == (kind in ("lease", "log", "delta"))
    assert (outcomes["previous epoch"] > 0) == (kind == "log")


def test_a_driver_that_refuses_leaves_everything_as_it_was() -> None:
    objects, _ = whole()
    last = max(path for path in objects if path.startswith(object_names.LOG))
    for what, data in damages(objects[last]):
        if data is not None:
            store = DictStore(objects | {last: data})
            before = dict(store.objects)
            with pytest.raises(CheckpointError, match=last):
                Checkpoint.open(store, "c", TOPOLOGY, 3)
            assert store.objects == before, what


def test_the_last_commit_torn_off_gives_the_one_before() -> None:
    store = DictStore()
    checkpoint = Checkpoint.open(store, "a", TOPOLOGY, 1)
    for _ in range(3):
        step(checkpoint, store, carries=True)
    store.delete(store.list(object_names.LOG)[-1])
    check(Checkpoint.read(store), 2)
    checkpoint = Checkpoint.open(store, "c", TOPOLOGY, 3)
    step(checkpoint, store)
    check(Checkpoint.read(store), 3)


@pytest.mark.parametrize("kind", ["deltas", "snapshots"])
def test_a_file_that_is_lost_is_named(kind: str) -> None:
    objects, after = whole()
    needed = [path for plan in after[-1].manifest.chains.values() for path in plan.objects() if path.startswith(kind)]
    assert needed
    for path in needed:
        store = DictStore(objects)
        store.delete(path)
        with pytest.raises(CheckpointError, match=f"{path} in dict:// is missing"):
            Seen.of(Checkpoint.read(store))


def test_files_that_changed_places_are_noticed() -> None:
    objects, after = whole()
    needed = [path for plan in after[-1].manifest.chains.values() for path in plan.objects()]
    for one, other in pairwise(needed):
        store = DictStore(objects | {one: objects[other], other: objects[one]})
        with pytest.raises(CheckpointError, match="files were moved or renamed"):
            Seen.of(Checkpoint.read(store))
