"""A named pipe by which the processes of a distributed injector say that they have handed something over.

A pipe connects processes of one host. A notification may be missed, and anyone who may write to the directory can send
one: whoever is notified looks for himself, and looks from time to time without a notification.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

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
