"""What: the state and timers that a `DoFn` uses, found and checked when the pipeline is built."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.stateful.spec import State, StateSpec
from headrace.sdk.stateful.timerspec import TimerSpec, callers_of
from headrace.sdk.timedomain import TimeDomain
from headrace.sdk.transforms.parameters import (
    FROM_ENGINE,
    Arguments,
    Given,
    Source,
    StateArgument,
    TimerArgument,
)

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
class Signature:
    """What a stateful `DoFn` uses."""

    callbacks: Mapping[str, Callback]
    """By the timer's name."""
    uses_wall_time: bool
    """Whether it has timers on real time."""
    specs: tuple[AnySpec, ...]


def signature_of(fn: object, name: str, process: Arguments) -> Signature | None:
    """What a `DoFn` uses of state and timers; None if nothing.

    Args:
        fn: The `DoFn`.
        name: What to call it in errors.
        process: How its `process` is called.

    Raises:
        TopologyError: It declares or uses them wrongly; the message says what is wrong and what to do.
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
    return Signature(by_name, uses_wall_time, tuple(specs))


def _callbacks(fn: object, name: str) -> Iterator[Callback]:
    for method in dir(type(fn)):
        for spec in callers_of(inspect.getattr_static(type(fn), method, None)):
            yield Callback(method, _bind_callback(getattr(fn, method), f"{name}: {method}"), spec)


def _bind_callback(method: Callable[..., object], place: str) -> Arguments:
    """How to call a timer's method: the engine gives what its parameters' defaults name."""
    named: list[tuple[str, Source]] = []
    for parameter in inspect.signature(method).parameters.values():
        default = parameter.default
        if default in _OF_ELEMENTS:
            raise TopologyError(f"{place} takes {default!r}, but a timer has no element; keep what it needs in state")
        if isinstance(default, FROM_ENGINE):
            named.append((parameter.name, default))
        elif default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TopologyError(
                f"{place} has a parameter {parameter.name!r} that a timer has nothing for; give it a default such as "
                "DoFn.KeyParam, DoFn.TimestampParam or DoFn.StateParam(SPEC)"
            )
    return Arguments((), tuple(named))


def _specs(name: str, arguments: Mapping[str, Arguments]) -> list[AnySpec]:
    """Every specification that a method has a parameter for, each once; names are unique within their kind."""
    found: dict[tuple[bool, str], AnySpec] = {}
    for method, its in arguments.items():
        used = [source.spec for source in its.sources() if isinstance(source, (StateArgument, TimerArgument))]
        for spec in used:
            place = (isinstance(spec, TimerSpec), spec.name)
            if found.setdefault(place, spec) is not spec:
                raise TopologyError(
                    f"{name} uses two specifications of the same name, {found[place]!r} and {spec!r}; "
                    "give each a name of its own, or declare it once"
                )
        for spec, times in Counter(used).items():
            if times > 1:
                raise TopologyError(f"{name}: {method} has {times} parameters for {spec!r}; one is enough")
    return list(found.values())


def _check_timers(name: str, specs: list[TimerSpec], callbacks: list[Callback]) -> None:
    """Every timer that is set calls exactly one method, and every method is called by one that can be set."""
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
    """State and timers belong to a key: there is none where a bundle begins or ends."""
    for method in _BRACKETS:
        for parameter in inspect.signature(getattr(fn, method)).parameters.values():
            if isinstance(parameter.default, (StateArgument, TimerArgument)):
                raise TopologyError(
                    f"{name}: {method} takes {parameter.default!r}, but it is called for no key; "
                    "use state and timers in process and in methods with @on_timer"
                )
