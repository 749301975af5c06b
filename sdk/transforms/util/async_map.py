"""What: a function called for several elements at once, such as one that asks another service."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import NamedTuple, cast

from headrace.lowlevel import metric
from headrace.lowlevel.time import Timestamp
from headrace.lowlevel.user_errors import failed_step
from headrace.sdk.functions.async_calls import AsyncCalls, Called, CallRules
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.functions.exception_guard import bad_element
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.model.special_outputs import TaggedOutput, WindowedValue
from headrace.sdk.transforms.core.par_do import Outputs, ParDo
from headrace.sdk.windows import BoundedWindow

_WAITING = 16
"""Elements that wait for their results, times those that are called at once."""


class AsyncMap(PTransform[Collection, Outputs]):
    """Calls a function for each element, for several at once, and emits its results.

    The results of a bundle are committed exactly once, with its epoch. The function may be called again for an element
    whose epoch is tried again, and its calls are done when the epoch ends, so a drain leaves none under way. It gets
    an element once, however many windows that is in. A retraction is the retraction of the function's result for it,
    which must be the same as before: use `cache_seconds` only for what does not change.

    Args:
        fn: A coroutine function, which runs in an event loop, or a function, which runs in threads. It takes an element
            and returns the result, or with `batch_size` a list of elements and returns a list of as many results.
        concurrency: Greatest number of calls at once, in each worker process.
        batch_size: Greatest number of elements of a bundle in a call; None for calls with single elements.
        timeout: Seconds that one attempt may take, or it raises `TimeoutError`. A function's thread ends by itself.
        retries: Number of further attempts when the function raises.
        backoff: Seconds before the second attempt, twice as many before each further one, at most 60; up to a half of
            a pause is left out by chance.
        retry_on: The exceptions after which there are further attempts: a class or several.
        rate: Greatest number of attempts a second, in each worker process.
        cache_seconds: For how long a worker process gives the result of an equal element, which must be hashable,
            instead of a call; it keeps 100,000 results. None to call for each element.
        ordered: Whether results come in the order of the elements of a bundle; otherwise in that in which they are
            ready.

    Raises:
        TypeError: `fn` is no function.
        ValueError: A number is out of range, or `cache_seconds` is given with `batch_size`.

    >>> import headrace as beam
    >>> async def squared(number: int) -> int:
    ...     return number * number
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([1, 2, 3]) | beam.AsyncMap(squared, concurrency=2) | beam.Map(print)
    1
    4
    9
    """

    def __init__(
        self,
        fn: Called,
        *,
        concurrency: int = 16,
        batch_size: int | None = None,
        timeout: float | None = None,
        retries: int = 0,
        backoff: float = 1.0,
        retry_on: type[Exception] | tuple[type[Exception], ...] = Exception,
        rate: float | None = None,
        cache_seconds: float | None = None,
        ordered: bool = True,
    ) -> None:
        super().__init__()
        if not callable(fn):
            raise TypeError(f"AsyncMap takes a function or a coroutine function, got {fn!r:.200}")
        _check_whole(concurrency=(concurrency, 1), batch_size=(batch_size, 1), retries=(retries, 0))
        _check_positive(timeout=timeout, rate=rate, cache_seconds=cache_seconds)
        if not _is_number(backoff) or backoff < 0:
            raise ValueError(f"backoff of AsyncMap is {backoff!r:.80}; give a number of at least 0")
        kinds: tuple[object, ...] = retry_on if isinstance(retry_on, tuple) else (retry_on,)
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise TypeError(
                f"retry_on of AsyncMap is {retry_on!r:.200}; give a class of exceptions, or a tuple of some"
            )
        if cache_seconds is not None and batch_size is not None:
            raise ValueError("AsyncMap has cache_seconds and batch_size, but a cache is of single elements; give one")
        rules = CallRules(concurrency, timeout, retries, backoff, retry_on, rate, cache_seconds)
        self._plan = _Plan(fn, rules, batch_size, ordered)
        self._main = "good"

    def default_label(self) -> str:
        """`AsyncMap(name of the function)`."""
        return f"AsyncMap({getattr(self._plan.fn, '__name__', type(self._plan.fn).__name__)})"

    def with_exception_handling(self, main_tag: str = "good", dead_letter_tag: str = "bad") -> AsyncMap:
        """The same step with an output for the elements whose last attempt raised, see `ParDo`.

        In `good, bad = requests | AsyncMap(f).with_exception_handling()` the elements of `bad` are pairs (element,
        (class of the error, repr of the error, lines of the traceback)).
        """
        clone = copy.copy(self)
        clone._main, clone._plan = main_tag, self._plan._replace(dead_letter_tag=dead_letter_tag)
        return clone

    def expand(self, inputs: Collection) -> Outputs:
        """The results; with `with_exception_handling` also the bad elements."""
        step = ParDo(CallFn(self._plan))
        if self._plan.dead_letter_tag is None:
            return inputs | "Call" >> step
        return inputs | "Call" >> step.with_outputs(self._plan.dead_letter_tag, main=self._main)


def _check_whole(**given: tuple[object, int]) -> None:
    """Raise `ValueError` for what is less than the least number, or no whole one; None is none."""
    for name, (count, least) in given.items():
        if count is None and name == "batch_size":
            continue
        if not isinstance(count, int) or isinstance(count, bool) or count < least:
            raise ValueError(f"{name} of AsyncMap is {count!r:.80}; give a whole number of at least {least}")


def _check_positive(**given: object) -> None:
    """Raise `ValueError` for what is no positive number, nor None."""
    for name, number in given.items():
        if number is not None and not (_is_number(number) and cast(float, number) > 0):
            raise ValueError(f"{name} of AsyncMap is {number!r:.80}; give a number greater than 0, or None")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Plan(NamedTuple):
    """What the step is told."""

    fn: Called
    rules: CallRules
    batch_size: int | None
    ordered: bool
    dead_letter_tag: str | None = None


@dataclass(slots=True, eq=False)
class _Pending:
    """An element, in one of its windows, whose result is awaited."""

    element: object
    timestamp: Timestamp
    window: BoundedWindow
    pane: PaneInfo
    future: Future[object]
    index: int | None
    """Index of the result among those of its call; None for a call of one element."""

    def output(self, value: object) -> WindowedValue:
        """The element's output."""
        return WindowedValue(value, self.timestamp, (self.window,), self.pane)


