"""What: elements that are generated: at a rate, or at regular intervals of processing time.

`GenerateSequence` is for load tests; for the others see `apache_beam.transforms.periodicsequence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, cast

from headrace.lowlevel.code_pickling import Portable
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, divided
from headrace.lowlevel.records.record import Batch, Record
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import (
    END_OF_GLOBAL_WINDOW,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    SECOND,
    Duration,
    DurationTypes,
    Timestamp,
)
from headrace.lowlevel.topology.computation import Computation, Context
from headrace.lowlevel.topology.timer import TimeDomain, Timer
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PBegin, PCollection
from headrace.sdk.io.timestamps import check_range, check_timestamp, micros_of, now_micros, timestamps_of
from headrace.sdk.transforms.core.low_level import Read, RunComputation, Source
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.windows import FixedWindows, GlobalWindows

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
        ready = min(due, MAX_TIMESTAMP if count is None else count)
        backlog = ready - end if ready < MAX_TIMESTAMP else None
        watermark = self._watermark(end, first)
        delivery = Delivery(ticks, (end, first), watermark, done=done, idle=idle, backlog=backlog)
        if not idle or self._beat is None:
            return delivery
        return replace(delivery, quiet_seconds=max(0, first + self._beat.time_of(end) - self._now()) / SECOND)

    def unread(self, position: object) -> str | None:
        """See `BaseInjector`; ends that follow from a time are not compared, as this is often the time of the start."""
        number, _ = cast("tuple[int, int]", position)
        if self._stop is not None or self._count == number:
            return None
        now = "no end" if self._count is None else f"{self._count:,}"
        return f"the number of its elements was {number:,} when its input ended, and it has {now} now"

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


Collection = PCollection[object]
Plan = tuple[int, int, int]
"""Beginning, end and interval of a sequence, microseconds."""


class RebaseMode(Enum):
    """Which times of a `PeriodicImpulse` count from the time at which the pipeline first starts.

    >>> RebaseMode["REBASE_ALL"] is RebaseMode.REBASE_ALL
    True
    """

    REBASE_NONE = 0
    """No time: start and stop are absolute."""
    REBASE_ALL = 1
    """The start is the time of the first run; the stop moves with it."""
    REBASE_START = 2
    """The start is the time of the first run; the stop stays."""


@dataclass(frozen=True, slots=True)
class Impulses:
    """Makes the elements of a `PeriodicImpulse`; shipped to the tasks."""

    data: tuple[object, ...] | None

    def __call__(self, numbers: range, timestamps: Sequence[int]) -> tuple[Sequence[object], Sequence[int]]:
        """See `Make`."""
        if self.data is None:
            return [micros / SECOND for micros in timestamps], timestamps
        elements = [self.data[number % len(self.data)] for number in numbers]
        if not _is_stamped(self.data):
            return elements, timestamps
        stamped = cast("list[tuple[Timestamp, object]]", elements)
        return [element for _, element in stamped], [time.micros for time, _ in stamped]


def _is_stamped(data: Sequence[object]) -> bool:
    """Whether data are pairs of `Timestamp` and element."""
    return isinstance(data[0], tuple) and bool(data[0]) and isinstance(data[0][0], Timestamp)


class PeriodicImpulse(PTransform[PBegin, Collection]):
    """Elements at regular intervals (`apache_beam.transforms.periodicsequence`).

    Each element is emitted when the clock reaches its time, which is also its event time; the watermark is the time of
    the next element. Elements that were due while the pipeline did not run are emitted when it runs again.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | PeriodicImpulse(0, 30, fire_interval=10) | beam.Map(print)
    0.0
    10.0
    20.0

    Args:
        start_timestamp: Time of the first element, a `Timestamp` or seconds since 1970 UTC; by default the time at
            which the pipeline first starts.
        stop_timestamp: Exclusive upper bound of the times; by default the sequence ends with `data`, or never.
        fire_interval: Seconds from one element to the next.
        apply_windowing: Whether each element is in a window of its own, as long as the interval.
        data: The elements; by default an element is its time, in seconds since 1970. If more elements are due before
            `stop_timestamp`, the data are repeated. Pairs of a `Timestamp` and an element state the event time; then
            the watermark follows the greatest timestamp, and the data are not repeated.
        rebase: Which times count from the time at which the pipeline first starts.

    Raises:
        ValueError: The arguments do not fit together.
    """

    def __init__(
        self,
        start_timestamp: Timestamp | float | None = None,
        stop_timestamp: Timestamp | float | None = None,
        fire_interval: float = 360.0,
        apply_windowing: bool = False,
        data: Sequence[object] | None = None,
        rebase: RebaseMode = RebaseMode.REBASE_NONE,
    ) -> None:
        super().__init__()
        if fire_interval < 0.000_001:
            raise ValueError(f"fire_interval is {fire_interval:g} s; give 0.000001 or more")
        if data is not None and not data:
            raise ValueError("data has no element; leave it out for times as elements")
        self._beat = Beat(1, round(fire_interval * SECOND))
        self._interval, self._apart = fire_interval, apply_windowing
        self._data = None if data is None else tuple(data)
        self._set_times(start_timestamp, stop_timestamp, RebaseMode(rebase))
        if self._data is not None and _is_stamped(self._data):
            check_range(
                [time.micros for time, _ in cast("tuple[tuple[Timestamp, object], ...]", self._data)], self._data
            )
            if self._count is None or self._count > len(self._data):
                raise ValueError(
                    f"data has {len(self._data)} elements with timestamps, fewer than are due before stop_timestamp; "
                    "give more of them, or an earlier stop_timestamp"
                )

    def _set_times(self, start: Timestamp | float | None, stop: Timestamp | float | None, rebase: RebaseMode) -> None:
        """The first time, the number of elements, and an exclusive upper bound of the last time, as far as known."""
        self._first = None if start is None or rebase is not RebaseMode.REBASE_NONE else micros_of(start)
        self._stop: int | None = None
        self._count: int | None = None if self._data is None else len(self._data)
        if stop is None or micros_of(stop) >= END_OF_GLOBAL_WINDOW:
            return
        if start is None or rebase is RebaseMode.REBASE_START:
            self._stop = micros_of(stop)
            return
        length = micros_of(stop) - micros_of(start)
        if length < 0:
            raise ValueError(f"stop_timestamp is {-length} µs before start_timestamp")
        self._count = self._beat.due_at(length - 1)

    def expand(self, inputs: PBegin) -> Collection:
        """A collection in the global window, or in windows as long as the interval."""
        stamped = self._data is not None and _is_stamped(self._data)
        injector = TickInjector(
            *(Impulses(self._data), self._beat, self._first, self._count),
            max_delay=0 if stamped else None,
            own_times=stamped,
            stop=self._stop,
        )
        bounded = self._count is not None or self._stop is not None
        impulses = inputs.pipeline | "Read" >> Read(injector, is_bounded=bounded)
        return impulses | "Apart" >> WindowInto(FixedWindows(self._interval)) if self._apart else impulses


class PeriodicSequence(PTransform[Collection, Collection]):
    """For each element (first time, end, interval), a sequence of times (`apache_beam.transforms.periodicsequence`).

    First time and end are `Timestamp`s or seconds since 1970 UTC, the interval a `Duration` or seconds. Each time from
    the first to before the end is emitted in seconds, in the global window, as soon as the clock reaches it; the time
    is also the event time, and the watermark waits for the next one. Times that were due while the pipeline did not run
    are emitted when it runs again.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([(0, 30, 10)]) | PeriodicSequence() | beam.Map(print)
    0.0
    10.0
    20.0
    """

    def expand(self, inputs: Collection) -> Collection:
        """An unbounded collection of times."""
        plans = inputs | "Global" >> WindowInto(GlobalWindows()) | "Plan" >> Map(_planned)
        stream = f"{inputs.pipeline.current_label} times"
        times = cast(Collection, plans | "Times" >> RunComputation(_Sequences(stream), key=_identity, outputs=stream))
        times.is_bounded = False
        return times


def _identity(plan: object) -> object:
    return plan


def _planned(element: object) -> Plan:
    try:
        start, stop, interval = cast("tuple[object, object, object]", element)
        length = interval if isinstance(interval, Duration) else Duration.of(cast(float, interval))
        plan = micros_of(start), min(micros_of(stop), END_OF_GLOBAL_WINDOW), length.micros
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{element!r:.200} is no sequence ({error}); give (first time, end, interval), in seconds or as timestamps"
        ) from error
    if plan[0] > plan[1] or plan[2] <= 0:
        raise ValueError(f"{element!r:.200} is no sequence: it ends before it begins, or its interval is not above 0")
    return plan


@named("Sequences")
class _Sequences(Computation):
    """Emits sequences. The key of a sequence is its plan; a timer at its next time holds the watermark there."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def initial_state(self) -> int:
        """The number of sequences with this plan; each has a timer with a tag of its own."""
        return 0

    def process_record(self, record: Record, context: Context) -> None:
        """Set the first timer."""
        number = cast(int, context.state)
        context.state = number + 1
        self._wait(cast(Plan, context.key)[0], f"{number}", context)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Emit the time that is due, and set the timer for the next one."""
        context.produce(self._stream, timer.timestamp / SECOND, timer.timestamp)
        self._wait(timer.timestamp + cast(Plan, context.key)[2], timer.tag, context)

    def _wait(self, due: int, tag: str, context: Context) -> None:
        if due < cast(Plan, context.key)[1]:
            context.set_timer(tag, due, TimeDomain.WALL_TIME, hold=due)
