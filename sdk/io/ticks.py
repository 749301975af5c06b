"""What: elements that are made as time goes by: generated load, and impulses (`apache_beam` `PeriodicImpulse`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from headrace.lowlevel.injector import BaseInjector, Delivery
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND, Timestamp
from headrace.sdk.io.timestamps import check_timestamp, micros_of, timestamps_of
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PBegin, PCollection
from headrace.sdk.shipping import Portable
from headrace.sdk.transforms.source import Read, Source
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.windows import FixedWindows

_BATCH = 10_000
"""Elements that are in memory at once while they are made."""


def _now() -> int:
    """Microseconds UTC."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Beat:
    """When the elements are due: so many a second, from a time on."""

    elements: int
    micros: int
    """In which so many elements are due."""

    def time_of(self, number: int) -> int:
        """Microseconds from the first element to one.

        >>> Beat(3, 1_000_000).time_of(1), Beat(3, 1_000_000).time_of(3)
        (333333, 1000000)
        """
        return number * self.micros // self.elements

    def due_at(self, micros: int) -> int:
        """How many are due so long after the first, itself among them.

        >>> [Beat(3, 1_000_000).due_at(micros) for micros in (-1, 0, 333_332, 333_333, 1_000_000)]
        [0, 1, 1, 2, 4]
        """
        return 0 if micros < 0 else ((micros + 1) * self.elements - 1) // self.micros + 1


class Make(Protocol):
    """Makes elements; shipped to the tasks."""

    def __call__(self, numbers: range, timestamps: Sequence[int]) -> tuple[Sequence[object], Sequence[int]]:
        """Elements and their event times, of their numbers and the times at which they are due."""


@dataclass(frozen=True, slots=True)
class TickSplit:
    """Some elements for one task, which makes them."""

    numbers: range
    first: int
    beat: Beat | None
    make: Make

    def read(self) -> Iterator[Batch]:
        """All of them, each at the time at which it is due; without a beat there is none."""
        for begin in range(0, len(self.numbers), _BATCH):
            part = self.numbers[begin : begin + _BATCH]
            beat = self.beat
            due = [MIN_TIMESTAMP if beat is None else self.first + beat.time_of(number) for number in part]
            yield Batch(*self.make(part, due))

    def count_records(self) -> int:
        """See `SizedSplit`."""
        return len(self.numbers)


