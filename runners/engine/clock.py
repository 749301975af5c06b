"""Wall clocks: the clock of the machine, and clocks for tests that move only when a test or a wait moves them."""

from __future__ import annotations

import time
from typing import Protocol

from headrace.runners.engine.wakeup import Wakeup


class Clock(Protocol):
    """A wall clock in microseconds UTC."""

    def now(self) -> int:
        """The time, microseconds UTC."""

    def wait(self, micros: int, wakeup: Wakeup) -> None:
        """Let this much time pass, at most an hour; the wait ends early when `wakeup` is called."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """The time, microseconds UTC."""
        return time.time_ns() // 1000

    def wait(self, micros: int, wakeup: Wakeup) -> None:
        """See `Clock`."""
        wakeup.wait(micros / 1e6)


class ManualClock:
    """A clock that stands still until it is moved; a wait moves the clock at once.

    >>> clock = ManualClock()
    >>> clock.sleep(5)
    >>> clock.now()
    5
    """

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now(self) -> int:
        """The time, microseconds UTC."""
        return self._now

    def set(self, now: int) -> None:
        """Set the clock; tests of clock skew also set it back."""
        self._now = now

    def sleep(self, micros: int) -> None:
        """Move the clock forward."""
        self._now += max(micros, 0)

    def wait(self, micros: int, wakeup: Wakeup) -> None:
        """Move the clock forward, unless `wakeup` has been called."""
        if not wakeup.wait(0.0):
            self.sleep(micros)


class SkippingClock(ManualClock):
    """The machine's clock plus the sum of all waits, so that a wait takes no real time.

    >>> clock = SkippingClock()
    >>> before = clock.now()
    >>> clock.sleep(3_600_000_000)
    >>> clock.now() - before >= 3_600_000_000
    True
    """

    def now(self) -> int:
        """The time, microseconds UTC."""
        return SystemClock().now() + super().now()
