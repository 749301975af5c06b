"""What: the values of a key, or of all, as one value (`CombinePerKey`, `CombineGlobally`, `CombineValues`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, Self, TypeAlias

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.ptransform import PTransform, label_of
from headrace.sdk.pvalue import PCollection
from headrace.sdk.shipping import shipped
from headrace.sdk.sides.arguments import AsSideInput, AsSingleton, refuse_bare
from headrace.sdk.transforms.combinefn import (
    AnyCombineFn,
    CombineFn,
    Combining,
    curried,
    require_combiner,
)
from headrace.sdk.transforms.create import Create
from headrace.sdk.transforms.element import DoFn, Map, ParDo
from headrace.sdk.transforms.flatten import Flatten
from headrace.sdk.transforms.group import GroupByKey, grouped
from headrace.sdk.transforms.marks import Mark, SkippingMarks
from headrace.sdk.transforms.pairs import Second, UnderNone
from headrace.sdk.transforms.percentile import PercentileWatermark
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.triggers import DefaultTrigger
from headrace.sdk.types.combining import combine_types
from headrace.sdk.types.consistency import is_consistent_with
from headrace.sdk.types.hints import K, item, iterable_of, pair, tuple_of
from headrace.sdk.types.variables import match, substituted
from headrace.sdk.windows import GlobalWindows

Collection: TypeAlias = PCollection[object]
Fanout: TypeAlias = int | Callable[[object], int]
"""Over how many shards a key is spread: as many for each, or by key."""


class _Combine(PTransform[Collection, Collection]):
    """A combiner with its arguments.

    Args:
        fn: A `CombineFn`, or a function from an iterable of values to one that can be applied to its own results
            (`sum`, `max`, …).
        *args: Further positional arguments of the function, or of all methods of the `CombineFn` but `setup` and
            `teardown` where side inputs (`AsSingleton(collection)` and its like) are among them.
        **kwargs: Further named arguments.
    """

    def __init__(self, fn: Combining, *args: object, **kwargs: object) -> None:
        super().__init__()
        given = (*args, *kwargs.values())
        refuse_bare(type(self).__name__, given)
        require_combiner(fn, args, kwargs)
        self._fn, self._args, self._kwargs = fn, args, kwargs
        self.has_side_inputs = any(isinstance(value, AsSideInput) for value in given)
        """Whether some arguments are known only when there is something to combine."""
        self.combine_fn = curried(fn) if self.has_side_inputs else curried(fn, args, kwargs)

    fanout: Fanout | None = None

    def _types(self, values: object) -> tuple[object, object]:
        """The type of the values that it takes and, where values of a type come, that of its result."""
        taken, given = combine_types(self.combine_fn)
        return taken, substituted(given, match(taken, values))

    def default_label(self) -> str:
        """The kind of step, the combiner's name, and over how many shards it is spread."""
        spread = "" if self.fanout is None else f", fanout={label_of(self.fanout)}"
        return f"{type(self).__name__}({self.combine_fn.default_label()}{spread})"

    def _spread(self, fanout: Fanout | None) -> Self:
        if isinstance(fanout, bool) or not (fanout is None or callable(fanout) or isinstance(fanout, int)):
            raise TypeError(f"{self.label}: a fan-out is a number or a function of the key, got {fanout!r:.80}")
        if isinstance(fanout, int) and fanout < 0:
            raise ValueError(f"{self.label}: the fan-out is {fanout}; give how many shards, 0 or 1 for none")
        clone = copy(self)
        # A key in one shard is as well off in none.
        clone.fanout = None if isinstance(fanout, int) and fanout <= 1 else fanout
        return clone


class CombinePerKey(PercentileWatermark, _Combine):
    """Pairs (key, value) become pairs (key, combined value), per window and pane.

    >>> CombinePerKey(sum).label
    'CombinePerKey(sum)'
    """

    def with_hot_key_fanout(self, fanout: Fanout | None) -> CombinePerKey:
        """The same in two phases: first in shards of each key, in parallel, then what comes of them.

        Results and panes stay the same. It is worth it where a key has more elements than one process can combine and
        they do not meet in one already: where windows merge, or timestamps of panes depend on elements'. Elsewhere
        what comes from each task is combined before it travels anyway. Retractions, and elements that a trigger looks
        at, go the direct way.

        Args:
            fanout: How many shards a key has, as a number or a function of the key; 1 or less, or None, for none.

        >>> CombinePerKey(sum).with_hot_key_fanout(8).label
        'CombinePerKey(sum, fanout=8)'
        """
        return self._spread(fanout)

    def input_type(self) -> object:
        """See `PTransform`."""
        return self.input_hints[0][0] if self.input_hints[0] else tuple_of([K, self._types(Any)[0]])

    def takes(self, given: object) -> bool:
        """See `PTransform`; whatever unpacks to two will do."""
        if self.input_hints[0]:
            return super().takes(given)
        found = pair(given)
        return found is not None and is_consistent_with(found[1], self._types(Any)[0])

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        key, value = pair(input_type) or (Any, Any)
        return tuple_of([key, self._types(value)[1]])

    def expand(self, inputs: Collection) -> Collection:
        """A collection in the same windows."""
        if self.has_side_inputs:
            group = GroupByKey().with_watermark_percentile(self.watermark_percentile)
            return inputs | group | CombineValues(self._fn, *self._args, **self._kwargs)
        output = grouped(inputs, self.label)
        self.combine_fn, self.fanout = shipped((self.combine_fn, self.fanout), inputs.pipeline.current_label)
        return output


