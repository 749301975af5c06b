"""What: lines from a TCP socket, for experiments with a pipeline; not exactly once."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import cast

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, MemorySplit
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MIN_TIMESTAMP, SECOND
from headrace.sdk.io.timestamps import now_micros
from headrace.sdk.transforms.core.low_level import Source

_AHEAD = 100_000
"""Greatest number of lines that wait for an epoch; the thread that reads pauses there."""


class SocketError(HeadraceError, ConnectionError):
    """Connection to a socket that failed. Earlier epochs are committed.

    >>> import socket
    >>> import headrace as beam
    >>> with socket.create_server(("127.0.0.1", 0)) as free:
    ...     host, port = free.getsockname()
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.io.ReadFromSocket(host, port)
    Traceback (most recent call last):
      ...
    headrace.sdk.io.socket_source.SocketError: ...
    """


@named("SocketInjector")
class SocketInjector(BaseInjector):
    """Reads lines in a thread of the driver, from the first plan on; the event time of a line is its arrival."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._host, self._port, self._timeout = host, port, timeout
        self._changed = threading.Condition()
        self._lines: deque[tuple[str, int]] = deque()
        self._began = self._ended = False
        self._failure: Exception | None = None
        self._wake: Callable[[], None] = lambda: None
        self._watermark = MIN_TIMESTAMP
        """The watermark of the last delivery that was not idle."""

    def start(self) -> object:
        """The number of lines read: none."""
        return 0

    def wake_by(self, wake: Callable[[], None]) -> None:
        """See `BaseInjector`."""
        self._wake = wake

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Up to `limit` lines that have arrived. Raises `SocketError` if the connection fails."""
        if not self._began:
            self._began = True
            connection = self._connect()
            threading.Thread(target=self._read, args=(connection,), name="lines", daemon=True).start()
        # The clock is read first, so that later lines have no earlier time.
        watermark = now_micros()
        with self._changed:
            rows = [self._lines.popleft() for _ in range(min(limit, len(self._lines)))]
            next_arrival = self._lines[0][1] if self._lines else watermark
            done = self._ended and not self._lines
            failure = self._failure
            self._changed.notify_all()
        if failure is not None and done and not rows:
            raise SocketError(f"{self._host}:{self._port} can no longer be read: {failure}") from failure
        read = [MemorySplit(Batch([line for line, _ in rows], [stamp for _, stamp in rows]))] if rows else []
        done, watermark = done and failure is None, min(next_arrival, watermark)
        # The watermark advances without lines, too, but not with every poll.
        idle = not rows and not done and watermark - self._watermark < SECOND
        quiet = max(0, self._watermark + SECOND - watermark) / SECOND
        self._watermark = self._watermark if idle else watermark
        return Delivery(
            read,
            cast(int, position) + len(rows),
            watermark,
            done=done,
            idle=idle,
            quiet_seconds=quiet if idle else None,
        )

    def _connect(self) -> socket.socket:
        try:
            connection = socket.create_connection((self._host, self._port), self._timeout)
        except OSError as error:
            raise SocketError(
                f"nobody answers at {self._host}:{self._port} ({error}); start the sender first, such as "
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
        self._wake()

    def _add(self, line: bytes) -> None:
        text = line.decode(errors="replace").removesuffix("\n").removesuffix("\r")
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) < _AHEAD)
            is_first = not self._lines
            self._lines.append((text, max(now_micros(), self._lines[-1][1] if self._lines else MIN_TIMESTAMP)))
        if is_first:
            self._wake()


class ReadFromSocket(Source):
    r"""Reads lines of text from a TCP connection, with their arrival times as event times; for experiments.

    The source is *not* exactly once: lines that were read but not committed when the driver dies are lost, and a
    restart makes a new connection. The input ends when the sender closes the connection. Bytes that are not UTF-8 are
    replaced.

    >>> import socketserver, threading
    >>> import headrace as beam
    >>> class Sender(socketserver.StreamRequestHandler):
    ...     def handle(self):
    ...         self.wfile.write(b"red 5\nblue 7\n")
    >>> with socketserver.TCPServer(("127.0.0.1", 0), Sender) as server:
    ...     threading.Thread(target=server.handle_request).start()
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | ReadFromSocket(*server.server_address) | beam.Map(print)
    red 5
    blue 7

    Args:
        host: Host of the sender, to which the driver connects.
        port: Port on which the sender listens, from 1 to 65535; another number raises `ValueError`.
        timeout: Greatest time to connect, in seconds.
    """

    is_bounded = False

    def __init__(self, host: str, port: int, timeout: float = 10.0) -> None:
        super().__init__()
        if not 0 < port < 65_536:
            raise ValueError(f"port is {port}; give one from 1 to 65535")
        self._arguments = (host, port, timeout)

    def injector(self) -> SocketInjector:
        """The injector, which reads the lines on the driver."""
        return SocketInjector(*self._arguments)
