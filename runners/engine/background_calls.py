"""Calls beside the flow of an epoch: begun, and asked for later (MillWheel paper figure 11: a delivery and its ACK)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from headrace.runners.engine.clock import Clock

Release = Callable[[], bool]
"""Hands rows to a sink; whether they were acknowledged."""


class Call(Protocol):
    """A release that was begun."""

    def wait(self, micros: int) -> bool | None:
        """What it gave; None if it takes longer than so many microseconds since it was begun. Raises what it raised."""

    def result(self) -> bool | None:
        """What it gave; None while it goes on. Raises what it raised."""


class ThreadCall:
    """A call in a thread of its own, which does not keep its process from ending.

    >>> ThreadCall(lambda: True).wait(60_000_000)
    True
    """

    def __init__(self, release: Release) -> None:
        self._release = release
        self._began = time.monotonic()
        self._over = threading.Event()
        self._gave = False
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="headrace release", daemon=True).start()

    def _run(self) -> None:
        try:
            self._gave = self._release()
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()

    @property
    def goes_on(self) -> bool:
        """Whether it is not over."""
        return not self._over.is_set()

    def wait(self, micros: int) -> bool | None:
        """See `Call`."""
        self._over.wait(max(0.0, self._began + micros / 1e6 - time.monotonic()))
        return self.result()

    def result(self) -> bool | None:
        """See `Call`."""
        if self.goes_on:
            return None
        if self._error is not None:
            raise self._error
        return self._gave


class Threads:
    """Makes calls in threads, at most so many at once: what hangs shall not fill the process.

    >>> threads = Threads(most=1)
    >>> hanging = threads.begin(lambda: not threading.Event().wait())
    >>> threads.begin(lambda: True).wait(60_000_000)
    False
    """

    def __init__(self, most: int = 32) -> None:
        self._most = most
        self._going: list[ThreadCall] = []

    def begin(self, release: Release) -> Call:
        """Begin a call; with too many that go on it is not made, and nothing is acknowledged."""
        self._going = [call for call in self._going if call.goes_on]
        if len(self._going) >= self._most:
            return ThreadCall(lambda: False)
        self._going.append(ThreadCall(release))
        return self._going[-1]


class PlainCall:
    """A call made at once; it has taken as long as the clock moved meanwhile.

    >>> from headrace.runners.engine.clock import ManualClock
    >>> clock = ManualClock()
    >>> call = PlainCall(lambda: clock.sleep(5) is None, clock)
    >>> call.wait(4), call.wait(5), call.result()
    (None, True, True)
    """

    def __init__(self, release: Release, clock: Clock) -> None:
        began = clock.now()
        self._gave = release()
        self._took = clock.now() - began

    def wait(self, micros: int) -> bool | None:
        """See `Call`."""
        return self._gave if self._took <= micros else None

    def result(self) -> bool | None:
        """See `Call`."""
        return self._gave