class CombineGlobally(_Combine):
    """All values of a window become one.

    With the default trigger in the global window, no values give the combined value of nothing. In other windows it is
    not known which ones are empty, so there `without_defaults()` is required.
    """

    has_defaults = True

    def as_singleton_view(self) -> CombinedView:
        """The result as a side input: an `AsSingleton` whose default is the combined value of nothing."""
        return CombinedView(self)

    def with_defaults(self, has_defaults: bool = True) -> Self:
        """The same, with or without a result of no values."""
        clone = copy(self)
        clone.has_defaults = has_defaults
        return clone

    def without_defaults(self) -> Self:
        """The same, but no values give no result."""
        return self.with_defaults(False)

    def with_fanout(self, fanout: int | None) -> Self:
        """The same in two phases; see `CombinePerKey.with_hot_key_fanout`."""
        return self._spread(fanout)

    def input_type(self) -> object:
        """See `PTransform`."""
        return self.input_hints[0][0] if self.input_hints[0] else self._types(Any)[0]

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        return self._types(input_type)[1]

    def expand(self, inputs: Collection) -> Collection:
        """A collection of one value a window and pane."""
        combine_fn = self.combine_fn
        if self.has_defaults:
            if not isinstance(inputs.windowing.window_fn, GlobalWindows):
                raise TopologyError(
                    f"step {inputs.pipeline.current_label!r} would put out a default for every empty window, and "
                    f"{inputs.windowing.window_fn} have no end; use CombineGlobally(...).without_defaults()"
                )
            if isinstance(inputs.windowing.trigger, DefaultTrigger):
                inputs, combine_fn = _with_mark(inputs), SkippingMarks(combine_fn)
        keyed = inputs | "Key" >> Map(UnderNone())
        if self.has_side_inputs:
            groups = keyed | "Group" >> GroupByKey() | "Unmark" >> Map(_without_marks)
            combine = CombineValues(self._fn, *self._args, **self._kwargs)
            return groups | "Combine" >> combine | "Unkey" >> Map(Second())
        return (
            keyed | "Combine" >> CombinePerKey(combine_fn).with_hot_key_fanout(self.fanout) | "Unkey" >> Map(Second())
        )


class CombinedView(PTransform[Collection, AsSingleton]):
    """A `CombineGlobally` whose result becomes a side input."""

    def __init__(self, combine: CombineGlobally) -> None:
        super().__init__()
        self._combine = combine

    def default_label(self) -> str:
        """That of the `CombineGlobally`."""
        return self._combine.label

    def expand(self, inputs: Collection) -> AsSingleton:
        """The side input."""
        combined = self._combine.without_defaults().expand(inputs)
        if not self._combine.has_defaults:
            return AsSingleton(combined)
        if self._combine.has_side_inputs:
            raise TopologyError(
                f"step {inputs.pipeline.current_label!r}: the result for no values depends on side inputs, so it "
                "cannot be the default of a side input; use without_defaults().as_singleton_view()"
            )
        return AsSingleton(combined, _of_nothing(shipped(self._combine.combine_fn, self.label)))


def _of_nothing(combine_fn: AnyCombineFn) -> object:
    combine_fn.setup()
    try:
        return combine_fn.apply([])
    finally:
        combine_fn.teardown()


class CombineValues(_Combine):
    """Pairs (key, iterable of values) become pairs (key, combined value)."""

    def input_type(self) -> object:
        """See `PTransform`."""
        taken = self._types(Any)[0]
        return self.input_hints[0][0] if self.input_hints[0] else tuple_of([K, iterable_of(taken)])

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        key, values = pair(input_type) or (Any, Any)
        return tuple_of([key, self._types(item(values) or Any)[1]])

    def expand(self, inputs: Collection) -> Collection:
        """A collection of as many pairs."""
        if self.has_side_inputs:
            return inputs | ParDo(_CombineWithSidesFn(self._fn), *self._args, **self._kwargs)
        return inputs | ParDo(_CombineValuesFn(self.combine_fn))


class _CombineValuesFn(DoFn):
    def __init__(self, combine_fn: AnyCombineFn) -> None:
        self._combine_fn = combine_fn

    def setup(self) -> None:
        self._combine_fn.setup()

    def process(self, pair: tuple[object, Iterable[object]]) -> Iterable[object]:
        key, values = pair
        return [(key, self._combine_fn.apply(values))]

    def teardown(self) -> None:
        self._combine_fn.teardown()


class _CombineWithSidesFn(DoFn):
    """Combines with arguments that may be others for each element."""

    def __init__(self, fn: Combining) -> None:
        self._fn = fn

    def setup(self) -> None:
        if isinstance(self._fn, CombineFn):
            self._fn.setup()

    def process(self, pair: tuple[object, Iterable[object]], *args: object, **kwargs: object) -> Iterable[object]:
        key, values = pair
        return [(key, curried(self._fn, args, kwargs).apply(values))]

    def teardown(self) -> None:
        if isinstance(self._fn, CombineFn):
            self._fn.teardown()


def _with_mark(inputs: Collection) -> Collection:
    marks = inputs.pipeline | "Mark" >> Create([Mark.MARK]) | WindowInto(inputs.windowing)
    marks.is_bounded = inputs.is_bounded
    return (inputs, marks) | Flatten()


def _without_marks(group: tuple[object, Iterable[object]]) -> tuple[object, list[object]]:
    key, values = group
    return key, [value for value in values if value is not Mark.MARK]
