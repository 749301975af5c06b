"""Where and when an element is, as values (`apache_beam.transforms.util.Reify`)."""

from __future__ import annotations

from headrace.lowlevel.time import Timestamp
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.element import DoFn, Map
from headrace.sdk.windows import IntervalWindow, TimestampedValue

Collection = PCollection[object]
_Seen = tuple[object, Timestamp, IntervalWindow]


class Reify:
    """Transforms that put timestamp and window of elements into their values."""

    class Timestamp(PTransform[Collection, Collection]):
        """Elements as they are, each at its timestamp again."""

        def expand(self, inputs: Collection) -> Collection:
            """As many elements."""
            return inputs | Map(_stamped)

    class Window(PTransform[Collection, Collection]):
        """Triples (element, timestamp, window), each in the windows that its timestamp gives it."""

        def expand(self, inputs: Collection) -> Collection:
            """A triple for each window that an element is in."""
            return inputs | Map(_placed)

    class TimestampInValue(PTransform[Collection, Collection]):
        """Pairs whose value has become a `TimestampedValue`."""

        def expand(self, inputs: Collection) -> Collection:
            """As many pairs."""
            return inputs | Map(_value_stamped)

    class WindowInValue(PTransform[Collection, Collection]):
        """Pairs whose value has become a triple (value, timestamp, window), in the windows of the timestamp."""

        def expand(self, inputs: Collection) -> Collection:
            """A pair for each window that one is in."""
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
