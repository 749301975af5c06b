"""The latest snapshot of a pipeline as text, so that a store that does not answer keeps no other pipeline waiting."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import NamedTuple

PATIENCE = 1.0
"""Seconds that an answer waits for a snapshot; after that it has the one before it."""


class VersionedText(NamedTuple):
    """A snapshot as text, and a name that tells it from other ones."""

    version: str
    text: str

    @classmethod
    def of(cls, text: str) -> VersionedText:
        """The text with its version."""
        return cls(hashlib.sha256(text.encode()).hexdigest()[:16], text)


class LatestSnapshot:
    """Makes snapshots when they are asked for, in a thread of its own, which ends with the process.

    Args:
        make: Makes the text of a snapshot.
        first: The text before the first snapshot.

    >>> latest = LatestSnapshot(lambda: "new", "old")
    >>> latest.current().text
    'new'
    >>> latest.close()
    """

    def __init__(self, make: Callable[[], str], first: str) -> None:
        self._make = make
        self._current = VersionedText.of(first)
        self._asked = SimpleQueue[bool]()
        self._made = Event()
        self._made.set()
        self._due = 0.0
        self._lock = Lock()
        self._thread: Thread | None = None

    def current(self) -> VersionedText:
        """The snapshot of now; the one before it if that takes longer than `PATIENCE`."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._answer, name="headrace page reader", daemon=True)
                self._thread.start()
            if self._made.is_set():
                self._made.clear()
                self._due = time.monotonic() + PATIENCE
                self._asked.put(True)
        self._made.wait(max(0.0, self._due - time.monotonic()))
        return self._current

    def close(self) -> None:
        """Let the thread end."""
        self._asked.put(False)

    def _answer(self) -> None:
        while self._asked.get():
            try:
                self._current = VersionedText.of(self._make())
            finally:
                self._made.set()
