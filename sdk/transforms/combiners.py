"""What: the usual aggregations, of all elements or per key (`apache_beam.transforms.combiners`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.collecting import (
    LatestCombineFn,
    SampleCombineFn,
    ToDictCombineFn,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
)
from headrace.sdk.transforms.combine import CombineGlobally, CombinePerKey
from headrace.sdk.transforms.combinefn import Combining
from headrace.sdk.transforms.element import DoFn, Map
from headrace.sdk.transforms.numeric import CountCombineFn, MeanCombineFn

Collection: TypeAlias = PCollection[object]
SortKey: TypeAlias = Callable[[object], object]


class _Globally(CombineGlobally):
    """A known combiner on all elements."""

    def __init__(self, combine_fn: Combining) -> None:
        super().__init__(combine_fn)

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

        def __init__(self) -> None:
            super().__init__(MeanCombineFn())

    class PerKey(_PerKey):
        """Of the values of each key."""

        def __init__(self) -> None:
            super().__init__(MeanCombineFn())


class Count:
    """How many there are."""

    class Globally(_Globally):
        """Elements."""

        def __init__(self) -> None:
            super().__init__(CountCombineFn())

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
            return inputs | "Key" >> Map(_with_nothing) | "Count" >> Count.PerKey()


class Top:
    """The greatest, or the least."""

    class Of(_Globally):
        """The `n` greatest elements as a list, the greatest first; with `reverse` the least.

        Args:
            n: How many.
            key: From an element to what is compared instead of it.
            reverse: Whether the least are wanted.
        """

        def __init__(self, n: int, key: SortKey | None = None, reverse: bool = False) -> None:
            super().__init__(TopCombineFn(n, key, reverse))

    class PerKey(_PerKey):
        """The `n` greatest values of each key as a list; arguments as those of `Top.Of`."""

        def __init__(self, n: int, key: SortKey | None = None, reverse: bool = False) -> None:
            super().__init__(TopCombineFn(n, key, reverse))

    @staticmethod
    def Largest(n: int, has_defaults: bool = True, key: SortKey | None = None) -> CombineGlobally:
        """The `n` greatest elements."""
        return Top.Of(n, key) if has_defaults else Top.Of(n, key).without_defaults()

    @staticmethod
    def Smallest(n: int, has_defaults: bool = True, key: SortKey | None = None) -> CombineGlobally:
        """The `n` least elements."""
        top = Top.Of(n, key, reverse=True)
        return top if has_defaults else top.without_defaults()

    @staticmethod
    def LargestPerKey(n: int, key: SortKey | None = None) -> CombinePerKey:
        """The `n` greatest values of each key."""
        return Top.PerKey(n, key)

    @staticmethod
    def SmallestPerKey(n: int, *, key: SortKey | None = None) -> CombinePerKey:
        """The `n` least values of each key."""
        return Top.PerKey(n, key, reverse=True)


class Sample:
    """Some, by chance."""

    class FixedSizeGlobally(_Globally):
        """`n` elements as a list."""

        def __init__(self, n: int) -> None:
            super().__init__(SampleCombineFn(n))

    class FixedSizePerKey(_PerKey):
        """`n` values of each key as a list."""

        def __init__(self, n: int) -> None:
            super().__init__(SampleCombineFn(n))


class ToList(_Globally):
    """All elements in a list, in no particular order."""

    def __init__(self) -> None:
        super().__init__(ToListCombineFn())


class ToDict(_Globally):
    """All pairs in a dict."""

    def __init__(self) -> None:
        super().__init__(ToDictCombineFn())


class ToSet(_Globally):
    """All elements in a set."""

    def __init__(self) -> None:
        super().__init__(ToSetCombineFn())


class Latest:
    """The one with the latest timestamp."""

    class Globally(PTransform[Collection, Collection]):
        """Of all elements."""

        def expand(self, inputs: Collection) -> Collection:
            """Combine elements with their timestamps."""
            return inputs | "Time" >> Map(_with_time) | "Latest" >> _Globally(LatestCombineFn())

    class PerKey(PTransform[Collection, Collection]):
        """Of the values of each key."""

        def expand(self, inputs: Collection) -> Collection:
            """Combine values with their timestamps."""
            return inputs | "Time" >> Map(_value_with_time) | "Latest" >> _PerKey(LatestCombineFn())


def _with_nothing(element: object) -> tuple[object, None]:
    return element, None


def _with_time(element: object, timestamp: object = DoFn.TimestampParam) -> tuple[object, object]:
    return element, timestamp


def _value_with_time(
    pair: tuple[object, object], timestamp: object = DoFn.TimestampParam
) -> tuple[object, tuple[object, object]]:
    key, value = pair
    return key, (value, timestamp)
