"""Calls of user code with a time limit, in a thread that is abandoned when the time is up."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar, cast

T = TypeVar("T")
_Call = tuple[Callable[[tuple[object, ...], dict[str, object]], object], tuple[object, ...], dict[str, object]]
_Outcome = tuple[object, Exception | None]


class TimeLimit:
    """Calls functions in a thread, which is reused while calls return in time.

    A thread whose call takes longer is abandoned, as Python cannot stop it. It does not keep the process alive.

    >>> TimeLimit(10).call(lambda numbers, kwargs: [sum(numbers)], (1, 2), {})
    [3]
    """

    def __init__(self, seconds: float) -> None:
        if seconds <= 0:
            raise ValueError(f"a time limit of {seconds} s lets nothing through; give more than 0")
        self._seconds = seconds
        self._thread: _Helper | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_seconds": self._seconds, "_thread": None}

    def call(
        self,
        function: Callable[[tuple[object, ...], dict[str, object]], T],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> T:
        """The result of the function. Raises its exception, or `TimeoutError` if it takes too long."""
        helper = self._thread = self._thread or _Helper()
        helper.calls.put((function, args, kwargs))
        try:
            result, error = helper.outcomes.get(timeout=self._seconds)
        except Empty:
            self._thread = None
            raise TimeoutError(f"no result within {self._seconds:g} s") from None
        if error is not None:
            raise error
        return cast(T, result)


class _Helper:
    """A thread with a queue of calls and one of results."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[_Call] = SimpleQueue()
        self.outcomes: SimpleQueue[_Outcome] = SimpleQueue()
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            function, args, kwargs = self.calls.get()
            try:
                self.outcomes.put((function(args, kwargs), None))
            except Exception as error:
                self.outcomes.put((None, error))
