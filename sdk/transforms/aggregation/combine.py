"""What: many values combined into one, per key or globally (`CombinePerKey`, `CombineGlobally`, `CombineValues`)."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, Self

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.errors import TopologyError
from headrace.sdk.combinefns.combine_fn import (
    AnyCombineFn,
    CombineFn,
    Combining,
    Fanout,
    curried,
)
from headrace.sdk.combinefns.composite import GlobalWindowMark, SkippingMarks
from headrace.sdk.expressions.batch_view import Second, UnderNone
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.graph.side_inputs import AsSingleton
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.transforms.core.flatten import Flatten
from headrace.sdk.transforms.core.group_by_key import Combine, CombineByKey, GroupByKey
from headrace.sdk.transforms.core.par_do import Map, ParDo
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.triggers import DefaultTrigger
from headrace.sdk.typehints.hints import K, item, iterable_of, pair, tuple_of
from headrace.sdk.windows import GlobalWindows


class CombinePerKey(CombineByKey):
    """Combines the values of each key: pairs (key, value) become pairs (key, combined value), per window and pane.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | beam.CombinePerKey(sum) | beam.MapTuple(print)
    a 4
    b 2
    """

    def with_hot_key_fanout(self, fanout: Fanout | None) -> CombinePerKey:
        """The same transform in two phases, which combines shards of each key in parallel, and then the shards.

        Results and panes stay the same. Fan-out pays if a key has more elements than one process can combine and the
        elements are not combined in each task anyway before they are sent. They are not if windows merge, or if the
        timestamps of panes depend on those of elements. Retractions, and elements that a trigger inspects, are not
        sharded.

        Args:
            fanout: Number of shards of a key, or a function from a key to this number; None, 0 or 1 for no shards.

        Raises:
            TypeError: `fanout` is neither a number nor a function.
            ValueError: `fanout` is negative.

        >>> CombinePerKey(sum).with_hot_key_fanout(8).label
        'CombinePerKey(sum, fanout=8)'
        """
        return self._spread(fanout)

    def expand(self, inputs: Collection) -> Collection:
        """A collection of pairs (key, combined value) in the same windows."""
        if not self.has_side_inputs:
            return super().expand(inputs)
        group = GroupByKey().with_watermark_percentile(self.watermark_percentile)
        group.key_encoding = self.key_encoding
        return inputs | group | CombineValues(self._fn, *self._args, **self._kwargs)


class CombineGlobally(Combine):
    """Combines all values of a window into one value.

    With the default trigger in the global window, an empty collection gives the combined value of no values. In other
    windows the empty windows are not known, so `without_defaults()` is required there: `TopologyError` is raised
    otherwise.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([3, 1, 2]) | beam.CombineGlobally(max) | beam.Map(print)
    3
    """

    has_defaults = True

    def as_singleton_view(self) -> CombinedView:
        """The result as a side input: an `AsSingleton` whose default is the combined value of no values."""
        return CombinedView(self)

    def with_defaults(self, has_defaults: bool = True) -> Self:
        """The same transform, with or without a result for no values."""
        clone = copy(self)
        clone.has_defaults = has_defaults
        return clone

    def without_defaults(self) -> Self:
        """The same transform, without a result for no values."""
        return self.with_defaults(False)

    def with_fanout(self, fanout: int | None) -> Self:
        """The same transform in two phases; see `CombinePerKey.with_hot_key_fanout`."""
        return self._spread(fanout)

    def input_type(self) -> object:
        """See `PTransform`."""
        return self.input_hints[0][0] if self.input_hints[0] else self._types(Any)[0]

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        return self._types(input_type)[1]

    def expand(self, inputs: Collection) -> Collection:
        """A collection with one value per window and pane."""
        combine_fn = self.combine_fn
        if self.has_defaults:
            if not isinstance(inputs.windowing.window_fn, GlobalWindows):
                raise TopologyError(
                    f"step {inputs.pipeline.current_label!r} would put out a default for every empty window, but "
                    f"{inputs.windowing.window_fn} have no last one; add .without_defaults() to the transform"
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
    """A `CombineGlobally` whose result is a side input."""

    def __init__(self, combine: CombineGlobally) -> None:
        super().__init__()
        self._combine = combine

    def default_label(self) -> str:
        """The label of the `CombineGlobally`."""
        return self._combine.label

    def expand(self, inputs: Collection) -> AsSingleton:
        """The result as a side input."""
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


class CombineValues(Combine):
    """Combines grouped values: pairs (key, iterable of values) become pairs (key, combined value).

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("tea", [3, 4])]) | beam.CombineValues(sum) | beam.Map(print)
    ('tea', 7)
    """

    def input_type(self) -> object:
        """See `PTransform`."""
        value_type = self._types(Any)[0]
        return self.input_hints[0][0] if self.input_hints[0] else tuple_of([K, iterable_of(value_type)])

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        key, values = pair(input_type) or (Any, Any)
        return tuple_of([key, self._types(item(values) or Any)[1]])

    def expand(self, inputs: Collection) -> Collection:
        """A collection with one pair (key, combined value) for each input pair."""
        if self.has_side_inputs:
            return inputs | ParDo(_CombineValuesFn(self._fn), *self._args, **self._kwargs)
        return inputs | ParDo(_CombineValuesFn(self.combine_fn))


class _CombineValuesFn(DoFn):
    """Combines grouped values, maybe with further arguments, which may differ between elements."""

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
    marks = inputs.pipeline | "GlobalWindowMark" >> Create([GlobalWindowMark.MARK]) | WindowInto(inputs.windowing)
    marks.is_bounded = inputs.is_bounded
    return (inputs, marks) | Flatten()


def _without_marks(group: tuple[object, Iterable[object]]) -> tuple[object, list[object]]:
    key, values = group
    return key, [value for value in values if value is not GlobalWindowMark.MARK]
