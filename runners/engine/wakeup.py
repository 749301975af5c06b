"""Ends a wait of the driver early, at a request, a stop or a signal."""

from __future__ import annotations

from queue import Empty, SimpleQueue

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
