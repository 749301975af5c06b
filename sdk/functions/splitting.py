"""What: the restrictions and watermark estimators of a splittable `DoFn`, checked when the pipeline is built."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.functions.arguments import Arguments, EstimatorArgument, Given, RestrictionArgument
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.splittable.restrictions import RestrictionProvider
from headrace.sdk.splittable.watermark_estimators import WatermarkEstimatorProvider


@dataclass(frozen=True, slots=True)
class Splitting:
    """How the elements of a splittable `DoFn` are split and processed."""

    provider: RestrictionProvider
    estimator_provider: WatermarkEstimatorProvider | None
    """None if the watermark is not estimated."""
    by_window: bool
    """Whether an element is processed once for each of its windows."""


def splitting_of(fn: DoFn, name: str, process: Arguments, is_stateful: bool) -> Splitting | None:
    """How the elements of a `DoFn` are split; None if it is not splittable.

    Args:
        fn: The `DoFn`.
        name: The name of the `DoFn` in error messages.
        process: Where the arguments of its `process` come from.
        is_stateful: Whether it uses state or timers.

    Raises:
        TopologyError: Its parameters do not fit together; the message says what is wrong and what to do.
    """
    restrictions = [source for source in process.sources() if isinstance(source, RestrictionArgument)]
    estimators = [source for source in process.sources() if isinstance(source, EstimatorArgument)]
    if len(restrictions) > 1 or len(estimators) > 1:
        many = "RestrictionParam" if len(restrictions) > 1 else "WatermarkEstimatorParam"
        raise TopologyError(f"{name}: process has several parameters for DoFn.{many}; one is enough")
    if not restrictions:
        if estimators:
            raise TopologyError(
                f"{name}: process has a DoFn.WatermarkEstimatorParam but no DoFn.RestrictionParam; only a splittable "
                "DoFn estimates watermarks"
            )
        return None
    if is_stateful:
        raise TopologyError(
            f"{name} has a DoFn.RestrictionParam and state or timers; split it into two steps, a splittable one and "
            "one with state"
        )
    provider = restrictions[0].provider or fn
    if not isinstance(provider, RestrictionProvider):
        raise _missing(name, "RestrictionParam", "RestrictionProvider")
    estimating = (estimators[0].provider or fn) if estimators else None
    if not (estimating is None or isinstance(estimating, WatermarkEstimatorProvider)):
        raise _missing(name, "WatermarkEstimatorParam", "WatermarkEstimatorProvider")
    by_window = Given.WINDOW in process or Given.WINDOWED_VALUE in process
    return Splitting(provider, estimating, by_window)


def _missing(name: str, parameter: str, provider: str) -> TopologyError:
    return TopologyError(f"{name}: DoFn.{parameter}() has no provider, and {name} is no {provider} itself; give it one")
