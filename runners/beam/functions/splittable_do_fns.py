"""What: Beam's splittable DoFns: Beam's own `DoFnRunner` processes a restriction, Headrace splits and resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

import apache_beam
from apache_beam.runners import common
from apache_beam.runners.sdf_utils import SplitResultResidual
from apache_beam.transforms import core

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Duration, Timestamp
from headrace.runners.beam.functions.do_fns import BeamDoFn
from headrace.runners.beam.functions.stateful_do_fns import StateCoder
from headrace.sdk.coders.coder import Coder
from headrace.sdk.functions.declarations import Splitting
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.operators.splittable.process_invoker import Allowance, Residual, RestrictionProcessor
from headrace.sdk.operators.splittable.work_item import Element
from headrace.sdk.splittable.restrictions import RestrictionProvider, RestrictionTracker
from headrace.sdk.splittable.watermark_estimators import WatermarkEstimator, WatermarkEstimatorProvider


class BeamRestrictionProvider(RestrictionProvider):
    """A provider of Beam's restrictions."""

    def __init__(self, provider: core.RestrictionProvider) -> None:
        self._provider = provider

    def create_tracker(self, restriction: object) -> RestrictionTracker:
        """Beam's tracker."""
        return cast(RestrictionTracker, self._provider.create_tracker(restriction))

    def initial_restriction(self, element: object) -> object:
        """See `RestrictionProvider`."""
        return cast(object, self._provider.initial_restriction(element))

    def restriction_size(self, element: object, restriction: object) -> float:
        """See `RestrictionProvider`."""
        return cast(float, self._provider.restriction_size(element, restriction))

    def split_and_size(self, element: object, restriction: object) -> Iterable[tuple[object, float]]:
        """See `RestrictionProvider`."""
        return cast("Iterable[tuple[object, float]]", self._provider.split_and_size(element, restriction))

    def restriction_coder(self) -> Coder:
        """See `RestrictionProvider`."""
        return cast(Coder, StateCoder(self._provider.restriction_coder()))

    def truncate(self, element: object, restriction: object) -> object | None:
        """See `RestrictionProvider`."""
        return cast("object | None", self._provider.truncate(element, restriction))


class BeamEstimatorProvider(WatermarkEstimatorProvider):
    """A provider of Beam's watermark estimators."""

    def __init__(self, provider: core.WatermarkEstimatorProvider) -> None:
        self._provider = provider

    def initial_estimator_state(self, element: object, restriction: object) -> object:
        """See `WatermarkEstimatorProvider`."""
        return cast(object, self._provider.initial_estimator_state(element, restriction))

    def create_watermark_estimator(self, estimator_state: object) -> WatermarkEstimator:
        """Beam's estimator."""
        return cast(WatermarkEstimator, self._provider.create_watermark_estimator(estimator_state))

    def estimator_state_coder(self) -> Coder:
        """See `WatermarkEstimatorProvider`."""
        return cast(Coder, StateCoder(self._provider.estimator_state_coder()))


class _ClaimWatcher(core.RestrictionProvider):  # type: ignore[misc]  # Beam's types are not read
    """A provider that calls `before_claim` before each claim but the first of its trackers."""

    def __init__(self, provider: core.RestrictionProvider, before_claim: Callable[[], None]) -> None:
        self._provider, self._before_claim = provider, before_claim

    def __getattr__(self, name: str) -> object:
        return getattr(self._provider, name)

    def create_tracker(self, restriction: object) -> object:
        """The provider's tracker, whose claims are watched."""
        tracker = self._provider.create_tracker(restriction)
        try_claim, before_claim = tracker.try_claim, self._before_claim
        has_claimed = False

        def claim(position: object) -> bool:
            nonlocal has_claimed
            if has_claimed:
                before_claim()
            is_claimed: bool = try_claim(position)
            has_claimed |= is_claimed
            return is_claimed

        # The tracker itself, as user code may look for its own class behind the view.
        tracker.try_claim = claim
        return tracker

    def initial_restriction(self, element: object) -> object:
        """See Beam's class."""
        return self._provider.initial_restriction(element)

    def restriction_size(self, element: object, restriction: object) -> object:
        """See Beam's class."""
        return self._provider.restriction_size(element, restriction)


