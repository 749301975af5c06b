"""What: the common aggregations, globally or per key (`apache_beam.transforms.combiners`), and distinct elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Self, TypeAlias, cast

from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.sdk.combinefns.collecting import (
    AtMostCombineFn,
    EarliestCombineFn,
    LatestCombineFn,
    SampleCombineFn,
    ToDictCombineFn,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
)
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, Combining, SomeCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn, MeanCombineFn
from headrace.sdk.expressions.batch_view import BatchView, PairFunction, WithNothing
from headrace.sdk.expressions.element_schema import pair
from headrace.sdk.expressions.expression import event_time
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform, ptransform_fn
from headrace.sdk.graph.pvalue import Collection, PCollection
from headrace.sdk.transforms.aggregation.combine import CombineGlobally, CombinePerKey
from headrace.sdk.transforms.core.par_do import FlatMap, Map, MapTuple
from headrace.sdk.transforms.util.pairs import Keys

SortKey: TypeAlias = Callable[[object], object]


class _Globally(CombineGlobally):
    """Base of the transforms of this module that combine all elements.

    Args:
        combine_fn: The combiner.
        has_defaults: Whether an empty collection gives the combined value of no values.
        name: The default label, with a number if transforms with different numbers are to have different labels; else
            the qualified name of the transform.
    """

    def __init__(self, combine_fn: Combining, has_defaults: bool = True, name: str | None = None) -> None:
        super().__init__(combine_fn)
        self.has_defaults, self._name = has_defaults, name

    def default_label(self) -> str:
        """See the class."""
        return self._name or type(self).__qualname__


class _PerKey(CombinePerKey):
    """Base of the transforms of this module that combine the values of each key; `name` as for `_Globally`."""

    def __init__(self, combine_fn: Combining, name: str | None = None) -> None:
        super().__init__(combine_fn)
        self._name = name

    def default_label(self) -> str:
        """See `_Globally`."""
        return self._name or type(self).__qualname__


class Mean:
    """Transforms that give the arithmetic mean (`apache_beam.combiners.Mean`).

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([1, 2, 6]) | beam.combiners.Mean.Globally() | beam.Map(print)
    3.0
    """

    class Globally(_Globally):
        """The mean of all elements."""

        def __init__(self, has_defaults: bool = True) -> None:
            super().__init__(MeanCombineFn(), has_defaults)

    class PerKey(_PerKey):
        """The mean of the values of each key."""

        def __init__(self) -> None:
            super().__init__(MeanCombineFn())


class Count:
    """Transforms that count (`apache_beam.combiners.Count`).

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["a", "b", "a"]) | beam.combiners.Count.PerElement() | beam.MapTuple(print)
    a 2
    b 1
    """

    class Globally(_Globally):
        """The number of all elements."""

        def __init__(self, has_defaults: bool = True) -> None:
            super().__init__(CountCombineFn(), has_defaults)

    class PerKey(_PerKey):
        """The number of values of each key."""

        def __init__(self) -> None:
            super().__init__(CountCombineFn())

    class PerElement(PTransform[Collection, Collection]):
        """Pairs (element, count) for each distinct element."""

        def default_label(self) -> str:
            """The qualified name of the transform."""
            return "Count.PerElement"

        def expand(self, inputs: Collection) -> Collection:
            """A collection of pairs (element, count), which are counted with the element as the key."""
            return inputs | "Key" >> Map(WithNothing()) | "Count" >> Count.PerKey()


class Top:
    """Transforms that give the greatest or least elements (`apache_beam.combiners.Top`).

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     scores = pipeline | beam.Create([("red", 5), ("red", 9), ("red", 7)])
    ...     _ = scores | Top.LargestPerKey(2) | beam.Map(print)
    ('red', [9, 7])
    """

    class Of(_Globally):
        """The `n` greatest elements as a list, the greatest first; with `reverse` the `n` least, the least first.

        Args:
            n: Number of elements.
            key: Function from an element to the sort key that is compared instead of the element.
            reverse: Whether the least elements are wanted.

        >>> Top.Of(3).label, Top.Largest(3).label
        ('Top(3)', 'Largest(3)')
        """

        def __init__(self, n: int, key: SortKey | None = None, reverse: bool = False) -> None:
            super().__init__(TopCombineFn(n, key, reverse), name=f"Top({n})")

    class PerKey(_PerKey):
        """The `n` greatest values of each key as a list; the arguments are those of `Top.Of`."""

        def __init__(self, n: int, key: SortKey | None = None, reverse: bool = False) -> None:
            super().__init__(TopCombineFn(n, key, reverse), f"TopPerKey({n})")

    @staticmethod
    def Largest(n: int, has_defaults: bool = True, key: SortKey | None = None) -> CombineGlobally:
        """The `n` greatest elements as a list, the greatest first."""
        top = Top.Of(n, key).with_defaults(has_defaults)
        top.label = f"Largest({n})"
        return top

    @staticmethod
    def Smallest(n: int, has_defaults: bool = True, key: SortKey | None = None) -> CombineGlobally:
        """The `n` least elements as a list, the least first.

        >>> import headrace as beam
        >>> with beam.Pipeline("LocalRunner") as pipeline:
        ...     _ = pipeline | beam.Create([3, 1, 2]) | beam.combiners.Top.Smallest(2) | beam.Map(print)
        [1, 2]
        """
        top = Top.Of(n, key, reverse=True).with_defaults(has_defaults)
        top.label = f"Smallest({n})"
        return top

    @staticmethod
    def LargestPerKey(n: int, key: SortKey | None = None) -> CombinePerKey:
        """The `n` greatest values of each key as a list, the greatest first."""
        top = Top.PerKey(n, key)
        top.label = f"LargestPerKey({n})"
        return top

    @staticmethod
    def SmallestPerKey(n: int, *, key: SortKey | None = None) -> CombinePerKey:
        """The `n` least values of each key as a list, the least first."""
        top = Top.PerKey(n, key, reverse=True)
        top.label = f"SmallestPerKey({n})"
        return top


class Sample:
    """Transforms that sample elements (`apache_beam.combiners.Sample`).

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     sample = pipeline | beam.Create(["a", "b", "a"]) | beam.combiners.Sample.FixedSizeGlobally(2)
    ...     _ = sample | beam.Map(len) | beam.Map(print)
    2
    """

    class FixedSizeGlobally(_Globally):
        """At most `n` elements, chosen at random, as a list."""

        def __init__(self, n: int) -> None:
            super().__init__(SampleCombineFn(n), name=f"FixedSizeGlobally({n})")

    class FixedSizePerKey(_PerKey):
        """At most `n` values of each key, chosen at random, as a list."""

        def __init__(self, n: int) -> None:
            super().__init__(SampleCombineFn(n), f"FixedSizePerKey({n})")

    class Any(PTransform[Collection, Collection]):
        """At most `n` arbitrary elements; each is an element of the output."""

        def __init__(self, n: int) -> None:
            super().__init__()
            self._combine_fn: Combining = AtMostCombineFn[object](n)
            self._n = n

        def default_label(self) -> str:
            """The name with the number `n`, so that transforms with different numbers have different labels."""
            return f"Any({self._n})"

        def expand(self, inputs: Collection) -> Collection:
            """A collection of at most `n` elements per window and pane."""
            return inputs | "Keep" >> CombineGlobally(self._combine_fn).without_defaults() | "Each" >> FlatMap()


class ToList(_Globally):
    """All elements in a list, in no particular order.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([1, 2]) | beam.combiners.ToList() | beam.Map(sorted) | beam.Map(print)
    [1, 2]
    """

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToListCombineFn(), has_defaults)


class ToDict(_Globally):
    """All pairs (key, value) in a dict; one of the values of a key is kept.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     found = pipeline | beam.Create([("tea", 3), ("jam", 2)]) | beam.combiners.ToDict()
    ...     _ = found | beam.Map(lambda found: found["tea"]) | beam.Map(print)
    3
    """

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToDictCombineFn(), has_defaults)


class ToSet(_Globally):
    """All elements in a set.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([1, 2, 1]) | beam.combiners.ToSet() | beam.Map(print)
    {1, 2}
    """

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToSetCombineFn(), has_defaults)


class _TimedGlobally(PTransform[Collection, Collection]):
    """Base of the transforms that choose one of all elements by its timestamp; `combine_fn` says which."""

    combine_fn: ClassVar[type[SomeCombineFn]]

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__()
        self._has_defaults = has_defaults

    def with_defaults(self, has_defaults: bool = True) -> Self:
        """The same transform, with or without a result (None) for no elements."""
        return type(self)(has_defaults)

    def without_defaults(self) -> Self:
        """The same transform, without a result for no elements."""
        return self.with_defaults(False)

    def default_label(self) -> str:
        """The qualified name of the transform."""
        return type(self).__qualname__

    def expand(self, inputs: Collection) -> Collection:
        """A collection with one element per window and pane."""
        chosen = _Globally(self.combine_fn(), self._has_defaults)
        return inputs | "Time" >> Map(_with_time) | _inner_label(self) >> chosen


class _TimedPerKey(PTransform[Collection, Collection]):
    """Base of the transforms that choose one of the values of each key by its timestamp; `combine_fn` says which."""

    combine_fn: ClassVar[type[SomeCombineFn]]

    def default_label(self) -> str:
        """The qualified name of the transform."""
        return type(self).__qualname__

    def expand(self, inputs: Collection) -> Collection:
        """A collection with one pair (key, value) per key, window and pane."""
        return inputs | "Time" >> MapTuple(_ValueWithTime()) | _inner_label(self) >> _PerKey(self.combine_fn())


def _inner_label(transform: _TimedGlobally | _TimedPerKey) -> str:
    return transform.default_label().partition(".")[0]


class Latest:
    """Transforms that give the element with the latest timestamp (`apache_beam.combiners.Latest`).

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     prices = pipeline | beam.Create([(7, 20), (5, 10)]) | beam.MapTuple(beam.window.TimestampedValue)
    ...     _ = prices | beam.combiners.Latest.Globally() | beam.Map(print)
    7
    """

    class Globally(_TimedGlobally):
        """The latest of all elements."""

        combine_fn = LatestCombineFn

    class PerKey(_TimedPerKey):
        """The latest of the values of each key."""

        combine_fn = LatestCombineFn


class Earliest:
    """Transforms that give the element with the earliest timestamp, as `Latest` gives the latest.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     prices = pipeline | beam.Create([(7, 20), (5, 10)]) | beam.MapTuple(beam.window.TimestampedValue)
    ...     _ = prices | beam.combiners.Earliest.Globally() | beam.Map(print)
    5
    """

    class Globally(_TimedGlobally):
        """The earliest of all elements."""

        combine_fn = EarliestCombineFn

    class PerKey(_TimedPerKey):
        """The earliest of the values of each key."""

        combine_fn = EarliestCombineFn


def _with_time(element: object, timestamp: object = DoFn.TimestampParam) -> tuple[object, object]:
    return element, timestamp


class _ValueWithTime(PairFunction):
    """Makes pairs (key, (value, timestamp)) of pairs (key, value)."""

    takes_items = True
    """Marker for `MapTuple`: the key and the value are two arguments."""

    def __call__(
        self, key: object, value: object, timestamp: object = DoFn.TimestampParam
    ) -> tuple[object, tuple[object, object]]:
        return key, (value, timestamp)

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        key, value = view.pair()
        return pair(key, pair(value, view.shape_of(event_time())))


@ptransform_fn
def Distinct(inputs: PCollection[object]) -> PCollection[object]:
    """Emits each distinct element of a window once per pane.

    The elements become keys, so they must be of a type that can be a key.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["a", "b", "a"]) | beam.Distinct() | beam.Map(print)
    a
    b
    """
    pairs = inputs | "ToPairs" >> Map(lambda element: (element, None))
    # The count is not used: counting is fast, as counts are added up as columns.
    combine_fn = cast(AnyCombineFn, CountCombineFn())
    return pairs | "Group" >> CombinePerKey(combine_fn) | "Distinct" >> Keys()


@ptransform_fn
def RemoveDuplicates(inputs: PCollection[object]) -> PCollection[object]:
    """`Distinct`, under its older name in Beam.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["red", "red"]) | RemoveDuplicates() | beam.Map(print)
    red
    """
    return inputs | "RemoveDuplicates" >> Distinct()
