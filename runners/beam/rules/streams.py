"""Translation of streams that tests and clocks make: `TestStream`, and the DoFn of `PeriodicImpulse`.

The sequences of `PeriodicImpulse` and `PeriodicSequence` are a computation with timers on the wall clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any, TypeAlias, cast

from apache_beam.pipeline import AppliedPTransform
from apache_beam.testing import test_stream as beam
from apache_beam.transforms.periodicsequence import ImpulseSeqGenDoFn
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Duration as BeamDuration
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp

from headrace.lowlevel.records.record import Batch, Record
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MIN_TIMESTAMP, SECOND, Duration, Timestamp
from headrace.lowlevel.topology.computation import Computation, Context
from headrace.lowlevel.topology.timer import TimeDomain, Timer
from headrace.runners.beam.beam_private import periodic_data, read_events, script_of
from headrace.runners.beam.native import Native, add_native
from headrace.runners.beam.translation import Collection, Rule, Translation
from headrace.runners.beam.windowings import value_of_beam
from headrace.sdk.model.special_outputs import TimestampedValue
from headrace.sdk.testing.stream import ElementEvent, Event, ProcessingTimeEvent, TestStream, WatermarkEvent
from headrace.sdk.transforms.core.low_level import RunComputation
from headrace.sdk.transforms.core.par_do import Map

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


def _test_stream(made: Translation, step: AppliedPTransform) -> None:
    transform = step.transform
    events, service = script_of(transform)
    script = _events_of_service(transform, service) if service else events
    played = TestStream(events=map(_event_of, script), output_tags=transform.output_tags)
    outputs = made.pipeline | step.full_label >> played
    holders = {
        event.tag
        for event in script
        if isinstance(event, beam.ElementEvent)
        and any(isinstance(each.value, beam.WindowedValueHolder) for each in event.timestamped_values)
    }
    for tag in step.outputs:
        collection = cast(Collection, outputs[tag] if isinstance(outputs, dict) else outputs)
        if tag in holders:
            collection = collection | f"{step.full_label}/Windowed {tag or ''}" >> Map(_unwrapped)
        made.put(step, collection, tag)


def _events_of_service(transform: beam.TestStream, address: str) -> Sequence[beam.Event]:
    """The events that a `TestStreamService` sends until its stream ends."""
    channel: SimpleQueue[Any] = SimpleQueue()
    # In this thread; the last item says that the stream has ended.
    read_events(address, transform.output_tags, transform.coder, channel)
    events = [channel.get() for _ in range(channel.qsize() - 1)]
    for event in events:
        if not isinstance(event, beam.ProcessingTimeEvent) and event.tag == "None":
            event.tag = None
    return events


def _event_of(event: beam.Event) -> Event:
    """Headrace's event for one of Beam's."""
    if isinstance(event, beam.ElementEvent):
        elements = [
            TimestampedValue(each.value, Timestamp(micros=each.timestamp.micros)) for each in event.timestamped_values
        ]
        return ElementEvent(elements, event.tag)
    if isinstance(event, beam.WatermarkEvent):
        return WatermarkEvent(Timestamp(micros=event.new_watermark.micros), event.tag)
    return ProcessingTimeEvent(Duration(micros=event.advance_by.micros))


def _unwrapped(element: object) -> object:
    """The element with the windows that its holder names."""
    return value_of_beam(element.windowed_value) if isinstance(element, beam.WindowedValueHolder) else element


def periodic_sequences(made: Translation, step: AppliedPTransform) -> bool:
    """Add the step if it is that of `PeriodicImpulse` and `PeriodicSequence`, in the global window; else return False.

    Beam has an unbounded splittable DoFn for it; timers of the engine do the same without polling.
    """
    [source] = step.main_inputs.values()
    if type(step.transform.fn) is not ImpulseSeqGenDoFn or not isinstance(source.windowing.windowfn, GlobalWindows):
        return False
    stream = f"{step.full_label} times"
    sequences = PeriodicSequences(periodic_data(step.transform), stream)
    plans = made.source(step) | f"{step.full_label}/Plan" >> Map(planned)
    made.put(step, cast(Collection, plans | step.full_label >> RunComputation(sequences, _itself, stream)))
    return True


def _itself(plan: object) -> object:
    return plan


RULES: dict[type, Rule] = {
    Native: add_native,
    beam.TestStream: _test_stream,
}
