"""The commit log: commits and seals in order. Its last commit is the committed state (MillWheel paper §6.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.lowlevel.checkpoint.log import fence
from headrace.lowlevel.checkpoint.log.fence import Lease, Seal
from headrace.lowlevel.checkpoint.manifest import manifest
from headrace.lowlevel.checkpoint.manifest.manifest import Manifest, blobs_of, decode_manifest
from headrace.lowlevel.errors import EMPTY, CheckpointError, DamagedError
from headrace.lowlevel.storage import envelope, object_names
from headrace.lowlevel.storage.object_store import ObjectStorage

_VERSIONS = {manifest.KIND: manifest.FORMAT_VERSION, fence.SEAL_KIND: fence.FORMAT_VERSION}


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The end of the log, as a reader or a driver has found it."""

    last: int = 0
    """Position of the last entry, commit or seal; 0 if there is none."""
    base: int = 0
    """Position of the last commit; 0 if there is none."""
    manifest: Manifest | None = None
    """The last commit; None if there is none."""


@dataclass(frozen=True, slots=True)
class _Remains:
    """What is left of a commit that stays in the log only for the small deltas that it carries.

    Its bulk (positions, rows, receipts) was deleted as garbage: up to a thousand such commits may be kept, and bulks
    are large. The state of later commits is complete, but this epoch cannot be looked at any more.
    """

    bulk: str
    """Name of the bulk object, for messages."""


def read_entry(store: ObjectStorage, position: int) -> Manifest | Seal | None:
    """Read the log entry at a position; None if there is none. Raises `CheckpointError` for a damaged entry."""
    entry = _read(store, position)
    if isinstance(entry, _Remains):
        raise _missing(entry.bulk)
    return entry


def commits(store: ObjectStorage) -> Iterator[Manifest]:
    """The commits that are whole in the log, oldest first. Raises `CheckpointError` for a damaged entry."""
    whole_from = 0
    for place in filter(None, map(object_names.number_of, store.list(object_names.LOG))):
        entry = _read(store, place)
        if isinstance(entry, Manifest):
            yield entry
        elif isinstance(entry, _Remains) and place >= whole_from:
            # The log may have grown since it was listed.
            whole_from = oldest_whole(look(store))
            if place >= whole_from:
                raise _missing(entry.bulk)


def read_before(store: ObjectStorage, commit: Manifest) -> Manifest | None:
    """The commit before another one; None if it is not, or not as a whole, in the log. Raises as `read_entry`."""
    entry = _read(store, commit.previous) if commit.previous else None
    return entry if isinstance(entry, Manifest) else None


def oldest_whole(position: LogPosition) -> int:
    """The place of the oldest commit that garbage collection leaves whole: that before the last."""
    return (position.manifest.previous if position.manifest is not None else 0) or position.base


def _read(store: ObjectStorage, position: int) -> Manifest | Seal | _Remains | None:
    path = object_names.log_entry(position)
    if (data := store.get(path)) is None:
        return None
    name = f"{path} in {store.describe()}"
    kind, parts = envelope.unwrap_any(_VERSIONS, data, name)
    with envelope.understood(name):
        if kind == fence.SEAL_KIND:
            return Seal.decode(parts)
        bulk_path = _bulk_path(parts)
    bulk = None
    if bulk_path is not None:
        bulk_name = f"{bulk_path} in {store.describe()}"
        if (stored := store.get(bulk_path)) is None:
            return _Remains(bulk_name)
        bulk = envelope.unwrap(manifest.BLOBS_KIND, manifest.FORMAT_VERSION, stored, bulk_name)
    with envelope.understood(name):
        return decode_manifest(parts, bulk)


def _bulk_path(parts: list[memoryview]) -> str | None:
    path = blobs_of(parts)
    if path is not None and not object_names.is_blobs(path):
        raise ValueError(f"{path!r:.200} is no name of a commit's bulk")
    return path


def look(store: ObjectStorage) -> LogPosition:
    """Read the end of the log, in two or three operations. Raises `CheckpointError` if it is damaged."""
    while last := fence.newest(store, object_names.LOG):
        entry = _newest_entry(store, last)
        base = entry.base if isinstance(entry, Seal) else last
        commit = read_entry(store, base) if isinstance(entry, Seal) and base else entry
        if isinstance(commit, Manifest):
            with envelope.understood(f"{object_names.log_entry(base)} in {store.describe()}"):
                _refuse_foreign_names(commit)
            return LogPosition(last, base, commit)
        if isinstance(entry, Seal) and not base:
            return LogPosition(last)
        # If the entry was deleted as garbage in the meantime, the log has grown.
        if fence.newest(store, object_names.LOG) == last:
            raise _missing(f"{object_names.log_entry(base)} in {store.describe()}")
    return LogPosition()


def _newest_entry(store: ObjectStorage, last: int) -> Manifest | Seal | None:
    """The entry at the last position. Raises `DamagedError` with the remedy for a damaged last entry."""
    try:
        return read_entry(store, last)
    except DamagedError as error:
        path = object_names.log_entry(last)
        numbers = [number for number in map(object_names.number_of, store.list(object_names.LOG)) if number is not None]
        if error.name != f"{path} in {store.describe()}":
            raise
        where = _behind(store, max((number for number in numbers if number < last), default=0))
        raise DamagedError(error.name, error.damage, _without(error.damage, where)) from error


def _behind(store: ObjectStorage, position: int) -> str:
    """A description of the epoch at which a run continues if its log ends at this position."""
    entry = read_entry(store, position) if position else None
    if isinstance(entry, Seal):
        entry = read_entry(store, entry.base) if entry.base else None
    return f"behind epoch {entry.epoch}" if isinstance(entry, Manifest) else "at the beginning"


def _without(damage: str, where: str) -> str:
    """The remedy for a newest entry that cannot be read."""
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
    """Raise ValueError for a commit that names objects other than state files, as these are read and deleted."""
    for chain in commit.chains.values():
        for path in chain.objects():
            parsers = (object_names.epoch_of, object_names.snapshot_name, object_names.number_of)
            if all(parse(path) is None for parse in parsers):
                raise ValueError(f"{path!r:.200} is no name of state")


def take_over(store: ObjectStorage, lease: Lease, check: Callable[[LogPosition], None]) -> LogPosition:
    """Seal the end of the log, and return the position from which the driver continues; see `fence`.

    Args:
        store: The store of the checkpoint.
        lease: The driver's lease.
        check: Called with the position before it is sealed; it raises to refuse the position.

    Raises:
        FencedError: There is a lease with a higher generation.
        CheckpointError: The log is damaged.
    """
    while True:
        position = look(store)
        check(position)
        if lease.generation == 1 and not position.last:
            # No other driver has ever used this checkpoint, so none needs to be sealed out.
            return position
        number = position.last + 1
        data = Seal(lease, position.base).encode()
        store.put_if_absent(object_names.log_entry(number), data)
        # The result of the write is ignored: a retry by the store may have found the first attempt's object.
        sealed = store.get(object_names.log_entry(number)) == data and fence.newest(store, object_names.LOG) == number
        fence.refuse_replaced(store, lease, "it had not begun yet")
        if sealed:
            return LogPosition(number, position.base, position.manifest)


def _missing(name: str) -> CheckpointError:
    return CheckpointError(
        f"{name} is missing, but the log names it; put the file back, or start over on an empty checkpoint"
    )
