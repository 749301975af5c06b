"""What: Beam's DoFns with state and event-time timers whose methods Headrace's stateful steps call themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam
from apache_beam.runners import common
from apache_beam.transforms import userstate

from headrace.lowlevel.stored_names import named
from headrace.runners.beam.beam_private import DoFnParam, StateParam, TimerParam, output_types, timer_method
from headrace.runners.beam.functions.direct_fns import SOURCES, BeamPlainDoFn, checked, has_plain_brackets
from headrace.runners.beam.functions.keys import Decode, KeyForm
from headrace.runners.beam.functions.user_state import BeamTimer, declarations, has_view, spec_of, view_of
from headrace.sdk.functions.arguments import Arguments, Converted, Given, Source, StateArgument, TimerArgument
from headrace.sdk.functions.declared_state import AnySpec, Callback, DeclaredState
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.userstate.timers import TimerSpec

_OF_ELEMENT = (apache_beam.DoFn.ElementParam, apache_beam.DoFn.PaneInfoParam)
"""Parameters of `process` that a timer has nothing for."""
_OF_KEY = (apache_beam.DoFn.KeyParam, apache_beam.DoFn.DynamicTimerTagParam)
_STATE_OR_TIMER = (StateParam, TimerParam)


@named("BeamPlainStatefulDoFn")
class BeamPlainStatefulDoFn(BeamPlainDoFn):
    """A DoFn of Beam's SDK with state or timers; its methods are attributes of this one.

    Args:
        fn: The DoFn.
        callbacks: Names of the methods that timers call.
    """

    def __init__(self, fn: apache_beam.DoFn, callbacks: Iterable[str]) -> None:
        super().__init__(fn)
        for name in callbacks:
            setattr(self, name, checked(getattr(fn, name)))


class DirectStatefulParDo(ParDo):
    """A `ParDo` of a DoFn of Beam's with state or timers, without Beam's `DoFnRunner`.

    Args:
        fn: The DoFn.
        keys: How the keys of its elements are encoded.
    """

    def __init__(self, fn: apache_beam.DoFn, keys: KeyForm) -> None:
        states, timers = declarations(fn)
        methods = {spec.name: timer_method(spec) for spec in timers}
        super().__init__(BeamPlainStatefulDoFn(fn, methods.values()))
        specs: dict[object, AnySpec] = {spec: spec_of(spec) for spec in (*states, *timers)}
        element: Source = Given.ELEMENT if keys.coder is None else Converted(Given.ELEMENT, Decode(keys.coder))
        key: Source = Given.KEY if keys.coder is None else Converted(Given.KEY, keys.coder.decode)
        self.arguments = Arguments((element,), _named_sources(fn.process, specs, key))
        callbacks = {}
        for spec in timers:
            timer, method = specs[spec], methods[spec.name]
            assert isinstance(timer, TimerSpec), "a timer is declared as one"
            arguments = Arguments((), _named_sources(getattr(fn, method), specs, key))
            callbacks[spec.name] = Callback(method, arguments, timer)
        self.declared_state = DeclaredState(callbacks, False, tuple(specs.values()))


def is_direct(fn: apache_beam.DoFn) -> bool:
    """Whether Headrace's stateful steps can call a DoFn with state: they have all that its parameters ask for."""
    signature = common.DoFnSignature(fn)
    if output_types(fn) is not None or signature.is_splittable_dofn() or not has_plain_brackets(signature):
        return False
    _, timers = declarations(fn)
    if any(spec.time_domain != userstate.TimeDomain.WATERMARK for spec in timers):
        # Those in processing time put out at a time of their own.
        return False
    methods = [getattr(fn, timer_method(spec)) for spec in timers]
    element, *others = inspect.signature(fn.process).parameters.values()
    given = [parameter.default for parameter in others]
    fired = [parameter.default for method in methods for parameter in inspect.signature(method).parameters.values()]
    return (
        element.default is element.empty
        and all(map(_is_known, (*given, *fired)))
        and not any(default in _OF_ELEMENT for default in fired)
        and apache_beam.DoFn.DynamicTimerTagParam not in given
    )


def _is_known(default: object) -> bool:
    """Whether the engine has what a parameter with this default asks for."""
    return default in SOURCES or default in _OF_KEY or isinstance(default, _STATE_OR_TIMER)


def _named_sources(
    method: Callable[..., Any], specs: dict[object, AnySpec], key: Source
) -> tuple[tuple[str, Source], ...]:
    """Where the arguments of a method come from, but for the element; only parameters that Beam gives."""
    return tuple(
        (parameter.name, _source(parameter.default, specs, key))
        for parameter in inspect.signature(method).parameters.values()
        if isinstance(parameter.default, DoFnParam)
    )


def _source(default: Any, specs: dict[object, AnySpec], key: Source) -> Source:
    if isinstance(default, TimerParam):
        timer = specs[default.timer_spec]
        assert isinstance(timer, TimerSpec), "a timer is declared as one"
        return Converted(TimerArgument(timer), BeamTimer)
    if isinstance(default, StateParam):
        state = specs[default.state_spec]
        assert not isinstance(state, TimerSpec), "a state is declared as one"
        return Converted(StateArgument(state), view_of) if has_view(state) else StateArgument(state)
    if default == apache_beam.DoFn.KeyParam:
        return key
    return Given.DYNAMIC_TIMER_TAG if default == apache_beam.DoFn.DynamicTimerTagParam else SOURCES[default]
