"""Calls to sinks that run beside an epoch (MillWheel paper figure 11: a delivery and its ACK)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from headrace.runners.engine.clock import Clock

Release = Callable[[], bool]
"""A function that passes rows to a sink, and returns whether the sink has acknowledged them."""


class PendingCall(Protocol):
    """A release that has been started."""

    def wait(self, micros: int) -> bool | None:
        """Wait up to `micros` microseconds after the start, and return what `result` returns."""

    def result(self) -> bool | None:
        """Return the result of the release, or None while it is running. Raises the error of the release."""


class ThreadCall:
    """A call in its own thread. The process can end before the call does.

    >>> ThreadCall(lambda: True).wait(60_000_000)
    True
    """

    def __init__(self, release: Release) -> None:
        self._release = release
        self._start = time.monotonic()
        self._ended = threading.Event()
        self._acknowledged = False
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="headrace release", daemon=True).start()

    def _run(self) -> None:
        try:
            self._acknowledged = self._release()
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()

    @property
    def is_running(self) -> bool:
        """Whether the call is running."""
        return not self._ended.is_set()

    def wait(self, micros: int) -> bool | None:
        """See `PendingCall`."""
        self._ended.wait(max(0.0, self._start + micros / 1e6 - time.monotonic()))
        return self.result()

    def result(self) -> bool | None:
        """See `PendingCall`."""
        if self.is_running:
            return None
        if self._error is not None:
            raise self._error
        return self._acknowledged


class Threads:
    """Makes calls in threads, at most `most` at once, so that calls that hang do not fill the process with threads.

    >>> threads = Threads(most=1)
    >>> hanging = threads.begin(lambda: not threading.Event().wait())
    >>> threads.begin(lambda: True).wait(60_000_000)
    False
    """

    def __init__(self, most: int = 32) -> None:
        self._most = most
        self._running: list[ThreadCall] = []

    def begin(self, release: Release) -> PendingCall:
        """Start a call. If too many calls are running, it is not made, and its result is False."""
        self._running = [call for call in self._running if call.is_running]
        if len(self._running) >= self._most:
            return ThreadCall(lambda: False)
        self._running.append(ThreadCall(release))
        return self._running[-1]


class PlainCall:
    """A call that is made in the constructor; its duration is the time by which the call has moved the clock.

    >>> from headrace.runners.engine.clock import ManualClock
    >>> clock = ManualClock()
    >>> call = PlainCall(lambda: clock.sleep(5) is None, clock)
    >>> call.wait(4), call.wait(5), call.result()
    (None, True, True)
    """

    def __init__(self, release: Release, clock: Clock) -> None:
        start = clock.now()
        self._acknowledged = release()
        self._duration = clock.now() - start

    def wait(self, micros: int) -> bool | None:
        """See `PendingCall`."""
        return self._acknowledged if self._duration <= micros else None

    def result(self) -> bool | None:
        """See `PendingCall`."""
        return self._acknowledged
