"""What: elements that are made as time goes by: generated load, and what impulses are made by (`periodic`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from headrace.lowlevel.injector import BaseInjector, Delivery
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND, DurationTypes
from headrace.sdk.io.timestamps import check_timestamp, timestamps_of
from headrace.sdk.shipping import Portable
from headrace.sdk.transforms.source import Source

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
        stop: The time before which the last is due, microseconds UTC, instead of a count.
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
        stop: int | None = None,
    ) -> None:
        self._make, self._beat, self._first, self._count, self._now = make, beat, first, count, now
        self.max_delay, self._own_times, self._stop = max_delay, own_times, stop

    def start(self) -> object:
        """The first element, and when it is due."""
        return 0, self._now() if self._first is None else self._first

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """What is due."""
        number, first = cast("tuple[int, int]", position)
        count = self._count_from(first)
        due = self._beat.due_at(self._now() - first) if self._beat is not None else MAX_TIMESTAMP
        end = min(due, number + limit, MAX_TIMESTAMP if count is None else count)
        done = count is not None and end >= count
        size = max(1, -(-(end - number) // max(1, splits)))
        parts = [range(begin, min(begin + size, end)) for begin in range(number, end, size)]
        work = [TickSplit(part, first, self._beat, self._make) for part in parts]
        return Delivery(work, (end, first), self._watermark(end, first), done=done, idle=not parts and not done)

    def _count_from(self, first: int) -> int | None:
        if self._stop is None or self._beat is None:
            return self._count
        return self._beat.due_at(self._stop - first - 1)

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
        max_delay: DurationTypes | None = None,
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