class _WatchedDoFn(apache_beam.DoFn):  # type: ignore[misc]  # Beam's types are not read
    """A splittable DoFn whose claims are watched. Beam reads parameters by `_inspect_…` where a class has it."""

    def __init__(self, fn: apache_beam.DoFn, before_claim: Callable[[], None]) -> None:
        self._fn, self._before_claim = fn, before_claim
        for name in ("process", "setup", "start_bundle", "finish_bundle", "teardown"):
            setattr(self, name, getattr(fn, name))
            if name != "process":
                setattr(self, f"_inspect_{name}", partial(core.get_function_arguments, fn, name))

    def _inspect_process(self) -> tuple[list[str], list[object]]:
        names, defaults = core.get_function_arguments(self._fn, "process")
        return names, [self._watched(default) for default in defaults]

    def _watched(self, default: object) -> object:
        if isinstance(default, apache_beam.DoFn.RestrictionParam):
            watcher = _ClaimWatcher(default.restriction_provider or self._fn, self._before_claim)
            return apache_beam.DoFn.RestrictionParam(watcher)
        if isinstance(default, apache_beam.DoFn.WatermarkEstimatorParam):
            return apache_beam.DoFn.WatermarkEstimatorParam(default.watermark_estimator_provider or self._fn)
        return default


@named("BeamSplittableDoFn")
class BeamSplittableDoFn(BeamDoFn, RestrictionProcessor):
    """A splittable DoFn of Beam's SDK; see `BeamDoFn`."""

    def splitting(self) -> Splitting:
        """How its elements are split."""
        signature = common.DoFnSignature(self._fn)
        estimating = BeamEstimatorProvider(signature.get_watermark_estimator_provider())
        defaults = signature.process_method.defaults
        by_window = any(default == apache_beam.DoFn.WindowParam for default in defaults)
        return Splitting(BeamRestrictionProvider(signature.get_restriction_provider()), estimating, by_window)

    def is_unbounded_per_element(self) -> bool:
        """Whether an element may have outputs without end."""
        return bool(common.DoFnSignature(self._fn).is_unbounded_per_element())

    def _run_fn(self) -> apache_beam.DoFn:
        """The DoFn that the `DoFnRunner` runs."""
        return _WatchedDoFn(self._fn, self._before_claim)

    def process_restriction(
        self, element: Element, restriction: object, state: object, allowance: Allowance
    ) -> tuple[Sequence[object], list[Residual]]:
        """See `RestrictionProcessor`."""
        self._allowance = allowance
        self._split_off: list[SplitResultResidual] = []
        for current, side in zip(self._sides, element.sides, strict=True):
            current.value = side
        pane = PANE_INFO_UNKNOWN if element.pane is None else element.pane
        value = WindowedValue(element.value, Timestamp.of_micros(element.timestamp), element.windows, pane)
        given = self._given(((element.value, (restriction, state)), 0), value)
        deferred = self._runner.process_with_sized_restriction(given)
        residuals = [_residual(each) for each in (*self._split_off, *deferred)]
        return list(self._taken(given) or ()), residuals

    def _before_claim(self) -> None:
        """Split off what is not claimed if the element has been processed for long enough."""
        self._allowance.outputs = len(self._outputs)
        if self._split_off or not self._allowance.is_spent():
            return
        try:
            split = self._runner.try_split(0.0)
        except NotImplementedError:
            # The tracker cannot split, so the element is processed in one go.
            return
        if split is not None:
            self._split_off += split[1]


def _residual(residual: SplitResultResidual) -> Residual:
    (_, (restriction, state)), _ = residual.residual_value.value
    watermark: Any = residual.current_watermark
    delay: Any = residual.deferred_timestamp
    return Residual(
        restriction,
        state,
        None if watermark is None else Timestamp(micros=watermark.micros),
        None if delay is None else Duration(micros=delay.micros),
    )
