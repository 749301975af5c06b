"""What may be deleted: everything that neither the last commits name nor another driver can still need.

The commits kept are the last and the one before. Deletions are safe next to a newer driver, and by a driver that was
replaced without knowing it yet: both only touch what belongs to epochs that the collecting driver committed or
recovered, while whoever follows it names only files of the last of these commits, and its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.lowlevel.checkpoint import envelope, manifest, paths
from headrace.lowlevel.checkpoint.copy_plan import CopyPlan
from headrace.lowlevel.checkpoint.log import Position
from headrace.lowlevel.checkpoint.manifest import Manifest
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.store import Store, StoreError

_PATIENCE = 3
"""Objects that cannot be deleted after which a collection ends: most likely no other can be either."""


@dataclass(slots=True)
class Garbage:
    """Collects what one driver and those before it have left."""

    commits: set[int] = field(default_factory=set)
    """Places of the log that this driver wrote: they need not be read to know that they hold no seal."""
    _kept: set[int] = field(default_factory=set)
    """Places of entries that stay for ever: seals, and what cannot be read."""
    _stuck: set[str] = field(default_factory=set)
    """Objects that could not be deleted."""

    def collect(self, store: Store, generation: int, position: Position, before: Manifest | None) -> list[str]:
        """Delete garbage, given the last commit and the one `before` it; returns the names of what was deleted.

        Raises `StoreError` if some could not be deleted, when as much of the rest is as the store allows.
        """
        if position.manifest is None:
            return []
        kept = [commit for commit in (before, position.manifest) if commit is not None]
        # Entries go first: a reader that finds one finds what it names, or notices that it was overtaken.
        found = [
            *self._old_entries(store, position),
            *_old_leases(store, generation),
            *_unnamed(store, generation, kept),
        ]
        # What failed before is tried last, so that it keeps nothing else.
        return self._delete(store, sorted(found, key=self._stuck.__contains__))

    def _delete(self, store: Store, garbage: list[str]) -> list[str]:
        deleted: list[str] = []
        errors: list[StoreError] = []
        self._stuck &= set(garbage)
        for path in garbage:
            try:
                store.delete(path)
            except StoreError as error:
                self._stuck.add(path)
                errors.append(error)
                if len(errors) == _PATIENCE:
                    break
            else:
                deleted.append(path)
                self._stuck.discard(path)
        if errors:
            raise errors[0]
        return deleted

    def _old_entries(self, store: Store, position: Position) -> Iterator[str]:
        """Commits before the last two. Seals stay for ever: a driver may still try to write where they are."""
        assert position.manifest is not None
        oldest = position.manifest.previous or position.base
        there = {place: path for path in store.list(paths.LOG) if (place := paths.number_of(path)) is not None}
        self.commits &= there.keys()
        for place, path in there.items():
            if place >= oldest or place in self._kept:
                continue
            if place not in self.commits and not _is_commit(store, path):
                self._kept.add(place)
                continue
            self.commits.add(place)
            yield path


def _is_commit(store: Store, path: str) -> bool:
    """Of an entry that another driver wrote. What is damaged stays, as nobody can tell what it was."""
    try:
        data = store.get(path)
        return data is not None and bool(envelope.unwrap(manifest.KIND, manifest.FORMAT_VERSION, data, path))
    except CheckpointError:
        return False


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