class CallFn(DoFn):
    """Begins a call for each element or batch, and emits results as they are ready, the last as the bundle ends."""

    handles_retractions = True
    keeps_order = True

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan

    def default_label(self) -> str:
        """See `DoFn`."""
        return "Call"

    def setup(self) -> None:
        """Start the loop."""
        self._calls = AsyncCalls(self._plan.fn, self._plan.rules)

    def teardown(self) -> None:
        """End it."""
        self._calls.close()

    def start_bundle(self) -> None:
        """Begin without elements; calls of a bundle that failed are given up."""
        for pending in getattr(self, "_pending", ()):
            pending.future.cancel()
        self._pending: deque[_Pending] = deque()
        self._batch: list[object] = []
        self._of_batch: Future[object] = Future()
        self._last: _Pending | None = None

    def process(
        self,
        element: object,
        timestamp: Timestamp = DoFn.TimestampParam,
        window: BoundedWindow = DoFn.WindowParam,
        pane: PaneInfo = DoFn.PaneInfoParam,
    ) -> Iterable[object]:
        """Begin the call; put out what is ready, and wait if too many elements have no result yet."""
        last = self._last
        if last is not None and last.element is element and last.window != window:
            # The same element in another of its windows.
            future, index = last.future, last.index
        else:
            future, index = self._begun(element)
        self._last = _Pending(element, timestamp, window, pane, future, index)
        self._pending.append(self._last)
        most = _WAITING * self._plan.rules.concurrency * (self._plan.batch_size or 1)
        return self._ready(most)

    def finish_bundle(self) -> Iterable[object]:
        """Put out all results."""
        self._send_batch()
        return self._ready(0)

    def _begun(self, element: object) -> tuple[Future[object], int | None]:
        if self._plan.batch_size is None:
            return self._calls.submit(element), None
        self._batch.append(element)
        found = self._of_batch, len(self._batch) - 1
        if len(self._batch) == self._plan.batch_size:
            self._send_batch()
        return found

    def _send_batch(self) -> None:
        """Begin the call with the elements that have gathered; their future gets its outcome."""
        if self._batch:
            promised, count = self._of_batch, len(self._batch)
            self._calls.submit(self._batch).add_done_callback(lambda call: _settle(promised, call, count))
            self._batch, self._of_batch = [], Future()

    def _ready(self, most: int) -> Iterator[object]:
        """Outputs of elements whose results are there; waits until at most so many have none."""
        while self._pending:
            if self._plan.ordered:
                found = [self._pending[0]] if self._pending[0].future.done() else []
            else:
                found = [each for each in self._pending if each.future.done()]
            if not found:
                if len(self._pending) <= most:
                    return
                waited = [self._pending[0].future] if self._plan.ordered else [each.future for each in self._pending]
                wait(waited, return_when=FIRST_COMPLETED)
            for each in found:
                self._pending.remove(each)
                yield self._outcome(each)

    def _outcome(self, pending: _Pending) -> object:
        try:
            result = pending.future.result()
        except Exception as error:
            if self._plan.dead_letter_tag is None:
                raise failed_step(error, _step(), None, pending.element) from error
            letter = bad_element(pending.element, error)
            return TaggedOutput(self._plan.dead_letter_tag, pending.output(letter))
        return pending.output(result if pending.index is None else cast("list[object]", result)[pending.index])


def _settle(promised: Future[object], call: Future[object], count: int) -> None:
    """Give the elements of a batch the outcome of their call, which is a list of as many results."""
    if call.cancelled() or (error := call.exception()) is not None:
        if not promised.cancelled():
            promised.set_exception(RuntimeError("the call was given up") if call.cancelled() else error)
        return
    result = call.result()
    if isinstance(result, (list, tuple)) and len(result) == count:
        promised.set_result(result)
        return
    what = f"{len(result)} results" if isinstance(result, (list, tuple)) else f"{result!r:.200}"
    promised.set_exception(
        ValueError(f"the function of AsyncMap returned {what} for {count} elements; return a list of one for each")
    )


def _step() -> str:
    """The label of the step whose code runs."""
    collector = metric.collector()
    where = "" if collector is None else collector.where
    return where if isinstance(where, str) else where()
