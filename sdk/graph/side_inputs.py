"""What: a whole collection as an argument of a function (`apache_beam.pvalue.AsSingleton` and its like)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, cast

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import DoOutputsTuple, PCollection, PValue
from headrace.sdk.triggers import DefaultTrigger
from headrace.sdk.windows import GlobalWindows

Make: TypeAlias = Callable[[list[object]], object]
"""From the values of a side window to the argument."""


class SideInputError(TopologyError, RuntimeError):
    """A collection that cannot be a side input; raised while the pipeline is built."""


class EmptySideInput:
    """What a function gets for an `AsSingleton` without a default where the collection has no value."""

    def __repr__(self) -> str:
        return "EmptySideInput()"


class AsSideInput:
    """A collection that a function gets as an argument. Use one of the subclasses.

    An element is processed with what the collection holds in the side window that belongs to its own window: the one
    that its window's last instant falls into. It waits until something of that side window is known. What the function
    gets is shared by many elements and must not be changed.

    Args:
        pcoll: The collection.

    Raises:
        TypeError: `pcoll` is no collection.
        SideInputError: Its windows merge, so that none of them belongs to an element's window.
    """

    make: Make

    def __init__(self, pcoll: PCollection[object]) -> None:
        name = type(self).__name__
        if not isinstance(pcoll, PCollection):
            raise TypeError(f"{name} takes a collection, got {pcoll!r:.200}; write {name}(pipeline | Create(...)), say")
        if pcoll.windowing.window_fn.is_merging():
            raise SideInputError(
                f"{name}({pcoll!r}): its windows ({pcoll.windowing.window_fn}) merge, so it is not known which of them "
                "belongs to an element of another collection; put it into other windows with WindowInto first"
            )
        self.pvalue = pcoll

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pvalue!r})"


class AsSingleton(AsSideInput):
    """The one value of the collection in a window.

    Args:
        pcoll: The collection.
        default_value: The argument where it has no value; by default an `EmptySideInput`.
    """

    _NO_DEFAULT: ClassVar[object] = EmptySideInput()

    def __init__(self, pcoll: PCollection[object], default_value: object = _NO_DEFAULT) -> None:
        super().__init__(pcoll)
        self.make = Singleton(default_value)


class AsIter(AsSideInput):
    """The values of the collection in a window, as something to iterate over, as often as needed."""

    @staticmethod
    def make(values: list[object]) -> object:
        """What the function gets."""
        return SideValues(values)


class AsList(AsSideInput):
    """The values of the collection in a window, as a list."""

    @staticmethod
    def make(values: list[object]) -> object:
        """What the function gets."""
        return values


class AsDict(AsSideInput):
    """The pairs (key, value) of the collection in a window, as a dict; no key may come twice."""

    @staticmethod
    def make(values: list[object]) -> object:
        """What the function gets."""
        made: dict[object, object] = {}
        for key, value in map(_pair, values):
            if key in made:
                raise ValueError(
                    f"key {key!r:.200} has several values, as {made[key]!r:.200} and {value!r:.200}, where AsDict "
                    "takes one; use AsMultiMap, or combine the values by key"
                )
            made[key] = value
        return made


class AsMultiMap(AsSideInput):
    """The pairs (key, value) of the collection in a window: key -> list of its values, empty for any other key."""

    @staticmethod
    def make(values: list[object]) -> object:
        """What the function gets."""
        made = MultiMap()
        for key, value in map(_pair, values):
            made.setdefault(key, []).append(value)
        return made


@dataclass(frozen=True, slots=True)
class Singleton:
    """Makes the argument of an `AsSingleton`."""

    default: object

    def __call__(self, values: list[object]) -> object:
        """What the function gets."""
        if len(values) > 1:
            raise ValueError(
                f"{len(values)} values, the first of them {values[0]!r:.200} and {values[1]!r:.200}, where AsSingleton "
                "takes one; combine them first, or use AsList"
            )
        return values[0] if values else self.default


class SideValues(Iterable[object]):
    """What a function gets of an `AsIter`."""

    __slots__ = ("_values",)

    def __init__(self, values: list[object]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[object]:
        return iter(self._values)

    def __reduce__(self) -> tuple[object, ...]:
        return list, (self._values,)


class MultiMap(dict[object, list[object]]):
    """What a function gets of an `AsMultiMap`.

    >>> MultiMap(a=[1, 2])["b"]
    []
    """

    def __missing__(self, key: object) -> list[object]:
        return []


def never_ready(side: PCollection[object]) -> bool:
    """Whether nothing may ever be known of a side input: it has no end, and waits for it."""
    windowing = side.windowing
    waits = isinstance(windowing.trigger, DefaultTrigger)
    return waits and not side.is_bounded and isinstance(windowing.window_fn, GlobalWindows)


def _pair(value: object) -> tuple[object, object]:
    try:
        key, item = cast(Iterable[object], value)
    except (TypeError, ValueError):
        raise TypeError(f"{value!r:.200} is no pair (key, value), which a mapping is made of; use AsList") from None
    return key, item


def refuse_bare(owner: str, arguments: Iterable[object]) -> None:
    """Refuse a collection that is given as an argument without saying as what.

    Raises `TypeError` that names `owner` and the remedy.
    """
    for value in arguments:
        if isinstance(value, (PValue, DoOutputsTuple, PTransform)):
            raise TypeError(
                f"{owner} is given the collection {value!r:.200} as an argument, but its elements exist only while the "
                "pipeline runs; say how the function shall get them: AsList(collection), AsSingleton(collection), "
                "AsIter, AsDict or AsMultiMap"
            )
