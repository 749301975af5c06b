"""What: a whole collection as an argument of a function (`apache_beam.pvalue.AsSingleton` and its like)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.functions.arguments import Arguments, Constant, Make, Side, Source
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import DoOutputsTuple, PCollection, PValue
from headrace.sdk.triggers import DefaultTrigger
from headrace.sdk.windows import GlobalWindows


class SideInputError(TopologyError, RuntimeError):
    """A collection cannot be a side input. Raised while the pipeline is built.

    >>> import headrace as beam
    >>> from headrace.transforms.window import Sessions
    >>> pipeline = beam.Pipeline("LocalRunner")
    >>> sessions = pipeline | beam.Create(["a"]) | beam.WindowInto(Sessions(60))
    >>> beam.pvalue.AsList(sessions)
    Traceback (most recent call last):
      ...
    headrace.sdk.graph.side_inputs.SideInputError: ...
    """


class EmptySideInput:
    """The value of an `AsSingleton` without a default where the collection is empty.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rates = pipeline | "Rates" >> beam.Create([])
    ...     words = pipeline | "Words" >> beam.Create(["eur"])
    ...     found = words | beam.Map(lambda word, rates: rates, beam.pvalue.AsSingleton(rates))
    ...     _ = found | beam.Map(print)
    EmptySideInput()
    """

    def __repr__(self) -> str:
        return "EmptySideInput()"


class AsSideInput:
    """A collection that a function gets as an argument. Use one of the subclasses.

    An element in a window gets the contents of one window of the side collection: the one that contains the last
    instant of the element's window. The element waits until something of that side window is known. The argument is
    shared by many elements and must not be changed.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     names = pipeline | "Names" >> beam.Create([("red", "Reds")])
    ...     points = pipeline | "Points" >> beam.Create([("red", 5)])
    ...     named = points | beam.Map(lambda pair, names: (names[pair[0]], pair[1]), beam.pvalue.AsDict(names))
    ...     _ = named | "Print" >> beam.Map(print)
    ('Reds', 5)

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

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rate = pipeline | "Rate" >> beam.Create([3])
    ...     prices = pipeline | "Prices" >> beam.Create([1, 2])
    ...     scaled = prices | beam.Map(lambda price, rate: price * rate, beam.pvalue.AsSingleton(rate))
    ...     _ = scaled | beam.Map(print)
    3
    6
    """

    _NO_DEFAULT: ClassVar[object] = EmptySideInput()

    def __init__(self, pcoll: PCollection[object], default_value: object = _NO_DEFAULT) -> None:
        super().__init__(pcoll)
        self.make = Singleton(default_value)


class AsIter(AsSideInput):
    """The values of the collection in a window, as an iterable that can be iterated over several times.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rates = pipeline | "Rates" >> beam.Create([1, 2])
    ...     words = pipeline | "Words" >> beam.Create(["eur"])
    ...     found = words | beam.Map(lambda word, rates: sum(rates), beam.pvalue.AsIter(rates))
    ...     _ = found | beam.Map(print)
    3
    """

    @staticmethod
    def make(values: list[object]) -> object:
        """The argument of the function."""
        return SideValues(values)


class AsList(AsSideInput):
    """The values of the collection in a window, as a list.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rates = pipeline | "Rates" >> beam.Create([2, 1])
    ...     words = pipeline | "Words" >> beam.Create(["eur"])
    ...     found = words | beam.Map(lambda word, rates: sorted(rates), beam.pvalue.AsList(rates))
    ...     _ = found | beam.Map(print)
    [1, 2]
    """

    @staticmethod
    def make(values: list[object]) -> object:
        """The argument of the function."""
        return values


class AsDict(AsSideInput):
    """The pairs (key, value) of the collection in a window, as a dict; each key has one value.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rates = pipeline | "Rates" >> beam.Create([("eur", 1.1)])
    ...     words = pipeline | "Words" >> beam.Create(["eur"])
    ...     found = words | beam.Map(lambda word, rates: rates[word], beam.pvalue.AsDict(rates))
    ...     _ = found | beam.Map(print)
    1.1
    """

    @staticmethod
    def make(values: list[object]) -> object:
        """The argument of the function."""
        mapping: dict[object, object] = {}
        for key, value in map(_pair, values):
            if key in mapping:
                raise ValueError(
                    f"key {key!r:.200} has several values, as {mapping[key]!r:.200} and {value!r:.200}, where AsDict "
                    "takes one; use AsMultiMap, or combine the values by key"
                )
            mapping[key] = value
        return mapping


class AsMultiMap(AsSideInput):
    """The pairs (key, value) of the collection in a window: key -> list of its values, empty for any other key.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rates = pipeline | "Rates" >> beam.Create([("eur", 1.1)])
    ...     words = pipeline | "Words" >> beam.Create(["eur"])
    ...     found = words | beam.Map(lambda word, rates: (rates[word], rates["usd"]), beam.pvalue.AsMultiMap(rates))
    ...     _ = found | beam.Map(print)
    ([1.1], [])
    """

    @staticmethod
    def make(values: list[object]) -> object:
        """The argument of the function."""
        multimap = MultiMap()
        for key, value in map(_pair, values):
            multimap.setdefault(key, []).append(value)
        return multimap


@dataclass(frozen=True, slots=True)
class Singleton:
    """Makes the argument of an `AsSingleton`."""

    default: object

    def __call__(self, values: list[object]) -> object:
        """The argument of the function."""
        if len(values) > 1:
            raise ValueError(
                f"{len(values)} values, the first of them {values[0]!r:.200} and {values[1]!r:.200}, where AsSingleton "
                "takes one; combine those of all keys and windows into one, or use AsList"
            )
        return values[0] if values else self.default


class SideValues(Iterable[object]):
    """The argument of an `AsIter`."""

    __slots__ = ("_values",)

    def __init__(self, values: list[object]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[object]:
        return iter(self._values)

    def __reduce__(self) -> tuple[object, ...]:
        return list, (self._values,)


class MultiMap(dict[object, list[object]]):
    """The argument of an `AsMultiMap`.

    >>> MultiMap(a=[1, 2])["b"]
    []
    """

    def __missing__(self, key: object) -> list[object]:
        return []


def without_side_inputs(arguments: Arguments) -> tuple[Arguments, list[AsSideInput]]:
    """The arguments with side values in place of side inputs, and the side inputs in order."""
    sides: list[AsSideInput] = []

    def taken_out(source: Source) -> Source:
        if not isinstance(source, Constant) or not isinstance(source.value, AsSideInput):
            return source
        sides.append(source.value)
        return Side(len(sides) - 1)

    positional = tuple(map(taken_out, arguments.positional))
    return Arguments(positional, tuple((name, taken_out(source)) for name, source in arguments.named)), sides


def never_ready(side: PCollection[object]) -> bool:
    """Whether a side input may never be ready: it is unbounded, and its trigger waits for its end."""
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
    """Refuse a collection as an argument without `AsList` or its like.

    Raises `TypeError`, which names `owner` and the remedy.
    """
    for value in arguments:
        if isinstance(value, (PValue, DoOutputsTuple, PTransform)):
            raise TypeError(
                f"{owner} is given the collection {value!r:.200} as an argument, but its elements exist only while the "
                "pipeline runs; say how the function shall get them: AsList(collection), AsSingleton(collection), "
                "AsIter, AsDict or AsMultiMap"
            )
