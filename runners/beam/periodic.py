"""What: the sequences of `PeriodicImpulse` and `PeriodicSequence`, as a computation with timers on the wall clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, cast

from apache_beam.utils.timestamp import Duration as BeamDuration
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp

from headrace.lowlevel.records.record import Batch, Record
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MIN_TIMESTAMP, SECOND
from headrace.lowlevel.topology.computation import Computation, Context
from headrace.lowlevel.topology.timer import TimeDomain, Timer

Plan: TypeAlias = tuple[float, int, float]
"""First time, number of times and interval of a sequence, in seconds. Whole numbers stay whole, as they are outputs."""
_AT_ONCE = 10_000
"""Greatest number of overdue elements of a sequence in one epoch."""


def planned(element: tuple[object, object, float]) -> Plan:
    """The plan of a sequence, counted as Beam counts it.

    Args:
        element: First time, exclusive end, both `Timestamp`s or seconds since 1970 UTC, and interval in seconds.

    Raises:
        ValueError: The end is before the first time, or the interval is not above 0.
    """
    start, end, interval = element
    length = BeamTimestamp.of(end).micros - BeamTimestamp.of(start).micros
    if length < 0 or interval <= 0:
        raise ValueError(f"{element!r:.200} is no sequence: it ends before it begins, or its interval is not above 0")
    first = start.micros / SECOND if isinstance(start, BeamTimestamp) else cast(float, start)
    return first, math.ceil(length / BeamDuration(interval).micros), interval


@named("BeamPeriodicSequences")
class PeriodicSequences(Computation):
    """Emits the elements of sequences as soon as the wall clock reaches their times, which are their event times too.

    The key of a sequence is its plan. A timer at its next time holds the watermark there, or, if elements have times of
    their own, at the greatest of those that were emitted.

    Args:
        data: Elements, or pairs of a `Timestamp` and an element, to emit in turn; None for the times in seconds.
        stream: Name of the output.
    """

    def __init__(self, data: Sequence[object] | None, stream: str) -> None:
        self._data, self._stream = data, stream
        first = data[0] if data else None
        self._stamped = isinstance(first, tuple) and bool(first) and isinstance(first[0], BeamTimestamp)

    def initial_state(self) -> list[int]:
        """The number of elements that each sequence with this plan has emitted."""
        return []

    def process_record(self, record: Record, context: Context) -> None:
        """Begin a sequence."""
        counts = cast("list[int]", context.state)
        counts.append(0)
        self._go_on(len(counts) - 1, context)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Go on with the sequence of the timer."""
        self._go_on(int(timer.tag), context)

    def _go_on(self, place: int, context: Context) -> None:
        """Emit what is due, and set the timer for the next element."""
        start, total, interval = cast(Plan, context.key)
        counts = cast("list[int]", context.state)
        number, now = counts[place], context.wall_time
        values: list[object] = []
        timestamps: list[int] = []
        while number < min(total, counts[place] + _AT_ONCE) and _due(start + interval * number) <= now:
            value, timestamp = self._output(number, start + interval * number)
            values.append(value)
            timestamps.append(timestamp)
            number += 1
        counts[place] = number
        context.state = counts
        if values:
            context.produce_batch(self._stream, Batch(values, timestamps))
        if number < total:
            time = start + interval * number
            context.set_timer(f"{place}", _due(time), TimeDomain.WALL_TIME, hold=self._reached(number, time))

    def _output(self, number: int, time: float) -> tuple[object, int]:
        """The element of a number, which is due at a time in seconds, and its event time in microseconds UTC."""
        if self._data is None:
            return time, BeamTimestamp.of(time).micros
        element = self._data[number % len(self._data)]
        if not self._stamped:
            return element, BeamTimestamp.of(time).micros
        timestamp, value = cast("tuple[BeamTimestamp, object]", element)
        return value, timestamp.micros

    def _reached(self, number: int, time: float) -> int:
        """The watermark after so many elements of a sequence, the next of which is due at a time in seconds."""
        if not self._stamped:
            return int(BeamTimestamp.of(time).micros)
        stamped = cast("Sequence[tuple[BeamTimestamp, object]]", self._data)
        return max((timestamp.micros for timestamp, _ in stamped[:number]), default=MIN_TIMESTAMP)


def _due(seconds: float) -> int:
    """The first microsecond at which the clock has reached a time in seconds."""
    return math.ceil(seconds * SECOND)
