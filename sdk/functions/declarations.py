"""What: the state, timers and restrictions that a `DoFn` declares, checked when the pipeline is built."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.combinefns.combine_fn import combiner_arguments
from headrace.sdk.functions.arguments import (
    Arguments,
    EstimatorArgument,
    Given,
    RestrictionArgument,
    Source,
    StateArgument,
    TimerArgument,
    engine_source,
)
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.splittable.restrictions import RestrictionProvider
from headrace.sdk.splittable.watermark_estimators import WatermarkEstimatorProvider
from headrace.sdk.userstate.state_spec import State, StateSpec
from headrace.sdk.userstate.timers import TimeDomain, TimerSpec, callers_of

AnySpec: TypeAlias = StateSpec[State] | TimerSpec
_OF_ELEMENTS = (Given.ELEMENT, Given.PANE, Given.WINDOWED_VALUE)
_BRACKETS = ("setup", "start_bundle", "finish_bundle", "teardown")


@dataclass(frozen=True, slots=True)
class Callback:
    """A method that a timer calls."""

    method: str
    arguments: Arguments
    spec: TimerSpec


@dataclass(frozen=True, slots=True)
class DeclaredState:
    """The state and timers that a stateful `DoFn` uses."""

    callbacks: Mapping[str, Callback]
    """Name of a timer -> the method that it calls."""
    uses_wall_time: bool
    """Whether it has processing-time timers."""
    specs: tuple[AnySpec, ...]

    def aspects(self) -> Mapping[str, str]:
        """What a restarted program must not change, by aspect: states and timers."""
        aspects = dict(spec.aspect() for spec in self.specs)
        for spec in self.specs:
            arguments = ", ".join(combiner_arguments(getattr(spec, "combine_fn", None)))
            if arguments:
                aspects[f"arguments of the combiner of {spec.aspect()[0]}"] = arguments
        return aspects


def declared_state_of(fn: object, name: str, process: Arguments) -> DeclaredState | None:
    """The state and timers that a `DoFn` uses; None if it uses none.

    Args:
        fn: The `DoFn`.
        name: The name of the `DoFn` in error messages.
        process: Where the arguments of its `process` come from.

    Raises:
        TopologyError: State or timers are declared or used wrongly; the message says what is wrong and what to do.
    """
    callbacks = list(_callbacks(fn, name))
    arguments = {"process": process, **{callback.method: callback.arguments for callback in callbacks}}
    specs = _specs(name, arguments)
    _check_brackets(fn, name)
    if Given.DYNAMIC_TIMER_TAG in process:
        raise TopologyError(f"{name}: process takes a DynamicTimerTagParam; only a method with @on_timer has a timer")
    if not specs and not callbacks:
        return None
    _check_timers(name, [spec for spec in specs if isinstance(spec, TimerSpec)], callbacks)
    by_name = {callback.spec.name: callback for callback in callbacks}
    uses_wall_time = any(callback.spec.time_domain is TimeDomain.REAL_TIME for callback in callbacks)
    return DeclaredState(by_name, uses_wall_time, tuple(specs))


def _callbacks(fn: object, name: str) -> Iterator[Callback]:
    for method in dir(type(fn)):
        for spec in callers_of(inspect.getattr_static(type(fn), method, None)):
            yield Callback(method, _bind_callback(getattr(fn, method), f"{name}: {method}"), spec)


def _bind_callback(method: Callable[..., object], method_name: str) -> Arguments:
    """Where the arguments of a timer's method come from: the engine gives what the defaults of parameters name."""
    named: list[tuple[str, Source]] = []
    for parameter in inspect.signature(method).parameters.values():
        default = parameter.default
        if default in _OF_ELEMENTS:
            raise TopologyError(
                f"{method_name} takes {default!r}, but a timer has no element; keep what it needs in state"
            )
        if (source := engine_source(default)) is not None:
            named.append((parameter.name, source))
        elif default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TopologyError(
                f"{method_name} has a parameter {parameter.name!r} that a timer has nothing for; give it a default "
                "such as DoFn.KeyParam, DoFn.TimestampParam or DoFn.StateParam(SPEC)"
            )
    return Arguments((), tuple(named))


def _specs(name: str, arguments: Mapping[str, Arguments]) -> list[AnySpec]:
    """Specifications that methods have parameters for, each once. Raises `TopologyError` for a name used twice."""
    specs: dict[tuple[bool, str], AnySpec] = {}
    for method, method_arguments in arguments.items():
        used = [
            source.spec for source in method_arguments.sources() if isinstance(source, (StateArgument, TimerArgument))
        ]
        for spec in used:
            name_in_kind = (isinstance(spec, TimerSpec), spec.name)
            if specs.setdefault(name_in_kind, spec) is not spec:
                raise TopologyError(
                    f"{name} uses two specifications of the same name, {specs[name_in_kind]!r} and {spec!r}; "
                    "give each a name of its own, or declare it once"
                )
        for spec, times in Counter(used).items():
            if times > 1:
                raise TopologyError(f"{name}: {method} has {times} parameters for {spec!r}; one is enough")
    return list(specs.values())


def _check_timers(name: str, specs: list[TimerSpec], callbacks: list[Callback]) -> None:
    """Check that each timer in use calls exactly one method, and that each such method has a timer that can be set."""
    called = Counter(callback.spec for callback in callbacks)
    for spec in specs:
        if spec not in called:
            raise TopologyError(
                f"{name} sets {spec!r}, which calls no method; decorate one with @on_timer (also one that overrides it)"
            )
    for callback in callbacks:
        if called[callback.spec] > 1:
            methods = [other.method for other in callbacks if other.spec is callback.spec]
            raise TopologyError(f"{name}: {callback.spec!r} calls several methods, {methods}; let it call one")
        if callback.spec not in specs:
            raise TopologyError(
                f"{name}: {callback.method} waits for {callback.spec!r}, which no method sets; give process a "
                "parameter with the default DoFn.TimerParam of that very specification"
            )


def _check_brackets(fn: object, name: str) -> None:
    """Refuse state and timers in methods that are called for no key."""
    for method in _BRACKETS:
        for parameter in inspect.signature(getattr(fn, method)).parameters.values():
            if isinstance(parameter.default, (StateArgument, TimerArgument)):
                raise TopologyError(
                    f"{name}: {method} takes {parameter.default!r}, but it is called for no key; "
                    "use state and timers in process and in methods with @on_timer"
                )


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
