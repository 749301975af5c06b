"""Garbage collection of a checkpoint: deletion of objects that neither the last two commits nor other drivers need.

Deletion is safe while a newer driver runs, also by a driver that does not know yet that it was replaced. It deletes
only objects of epochs that the collecting driver committed or recovered, while its successors name only files of the
last of these commits, and their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.lowlevel.checkpoint.files.file_chain import FileChain
from headrace.lowlevel.checkpoint.log.commit_log import LogPosition, oldest_whole
from headrace.lowlevel.checkpoint.manifest import manifest
from headrace.lowlevel.checkpoint.manifest.manifest import Manifest
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.storage import envelope, object_names
from headrace.lowlevel.storage.object_store import ObjectStorage, StoreError

_PATIENCE = 3
"""A collection ends after this many failed deletions, as others would most likely fail, too."""


@dataclass(slots=True)
class Garbage:
    """The garbage collector of one driver."""

    commits: set[int] = field(default_factory=set)
    """Positions of log entries that are known to be commits, so that they need not be read."""
    _permanent: set[int] = field(default_factory=set)
    """Positions of log entries that are never deleted: seals, and entries that cannot be read."""
    _stuck: set[str] = field(default_factory=set)
    """Names of objects that could not be deleted."""
    _found: list[str] = field(default_factory=list)
    """Names of objects that are to be deleted."""

    @property
    def count(self) -> int:
        """Number of objects that were found and are not deleted yet."""
        return len(self._found)

    def find(self, store: ObjectStorage, generation: int, position: LogPosition, before: Manifest | None) -> None:
        """Look for garbage, given the last commit and the one `before` it. It stays garbage whatever is committed."""
        if position.manifest is None:
            return
        needed = [commit for commit in (before, position.manifest) if commit is not None]
        # Log entries go first, so that a reader that finds an entry finds its files, or sees that the log has grown.
        named = {path for commit in needed for chain in _chains(commit) for path in chain.objects()}
        named |= {object_names.blobs(commit.epoch, commit.generation) for commit in needed}
        found = [
            *self._old_entries(store, position, named),
            *_old_leases(store, generation),
            *_unnamed(store, generation, needed[-1], named),
        ]
        # Objects that could not be deleted before go last, so that they do not prevent other deletions.
        self._stuck &= set(found)
        self._found = sorted(found, key=self._stuck.__contains__)

    def delete(self, store: ObjectStorage, most: int | None = None) -> list[str]:
        """Delete what was found, up to `most` objects; return their names.

        Raises `StoreError` if some objects could not be deleted; what is left is forgotten, to be found again.
        """
        garbage, self._found = self._found[:most], [] if most is None else self._found[most:]
        deleted: list[str] = []
        errors: list[StoreError] = []
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
            self._found = []
            raise errors[0]
        return deleted

    def _old_entries(self, store: ObjectStorage, position: LogPosition, named: set[str]) -> Iterator[str]:
        """Commits before the last two that carry no state which is named.

        Seals stay forever, because a replaced driver may still try to write there.
        """
        oldest = oldest_whole(position)
        entries = {object_names.number_of(path): path for path in store.list(object_names.LOG)}
        self.commits &= entries.keys()
        for number, path in entries.items():
            if number is None or number >= oldest or number in self._permanent or path in named:
                continue
            if number not in self.commits and not _is_commit(store, path):
                self._permanent.add(number)
                continue
            self.commits.add(number)
            yield path


def _is_commit(store: ObjectStorage, path: str) -> bool:
    """Whether a log entry is a commit; False for a damaged entry, which may have been a seal."""
    try:
        data = store.get(path)
        return data is not None and bool(envelope.unwrap(manifest.KIND, manifest.FORMAT_VERSION, data, path))
    except CheckpointError:
        return False


def _old_leases(store: ObjectStorage, generation: int) -> Iterator[str]:
    for path in store.list(object_names.LEASES):
        number = object_names.number_of(path)
        if number is not None and number < generation:
            yield path


def _unnamed(store: ObjectStorage, generation: int, last: Manifest, named: set[str]) -> Iterator[str]:
    """Delta files, bulk objects and snapshots that are not `named`, and that no commit behind `last` will name."""
    for path in (*store.list(object_names.DELTAS), *store.list(object_names.BLOBS)):
        epoch = object_names.epoch_of(path)
        if path not in named and epoch is not None and epoch <= last.epoch:
            yield path
    for path in store.list(object_names.SNAPSHOTS):
        name = object_names.snapshot_name(path)
        if path not in named and name is not None and _given_up(name, generation, last):
            yield path


def _chains(commit: Manifest) -> Iterator[FileChain]:
    """The file chains of a commit, archived ones included."""
    yield from commit.chains.values()
    for archived in commit.archive:
        yield from archived.chains


def _given_up(name: object_names.SnapshotName, generation: int, last: Manifest) -> bool:
    """Whether no future commit will name this snapshot, which no commit names. This driver may still be writing it."""
    chain = last.chains.get((name.level, name.interval))
    if name.generation != generation:
        return name.generation < generation
    return chain is None or (chain.snapshot is not None and name.epoch < chain.snapshot.order.epoch)
