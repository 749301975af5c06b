"""What: lines that somebody sends over a socket, for trying a pipeline. They are not exactly once."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from typing import cast

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.injector import BaseInjector, Delivery, MemorySplit
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import MIN_TIMESTAMP, SECOND
from headrace.sdk.transforms.source import Source

_AHEAD = 100_000
"""Lines that may wait for their epoch before the sender has to."""


class SocketError(HeadraceError, ConnectionError):
    """Nobody can be read from there. Earlier epochs are committed."""


class SocketInjector(BaseInjector):
    """Reads lines in a thread of the driver, from the first plan on; each has the time at which it came."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._host, self._port, self._timeout = host, port, timeout
        self._changed = threading.Condition()
        self._lines: deque[tuple[str, int]] = deque()
        self._began = self._ended = False
        self._failure: Exception | None = None
        self._told = MIN_TIMESTAMP
        """The watermark of the last epoch."""

    def start(self) -> object:
        """No line."""
        return 0

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The lines that are there. Raises `SocketError`."""
        if not self._began:
            self._began = True
            connection = self._connect()
            threading.Thread(target=self._read, args=(connection,), name="lines", daemon=True).start()
        # Asked first: what comes from here on has no earlier time.
        watermark = _now()
        with self._changed:
            rows = [self._lines.popleft() for _ in range(min(limit, len(self._lines)))]
            left = self._lines[0][1] if self._lines else watermark
            done = self._ended and not self._lines
            failure = self._failure
            self._changed.notify_all()
        if failure is not None and done and not rows:
            raise SocketError(f"{self._host}:{self._port} can no longer be read: {failure}") from failure
        work = [MemorySplit(Batch([line for line, _ in rows], [stamp for _, stamp in rows]))] if rows else []
        done, watermark = done and failure is None, min(left, watermark)
        # Time goes on also where no line comes, but need not be told all the time.
        idle = not rows and not done and watermark - self._told < SECOND
        self._told = self._told if idle else watermark
        return Delivery(work, cast(int, position) + len(rows), watermark, done=done, idle=idle)

    def _connect(self) -> socket.socket:
        try:
            connection = socket.create_connection((self._host, self._port), self._timeout)
        except OSError as error:
            raise SocketError(
                f"nobody answers at {self._host}:{self._port} ({error}); start who sends first, such as "
                f"`nc -lk {self._port}`"
            ) from error
        connection.settimeout(None)
        return connection

    def _read(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    self._add(line)
        except OSError as error:
            self._failure = error
        with self._changed:
            self._ended = True

    def _add(self, line: bytes) -> None:
        text = line.decode(errors="replace").removesuffix("\n").removesuffix("\r")
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) < _AHEAD)
            self._lines.append((text, max(_now(), self._lines[-1][1] if self._lines else MIN_TIMESTAMP)))


def _now() -> int:
    """Microseconds UTC."""
    return time.time_ns() // 1000


class ReadFromSocket(Source):
    """Lines that come over a TCP connection, as text, with the time at which they came: for trying things.

    *Not* exactly once: what was sent is gone, so lines that were read but not committed when the driver dies are lost,
    and after a restart another connection is made. The input ends when the sender closes. Bytes that are not UTF-8
    are replaced.

    Args:
        host: Who sends; the driver connects to it.
        port: Where it listens.
        timeout: Seconds that it has to answer.
    """

    is_bounded = False

    def __init__(self, host: str, port: int, timeout: float = 10.0) -> None:
        super().__init__()
        if not 0 < port < 65_536:
            raise ValueError(f"port is {port}; give one from 1 to 65535")
        self._place = (host, port, timeout)

    def injector(self) -> SocketInjector:
        """What listens, on the driver."""
        return SocketInjector(*self._place)
