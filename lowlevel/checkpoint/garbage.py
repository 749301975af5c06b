"""What may be deleted: everything that neither the last commits name nor another driver can still need.

The commits kept are the last and the one before. Deletions are safe next to a newer driver, and by a driver that was
replaced without knowing it yet: both only touch what belongs to epochs that the collecting driver committed or
recovered, while whoever follows it names only files of the last of these commits, and its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lowlevel.checkpoint import paths
from headrace.lowlevel.checkpoint.copy_plan import CopyPlan
from headrace.lowlevel.checkpoint.log import Position, is_seal
from headrace.lowlevel.checkpoint.manifest import Manifest
from headrace.lowlevel.store import Store


def collect(store: Store, generation: int, position: Position, before: Manifest | None, seals: set[int]) -> list[str]:
    """Delete garbage, given the last commit and the one `before` it; returns the names of what was deleted.

    `seals` are the places known to hold seals; what is found is added.
    """
    if position.manifest is None:
        return []
    kept = [commit for commit in (before, position.manifest) if commit is not None]
    deleted = []
    for path in (*_old_entries(store, position, seals), *_old_leases(store, generation)):
        store.delete(path)
        deleted.append(path)
    for path in _unnamed(store, generation, kept):
        store.delete(path)
        deleted.append(path)
    return deleted


def _old_entries(store: Store, position: Position, seals: set[int]) -> Iterator[str]:
    """Commits before the last two. Seals stay for ever: a driver may still try to write where they are."""
    assert position.manifest is not None
    for path in store.list(paths.LOG):
        place = paths.number_of(path)
        if place is None or place in seals or place >= (position.manifest.previous or position.base):
            continue
        if is_seal(store, place):
            seals.add(place)
        else:
            yield path


def _old_leases(store: Store, generation: int) -> Iterator[str]:
    for path in store.list(paths.LEASES):
        number = paths.number_of(path)
        if number is not None and number < generation:
            yield path


def _unnamed(store: Store, generation: int, kept: list[Manifest]) -> Iterator[str]:
    """Deltas of attempts that did not count or that snapshots replaced, old bulk, and snapshots nobody waits for."""
    last = kept[-1]
    named = {path for commit in kept for plan in _plans(commit) for path in plan.objects()}
    named |= {paths.blobs(commit.epoch, commit.generation) for commit in kept}
    for path in (*store.list(paths.DELTAS), *store.list(paths.BLOBS)):
        epoch = paths.epoch_of(path)
        if path not in named and epoch is not None and epoch <= last.epoch:
            yield path
    for path in store.list(paths.SNAPSHOTS):
        name = paths.snapshot_name(path)
        if path not in named and name is not None and _given_up(name, generation, last):
            yield path


def _plans(commit: Manifest) -> Iterator[CopyPlan]:
    """Everything that a commit names: the state, and what is archived."""
    yield from commit.plans.values()
    for archived in commit.archive:
        yield from archived.plans


def _given_up(name: paths.SnapshotName, generation: int, last: Manifest) -> bool:
    """Whether a snapshot that no commit names will not be named any more. This driver may still be writing one."""
    plan = last.plans.get((name.level, name.interval))
    if name.generation != generation:
        return name.generation < generation
    return plan is None or (plan.snapshot is not None and name.epoch < plan.snapshot.order.epoch)
