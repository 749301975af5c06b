"""How the processes of a distributed injector hand records over: what lies in the place that they share (paper §5.2).

    expected                            the names that the injector waits for
    processes/NAME                      exists once that process was there
    entries/NAME/NUMBER                 one hand-over: a watermark, and the records that came before it
    records/NAME/NUMBER-FINGERPRINT     those records; they count only if an entry names them

Entries are numbered from 1 without gaps and written if absent, so that of two processes of one name, one loses.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

from headrace.lowlevel.checkpoint import envelope
from headrace.lowlevel.coder import Coder
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.record import Batch
from headrace.lowlevel.store import ObjectStore, Store
from headrace.lowlevel.time import MIN_TIMESTAMP

FORMAT_VERSION = 1
"""Of entries and records."""
_ENTRY, _RECORDS = "hand-over of an injector's process", "records of an injector's process"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
Place = str | os.PathLike[str] | Store
"""A directory, a URL, or a store."""


class HandoverError(HeadraceError, ValueError):
    """A process that is not expected, has closed, was replaced, or goes back. Nothing of that hand-over counts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One hand-over. Persisted: every field."""

    watermark: int = MIN_TIMESTAMP
    """The process's low watermark after it, microseconds UTC."""
    count: int = 0
    """How many records there are."""
    records: str = ""
    """Where they are; empty if there are none."""
    closed: bool = False
    """Whether it is the process's last."""
    progress: str = ""
    """The process's own note of how far it is."""


class Handover:
    """The shared place, as processes and injector see it."""

    def __init__(self, place: Place, coder: Coder) -> None:
        self.store: Store = ObjectStore(place) if isinstance(place, (str, os.PathLike)) else place
        self.coder = coder

    def expected(self) -> list[str] | None:
        """Names that the injector waits for; None if no injector has said so yet."""
        data = self.store.get("expected")
        return None if data is None else cast(list[str], json.loads(data))

    def expect(self, names: Collection[str]) -> None:
        """Say which processes the injector waits for."""
        self.store.put("expected", json.dumps(sorted(names)).encode())

    def registered(self) -> list[str]:
        """Names of processes that were there."""
        return [path.split("/")[1] for path in self.store.list("processes")]

    def register(self, name: str) -> None:
        """Say that a process is there."""
        self.store.put(f"processes/{name}", b"")

    def entry(self, name: str, number: int) -> Entry | None:
        """A process's hand-over of that number; None if it has not come yet."""
        path = _entry_path(name, number)
        data = self.store.get(path)
        if data is None:
            return None
        with envelope.understood(self._named(path)):
            (head,) = envelope.unwrap(_ENTRY, FORMAT_VERSION, data, self._named(path))
            entry = Entry(*json.loads(bytes(head)))
            if entry.count and not re.fullmatch(
                rf"records/{re.escape(name)}/{number:020}-[0-9a-f]{{32}}", entry.records
            ):
                raise ValueError(f"{entry.records!r:.200} cannot be its records")
        return entry

    def last(self, name: str) -> int:
        """Number of a process's newest hand-over; 0 before the first."""
        paths = self.store.list(f"entries/{name}")
        return int(paths[-1].rsplit("/", 1)[1]) if paths else 0

    def enter(self, name: str, number: int, entry: Entry) -> bool:
        """Hand over; False if another process of the name has taken that number."""
        fields = [entry.watermark, entry.count, entry.records, entry.closed, entry.progress]
        data = envelope.wrap(_ENTRY, FORMAT_VERSION, [json.dumps(fields).encode()])
        return self.store.put_if_absent(_entry_path(name, number), data)

    def save(self, name: str, number: int, batch: Batch) -> str:
        """Write records where an entry can name them; equal ones to the same object."""
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
        """The records at a path. Raises `HandoverError` if they are gone, `CheckpointError` if they are damaged."""
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
        """Take away what was handed over before a number, but the newest entry of it."""
        for folder, end in (("records", before), ("entries", before - 1)):
            for path in self.store.list(f"{folder}/{name}"):
                if int(path.rsplit("/", 1)[1].split("-")[0]) < end:
                    self.store.delete(path)

    def _named(self, path: str) -> str:
        return f"{path} in {self.store.describe()}"


def check_name(name: str) -> str:
    """The name, if it can stand in a path. Raises `HandoverError`.

    >>> check_name("../host")
    Traceback (most recent call last):
      ...
    headrace.lowlevel.handover.HandoverError: '../host' cannot name an injector process; use letters, digits, ...
    """
    if not _NAME.fullmatch(name):
        raise HandoverError(
            f"{name!r:.120} cannot name an injector process; use letters, digits, '_', '-' and '.', a letter, a digit "
            "or '_' first, at most 100 of them"
        )
    return name


def _entry_path(name: str, number: int) -> str:
    return f"entries/{name}/{number:020}"
