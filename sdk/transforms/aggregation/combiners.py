"""What: the usual aggregations, of all elements or per key (`apache_beam.transforms.combiners`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.collecting import (
    AtMostCombineFn,
    LatestCombineFn,
    SampleCombineFn,
    ToDictCombineFn,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
)
from headrace.sdk.transforms.combine import CombineGlobally, CombinePerKey
from headrace.sdk.transforms.combinefn import Combining
from headrace.sdk.transforms.element import DoFn, FlatMap, Map
from headrace.sdk.transforms.numeric import CountCombineFn, MeanCombineFn
from headrace.sdk.transforms.pairs import WithNothing

Collection: TypeAlias = PCollection[object]
SortKey: TypeAlias = Callable[[object], object]


class _Globally(CombineGlobally):
    """A known combiner on all elements.

    Args:
        combine_fn: The combiner.
        has_defaults: Whether no values give the combined value of nothing.
    """

    def __init__(self, combine_fn: Combining, has_defaults: bool = True) -> None:
        super().__init__(combine_fn)
        self.has_defaults = has_defaults

    def default_label(self) -> str:
        """Its name."""
        return type(self).__qualname__


class _PerKey(CombinePerKey):
    """A known combiner on the values of each key."""

    def __init__(self, combine_fn: Combining) -> None:
        super().__init__(combine_fn)

    def default_label(self) -> str:
        """Its name."""
        return type(self).__qualname__


class Mean:
    """The arithmetic mean."""

    class Globally(_Globally):
        """Of all elements."""

        def __init__(self, has_defaults: bool = True) -> None:
            super().__init__(MeanCombineFn(), has_defaults)

    class PerKey(_PerKey):
        """Of the values of each key."""

        def __init__(self) -> None:
            super().__init__(MeanCombineFn())


class Count:
    """How many there are."""

    class Globally(_Globally):
        """Elements."""

        def __init__(self, has_defaults: bool = True) -> None:
            super().__init__(CountCombineFn(), has_defaults)

    class PerKey(_PerKey):
        """Values of each key."""

        def __init__(self) -> None:
            super().__init__(CountCombineFn())

    class PerElement(PTransform[Collection, Collection]):
        """Of each different element: pairs (element, how many)."""

        def default_label(self) -> str:
            """Its name."""
            return "Count.PerElement"

        def expand(self, inputs: Collection) -> Collection:
            """Count under the element as the key."""
            return inputs | "Key" >> Map(WithNothing()) | "Count" >> Count.PerKey()


class Top:
    """The greatest, or the least."""

    class Of(_Globally):
        """The `n` greatest elements as a list, the greatest first; with `reverse` the least.

        Args:
            n: How many.
            key: From an element to what is compared instead of it.
            reverse: Whether the least are wanted.

        >>> Top.Of(3).label, Top.Largest(3).label
        ('Top(3)', 'Largest(3)')
        """

        def __init__(self, n: int, key: SortKey | None = None, reverse: bool = False) -> None:
            super().__init__(TopCombineFn(n, key, reverse))
            self._n = n

        def default_label(self) -> str:
            """With the number, so that several can stand side by side."""
            return f"Top({self._n})"

    class PerKey(_PerKey):
        """The `n` greatest values of each key as a list; arguments as those of `Top.Of`."""

        def __init__(self, n: int, key: SortKey | None = None, reverse: bool = False) -> None:
            super().__init__(TopCombineFn(n, key, reverse))
            self._n = n

        def default_label(self) -> str:
            """With the number, so that several can stand side by side."""
            return f"TopPerKey({self._n})"

    @staticmethod
    def Largest(n: int, has_defaults: bool = True, key: SortKey | None = None) -> CombineGlobally:
        """The `n` greatest elements."""
        top = Top.Of(n, key).with_defaults(has_defaults)
        top.label = f"Largest({n})"
        return top

    @staticmethod
    def Smallest(n: int, has_defaults: bool = True, key: SortKey | None = None) -> CombineGlobally:
        """The `n` least elements."""
        top = Top.Of(n, key, reverse=True).with_defaults(has_defaults)
        top.label = f"Smallest({n})"
        return top

    @staticmethod
    def LargestPerKey(n: int, key: SortKey | None = None) -> CombinePerKey:
        """The `n` greatest values of each key."""
        top = Top.PerKey(n, key)
        top.label = f"LargestPerKey({n})"
        return top

    @staticmethod
    def SmallestPerKey(n: int, *, key: SortKey | None = None) -> CombinePerKey:
        """The `n` least values of each key."""
        top = Top.PerKey(n, key, reverse=True)
        top.label = f"SmallestPerKey({n})"
        return top


class Sample:
    """Some, by chance."""

    class FixedSizeGlobally(_Globally):
        """`n` elements as a list."""

        def __init__(self, n: int) -> None:
            super().__init__(SampleCombineFn(n))
            self._n = n

        def default_label(self) -> str:
            """With the number, so that several can stand side by side."""
            return f"FixedSizeGlobally({self._n})"

    class FixedSizePerKey(_PerKey):
        """`n` values of each key as a list."""

        def __init__(self, n: int) -> None:
            super().__init__(SampleCombineFn(n))
            self._n = n

        def default_label(self) -> str:
            """With the number, so that several can stand side by side."""
            return f"FixedSizePerKey({self._n})"

    class Any(PTransform[Collection, Collection]):
        """At most `n` elements, whichever are at hand; each is an element of the output."""

        def __init__(self, n: int) -> None:
            super().__init__()
            self._combine_fn: Combining = AtMostCombineFn[object](n)
            self._n = n

        def default_label(self) -> str:
            """With the number, so that several can stand side by side."""
            return f"Any({self._n})"

        def expand(self, inputs: Collection) -> Collection:
            """Keep some in a list and put out its items."""
            return inputs | "Keep" >> CombineGlobally(self._combine_fn).without_defaults() | "Each" >> FlatMap()


class ToList(_Globally):
    """All elements in a list, in no particular order."""

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToListCombineFn(), has_defaults)


class ToDict(_Globally):
    """All pairs in a dict."""

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToDictCombineFn(), has_defaults)


class ToSet(_Globally):
    """All elements in a set."""

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToSetCombineFn(), has_defaults)


class Latest:
    """The one with the latest timestamp."""

    class Globally(PTransform[Collection, Collection]):
        """Of all elements."""

        def __init__(self, has_defaults: bool = True) -> None:
            super().__init__()
            self._has_defaults = has_defaults

        def with_defaults(self, has_defaults: bool = True) -> Latest.Globally:
            """The same, with or without a result (None) of no elements."""
            return Latest.Globally(has_defaults)

        def without_defaults(self) -> Latest.Globally:
            """The same, but no elements give no result."""
            return self.with_defaults(False)

        def default_label(self) -> str:
            """Its name."""
            return "Latest.Globally"

        def expand(self, inputs: Collection) -> Collection:
            """Combine elements with their timestamps."""
            return inputs | "Time" >> Map(_with_time) | "Latest" >> _Globally(LatestCombineFn(), self._has_defaults)

    class PerKey(PTransform[Collection, Collection]):
        """Of the values of each key."""

        def default_label(self) -> str:
            """Its name."""
            return "Latest.PerKey"

        def expand(self, inputs: Collection) -> Collection:
            """Combine values with their timestamps."""
            return inputs | "Time" >> Map(_value_with_time) | "Latest" >> _PerKey(LatestCombineFn())


def _with_time(element: object, timestamp: object = DoFn.TimestampParam) -> tuple[object, object]:
    return element, timestamp


def _value_with_time(
    pair: tuple[object, object], timestamp: object = DoFn.TimestampParam
) -> tuple[object, tuple[object, object]]:
    key, value = pair
    return key, (value, timestamp)
