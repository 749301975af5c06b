"""The shared storage through which processes hand records to a distributed injector (MillWheel paper §5.2).

    expected                            the names of the processes that the injector waits for
    processes/NAME                      exists once the process has registered
    entries/NAME/NUMBER                 one hand-over: a watermark, and a reference to the records before it
    records/NAME/NUMBER-FINGERPRINT     those records; they count only if an entry names them
    notifications                       in a local directory: a named pipe to the injector

Entries are numbered from 1 without gaps. Each is written only if its number is free, so of two processes with the same
name one fails.

The pipe connects processes of one host. A notification may be missed, and anyone who may write to the directory can
send one: whoever is notified looks for himself, and looks from time to time without a notification.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import stat
import struct
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import cast

from headrace.lowlevel.coders.coder import Coder
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.storage import envelope
from headrace.lowlevel.storage.object_store import Location, ObjectStorage, opened_location
from headrace.lowlevel.time import MIN_TIMESTAMP

FORMAT_VERSION = 1
"""Format version of entries and records."""
_ENTRY, _RECORDS = "hand-over of an injector's process", "records of an injector's process"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class HandoverError(HeadraceError, ValueError):
    """A hand-over was refused, or a stored one cannot be read. Nothing of the refused hand-over counts.

    A hand-over is refused if its process is not expected, has closed, was replaced, or moves its watermark back.

    >>> from headrace.lowlevel import ProcessInjector
    >>> ProcessInjector("memory://", [])
    Traceback (most recent call last):
      ...
    headrace.lowlevel.injectors.handover_log.HandoverError: no process is expected, so the watermark could ...
    """


@dataclass(frozen=True, slots=True)
class HandoverEntry:
    """One hand-over. Persisted: every field."""

    watermark: int = MIN_TIMESTAMP
    """The process's low watermark after this hand-over, microseconds UTC."""
    count: int = 0
    """Number of records."""
    records: str = ""
    """Name of the object with the records; empty if there are none."""
    closed: bool = False
    """Whether this is the last hand-over of the process."""
    progress: str = ""
    """The process's own note of how far it has read its input."""


class Handover:
    """Access to the shared storage, for the injector and for its processes."""

    def __init__(self, place: Location, coder: Coder) -> None:
        self.store: ObjectStorage = opened_location(place)
        self.coder = coder

    @property
    def pipe(self) -> Path | None:
        """Path of the pipe for notifications; None if the storage is no local directory."""
        place = self.store.describe()
        return None if "://" in place else Path(place) / "notifications"

    def expected(self) -> list[str] | None:
        """Names of the processes that the injector waits for; None if no injector has written them yet."""
        data = self.store.get("expected")
        return None if data is None else cast(list[str], json.loads(data))

    def expect(self, names: Collection[str]) -> None:
        """Write the names of the processes that the injector waits for."""
        self.store.put("expected", json.dumps(sorted(names)).encode())

    def registered(self) -> list[str]:
        """Names of the processes that have registered."""
        return [path.split("/")[1] for path in self.store.list("processes")]

    def register(self, name: str) -> None:
        """Record that a process exists."""
        self.store.put(f"processes/{name}", b"")

    def entry(self, name: str, number: int) -> HandoverEntry | None:
        """The hand-over of a process with this number; None if it is not written yet.

        Raises `CheckpointError` if the entry is damaged.
        """
        path = _entry_path(name, number)
        data = self.store.get(path)
        if data is None:
            return None
        with envelope.understood(self._named(path)):
            (head,) = envelope.unwrap(_ENTRY, FORMAT_VERSION, data, self._named(path))
            entry = HandoverEntry(*json.loads(bytes(head)))
            if entry.count and not re.fullmatch(
                rf"records/{re.escape(name)}/{number:020}-[0-9a-f]{{32}}", entry.records
            ):
                raise ValueError(f"{entry.records!r:.200} cannot be its records")
        return entry

    def last(self, name: str) -> int:
        """Number of the newest hand-over of a process; 0 before the first."""
        paths = self.store.list(f"entries/{name}")
        return int(paths[-1].rsplit("/", 1)[1]) if paths else 0

    def enter(self, name: str, number: int, entry: HandoverEntry) -> bool:
        """Write a hand-over; False if another process with the same name has taken this number."""
        fields = [entry.watermark, entry.count, entry.records, entry.closed, entry.progress]
        data = envelope.wrap(_ENTRY, FORMAT_VERSION, [json.dumps(fields).encode()])
        return self.store.put_if_absent(_entry_path(name, number), data)

    def save(self, name: str, number: int, batch: Batch) -> str:
        """Write the records of a hand-over and return the object's name; equal records get the same name."""
        lengths = list(map(len, batch.ids or ()))
        parts = [
            struct.pack(f"<{len(batch)}q", *batch.timestamps),
            self.coder.encode(list(batch.values)),
            b"" if batch.ids is None else struct.pack(f"<{len(lengths)}q", *lengths),
            b"".join(batch.ids or ()),
        ]
        data = envelope.wrap(_RECORDS, FORMAT_VERSION, parts)
        path = f"records/{name}/{number:020}-{blake2b(data, digest_size=16).hexdigest()}"
        self.store.put(path, data)
        return path

    def load(self, path: str) -> Batch:
        """Read the records of a hand-over.

        Raises `HandoverError` if the object is missing, `CheckpointError` if it is damaged.
        """
        data = self.store.get(path)
        if data is None:
            raise HandoverError(f"{self._named(path)} was handed over and is gone; put it back, it is not read yet")
        times, values, sizes, joined = envelope.unwrap(_RECORDS, FORMAT_VERSION, data, self._named(path))
        timestamps = struct.unpack(f"<{len(times) // 8}q", times)
        ids, start = [], 0
        for size in struct.unpack(f"<{len(sizes) // 8}q", sizes):
            ids.append(bytes(joined[start : start + size]))
            start += size
        return Batch(cast(list[object], self.coder.decode(bytes(values))), list(timestamps), ids or None)

    def discard(self, name: str, before: int) -> None:
        """Delete records before hand-over number `before`, and entries before number `before` - 1."""
        for folder, end in (("records", before), ("entries", before - 1)):
            for path in self.store.list(f"{folder}/{name}"):
                if int(path.rsplit("/", 1)[1].split("-")[0]) < end:
                    self.store.delete(path)

    def _named(self, path: str) -> str:
        return f"{path} in {self.store.describe()}"


