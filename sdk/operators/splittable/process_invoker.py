"""What: one call of a splittable DoFn's `process`: for an element and a restriction, to its end or a checkpoint.

An epoch is committed as a whole, so one that takes long delays everything else; results of a long element would come
late, and be lost with the process. So a call has an allowance, after which the rest is left for the next epoch. Bounded
elements have the same allowance as unbounded ones.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

from headrace.lowlevel.errors import StepError
from headrace.lowlevel.time import Timestamp
from headrace.lowlevel.user_errors import failed_step, packed
from headrace.sdk.functions.arguments import Arguments, EstimatorArgument, RestrictionArgument, Source
from headrace.sdk.functions.declarations import Splitting
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.model.special_outputs import (
    SPECIAL,
    TaggedOutput,
    TimestampedValue,
    WindowedValue,
    converted,
    require_outputs,
)
from headrace.sdk.operators.splittable.work_item import Element
from headrace.sdk.operators.stateful.do_fn_computation import Outputs
from headrace.sdk.operators.stateful.method_invoker import argument_of
from headrace.sdk.splittable.tracker_view import (
    CheckpointingTracker,
    DeferredTime,
    RestrictionTrackerView,
    ThreadsafeWatermarkEstimator,
)

MOST_CLAIMS = 100_000
"""Number of claims, or of outputs, after which an element has a checkpoint: what a process does in about a second, so
that outputs in memory stay some tens of megabytes."""
BUNDLE_SECONDS = 1.0
"""Time after which elements of a bundle have checkpoints: an epoch that is ten times as long as its commit takes."""
SLICE_SECONDS = 0.01
"""Time that each element has in any case, so that short ones are done at once also at the end of a bundle."""


class Allowance:
    """Measures claims, outputs and time of one element after the other.

    Args:
        clock: The time in seconds, from any point on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.outputs = 0
        """Number of outputs of the element."""
        self._claims = 0
        self._bundle_until = self._until = 0.0

    def start_bundle(self) -> None:
        """Begin a bundle."""
        self._bundle_until = self._clock() + BUNDLE_SECONDS

    def start_element(self) -> None:
        """Begin an element."""
        self.outputs = self._claims = 0
        self._until = max(self._bundle_until, self._clock() + SLICE_SECONDS)

    def is_spent(self) -> bool:
        """Count a claim; whether it should be left for the next epoch."""
        self._claims += 1
        return self._claims >= MOST_CLAIMS or self.outputs >= MOST_CLAIMS or self._clock() >= self._until


class Residual(NamedTuple):
    """The rest of an element, to be processed later."""

    restriction: object
    estimator_state: object
    watermark: Timestamp | None
    """The estimated watermark of its outputs; None if there is no estimate."""
    deferred_time: DeferredTime


class RestrictionProcessor(ABC):
    """A `DoFn` that processes restrictions by means of its own, such as one of another SDK."""

    @abstractmethod
    def process_restriction(
        self, element: Element, restriction: object, state: object, allowance: Allowance
    ) -> tuple[Sequence[object], list[Residual]]:
        """Process an element with a restriction.

        Args:
            element: The element.
            restriction: The restriction.
            state: State of the watermark estimator.
            allowance: Says when the rest should be left for later.

        Returns:
            The outputs, as `process` gives them, but without `TimestampedValue`s, and what is left for later.
        """


