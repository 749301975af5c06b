"""What: elements as text, and timestamps and windows as parts of values (Beam's `ToString` and `Reify`)."""

from __future__ import annotations

from headrace.lowlevel.time import Timestamp
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.model.special_outputs import TimestampedValue
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.windows import IntervalWindow

Transform = PTransform[Collection, Collection]
_Seen = tuple[object, Timestamp, IntervalWindow]


class ToString:
    """Transforms that turn elements into text.

    >>> ToString.Element().label, ToString.Iterables().label
    ('ElementToString', 'IterablesToString')
    """

    @staticmethod
    def Element() -> Transform:
        """Turns each element into its `str`."""
        return "ElementToString" >> Map(str)

    @staticmethod
    def Iterables(delimiter: str | None = None) -> Transform:
        """Joins the items of each element by a delimiter, which is a comma by default."""
        between = "," if delimiter is None else delimiter
        return "IterablesToString" >> Map(lambda items: between.join(map(str, items)))

    @staticmethod
    def Kvs(delimiter: str | None = None) -> Transform:
        """Joins the key and the value of each pair by a delimiter, as `Iterables` does."""
        return ToString.Iterables(delimiter)


class Reify:
    """Transforms that put timestamp and window of elements into their values.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     stamped = pipeline | beam.Create([beam.window.TimestampedValue(("tea", 3), 10)])
    ...     placed = stamped | beam.Map(lambda pair: pair)
    ...     _ = placed | beam.Reify.TimestampInValue() | beam.MapTuple(lambda key, value: print(key, value.timestamp))
    tea Timestamp(10)
    """

    class Timestamp(PTransform[Collection, Collection]):
        """Emits each element again at its timestamp, unchanged."""

        def expand(self, inputs: Collection) -> Collection:
            """A collection of the same elements."""
            return inputs | Map(_stamped)

    class Window(PTransform[Collection, Collection]):
        """Turns elements into triples (element, timestamp, window), in the windows that the timestamp gives."""

        def expand(self, inputs: Collection) -> Collection:
            """A collection with one triple for each window of each element."""
            return inputs | Map(_placed)

    class TimestampInValue(PTransform[Collection, Collection]):
        """Turns pairs (key, value) into pairs (key, `TimestampedValue`)."""

        def expand(self, inputs: Collection) -> Collection:
            """A collection with one pair for each pair."""
            return inputs | Map(_value_stamped)

    class WindowInValue(PTransform[Collection, Collection]):
        """Turns pairs (key, value) into (key, (value, timestamp, window)), in the windows that the timestamp gives."""

        def expand(self, inputs: Collection) -> Collection:
            """A collection with one pair for each window of each pair."""
            return inputs | Map(_value_placed)


def _stamped(element: object, timestamp: Timestamp = DoFn.TimestampParam) -> TimestampedValue[object]:
    return TimestampedValue(element, timestamp)


def _placed(
    element: object, timestamp: Timestamp = DoFn.TimestampParam, window: IntervalWindow = DoFn.WindowParam
) -> TimestampedValue[_Seen]:
    return TimestampedValue((element, timestamp, window), timestamp)


def _value_stamped(pair: tuple[object, object], timestamp: Timestamp = DoFn.TimestampParam) -> tuple[object, object]:
    key, value = pair
    return key, TimestampedValue(value, timestamp)


def _value_placed(
    pair: tuple[object, object],
    timestamp: Timestamp = DoFn.TimestampParam,
    window: IntervalWindow = DoFn.WindowParam,
) -> TimestampedValue[tuple[object, _Seen]]:
    key, value = pair
    return TimestampedValue((key, (value, timestamp, window)), timestamp)
