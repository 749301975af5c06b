"""Wall clocks: the clock of the machine, and clocks for tests that move only when a test or a wait moves them."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Protocol


class Clock(Protocol):
    """A wall clock in microseconds UTC."""

    def now(self) -> int:
        """The time, microseconds UTC."""

    def wait(self, micros: int, wakeup: Wakeup) -> None:
        """Let this much time pass, at most an hour; the wait ends early when `wakeup` is called."""

    def wait_after_end(self, micros: int, wakeup: Wakeup) -> None:
        """Let this much time pass after the input has ended, when nothing but the timer waited for can happen."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """The time, microseconds UTC."""
        return time.time_ns() // 1000

    def wait(self, micros: int, wakeup: Wakeup) -> None:
        """See `Clock`."""
        wakeup.wait(micros / 1e6)

    def wait_after_end(self, micros: int, wakeup: Wakeup) -> None:
        """See `Clock`; the time passes, as other programs may look at the same clock."""
        self.wait(micros, wakeup)


class LocalClock(SystemClock):
    """The machine's clock, which jumps to the next timer once the input has ended, so that nobody waits for nothing.

    >>> clock = LocalClock()
    >>> before = clock.now()
    >>> clock.wait_after_end(3_600_000_000, Wakeup())
    >>> clock.now() - before >= 3_600_000_000
    True
    """

    def __init__(self) -> None:
        self._skipped = 0

    def now(self) -> int:
        """The time, microseconds UTC."""
        return super().now() + self._skipped

    def wait_after_end(self, micros: int, wakeup: Wakeup) -> None:
        """Move the clock forward, unless `wakeup` has been called."""
        if not wakeup.wait(0.0):
            self._skipped += max(micros, 0)


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

    def wait_after_end(self, micros: int, wakeup: Wakeup) -> None:
        """As `wait`."""
        self.wait(micros, wakeup)


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


_LONGEST = 3600.0
"""Longest wait in seconds, as timers may be set for the end of time. Callers check afterwards and wait again."""


class Wakeup:
    """Lets any thread, and a signal handler, end a wait.

    A `threading.Event` could deadlock: the waiting thread holds the lock of the event for a moment, and a signal
    handler in the same thread would wait for this lock. `SimpleQueue.put` is safe in signal handlers.

    >>> wakeup = Wakeup()
    >>> wakeup.call()
    >>> wakeup.wait(60.0), wakeup.wait(0.0)
    (True, False)
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[None] = SimpleQueue()

    def call(self) -> None:
        """End the current wait, or the next one if there is none."""
        self._calls.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds`, at most an hour, for a call; returns whether there was one since the last wait."""
        try:
            self._calls.get(timeout=min(max(seconds, 0.0), _LONGEST))
        except Empty:
            return False
        while not self._calls.empty():
            self._calls.get()
        return True
