"""What: the primitive that combines the values of each key, used by `CombinePerKey` and other transforms."""

from __future__ import annotations

from copy import copy
from typing import Any, Self, TypeAlias

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.uncalled_hooks import warn_of_uncalled_hooks
from headrace.sdk.combinefns.combine_fn import Combining, Fanout, curried, require_combiner
from headrace.sdk.combinefns.combine_types import combine_types
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.graph.side_inputs import AsSideInput, refuse_bare
from headrace.sdk.model.labels import label_of
from headrace.sdk.transforms.core.group_by_key import PercentileWatermark, grouped
from headrace.sdk.typehints.consistency import is_consistent_with
from headrace.sdk.typehints.hints import K, pair, tuple_of
from headrace.sdk.typehints.variables import match, substituted

Collection: TypeAlias = PCollection[object]


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
