"""What: Beam's functions without parameters of Beam's, which Headrace's fused loop calls itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, cast

import apache_beam
from apache_beam import pvalue
from apache_beam.runners import common
from apache_beam.transforms import core, userstate, window
from apache_beam.utils.windowed_value import WindowedValue as BeamValue

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.runners.beam.windows import value_of_beam
from headrace.sdk.functions.do_fn import DoFn, FilterFn, FlatMapFn, MapFn
from headrace.sdk.model.special_outputs import converted, register_output
from headrace.sdk.model.tagged_output import TaggedOutput
from headrace.sdk.windows import TimestampedValue

register_output(BeamValue, lambda value: value_of_beam(cast(BeamValue, value)))
register_output(pvalue.TaggedOutput, lambda output: TaggedOutput(cast(Any, output).tag, cast(Any, output).value))
register_output(window.TimestampedValue, lambda value: _timestamped(value))


def _timestamped(value: Any) -> TimestampedValue[object]:
    return TimestampedValue(value.value, Timestamp(micros=value.timestamp.micros))


@named("BeamMapFn")
class BeamMapFn(MapFn):
    """`MapFn` of a function whose results may be of Beam's classes."""


@named("BeamFlatMapFn")
class BeamFlatMapFn(FlatMapFn):
    """`FlatMapFn` of a function whose outputs may be of Beam's classes."""


@named("BeamPlainDoFn")
class BeamPlainDoFn(DoFn):
    """A DoFn of Beam's SDK whose methods take the element alone."""

    def __init__(self, fn: apache_beam.DoFn) -> None:
        self._fn = fn
        self.process = fn.process

    def default_label(self) -> str:
        """The name of Beam's DoFn."""
        return str(self._fn.default_label())

    def setup(self) -> None:
        """See `DoFn`."""
        self._fn.setup()

    def start_bundle(self) -> None:
        """See `DoFn`."""
        self._fn.start_bundle()

    def finish_bundle(self) -> Iterable[object] | None:
        """See `DoFn`."""
        return map(converted, self._fn.finish_bundle() or ())

    def has_finish_bundle(self) -> bool:
        """See `DoFn`."""
        return type(self._fn).finish_bundle is not apache_beam.DoFn.finish_bundle

    def teardown(self) -> None:
        """See `DoFn`."""
        self._fn.teardown()


def _code_of(transform: core.ParDo) -> CodeType:
    return cast(CodeType, transform.fn._fn.__code__)


def _with_further(first: object, *further: object) -> object:
    return first


_MAPS = {_code_of(core.Map(len)), _code_of(core.Map(_with_further))}
"""Code of the functions that Beam puts around the function of a `Map`."""
_FILTERS = {_code_of(core.Filter(len)), _code_of(core.Filter(_with_further))}


def direct(fn: apache_beam.DoFn) -> DoFn | None:
    """Headrace's DoFn for one of Beam's that takes elements and constants alone; None for any other."""
    signature = common.DoFnSignature(fn)
    if userstate.is_stateful_dofn(fn) or signature.is_splittable_dofn() or _has_parameters(signature):
        return None
    if type(fn) is not core.CallableWrapperDoFn:
        return BeamPlainDoFn(fn)
    function = fn._fn
    code = getattr(function, "__code__", None)
    if code in _MAPS:
        return BeamMapFn(_wrapped(function))
    if code in _FILTERS:
        return FilterFn(_wrapped(function))
    return BeamFlatMapFn(function)


def _wrapped(function: Any) -> Callable[..., object]:
    """The user's function in one that Beam has put around it."""
    return cast("Callable[..., object]", function._argspec_fn)


def _has_parameters(signature: common.DoFnSignature) -> bool:
    """Whether a method has a parameter that Beam gives."""
    methods = (
        signature.setup_lifecycle_method,
        signature.start_bundle_method,
        signature.process_method,
        signature.process_batch_method,
        signature.finish_bundle_method,
        signature.teardown_lifecycle_method,
    )
    return any(isinstance(default, core._DoFnParam) for method in methods for default in method.defaults)
