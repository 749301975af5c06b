"""What ends a driver's wait early: a request, a stop, a signal."""

from __future__ import annotations

from queue import Empty, SimpleQueue

_LONGEST = 3600.0
"""Seconds of one wait. Whoever waits looks again afterwards, and timers may be set for the end of time."""


class Wakeup:
    """Ends a wait from any thread, and from a signal handler.

    A `threading.Event` would not do: its lock is held for a moment by the thread that waits, and a signal handler runs
    in that thread, so that setting the event there can wait for itself for ever. The queue's `put` is made for that.

    >>> wakeup = Wakeup()
    >>> wakeup.call()
    >>> wakeup.wait(60.0), wakeup.wait(0.0)
    (True, False)
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[None] = SimpleQueue()

    def call(self) -> None:
        """End the wait that goes on, or else the next one."""
        self._calls.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for a call, at most so long and at most an hour; whether there was one since the last wait."""
        try:
            self._calls.get(timeout=min(max(seconds, 0.0), _LONGEST))
        except Empty:
            return False
        while not self._calls.empty():
            self._calls.get()
        return True
