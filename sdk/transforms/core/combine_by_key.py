"""What: the primitive that combines the values of each key, used by `CombinePerKey` and others, and its types."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Self

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.uncalled_hooks import warn_of_uncalled_hooks
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
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.graph.side_inputs import AsSideInput, refuse_bare
from headrace.sdk.model.labels import label_of
from headrace.sdk.transforms.core.group_by_key import PercentileWatermark, grouped
from headrace.sdk.typehints.annotations import annotations_of
from headrace.sdk.typehints.consistency import is_consistent_with
from headrace.sdk.typehints.hints import K, item, normal, pair, tuple_of
from headrace.sdk.typehints.io_type_hints import stated_input, stated_output
from headrace.sdk.typehints.variables import match, substituted


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
