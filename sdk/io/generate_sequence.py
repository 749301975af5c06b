"""What: elements generated at a rate, for load tests and for the impulses of `periodic`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

from headrace.lowlevel.code_pickling import Portable
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, divided
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND, DurationTypes
from headrace.sdk.io.timestamps import check_timestamp, now_micros, timestamps_of
from headrace.sdk.transforms.core.low_level import Source

_BATCH = 10_000
"""Number of generated elements that are in memory at once."""


@dataclass(frozen=True, slots=True)
class Beat:
    """The rate at which elements are due: `elements` in each `micros` microseconds."""

    elements: int
    micros: int
    """Length of the period, microseconds."""

    def time_of(self, number: int) -> int:
        """Microseconds from the first element to the element of a number, from 0.

        >>> Beat(3, 1_000_000).time_of(1), Beat(3, 1_000_000).time_of(3)
        (333333, 1000000)
        """
        return number * self.micros // self.elements

    def due_at(self, micros: int) -> int:
        """The number of elements due so many microseconds after the first one, including the first.

        >>> [Beat(3, 1_000_000).due_at(micros) for micros in (-1, 0, 333_332, 333_333, 1_000_000)]
        [0, 1, 1, 2, 4]
        """
        return 0 if micros < 0 else ((micros + 1) * self.elements - 1) // self.micros + 1


class Make(Protocol):
    """A function that makes elements; shipped to the tasks."""

    def __call__(self, numbers: range, timestamps: Sequence[int]) -> tuple[Sequence[object], Sequence[int]]:
        """The elements of the numbers, which are due at `timestamps`, and their event times; all of one length."""


@dataclass(frozen=True, slots=True)
class TickSplit:
    """The numbers of elements that one task makes."""

    numbers: range
    first: int
    beat: Beat | None
    make: Make

    def read(self) -> Iterator[Batch]:
        """Make the elements, each at the time at which it is due; without a rate, at the least timestamp."""
        for begin in range(0, len(self.numbers), _BATCH):
            part = self.numbers[begin : begin + _BATCH]
            beat = self.beat
            due = [MIN_TIMESTAMP if beat is None else self.first + beat.time_of(number) for number in part]
            yield Batch(*self.make(part, due))

    def count_records(self) -> int:
        """See `SizedSplit`."""
        return len(self.numbers)


@named("TickInjector")
class TickInjector(BaseInjector):
    """Elements 0, 1, 2, … as they become due; elements that are overdue after a pause come at once.

    Args:
        make: Makes the elements.
        beat: The rate; None for all elements at once.
        first: When the first element is due, microseconds UTC; None for the time at which the pipeline first starts.
        count: Number of elements; None for no end.
        max_delay: Microseconds that the watermark stays behind the greatest timestamp, for elements with own times.
        own_times: Whether `make` gives other event times than it gets. If not, the watermark is the time of the next
            element.
        now: The clock, microseconds UTC.
        stop: Exclusive upper bound of the times at which elements are due, microseconds UTC, instead of a count.
    """

    def __init__(
        self,
        make: Make,
        beat: Beat | None,
        first: int | None,
        count: int | None,
        max_delay: int | None = None,
        own_times: bool = False,
        now: Callable[[], int] = now_micros,
        stop: int | None = None,
    ) -> None:
        self._make, self._beat, self._first, self._count, self._now = make, beat, first, count, now
        self.max_delay, self._own_times, self._stop = max_delay, own_times, stop

    def start(self) -> object:
        """The number of the first element, and the time at which it is due."""
        return 0, self._now() if self._first is None else self._first

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Up to `limit` elements that are due, in `splits` splits or fewer."""
        number, first = cast("tuple[int, int]", position)
        count = self._count_from(first)
        due = self._beat.due_at(self._now() - first) if self._beat is not None else MAX_TIMESTAMP
        end = min(due, number + limit, MAX_TIMESTAMP if count is None else count)
        done = count is not None and end >= count
        parts = cast("list[range]", divided(range(number, end), splits))
        ticks = [TickSplit(part, first, self._beat, self._make) for part in parts]
        idle = not parts and not done
        delivery = Delivery(ticks, (end, first), self._watermark(end, first), done=done, idle=idle)
        if not idle or self._beat is None:
            return delivery
        return replace(delivery, quiet_seconds=max(0, first + self._beat.time_of(end) - self._now()) / SECOND)

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
    """Emits numbers at a given rate, as load for tests of pipelines (Beam's Java `GenerateSequence`).

    Args:
        start: The first number.
        stop: The exclusive upper bound of the numbers; None for no end.
        rate: Numbers per second, in event time and in processing time: the event time of a number is the time at which
            it is due, and the watermark is the time of the next number. Overdue numbers are emitted at once. None for
            all numbers at once.
        timestamp: Function from a number to its event time: a `Timestamp`, seconds since 1970 UTC or a datetime.
        max_delay: Delay of the watermark behind the greatest timestamp, in seconds; for numbers with `timestamp`.

    Raises:
        ValueError: The arguments are out of range or do not fit together.

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
        """The injector that counts, on the driver."""
        injector = TickInjector(self._make, self._beat, None, self._count, self._max_delay, self._own_times)
        injector.record_format = f"numbers from {self._make.start}"
        return injector
