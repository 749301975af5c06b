"""The log: commits and seals in order. What its last commit says is what is true (paper §6.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.lowlevel.checkpoint import envelope, fence, manifest, paths
from headrace.lowlevel.checkpoint.fence import Lease, Seal
from headrace.lowlevel.checkpoint.manifest import Manifest, blobs_of, decode_manifest
from headrace.lowlevel.errors import EMPTY, CheckpointError, DamagedError
from headrace.lowlevel.store import Store

_VERSIONS = {manifest.KIND: manifest.FORMAT_VERSION, fence.SEAL_KIND: fence.FORMAT_VERSION}


@dataclass(frozen=True, slots=True)
class Position:
    """Where a reader or a driver stands in the log."""

    last: int = 0
    """Place of the last entry, commit or seal; 0 if there is none."""
    base: int = 0
    """Place of the last commit; 0 if there is none."""
    manifest: Manifest | None = None
    """The last commit."""


def read_entry(store: Store, place: int) -> Manifest | Seal | None:
    """The entry at a place, None if there is none. Raises `CheckpointError` naming an entry that is damaged."""
    path = paths.log_entry(place)
    if (data := store.get(path)) is None:
        return None
    name = f"{path} in {store.describe()}"
    kind, parts = envelope.unwrap_any(_VERSIONS, data, name)
    with envelope.understood(name):
        if kind == fence.SEAL_KIND:
            return Seal.decode(parts)
        bulk_path = _bulk_path(parts)
    bulk = _bulk(store, bulk_path)
    with envelope.understood(name):
        return decode_manifest(parts, bulk)


def _bulk_path(parts: list[memoryview]) -> str | None:
    path = blobs_of(parts)
    if path is not None and not paths.is_blobs(path):
        raise ValueError(f"{path!r:.200} is no name of a commit's bulk")
    return path


def _bulk(store: Store, path: str | None) -> list[memoryview] | None:
    if path is None:
        return None
    name = f"{path} in {store.describe()}"
    if (data := store.get(path)) is None:
        raise _missing(name)
    return envelope.unwrap(manifest.BLOBS_KIND, manifest.FORMAT_VERSION, data, name)


def look(store: Store) -> Position:
    """The end of the log, read in two or three operations. Raises `CheckpointError` if it cannot be read."""
    while last := fence.newest(store, paths.LOG):
        entry = _newest_entry(store, last)
        base = entry.base if isinstance(entry, Seal) else last
        commit = read_entry(store, base) if isinstance(entry, Seal) and base else entry
        if isinstance(commit, Manifest):
            with envelope.understood(f"{paths.log_entry(base)} in {store.describe()}"):
                _refuse_foreign_names(commit)
            return Position(last, base, commit)
        if isinstance(entry, Seal) and not base:
            return Position(last)
        # Collected in the meantime? Then the log has grown.
        if fence.newest(store, paths.LOG) == last:
            raise _missing(f"{paths.log_entry(base)} in {store.describe()}")
    return Position()


def _newest_entry(store: Store, last: int) -> Manifest | Seal | None:
    """The entry at the last place. Raises `DamagedError` that says how to go on without it."""
    try:
        return read_entry(store, last)
    except DamagedError as error:
        path = paths.log_entry(last)
        before = [number for number in map(paths.number_of, store.list(paths.LOG)) if number is not None]
        if error.name != f"{path} in {store.describe()}":
            raise
        where = _behind(store, max((place for place in before if place < last), default=0))
        raise DamagedError(error.name, error.damage, _without(error.damage, where)) from error


def _behind(store: Store, place: int) -> str:
    """Where a run goes on whose log ends at that place."""
    entry = read_entry(store, place) if place else None
    if isinstance(entry, Seal):
        entry = read_entry(store, entry.base) if entry.base else None
    return f"behind epoch {entry.epoch}" if isinstance(entry, Manifest) else "at the beginning"


def _without(damage: str, where: str) -> str:
    """What to do about a newest entry that cannot be read."""
    if damage == EMPTY:
        return (
            "power was lost before the entry was on the disk, and until then no driver delivers anything of it. While "
            f"no driver runs on the checkpoint, delete this file and start again: the run goes on {where}, and nothing "
            "that was committed is lost"
        )
    return (
        "put an intact copy of the file there. Without one, and while no driver runs on the checkpoint, delete this "
        f"newest entry and start again: the run goes on {where}, and repeats what was delivered of a later epoch"
    )


def _refuse_foreign_names(commit: Manifest) -> None:
    """Raise ValueError for a commit that names what is not a checkpoint's own: what it names is read, and deleted."""
    for plan in commit.plans.values():
        for path in plan.objects():
            if paths.epoch_of(path) is None and paths.snapshot_name(path) is None:
                raise ValueError(f"{path!r:.200} is no name of state")


def take_over(store: Store, lease: Lease, check: Callable[[Position], None]) -> Position:
    """Seal the end of the log and return what to go on from; `fence` says why. `check` may refuse it.

    Raises `FencedError` if a driver with a higher generation is ahead.
    """
    while True:
        position = look(store)
        check(position)
        if lease.generation == 1 and not position.last:
            # Nobody else has ever driven this checkpoint: there is nobody to seal out.
            return position
        place = position.last + 1
        data = Seal(lease, position.base).encode()
        store.put_if_absent(paths.log_entry(place), data)
        # Not asked whether the write won: a write that was tried again may have found itself there.
        sealed = store.get(paths.log_entry(place)) == data and fence.newest(store, paths.LOG) == place
        fence.refuse_replaced(store, lease, "it had not begun yet")
        if sealed:
            return Position(place, position.base, position.manifest)


def _missing(name: str) -> CheckpointError:
    return CheckpointError(
        f"{name} is missing, but the log names it; put the file back, or start over on an empty checkpoint"
    )
