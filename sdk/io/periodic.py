"""What: an element again and again, at its time (`apache_beam.transforms.periodicsequence`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from headrace.lowlevel.computation import Computation, Context
from headrace.lowlevel.record import Record
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, SECOND, Duration, Timestamp
from headrace.lowlevel.timer import TimeDomain, Timer
from headrace.sdk.io.ticks import Beat, TickInjector
from headrace.sdk.io.timestamps import check_range, micros_of
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PBegin, PCollection
from headrace.sdk.transforms.computation import RunComputation
from headrace.sdk.transforms.element import Map
from headrace.sdk.transforms.source import Read
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.windows import FixedWindows, GlobalWindows

Collection = PCollection[object]
Plan = tuple[int, int, int]
"""Beginning, end and interval of a sequence, microseconds."""


class RebaseMode(Enum):
    """Which times of a `PeriodicImpulse` are counted from when the pipeline first starts."""

    REBASE_NONE = 0
    """None."""
    REBASE_ALL = 1
    """The beginning is then, and the end as much later as it was."""
    REBASE_START = 2
    """The beginning is then; the end stays."""


@dataclass(frozen=True, slots=True)
class Impulses:
    """Makes impulses; shipped to the tasks."""

    data: tuple[object, ...] | None

    def __call__(self, numbers: range, timestamps: Sequence[int]) -> tuple[Sequence[object], Sequence[int]]:
        """See `Make`."""
        if self.data is None:
            return [micros / SECOND for micros in timestamps], timestamps
        elements = [self.data[number % len(self.data)] for number in numbers]
        if not _is_stamped(self.data):
            return elements, timestamps
        stamped = cast("list[tuple[Timestamp, object]]", elements)
        return [element for _, element in stamped], [at.micros for at, _ in stamped]


def _is_stamped(data: Sequence[object]) -> bool:
    """Whether data are pairs of `Timestamp` and element."""
    return isinstance(data[0], tuple) and bool(data[0]) and isinstance(data[0][0], Timestamp)


class PeriodicImpulse(PTransform[PBegin, Collection]):
    """An element again and again, at its time (`apache_beam.transforms.periodicsequence`).

    Each comes when its time is there, which is its event time; the watermark is that of the next. What was due while
    nothing ran comes when it runs again.

    Args:
        start_timestamp: Time of the first, a `Timestamp` or seconds since 1970 UTC; by default when the pipeline first
            starts.
        stop_timestamp: The time before which the last one is; by default there is no end, or that of the data.
        fire_interval: Seconds from one to the next.
        apply_windowing: Whether each is in a window of its own, as long as the interval.
        data: The elements; by default an element is its time, in seconds since 1970. If `stop_timestamp` asks for more,
            they are taken in turn. Pairs of a `Timestamp` and an element say the event time; then the watermark
            follows the greatest of them, and there must be enough.
        rebase: Which times are counted from when the pipeline first starts.

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
            check_range([at.micros for at, _ in cast("tuple[tuple[Timestamp, object], ...]", self._data)], self._data)
            if self._count is None or self._count > len(self._data):
                raise ValueError(
                    f"data has {len(self._data)} elements with timestamps, fewer than are due before stop_timestamp; "
                    "give more of them, or an earlier stop_timestamp"
                )

    def _set_times(self, start: Timestamp | float | None, stop: Timestamp | float | None, rebase: RebaseMode) -> None:
        """When the first is due, how many there are, and the time before which the last is, as far as is known."""
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
        own = self._data is not None and _is_stamped(self._data)
        injector = TickInjector(
            *(Impulses(self._data), self._beat, self._first, self._count),
            max_delay=0 if own else None,
            own_times=own,
            stop=self._stop,
        )
        bounded = self._count is not None or self._stop is not None
        impulses = inputs.pipeline | "Read" >> Read(injector, is_bounded=bounded)
        return impulses | "Apart" >> WindowInto(FixedWindows(self._interval)) if self._apart else impulses


class PeriodicSequence(PTransform[Collection, Collection]):
    """For each element (first time, end, interval), a sequence of times (`apache_beam.transforms.periodicsequence`).

    Times are `Timestamp`s or seconds since 1970 UTC, the interval a `Duration` or seconds. What comes out is each time
    from the first to before the end, in seconds, as soon as the clock has reached it, with that as its event time; the
    watermark waits for the next. What was due while nothing ran comes when it runs again. All are in the global window.
    """

    def expand(self, inputs: Collection) -> Collection:
        """An unbounded collection of times."""
        plans = inputs | "Global" >> WindowInto(GlobalWindows()) | "Plan" >> Map(_planned)
        stream = f"{inputs.pipeline.current_label} times"
        times = cast(Collection, plans | "Times" >> RunComputation(_Sequences(stream), key=_itself, outputs=stream))
        times.is_bounded = False
        return times


def _itself(plan: object) -> object:
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


class _Sequences(Computation):
    """The key of a sequence is its plan. A timer for each fires at each of its times, and holds the watermark there."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def initial_state(self) -> int:
        """How many sequences of one plan there are; the timer of each has a tag of its own."""
        return 0

    def process_record(self, record: Record, context: Context) -> None:
        """Set the first timer."""
        number = cast(int, context.state)
        context.state = number + 1
        self._wait(cast(Plan, context.key)[0], f"{number}", context)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Its time is there: put it out, and wait for the next."""
        context.produce(self._stream, timer.timestamp / SECOND, timer.timestamp)
        self._wait(timer.timestamp + cast(Plan, context.key)[2], timer.tag, context)

    def _wait(self, due: int, tag: str, context: Context) -> None:
        if due < cast(Plan, context.key)[1]:
            context.set_timer(tag, due, TimeDomain.WALL_TIME, hold=due)
