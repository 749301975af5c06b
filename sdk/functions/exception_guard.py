"""What: user code whose exceptions become outputs (dead letters) instead of stopping the run.

A call may have a time limit: it runs in a thread that is abandoned when the time is up.
"""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable, Hashable, Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TypeAlias, TypeVar, cast

from headrace.lowlevel import metric
from headrace.lowlevel.metric import Collector, MetricValues
from headrace.lowlevel.topology import nodes
from headrace.sdk.functions.do_fn import DoFn, FlatMapFn, FunctionDoFn
from headrace.sdk.model.special_outputs import NO_OUTPUTS, TaggedOutput
from headrace.sdk.windows import BoundedWindow

_log = logging.getLogger(__name__)
DEAD_LETTERS = metric.TypedMetricName("counter", metric.ENGINE, nodes.DEAD_LETTERS)
"""The elements that a step could not process, among the metrics of the engine."""

ErrorInfo = tuple[type[BaseException], str, list[str]]
"""Class of an error, its `repr`, and the lines of its traceback."""
OnFailure = Callable[[Exception, object], None]


@dataclass(frozen=True, slots=True)
class GuardRules:
    """Which exceptions are caught, and how they are handled."""

    tag: str
    """Tag of the output for bad elements."""
    exc_class: type[Exception] | tuple[type[Exception], ...] = Exception
    partial: bool = False
    """Whether outputs of an element before its error are kept."""
    timeout: float | None = None
    """Seconds that an element may take."""
    on_failure: OnFailure | None = None


class Guard:
    """Calls a function that returns an iterable of outputs; puts out an element for which it raises, with its error."""

    def __init__(self, function: Callable[..., Iterable[object] | None], rules: GuardRules) -> None:
        self._function, self._rules = function, rules
        self._limit = None if rules.timeout is None else TimeLimit(rules.timeout)

    def __call__(self, element: object, *args: object, **kwargs: object) -> Iterable[object]:
        """The outputs of an element; the further arguments are those of the function, the element among them."""
        if self._rules.partial and self._limit is None:
            return self._as_they_come(element, args, kwargs)
        try:
            if self._limit is not None:
                return self._limit.call(self._all, args, kwargs)
            return self._all(args, kwargs)
        except self._rules.exc_class as error:
            return [self._bad(element, error)]

    def _all(self, args: tuple[object, ...], kwargs: dict[str, object]) -> list[object]:
        outputs = self._function(*args, **kwargs)
        # A result that is no iterable is passed on, so that the run fails rather than each element.
        return cast("list[object]", outputs) if type(outputs) in NO_OUTPUTS else list(outputs or ())

    def _as_they_come(self, element: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Iterable[object]:
        try:
            yield from self._function(*args, **kwargs) or ()
        except self._rules.exc_class as error:
            yield self._bad(element, error)

    def _bad(self, element: object, error: Exception) -> TaggedOutput:
        if self._rules.on_failure is not None:
            try:
                self._rules.on_failure(error, element)
            except Exception:
                _log.warning("on_failure_callback failed for %.200r", element, exc_info=True)
        return TaggedOutput(self._rules.tag, bad_element(element, error))


def bad_element(element: object, error: Exception) -> tuple[object, ErrorInfo]:
    """What an output for bad elements has of an element, which is counted among the step's dead letters."""
    metric.report(DEAD_LETTERS, 1)
    return element, (_known_class(type(error)), repr(error), traceback.format_exception(error))


def _known_class(kind: type[BaseException]) -> type[BaseException]:
    """The class, or its nearest base that can be pickled; a class defined inside a function cannot."""
    return next(base for base in kind.__mro__ if _is_picklable(base))


@cache
def _is_picklable(kind: Hashable) -> bool:
    try:
        pickle.dumps(kind)
    except Exception:
        return False
    return True


class GuardedFn(FlatMapFn):
    """A guarded function."""

    def __init__(self, fn: FunctionDoFn, rules: GuardRules) -> None:
        super().__init__(Guard(fn.process, rules))
        self._label = fn.default_label()

    def default_label(self) -> str:
        """That of the function."""
        return self._label


class GuardedDoFn(DoFn):
    """A guarded `DoFn`: exceptions of `process` become outputs; those of its other methods still stop the run."""

    def __init__(self, fn: DoFn, rules: GuardRules) -> None:
        self._fn = fn
        self._guard = Guard(fn.process, rules)
        self.handles_retractions, self.keeps_order = fn.handles_retractions, fn.keeps_order
        self.strong_productions = fn.strong_productions

    def __getattr__(self, name: str) -> object:
        """The methods that its timers call."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._fn, name)

    def default_label(self) -> str:
        """That of the `DoFn`."""
        return self._fn.default_label()

    def setup(self) -> None:
        """See `DoFn`."""
        self._fn.setup()

    def start_bundle(self) -> None:
        """See `DoFn`."""
        # The result goes to the engine, which refuses one.
        return self._fn.start_bundle()

    def process(self, element: object, *args: object, **kwargs: object) -> Iterable[object]:
        """See `Guard`."""
        return self._guard(element, *args, **kwargs)

    def has_finish_bundle(self) -> bool:
        """See `DoFn`."""
        return self._fn.has_finish_bundle()

    def finish_bundle(self) -> Iterable[object] | None:
        """See `DoFn`."""
        return self._fn.finish_bundle()

    def teardown(self) -> None:
        """See `DoFn`."""
        self._fn.teardown()


class Threshold:
    """The greatest share of a window's elements that may be bad."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def check(self, counts: tuple[int, int], window: BoundedWindow = DoFn.WindowParam) -> None:
        """Raise `ValueError` where more of the elements (bad, all) of a window are bad."""
        bad, total = counts
        if bad > total * self._threshold:
            raise ValueError(
                f"{bad} of {total} elements in window {window} failed, more than the threshold of {self._threshold:g}; "
                "look at what is put out for them, or raise the threshold"
            )


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
