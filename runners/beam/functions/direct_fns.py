"""What: Beam's functions without parameters of Beam's, which Headrace's fused loop calls itself."""

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
    output_types,
    puts_under_none,
    takes_or_gives_batches,
    wrapped_function,
)
from headrace.runners.beam.windows import pane_to_beam, timestamp_to_beam, to_beam, value_of_beam
from headrace.sdk.expressions.pair_functions import UnderNone
from headrace.sdk.functions.arguments import Converted, Given, Source, register_parameter
from headrace.sdk.functions.do_fn import DoFn, FilterFn, FlatMapFn, FlatMapTupleFn, MapFn, MapTupleFn
from headrace.sdk.model.special_outputs import (
    TaggedOutput,
    TimestampedValue,
    converted,
    register_instant,
    register_output,
)

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
