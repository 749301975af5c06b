"""The open state stores of a run in this process, their folders, and how a store advances to a commit.

The folder of a store is `<root>/<boot>/<run>/<computation>/<interval>`. The root is local to each host. `boot` changes
with every start of the machine, as stores are not synced to the disk.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from hashlib import blake2b
from math import inf
from pathlib import Path

from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.state.state_store import Delta
from headrace.runners.spark.memory import boot_id
from headrace.runners.spark.statestore.lmdb_private import DAMAGE
from headrace.runners.spark.statestore.lmdb_store import LmdbStateStore

ROOT_VARIABLE = "HEADRACE_STATE_STORES"
"""Environment variable that names the root on every host; by default a folder of the user in the temporary folder."""
_BOOT_NAME = re.compile("[0-9a-f]{12}")
"""What `_boot` returns: the root may be a folder with other things in it."""
_KEEP_SECONDS = 7 * 86_400
"""Seconds after the last write until the stores of a run are deleted."""
_SWEEP_SECONDS = 3_600
"""Seconds between two sweeps of a process."""
_OPEN_AT_ONCE = 200
"""Largest number of open stores of a run; each takes two file descriptors."""

Read = Callable[[str], Iterable[Delta]]
"""From the name of a committed change to its deltas; may be called again."""


def stores_root() -> Path:
    """The folder of all state stores on this host. Raises `CheckpointError` if other users can write to it."""
    default = Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}"
    root = Path(os.environ.get(ROOT_VARIABLE) or default)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = root.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o002:
        raise CheckpointError(
            f"state stores would go to {root}, which another user owns or everybody can write to and could forge; "
            f"set {ROOT_VARIABLE} to a folder of your own on every host"
        )
    return root / _boot()


@cache
def _boot() -> str:
    """A name that is new after each start of the machine, or of the process if the system does not name its starts."""
    text = boot_id() or f"{os.getpid()}-{time.time_ns()}"
    return blake2b(text.encode(), digest_size=6).hexdigest()


def advance(store: LmdbStateStore, chain: Sequence[str], read: Read) -> None:
    """Bring a store to the end of `chain` from any position, and let reads see exactly that state.

    `chain` names the files of the state, oldest first: a snapshot or a first delta, then deltas. Each attempt writes
    files of other names, so a store whose position is in the chain lacks just the files after that position, and any
    other store is made again from the beginning. If another attempt, whose chain is another one, does so with the same
    store meanwhile, all files are applied in one transaction; else both could begin again without end.
    """
    target = chain[-1] if chain else ""
    begun = False
    store.remember_chain(chain, read)
    while (position := store.refresh()) != target:
        if position in chain:
            name = chain[chain.index(position) + 1]
            # Read before LMDB's lock is held: the checkpoint may be slow. The changes of one epoch fit into memory.
            deltas = list(read(name))
            if store.extend(position, name, partial(iter, deltas)):
                store.note_applied(position, name, deltas)
        elif chain:
            # A snapshot may not fit into memory.
            names = chain if begun else chain[:1]
            store.extend(position, names[-1], partial(_read_all, read, names), clear=position != "")
            begun = True
        else:
            store.extend(position, "", tuple, clear=True)


def _read_all(read: Read, names: Sequence[str]) -> Iterator[Delta]:
    return (delta for name in names for delta in read(name))


class StoreCache:
    """The state stores of one run on this host that this process has open; the least recently used are closed.

    `run` names the checkpoint: another checkpoint, even one made later at the same location, must have another name.
    """

    def __init__(self, run: str, root: Path | None = None, limit: int = _OPEN_AT_ONCE) -> None:
        self.folder = (root or stores_root()) / _folder_name(run)
        self._limit = limit
        self._paths: dict[tuple[str, str], Path] = {}
        self._process = os.getpid()
        self._open: OrderedDict[Path, LmdbStateStore] = OrderedDict()

    @contextmanager
    def lease(self, computation: str, interval: str) -> Iterator[LmdbStateStore]:
        """Lend the store of an interval of a computation, at any position; `advance` it. The lease ends its view."""
        store = self._take(self._path(computation, interval))
        try:
            yield store
        finally:
            store.release()

    def drop(self, computation: str, interval: str) -> None:
        """Delete a store; the next lease makes it again."""
        path = self._path(computation, interval)
        if (store := self._open.pop(path, None)) is not None:
            store.close()
        shutil.rmtree(path, ignore_errors=True)

    def _path(self, computation: str, interval: str) -> Path:
        place = computation, interval
        if (path := self._paths.get(place)) is None:
            path = self._paths[place] = self.folder / _folder_name(computation) / _folder_name(interval)
        return path

    def _take(self, path: Path) -> LmdbStateStore:
        if self._process != os.getpid():
            # LMDB environments cannot be used after a fork; leaving them open is harmless.
            self._process, self._open = os.getpid(), OrderedDict()
        if (store := self._open.get(path)) is None:
            while len(self._open) >= self._limit:
                self._open.popitem(last=False)[1].close()
            store = self._open[path] = _open_or_replace(path)
        self._open.move_to_end(path)
        return store

    def close(self) -> None:
        """Close every store."""
        while self._open:
            self._open.popitem()[1].close()

    def discard(self) -> None:
        """Delete the stores of the run on this host, which no run will use again."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _open_or_replace(path: Path) -> LmdbStateStore:
    try:
        return LmdbStateStore(path)
    except DAMAGE:
        shutil.rmtree(path, ignore_errors=True)
        return LmdbStateStore(path)


def sweep(root: Path | None = None) -> None:
    """Delete stores from before the last start of the machine, and those without a write for a week.

    Where the system does not name its starts, another folder may be that of another process, so its age decides.
    """
    current = root or stores_root()
    for boot in _folders(current.parent):
        is_old = bool(boot_id()) or time.time() - _last_written(boot) > _KEEP_SECONDS
        if boot.name != current.name and _BOOT_NAME.fullmatch(boot.name) and is_old:
            shutil.rmtree(boot, ignore_errors=True)
    for run in _folders(current):
        if time.time() - _last_written(run) > _KEEP_SECONDS:
            shutil.rmtree(run, ignore_errors=True)


class Sweeping:
    """Sweeps at most once an hour in each process: a sweep looks at all files of all runs, which can take long."""

    def __init__(self) -> None:
        self._next = -inf

    def when_due(self) -> None:
        """Sweep unless this process did so within the last hour."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SWEEP_SECONDS
            sweep()


def _last_written(run: Path) -> float:
    """Time of the last write to a run's stores, in seconds UTC; infinity if they are being deleted."""
    try:
        return max(file.stat().st_mtime for file in [run, *run.rglob("data.mdb")])
    except FileNotFoundError:
        return inf


def _folders(parent: Path) -> list[Path]:
    return [entry for entry in parent.iterdir() if entry.is_dir()] if parent.is_dir() else []


def _folder_name(name: str) -> str:
    """A folder name, different for different names and still legible."""
    legible = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:40].lstrip(".-")
    return f"{legible}.{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}"