class TickInjector(BaseInjector):
    """Elements 0, 1, 2, … as they become due; those of the time in which nothing ran come when it runs again.

    Args:
        make: Makes them.
        beat: When they are due; None for at once.
        first: When the first is due, microseconds UTC; None for when the pipeline first starts.
        count: How many there are; None for no end.
        max_delay: Microseconds that the watermark is behind the greatest timestamp, for elements with own times.
        own_times: Whether they have; otherwise the watermark is the time of the next element.
        now: The time, microseconds UTC.
    """

    def __init__(
        self,
        make: Make,
        beat: Beat | None,
        first: int | None,
        count: int | None,
        max_delay: int | None = None,
        own_times: bool = False,
        now: Callable[[], int] = _now,
    ) -> None:
        self._make, self._beat, self._first, self._count, self._now = make, beat, first, count, now
        self.max_delay, self._own_times = max_delay, own_times

    def start(self) -> object:
        """The first element, and when it is due."""
        return 0, self._now() if self._first is None else self._first

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """What is due."""
        number, first = cast("tuple[int, int]", position)
        end = min(self._due(first), number + limit)
        done = self._count is not None and end >= self._count
        size = max(1, -(-(end - number) // max(1, splits)))
        parts = [range(begin, min(begin + size, end)) for begin in range(number, end, size)]
        work = [TickSplit(part, first, self._beat, self._make) for part in parts]
        return Delivery(work, (end, first), self._watermark(end, first), done=done, idle=not parts and not done)

    def _due(self, first: int) -> int:
        due = self._beat.due_at(self._now() - first) if self._beat is not None else MAX_TIMESTAMP
        return due if self._count is None else min(due, self._count)

    def _watermark(self, number: int, first: int) -> int:
        if self._beat is None or self._own_times:
            return MIN_TIMESTAMP
        return first + self._beat.time_of(number)


@dataclass(frozen=True, slots=True)
class _Numbers:
    start: int
    timestamp: Portable | None

    def __call__(self, numbers: range, timestamps: Sequence[int]) -> tuple[Sequence[object], Sequence[int]]:
        values = range(numbers.start + self.start, numbers.stop + self.start)
        return values, timestamps if self.timestamp is None else timestamps_of(values, self.timestamp)


class GenerateSequence(Source):
    """Numbers, as many a second as one likes: a load to try pipelines with (Beam's Java `GenerateSequence`).

    Args:
        start: The first number.
        stop: The number behind the last; None for no end.
        rate: Numbers a second, in event time as on the clock: number n has the time at which it is due, and the
            watermark that of the next. What could not be taken in time comes as soon as it can. None for all at once.
        timestamp: A function from a number to its event time, a `Timestamp`, seconds or a datetime, instead.
        max_delay: Seconds by which a number with an event time of its own may come later than one with a greater.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     numbers = pipeline | beam.io.GenerateSequence(1, 4, timestamp=lambda number: 60 * number)
    ...     _ = numbers | beam.Map(lambda number, time=beam.DoFn.TimestampParam: print(number, time))
    1 Timestamp(60)
    2 Timestamp(120)
    3 Timestamp(180)
    """

    def __init__(
        self,
        start: int = 0,
        stop: int | None = None,
        rate: float | None = None,
        timestamp: Callable[[object], object] | None = None,
        max_delay: float | None = None,
    ) -> None:
        super().__init__()
        if stop is not None and stop < start:
            raise ValueError(f"stop is {stop}, less than start, which is {start}")
        if rate is not None and not 0.000_001 <= rate <= 1_000_000_000:
            raise ValueError(f"rate is {rate:g} a second; give one from 0.000001 to 1000000000")
        self.is_bounded = stop is not None
        self._max_delay = check_timestamp(timestamp, max_delay)
        if stop is None and timestamp is not None and max_delay is None:
            raise ValueError("numbers without end need to know how late they may be; give max_delay in seconds")
        self._count = None if stop is None else stop - start
        self._beat = None if rate is None else Beat(round(rate * SECOND), SECOND * SECOND)
        self._own_times = timestamp is not None
        self._make = _Numbers(start, Portable(timestamp, "the function timestamp") if timestamp else None)

    def injector(self) -> TickInjector:
        """What counts, on the driver."""
        return TickInjector(self._make, self._beat, None, self._count, self._max_delay, self._own_times)


@dataclass(frozen=True, slots=True)
class _Impulses:
    data: tuple[object, ...] | None

    def __call__(self, numbers: range, timestamps: Sequence[int]) -> tuple[Sequence[object], Sequence[int]]:
        if self.data is None:
            return [micros / SECOND for micros in timestamps], timestamps
        return [self.data[number % len(self.data)] for number in numbers], timestamps


class PeriodicImpulse(PTransform[PBegin, PCollection[object]]):
    """An element again and again, at its time (`apache_beam.transforms.periodicsequence`).

    Each comes when its time is there, which is its event time; the watermark is that of the next. What was due while
    nothing ran comes when it runs again.

    Args:
        start_timestamp: Time of the first, a `Timestamp` or seconds since 1970 UTC; by default when the pipeline first
            starts.
        stop_timestamp: The time before which the last one is; by default there is no end.
        fire_interval: Seconds from one to the next.
        apply_windowing: Whether each is in a window of its own, as long as the interval.
        data: The elements, in turn; by default an element is its time, in seconds since 1970.
    """

    def __init__(
        self,
        start_timestamp: Timestamp | float | None = None,
        stop_timestamp: Timestamp | float | None = None,
        fire_interval: float = 360.0,
        apply_windowing: bool = False,
        data: Sequence[object] | None = None,
    ) -> None:
        super().__init__()
        if fire_interval < 0.000_001:
            raise ValueError(f"fire_interval is {fire_interval:g} s; give 0.000001 or more")
        if data is not None and not data:
            raise ValueError("data has no element; leave it out for times as elements")
        self._beat = Beat(1, round(fire_interval * SECOND))
        self._first = None if start_timestamp is None else micros_of(start_timestamp)
        self._count = None if stop_timestamp is None else self._before(micros_of(stop_timestamp))
        self._interval, self._apart = fire_interval, apply_windowing
        self._data = None if data is None else tuple(data)

    def _before(self, stop: int) -> int:
        """How many there are before a time."""
        first = self._first
        if first is None:
            raise ValueError("stop_timestamp is given without start_timestamp; give both")
        if stop < first:
            raise ValueError(f"stop_timestamp is {first - stop} µs before start_timestamp")
        return self._beat.due_at(stop - first - 1)

    def expand(self, inputs: PBegin) -> PCollection[object]:
        """A collection in the global window, or in windows as long as the interval."""
        injector = TickInjector(_Impulses(self._data), self._beat, self._first, self._count)
        impulses = inputs.pipeline | "Read" >> Read(injector, is_bounded=self._count is not None)
        return impulses | "Apart" >> WindowInto(FixedWindows(self._interval)) if self._apart else impulses
