"""Which copies of state this process has open, where a host keeps them, and how one is brought up to a commit.

A copy lies under `<root>/<boot>/<run>/<computation>/<interval>`. The root is local to the host; the driver need not
share it. `boot` changes with every start of the machine, as copies are not synced to the disk.
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
from headrace.lowlevel.state import Delta
from headrace.runners.spark.copy import DAMAGE, LmdbCopy

ROOT_VARIABLE = "HEADRACE_COPIES"
"""Environment variable that names the root on every host; without it, a folder of the user in the temporary one."""
_BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")
_KEEP_SECONDS = 7 * 86_400
_SWEEP_SECONDS = 3_600
_OPEN_AT_ONCE = 200
"""Each open copy takes two file descriptors."""

Read = Callable[[str], Iterable[Delta]]
"""From the name of a committed change to its deltas; may be called again."""


def copies_root() -> Path:
    """Where this host keeps copies of state, whatever run they belong to."""
    default = Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}"
    root = Path(os.environ.get(ROOT_VARIABLE) or default)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = root.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o002:
        raise CheckpointError(
            f"copies of state would go to {root}, which another user owns or everybody can write to and could forge; "
            f"set {ROOT_VARIABLE} to a folder of your own on every host"
        )
    return root / _boot()


@cache
def _boot() -> str:
    """A name that changes when the machine restarts. Where the system has none, when this process does."""
    text = _BOOT_FILE.read_text() if _BOOT_FILE.exists() else f"{os.getpid()}-{time.time_ns()}"
    return blake2b(text.encode(), digest_size=6).hexdigest()


def advance(copy: LmdbCopy, chain: Sequence[str], read: Read) -> None:
    """Bring a copy to the end of `chain`, whatever it holds now, and let reads see exactly that.

    `chain` names what makes up the state, oldest first, beginning at nothing: a snapshot or a delta, then deltas. Names
    are unique to the attempt that wrote them, so a copy whose position is in the chain lacks just what follows, and
    any other copy is made again from the beginning.
    """
    target = chain[-1] if chain else ""
    copy.remember_chain(chain, read)
    while (position := copy.refresh()) != target:
        if position in chain:
            name = chain[chain.index(position) + 1]
            # Read before the lock is taken: the checkpoint may be far away. One epoch's changes fit into memory.
            deltas = list(read(name))
            copy.extend(position, name, partial(iter, deltas))
        elif chain:
            # A snapshot may not fit into memory.
            copy.extend(position, chain[0], partial(read, chain[0]), clear=position != "")
        else:
            copy.extend(position, "", tuple, clear=True)


class Copies:
    """The copies of one run on this host that this process has open; the least recently used are closed.

    `run` names the checkpoint: another checkpoint, even one made later at the same place, must have another name.
    """

    def __init__(self, run: str, root: Path | None = None, limit: int = _OPEN_AT_ONCE) -> None:
        self.folder = (root or copies_root()) / _folder_name(run)
        self._limit = limit
        self._process = os.getpid()
        self._open: OrderedDict[Path, LmdbCopy] = OrderedDict()

    @contextmanager
    def lease(self, computation: str, interval: str) -> Iterator[LmdbCopy]:
        """The copy of a computation's interval, wherever it stands: `advance` it. Its view ends with the lease."""
        copy = self._take(self._path(computation, interval))
        try:
            yield copy
        finally:
            copy.release()

    def drop(self, computation: str, interval: str) -> None:
        """Delete a copy; the next lease makes it again."""
        path = self._path(computation, interval)
        if (copy := self._open.pop(path, None)) is not None:
            copy.close()
        shutil.rmtree(path, ignore_errors=True)

    def _path(self, computation: str, interval: str) -> Path:
        return self.folder / _folder_name(computation) / _folder_name(interval)

    def _take(self, path: Path) -> LmdbCopy:
        if self._process != os.getpid():
            # LMDB environments do not survive a fork; leaving them open is harmless.
            self._process, self._open = os.getpid(), OrderedDict()
        if (copy := self._open.get(path)) is None:
            while len(self._open) >= self._limit:
                self._open.popitem(last=False)[1].close()
            copy = self._open[path] = _open_or_replace(path)
        self._open.move_to_end(path)
        return copy

    def close(self) -> None:
        """Close every copy."""
        while self._open:
            self._open.popitem()[1].close()

    def discard(self) -> None:
        """Delete the run's copies on this host: its checkpoint is gone, or will not be used here again."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _open_or_replace(path: Path) -> LmdbCopy:
    try:
        return LmdbCopy(path)
    except DAMAGE:
        shutil.rmtree(path, ignore_errors=True)
        return LmdbCopy(path)


def sweep(root: Path | None = None) -> None:
    """Delete what no run will use again: copies from before the machine's last start, and those of long ago."""
    current = root or copies_root()
    for boot in _folders(current.parent):
        if boot.name != current.name:
            shutil.rmtree(boot, ignore_errors=True)
    for run in _folders(current):
        if time.time() - _last_written(run) > _KEEP_SECONDS:
            shutil.rmtree(run, ignore_errors=True)


class Sweeping:
    """How often a process sweeps: it looks at every file of every run, which takes longer than a small run."""

    def __init__(self) -> None:
        self._next = -inf

    def when_due(self) -> None:
        """Sweep unless this process did so within the last hour."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SWEEP_SECONDS
            sweep()


SWEEPING = Sweeping()
"""Of this process."""


def _last_written(run: Path) -> float:
    """Seconds; infinity for a run that ends, and takes its files along, while they are looked at."""
    try:
        return max(file.stat().st_mtime for file in [run, *run.rglob("data.mdb")])
    except FileNotFoundError:
        return inf


def _folders(parent: Path) -> list[Path]:
    return [entry for entry in parent.iterdir() if entry.is_dir()] if parent.is_dir() else []


def _folder_name(name: str) -> str:
    """A name that can be a folder's, different for different names and still legible."""
    legible = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:40].lstrip(".-")
    return f"{legible}.{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}"