class ProcessInvoker:
    """Calls `process` of a splittable DoFn.

    Args:
        label: Label of the step, for errors.
        fn: The `DoFn`.
        arguments: Sources of the arguments of `process`.
        splitting: Providers of trackers and estimators.
        outputs: Takes the outputs.
        allowance: Says when an element should have a checkpoint.
    """

    def __init__(
        self,
        label: str,
        fn: DoFn,
        arguments: Arguments,
        splitting: Splitting,
        outputs: Outputs,
        allowance: Allowance,
    ) -> None:
        self._label, self._fn, self._arguments, self._splitting = label, fn, arguments, splitting
        self._outputs, self._allowance = outputs, allowance

    def process(self, element: Element, restriction: object, state: object) -> list[Residual]:
        """Process an element with a restriction; returns what is left for later.

        Raises:
            StepError: User code failed, or has left a part of the restriction unclaimed.
        """
        self._allowance.start_element()
        try:
            if isinstance(self._fn, RestrictionProcessor):
                outputs, residuals = self._fn.process_restriction(element, restriction, state, self._allowance)
                self._take_all(element, outputs)
                return residuals
            tracker = CheckpointingTracker(
                self._splitting.provider.create_tracker(restriction), self._allowance.is_spent
            )
            estimator = self._estimator(state)
            self._take(element, self._call(element, tracker, estimator), estimator)
        except Exception as error:
            raise failed_step(error, self._label, restriction, element.value) from error
        self._check_done(element, restriction, tracker)
        deferred = tracker.deferred_status()
        if deferred is None:
            return []
        if estimator is None:
            return [Residual(deferred[0], state, None, deferred[1])]
        return [Residual(deferred[0], estimator.get_estimator_state(), estimator.current_watermark(), deferred[1])]

    def _estimator(self, state: object) -> ThreadsafeWatermarkEstimator | None:
        provider = self._splitting.estimator_provider
        return None if provider is None else ThreadsafeWatermarkEstimator(provider.create_watermark_estimator(state))

    def _call(
        self, element: Element, tracker: CheckpointingTracker, estimator: ThreadsafeWatermarkEstimator | None
    ) -> object:
        """The result of `process`."""
        view = RestrictionTrackerView(tracker)

        def argument(source: Source) -> object:
            if isinstance(source, RestrictionArgument):
                return view
            if isinstance(source, EstimatorArgument):
                return estimator
            return argument_of(source, *element)

        positional = [argument(source) for source in self._arguments.positional]
        return self._fn.process(*positional, **{name: argument(source) for name, source in self._arguments.named})

    def _take(self, element: Element, results: object, estimator: ThreadsafeWatermarkEstimator | None) -> None:
        """Take the outputs one by one: `process` goes on between them."""
        if results is None:
            return
        require_outputs(results)
        take, timestamp, pane = self._outputs.take, element.timestamp, element.pane
        for result in cast("Iterable[object]", results):
            self._allowance.outputs += 1
            for window in element.windows:
                take((result,), timestamp, window, pane)
            if estimator is not None:
                estimator.observe_timestamp(_timestamp_of(result, timestamp))

    def _take_all(self, element: Element, outputs: Sequence[object]) -> None:
        """Take outputs that are all there. Those with windows of their own are in these windows only."""
        windowed = list(filter(_has_windows, outputs))
        if windowed:
            self._outputs.take_last(windowed)
            outputs = [output for output in outputs if not _has_windows(output)]
        for window in element.windows:
            self._outputs.take(outputs, element.timestamp, window, element.pane)

    def _check_done(self, element: Element, restriction: object, tracker: CheckpointingTracker) -> None:
        try:
            tracker.check_done()
        except Exception as error:
            cause = (
                f"process returned before the restriction was done: {type(error).__name__}: {error}; call try_claim "
                "until it returns False, or call defer_remainder to go on later"
            )
            raise StepError(self._label, restriction, element.value, cause, packed(error)) from error


def _has_windows(output: object) -> bool:
    value = output.value if output.__class__ is TaggedOutput else output
    return value.__class__ is WindowedValue


def _timestamp_of(result: object, timestamp: int) -> Timestamp:
    """The timestamp of an output; `timestamp` is that of the element, microseconds UTC."""
    if result.__class__ in SPECIAL:
        result = converted(result)
        if isinstance(result, TaggedOutput):
            result = converted(result.value)
        if isinstance(result, (TimestampedValue, WindowedValue)):
            return result.timestamp
    return Timestamp.of_micros(timestamp)
