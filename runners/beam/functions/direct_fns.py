"""What: Beam's functions without parameters of Beam's, which Headrace's fused loop and stateful steps call themselves.

DoFns with state are among them if their timers are event-time timers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from types import CodeType
from typing import Any, cast

import apache_beam
from apache_beam import pvalue
from apache_beam.runners import common
from apache_beam.transforms import core, userstate, window
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp
from apache_beam.utils.windowed_value import WindowedValue as BeamValue

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.runners.beam.beam_private import (
    DoFnParam,
    StateParam,
    TimerParam,
    output_types,
    puts_under_none,
    takes_or_gives_batches,
    timer_method,
    wrapped_function,
)
from headrace.runners.beam.functions.keys import Decode, KeyForm
from headrace.runners.beam.functions.stateful_do_fns import BeamTimer, declarations, has_view, spec_of, view_of
from headrace.runners.beam.windowings import pane_to_beam, timestamp_to_beam, to_beam, value_of_beam
from headrace.sdk.expressions.batch_view import UnderNone
from headrace.sdk.functions.arguments import (
    Arguments,
    Converted,
    Given,
    Source,
    StateArgument,
    TimerArgument,
    register_parameter,
)
from headrace.sdk.functions.declarations import AnySpec, Callback, DeclaredState
from headrace.sdk.functions.do_fn import DoFn, FilterFn, FlatMapFn, FlatMapTupleFn, MapFn, MapTupleFn
from headrace.sdk.model.special_outputs import (
    TaggedOutput,
    TimestampedValue,
    converted,
    register_instant,
    register_output,
)
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.userstate.timers import TimerSpec

register_output(BeamValue, lambda value: value_of_beam(cast(BeamValue, value)))
register_output(pvalue.TaggedOutput, lambda output: _tagged(output))
register_output(window.TimestampedValue, lambda value: _timestamped(value), stamped=True)
register_instant(BeamTimestamp)
register_parameter(DoFnParam, lambda parameter: SOURCES[parameter])
SOURCES: dict[object, Source] = {
    apache_beam.DoFn.ElementParam: Given.ELEMENT,
    apache_beam.DoFn.TimestampParam: Converted(Given.TIMESTAMP, timestamp_to_beam),
    apache_beam.DoFn.WindowParam: Converted(Given.WINDOW, to_beam),
    apache_beam.DoFn.PaneInfoParam: Converted(Given.PANE, pane_to_beam),
}
"""Beam's parameters that Headrace's own loop can give."""


def _tagged(output: Any) -> TaggedOutput:
    """The output with its tag; its value may be of Beam's classes, too."""
    return TaggedOutput(output.tag, converted(output.value))


def _timestamped(value: Any) -> TimestampedValue[object]:
    return TimestampedValue(value.value, Timestamp.of_micros(value.timestamp.micros))


def checked(process: Callable[..., Iterable[object] | None]) -> Callable[..., Iterable[object] | None]:
    """A method that refuses what it is a mistake to return; a generator cannot return it."""
    if inspect.isgeneratorfunction(process):
        return process

    @wraps(process)
    def checking(*args: object, **kwargs: object) -> Iterable[object] | None:
        outputs = process(*args, **kwargs)
        if isinstance(outputs, (str, bytes, dict)):
            raise TypeError(
                f"Returning a {type(outputs).__name__} from a ParDo or FlatMap is not allowed: each output is an item "
                f"of what is returned; yield {outputs!r:.80}, or return a list with it"
            )
        return outputs

    return checking


