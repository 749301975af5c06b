"""What user code prints in worker processes on this machine: it comes out where the program itself prints.

Spark sends the standard output of its Python workers to standard error. On a local master a task has a connection to
the driver in its place, also for compiled code and for processes that user code starts. The driver writes what comes to
its `sys.stdout`, as a notebook and pytest have objects of their own there. A task sends all of an epoch's output before
it reports, so nothing is missing once the driver has read what is there.
"""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread

_READ = 1 << 16
_LONGEST_PATH = 100
"""Bytes that the name of a Unix socket may have; some systems allow 104."""


@dataclass(slots=True)
class _Connection:
    """A task's standard output."""

    source: socket.socket
    waiting: bytearray = field(default_factory=bytearray)
    """The beginning of a line whose end has not come."""


class PrintedOutput:
    """The driver's end of one run: a Unix socket, and a thread that writes what tasks print.

    Attributes:
        path: The socket, in a folder that only this user can enter.
    """

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="headrace-")
        if len(folder) > _LONGEST_PATH - len("/stdout"):
            os.rmdir(folder)
            folder = tempfile.mkdtemp(prefix="headrace-", dir="/tmp")
        self.path = str(Path(folder, "stdout"))
        self._lock = Lock()
        self._is_closed = False
        self._selector = selectors.DefaultSelector()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen(128)
        self._server.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ)
        self._end, self._wake = socket.socketpair()
        self._selector.register(self._end, selectors.EVENT_READ)
        self._thread = Thread(target=self._pass_on, name="headrace-printed", daemon=True)
        self._thread.start()

    def _pass_on(self) -> None:
        while not self._is_closed:
            self._selector.select()
            with self._lock:
                if not self._is_closed:
                    self._read()

    def _read(self) -> bool:
        """Read what is there from each connection once; whether there was anything."""
        ready = [key for key, _ in self._selector.select(0) if key.fileobj is not self._end]
        for key in ready:
            if isinstance(key.data, _Connection):
                self._read_from(key.data)
                continue
            with suppress(BlockingIOError):
                accepted, _ = self._server.accept()
                accepted.setblocking(False)
                self._selector.register(accepted, selectors.EVENT_READ, _Connection(accepted))
        return bool(ready)

    def _read_from(self, connection: _Connection) -> None:
        with suppress(BlockingIOError):
            try:
                data = connection.source.recv(_READ)
            except ConnectionError:
                data = b""
            connection.waiting += data
            end = connection.waiting.rfind(b"\n") + 1 if data else len(connection.waiting)
            _write(bytes(connection.waiting[:end]))
            del connection.waiting[:end]
            if not data:
                self._selector.unregister(connection.source)
                connection.source.close()

    def drain(self) -> None:
        """Write all that tasks have printed before they reported."""
        with self._lock:
            while self._read():
                pass
            for key in self._selector.get_map().values():
                if isinstance(key.data, _Connection) and key.data.waiting:
                    _write(bytes(key.data.waiting))
                    key.data.waiting.clear()

    def close(self) -> None:
        """Write what is left, and end."""
        self.drain()
        with self._lock:
            self._is_closed = True
            self._wake.send(b"e")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        self._wake.close()
        shutil.rmtree(Path(self.path).parent, ignore_errors=True)


def _write(data: bytes) -> None:
    """Write to the program's output; what nobody reads any more is left out."""
    if not data or sys.stdout is None:
        return
    text, encoding = data.decode(errors="replace"), getattr(sys.stdout, "encoding", None) or "utf-8"
    with suppress(OSError, ValueError):
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()


@contextmanager
def printing_to(path: str) -> Iterator[None]:
    """Inside, this process prints to the driver that listens at a socket; where none does, as before."""
    connection = socket.socket(socket.AF_UNIX) if path else None
    try:
        if connection is not None:
            connection.connect(path)
    except OSError:
        connection = None
    if connection is None:
        yield
        return
    flush()
    before = os.dup(1)
    os.dup2(connection.fileno(), 1)
    connection.close()
    try:
        yield
    finally:
        flush()
        os.dup2(before, 1)
        os.close(before)


def flush() -> None:
    """Send what this process has printed."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
