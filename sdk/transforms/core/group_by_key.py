"""What: the primitives that group by key: `GroupByKey`, and the base of `CombinePerKey` with its types."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from typing import Any, Self

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.uncalled_hooks import warn_of_uncalled_hooks
from headrace.options.pipeline_options import TypeOptions
from headrace.sdk.coders.registry import key_problem, registry
from headrace.sdk.combinefns.combine_fn import (
    CallableCombineFn,
    CombineFn,
    Combining,
    CurriedCombineFn,
    Fanout,
    WithArguments,
    curried,
    require_combiner,
)
from headrace.sdk.functions.matched import Assembled, Matched
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection, PCollection
from headrace.sdk.graph.side_inputs import AsSideInput, refuse_bare
from headrace.sdk.model.labels import label_of
from headrace.sdk.triggers import DefaultTrigger
from headrace.sdk.typehints.consistency import is_consistent_with, match, substituted
from headrace.sdk.typehints.hints import ANY_PAIR, K, item, iterable_of, normal, pair, tuple_of
from headrace.sdk.typehints.io_type_hints import annotations_of, stated_input, stated_output
from headrace.sdk.windows import GlobalWindows

_log = logging.getLogger(__name__)


class PercentileWatermark:
    """When: mixin of groupings whose input low watermark may ignore outliers (MillWheel paper §7.2)."""

    watermark_percentile: float | None = None
    """Percentile of recent records that the watermark waits for; None to wait for all records."""

    def drops_late(self) -> bool:
        """See `PTransform`."""
        return True

    def with_watermark_percentile(self, percentile: float | None) -> Self:
        """The same transform with a low watermark that waits only for this percentile of recent records.

        The method is MillWheel's, not Beam's. After a source with `max_delay`, windows end after the delay that covers
        this share of recent records, instead of after the whole `max_delay`. Later records are late for this step and
        the steps after it, which treat them as their windowing says; other consumers of the same collection are not
        affected. After sources with a perfect watermark the method has no effect.

        Args:
            percentile: Percentile between 0 and 100, such as 99; None to wait for all records.

        Raises:
            ValueError: The percentile is not between 0 and 100.

        >>> from headrace.transforms import GroupByKey
        >>> GroupByKey().with_watermark_percentile(99).watermark_percentile
        99
        """
        if percentile is not None and not 0 < percentile < 100:
            raise ValueError(
                f"{type(self).__name__}: a watermark percentile is between 0 and 100, got {percentile!r}; leave it out "
                "to wait for all records"
            )
        clone = copy(self)
        clone.watermark_percentile = percentile
        return clone


class GroupByKey(PercentileWatermark, PTransform[PCollection[object], PCollection[object]]):
    """Groups values by key: pairs (key, value) become pairs (key, list of values), per window and pane.

    Keys are plain values, dates, enumerations, named tuples, rows, frozen dataclasses, tuples and other collections of
    these, and values of types that have a registered deterministic coder; any other key stops the run.

    Raises:
        TopologyError: By its type hint, the key type cannot be encoded deterministically; or the collection never ends
            and its windowing would never emit a result; or a trigger that finishes could drop values. The option
            `--allow_unsafe_triggers` turns the latter two into warnings. It is a `ValueError`.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | beam.GroupByKey() | beam.MapTuple(print)
    a [1, 3]
    b [2]
    """

    def input_type(self) -> object:
        """See `PTransform`."""
        return super().input_type() if self.input_hints[0] else ANY_PAIR

    def takes(self, given: object) -> bool:
        """See `PTransform`; any type that unpacks to two items is accepted."""
        return super().takes(given) if self.input_hints[0] else pair(given) is not None

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        key, value = pair(input_type) or (Any, Any)
        return tuple_of([key, iterable_of(value)])

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """A collection of pairs (key, list of values) in the same windows."""
        return grouped(inputs, self.label)


class JoinGrouping(GroupByKey):
    """The grouping of a `CoGroupByKey` or `Join`, whose values are pairs of the number of their side and the element.

    Args:
        made: What the steps behind it make of the groups.
    """

    def __init__(self, made: Assembled | Matched) -> None:
        super().__init__()
        self.made = made


def grouped(inputs: PCollection[object], label: str) -> PCollection[object]:
    """The output of a grouping step. Raises `TopologyError` for windowing that loses data or never fires."""
    if not isinstance(inputs, PCollection):
        raise TypeError(f"{label} was applied to {inputs!r:.200}; apply it to a collection of pairs")
    if problem := _unsafe(inputs):
        step = inputs.pipeline.current_label
        if not inputs.pipeline.options.view_as(TypeOptions).allow_unsafe_triggers:
            raise TopologyError(f"step {step!r}: {problem}, or allow it with --allow_unsafe_triggers")
        _log.warning("step %r: %s; allowed by --allow_unsafe_triggers", step, problem)
    _check_keys(inputs)
    return PCollection(inputs.pipeline, inputs.windowing.after_grouping(), inputs.is_bounded)


def _check_keys(inputs: PCollection[object]) -> None:
    """Refuse keys whose type has no deterministic encoding."""
    types = pair(inputs.element_type)
    if types is not None and (problem := key_problem(types[0], registry)):
        raise TopologyError(f"step {inputs.pipeline.current_label!r}: {problem}")


def _unsafe(inputs: PCollection[object]) -> str | None:
    windowing = inputs.windowing
    is_global = isinstance(windowing.window_fn, GlobalWindows)
    if not inputs.is_bounded and is_global and isinstance(windowing.trigger, DefaultTrigger):
        return (
            "its input never ends, so the default trigger on the global window never fires; "
            "give the input windows or a trigger with WindowInto"
        )
    if windowing.may_lose_data():
        return (
            f"trigger {windowing.trigger} may finish before its window is complete, and what comes then is dropped; "
            "wrap it in Repeatedly(...)"
        )
    return None


def combine_types(combine_fn: CombineFn[object, object, object]) -> tuple[object, object]:
    """The types of the values and of the result; `Any` for a type that is not declared.

    >>> from headrace.sdk.combinefns.numeric import CountCombineFn
    >>> combine_types(CountCombineFn())
    (typing.Any, <class 'int'>)
    """
    while isinstance(combine_fn, CurriedCombineFn):
        combine_fn = combine_fn.inner
    if isinstance(combine_fn, CallableCombineFn):
        return _of_function(combine_fn.function)
    taken, given = _parameter(combine_fn.add_input, 1), annotations_of(combine_fn.extract_output)[1]
    return _stated(combine_fn, taken, given)


def _stated(stating: object, taken: object, given: object) -> tuple[object, object]:
    """The types that decorators declare, else the given types from annotations."""
    hints, _ = stated_input(stating)
    result, _ = stated_output(stating)
    return normal(hints[0] if hints else taken), normal(given if result is None else result)


def _of_function(function: Callable[..., object]) -> tuple[object, object]:
    """The types for a function of an iterable; the hint of its parameter may be the iterable or the single value."""
    if isinstance(function, WithArguments):
        function = function.function
    if isinstance(function, type):
        return Any, Any
    values, given = _stated(function, _parameter(function, 0), annotations_of(function)[1])
    taken = item(values)
    # A hint that is not iterable means the type of the values.
    return (values if taken is None else taken), given


def _parameter(function: Callable[..., object], place: int) -> object:
    """The type of the parameter at a place, from 0 and without `self`; `Any` if there is no annotation."""
    types, _ = annotations_of(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    names = names[1:] if hasattr(function, "__self__") else names
    return types.get(names[place], Any) if len(names) > place else Any


class Combine(PTransform[Collection, Collection]):
    """Base of the transforms that combine values: a combiner with its arguments.

    Args:
        fn: A `CombineFn`, or a function from an iterable of values to one value that can be applied to its own results
            (`sum`, `max`, …).
        *args: Further positional arguments of the function, or of all methods of the `CombineFn` except `setup` and
            `teardown`. They may be side inputs, such as `AsSingleton(collection)`.
        **kwargs: Further named arguments, side inputs among them.
    """

    def __init__(self, fn: Combining, *args: object, **kwargs: object) -> None:
        super().__init__()
        given = (*args, *kwargs.values())
        refuse_bare(type(self).__name__, given)
        require_combiner(fn, args, kwargs)
        self._fn, self._args, self._kwargs = fn, args, kwargs
        self.has_side_inputs = any(isinstance(value, AsSideInput) for value in given)
        """Whether some arguments are side inputs, whose values are known only at run time."""
        self.combine_fn = curried(fn) if self.has_side_inputs else curried(fn, args, kwargs)

    fanout: Fanout | None = None

    def _types(self, values: object) -> tuple[object, object]:
        """The type of the values that the combiner takes, and the type of its result for values of a given type."""
        value_type, result_type = combine_types(self.combine_fn)
        return value_type, substituted(result_type, match(value_type, values))

    def default_label(self) -> str:
        """The kind of step, the combiner's name, and the number of shards."""
        spread = "" if self.fanout is None else f", fanout={label_of(self.fanout)}"
        return f"{type(self).__name__}({self.combine_fn.default_label()}{spread})"

    def _spread(self, fanout: Fanout | None) -> Self:
        if isinstance(fanout, bool) or not (fanout is None or callable(fanout) or isinstance(fanout, int)):
            raise TypeError(f"{self.label}: a fan-out is a number or a function of the key, got {fanout!r:.80}")
        if isinstance(fanout, int) and fanout < 0:
            raise ValueError(f"{self.label}: the fan-out is {fanout}; give how many shards, 0 or 1 for none")
        clone = copy(self)
        # One shard is the same as no fan-out.
        clone.fanout = None if isinstance(fanout, int) and fanout <= 1 else fanout
        return clone


class CombineByKey(PercentileWatermark, Combine):
    """Combines the values of each key, per window and pane; the combiner has no side inputs."""

    def input_type(self) -> object:
        """See `PTransform`."""
        return self.input_hints[0][0] if self.input_hints[0] else tuple_of([K, self._types(Any)[0]])

    def takes(self, given: object) -> bool:
        """See `PTransform`; any type that unpacks to two items is accepted."""
        if self.input_hints[0]:
            return super().takes(given)
        found = pair(given)
        return found is not None and is_consistent_with(found[1], self._types(Any)[0])

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        key, value = pair(input_type) or (Any, Any)
        return tuple_of([key, self._types(value)[1]])

    def expand(self, inputs: Collection) -> Collection:
        """A collection of pairs (key, combined value) in the same windows."""
        output = grouped(inputs, self.label)
        label = inputs.pipeline.current_label
        warn_of_uncalled_hooks(f"the CombineFn of step {label!r}", self.combine_fn)
        self.combine_fn, self.fanout = shipped((self.combine_fn, self.fanout), label)
        return output