@named("BeamPlainDoFn")
class BeamPlainDoFn(DoFn):
    """A DoFn of Beam's SDK whose methods take the element alone."""

    def __init__(self, fn: apache_beam.DoFn) -> None:
        self._fn = fn
        self.process = checked(fn.process)

    def default_label(self) -> str:
        """The name of Beam's DoFn."""
        return str(self._fn.default_label())

    def setup(self) -> None:
        """See `DoFn`."""
        self._fn.setup()

    def start_bundle(self) -> None:
        """See `DoFn`."""
        outputs = cast(object, self._fn.start_bundle())
        if outputs is not None:
            raise RuntimeError(f"Start Bundle should not output any elements but got {outputs}; process may")

    def finish_bundle(self) -> Iterable[object] | None:
        """See `DoFn`."""
        return map(converted, self._fn.finish_bundle() or ())

    def has_finish_bundle(self) -> bool:
        """See `DoFn`."""
        return type(self._fn).finish_bundle is not apache_beam.DoFn.finish_bundle

    def teardown(self) -> None:
        """See `DoFn`."""
        self._fn.teardown()


def _function(name: str, of: Any) -> Callable[..., object]:
    """A variable of the function around the user's, which one of Beam's transforms has made."""
    return cast("Callable[..., object]", inspect.getclosurevars(of).nonlocals[name])


def _code_of(transform: core.ParDo) -> CodeType:
    return cast(CodeType, cast(Any, wrapped_function(transform.fn)).__code__)


def _with_further(first: object, *further: object) -> object:
    return first


def _with_default(first: object, further: object = None) -> object:
    return first


_WRAPPERS: dict[CodeType, Callable[[Callable[..., object]], DoFn]] = {
    _code_of(core.Map(len)): MapFn,
    _code_of(core.Map(_with_further)): MapFn,
    _code_of(core.Filter(len)): FilterFn,
    _code_of(core.Filter(_with_further)): FilterFn,
    _code_of(core.MapTuple(len)): MapTupleFn,
    _code_of(core.MapTuple(_with_default)): MapTupleFn,
    _code_of(core.FlatMapTuple(len)): FlatMapTupleFn,
    _code_of(core.FlatMapTuple(_with_default)): FlatMapTupleFn,
}
"""Code of the functions that Beam puts around the user's -> what makes a DoFn of the user's function."""


def direct(fn: apache_beam.DoFn) -> DoFn | None:
    """Headrace's DoFn for one of Beam's that takes what Headrace's own loop can give; None for any other."""
    signature = common.DoFnSignature(fn)
    if userstate.is_stateful_dofn(fn) or signature.is_splittable_dofn() or takes_or_gives_batches(fn):
        return None
    if output_types(fn) is not None or not _has_known_parameters(signature):
        return None
    if puts_under_none(fn):
        return MapFn(UnderNone())
    if type(fn) is not core.CallableWrapperDoFn:
        return BeamPlainDoFn(fn) if _says_parameters(fn, signature) else None
    function = wrapped_function(fn)
    code = getattr(function, "__code__", None)
    make = None if code is None else _WRAPPERS.get(code)
    return FlatMapFn(function) if make is None else make(_function("fn", function))


def _says_parameters(fn: apache_beam.DoFn, signature: common.DoFnSignature) -> bool:
    """Whether `process` itself has the parameters that Beam gives; that of a wrapper, as for exceptions, has not."""
    seen = [parameter.default for parameter in inspect.signature(fn.process).parameters.values()]
    return all(default in seen for default in signature.process_method.defaults if isinstance(default, DoFnParam))


def has_plain_brackets(signature: common.DoFnSignature) -> bool:
    """Whether the methods of a DoFn that are called around bundles have no parameters that Beam gives."""
    methods = (
        signature.setup_lifecycle_method,
        signature.start_bundle_method,
        signature.process_batch_method,
        signature.finish_bundle_method,
        signature.teardown_lifecycle_method,
    )
    return not any(isinstance(default, DoFnParam) for method in methods for default in method.defaults)


def _has_known_parameters(signature: common.DoFnSignature) -> bool:
    """Whether only `process` has parameters that Beam gives, and those only of a kind that Headrace's loop has too."""
    given = [default for default in signature.process_method.defaults if isinstance(default, DoFnParam)]
    return all(parameter in SOURCES for parameter in given) and has_plain_brackets(signature)


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