def check_name(name: str) -> str:
    """Return the name of a process if it is valid in a path; otherwise raise `HandoverError`.

    >>> check_name("../host")
    Traceback (most recent call last):
      ...
    headrace.lowlevel.injectors.handover_log.HandoverError: '../host' cannot name an injector process; ...
    """
    if not _NAME.fullmatch(name):
        raise HandoverError(
            f"{name!r:.120} cannot name an injector process; use letters, digits, '_', '-' and '.', a letter, a digit "
            "or '_' first, at most 100 of them"
        )
    return name


def _entry_path(name: str, number: int) -> str:
    return f"entries/{name}/{number:020}"


_MOST_BYTES = 65_536
"""Bytes that are read at once, which is what a pipe holds."""


class NotificationPipe:
    """The reading end. A thread waits at it until `close`.

    Args:
        path: Where the pipe is, or is made.
        names: The processes whose notifications count.
        wake: Called in that thread when a process has sent a notification that `heard` has not returned yet.

    Raises:
        OSError: There can be no pipe at this path.
    """

    def __init__(self, path: Path, names: Collection[str], wake: Callable[[], None]) -> None:
        if not hasattr(os, "mkfifo"):
            raise OSError(errno.ENOTSUP, "this system has no named pipes in folders", str(path))
        with suppress(FileExistsError):
            os.mkfifo(path)
        # As its own writer the thread does not see the pipe end when a process closes it.
        self._pipe = _opened(path, os.O_RDWR)
        # Whoever else reads at the pipe could take a word that ends the thread, so it ends by a pipe of its own.
        self._end_seen, self._end = os.pipe()
        self._names, self._wake = frozenset(names), wake
        self._lock = threading.Lock()
        self._heard: set[str] = set()
        self._thread = threading.Thread(target=self._listen, name="notifications", daemon=True)
        self._thread.start()

    def heard(self) -> set[str]:
        """The processes that have sent a notification since the last call."""
        with self._lock:
            heard, self._heard = self._heard, set()
        return heard

    def close(self) -> None:
        """End the thread; the pipe stays for the next run."""
        os.close(self._end)
        self._thread.join()
        os.close(self._end_seen)
        os.close(self._pipe)

    def _listen(self) -> None:
        rest, poller = b"", select.poll()
        poller.register(self._pipe, select.POLLIN)
        # A pipe whose writing end is closed is reported without being asked for.
        poller.register(self._end_seen, 0)
        while True:
            if any(descriptor == self._end_seen for descriptor, _ in poller.poll()):
                return
            with suppress(BlockingIOError):
                *lines, rest = (rest + os.read(self._pipe, _MOST_BYTES)).split(b"\n")
                rest = rest[-_MOST_BYTES:]
                for name in (line.decode(errors="replace") for line in lines):
                    if name in self._names:
                        self._add(name)

    def _add(self, name: str) -> None:
        with self._lock:
            is_new = name not in self._heard
            self._heard.add(name)
        if is_new:
            self._wake()


def notify(path: Path, name: str) -> None:
    """Send a notification from a process, if somebody on this host listens at the pipe."""
    if not hasattr(os, "mkfifo"):
        return
    with suppress(OSError):
        pipe = _opened(path, os.O_WRONLY)
        try:
            os.write(pipe, f"{name}\n".encode())
        finally:
            os.close(pipe)


def _opened(path: Path, mode: int) -> int:
    """A descriptor of the pipe. Raises `OSError` if something else has that name, or, to write, if nobody listens."""
    pipe = os.open(path, mode | os.O_NONBLOCK)
    if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
        os.close(pipe)
        raise OSError(f"{path} is no named pipe")
    return pipe
