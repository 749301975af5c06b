"""Calls of user code with a time limit, in a thread that is abandoned when the time is up."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TypeAlias, TypeVar, cast

from headrace.lowlevel import metric
from headrace.lowlevel.metric import Collector, MetricValues

T = TypeVar("T")
_Function: TypeAlias = Callable[[tuple[object, ...], dict[str, object]], object]
_Call = tuple[Context, _Function, tuple[object, ...], dict[str, object]]
_Outcome = tuple[object, Exception | None]


class TimeLimit:
    """Calls functions in a thread, which is reused while calls return in time.

    A thread whose call takes longer is abandoned, as Python cannot stop it. It does not keep the process alive. A call
    has the context variables of its caller, and its metrics count until it returns or is abandoned.

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
        context, collector = copy_context(), metric.collector()
        reports = None if collector is None else _CallReports(collector)
        if reports is not None:
            context.run(reports.__enter__)
        helper.calls.put((context, function, args, kwargs))
        try:
            result, error = helper.outcomes.get(timeout=self._seconds)
        except Empty:
            self._thread = None
            raise TimeoutError(f"no result within {self._seconds:g} s") from None
        finally:
            if collector is not None and reports is not None:
                metric.add_metrics(collector.cells, reports.end())
        if error is not None:
            raise error
        return cast(T, result)


class _CallReports(Collector):
    """The metrics of one call, which the abandoned thread of a call cannot change any more once the call has ended."""

    def __init__(self, caller: Collector) -> None:
        super().__init__(caller.clock)
        # The caller's step; a function for it would look at the frames of the thread that reports.
        self.where = caller.where if isinstance(caller.where, str) else caller.where()
        self._lock = Lock()
        self._ended = False

    def report(self, metric: metric.TypedMetricName, value: object) -> None:
        """See `Collector`; ignored after the end."""
        with self._lock:
            if not self._ended:
                super().report(metric, value)

    def end(self) -> MetricValues:
        """End the call, and return its metrics."""
        with self._lock:
            self._ended = True
        return self.cells


class _Helper:
    """A thread with a queue of calls and one of results."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[_Call] = SimpleQueue()
        self.outcomes: SimpleQueue[_Outcome] = SimpleQueue()
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            context, function, args, kwargs = self.calls.get()
            try:
                self.outcomes.put((context.run(function, args, kwargs), None))
            except Exception as error:
                self.outcomes.put((None, error))
