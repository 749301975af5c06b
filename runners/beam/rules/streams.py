"""Translation of streams that tests and clocks make: `TestStream`, and the DoFn of `PeriodicImpulse`."""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any, cast

from apache_beam.pipeline import AppliedPTransform
from apache_beam.testing import test_stream as beam
from apache_beam.transforms.periodicsequence import ImpulseSeqGenDoFn
from apache_beam.transforms.window import GlobalWindows

from headrace.lowlevel.time import Duration, Timestamp
from headrace.runners.beam.beam_private import periodic_data, read_events, script_of
from headrace.runners.beam.native import Native, add_native
from headrace.runners.beam.periodic import PeriodicSequences, planned
from headrace.runners.beam.translation import Collection, Rule, Translation
from headrace.runners.beam.windows import value_of_beam
from headrace.sdk.model.special_outputs import TimestampedValue
from headrace.sdk.testing.stream import ElementEvent, Event, ProcessingTimeEvent, TestStream, WatermarkEvent
from headrace.sdk.transforms.core.low_level import RunComputation
from headrace.sdk.transforms.core.par_do import Map


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
