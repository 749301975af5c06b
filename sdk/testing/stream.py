"""A stream whose elements, watermark and clock follow a script (`apache_beam.testing.test_stream`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, MemorySplit
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, DurationTypes, Timestamp, TimestampTypes
from headrace.sdk.graph.pvalue import PBegin, PCollection
from headrace.sdk.model.special_outputs import TimestampedValue, WindowedValue
from headrace.sdk.transforms.core.low_level import Source

Outputs: TypeAlias = PCollection[object] | dict[str | None, PCollection[object]]


@dataclass(frozen=True, slots=True, init=False)
class ElementEvent:
    """Elements arrive on the output with a tag; None is the main output.

    >>> from headrace.transforms.window import TimestampedValue
    >>> ElementEvent([TimestampedValue("a", 5)]).timestamped_values[0].value
    'a'
    """

    timestamped_values: tuple[TimestampedValue[object], ...]
    tag: str | None

    def __init__(self, timestamped_values: Iterable[TimestampedValue[object]], tag: str | None = None) -> None:
        object.__setattr__(self, "timestamped_values", tuple(timestamped_values))
        object.__setattr__(self, "tag", tag)


@dataclass(frozen=True, slots=True, init=False)
class WatermarkEvent:
    """The watermark of an output moves to a timestamp (seconds since 1970 UTC, or a `Timestamp`).

    >>> WatermarkEvent(60).new_watermark
    Timestamp(60)
    """

    new_watermark: Timestamp
    tag: str | None

    def __init__(self, new_watermark: TimestampTypes, tag: str | None = None) -> None:
        object.__setattr__(self, "new_watermark", Timestamp.of(new_watermark))
        object.__setattr__(self, "tag", tag)


@dataclass(frozen=True, slots=True, init=False)
class ProcessingTimeEvent:
    """The wall clock of the whole pipeline advances by seconds, or by a `Duration`.

    >>> ProcessingTimeEvent(30).advance_by
    Duration(30)
    """

    advance_by: Duration

    def __init__(self, advance_by: DurationTypes) -> None:
        object.__setattr__(self, "advance_by", Duration.of(advance_by))


Event: TypeAlias = ElementEvent | WatermarkEvent | ProcessingTimeEvent


@named("EventInjector")
class EventInjector(BaseInjector):
    """Plays the events of one output, one event an epoch; the epochs of other outputs' events have no elements.

    The input ends after the last event.
    """

    def __init__(self, events: Sequence[Event], tag: str | None) -> None:
        self._events = list(events)
        self._tag = tag

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next event as a delivery; `position` is the number of events played."""
        assert isinstance(position, int)
        told = self._events[: position + 1]
        batch = Batch()
        if position < len(self._events):
            batch = self._elements(self._events[position])
        clock = sum(event.advance_by.micros for event in told if isinstance(event, ProcessingTimeEvent))
        watermarks = [event for event in told if isinstance(event, WatermarkEvent) and event.tag == self._tag]
        return Delivery(
            [MemorySplit(batch)] if len(batch) else [],
            position + 1,
            watermarks[-1].new_watermark.micros if watermarks else MIN_TIMESTAMP,
            done=position >= len(self._events),
            clock=clock,
        )

    def _elements(self, event: Event) -> Batch:
        if not isinstance(event, ElementEvent) or event.tag != self._tag:
            return Batch()
        elements = event.timestamped_values
        return Batch([element.value for element in elements], [element.timestamp.micros for element in elements])


class TestStream(Source):
    """An unbounded source for tests: its methods say, in the order of the calls, what arrives and how time advances.

    Each event is an epoch. The wall clock begins at 0. After the last event the watermark moves to the end of time.

    Args:
        coder: Accepted for compatibility with Beam, without effect.
        events: Events to begin with.
        output_tags: Tags of the outputs; they must include every tag that `events` name.

    Raises:
        ValueError: An event names an unknown tag, an element is at the end of time, or a clock does not advance. The
            methods raise it too.

    >>> from headrace.sdk.testing.pipeline import TestPipeline
    >>> from headrace.sdk.transforms.core.par_do import Map
    >>> from headrace.sdk.functions.do_fn import DoFn
    >>> stream = TestStream().add_elements(["a"]).advance_watermark_to(10).add_elements(["b"])
    >>> with TestPipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | stream | Map(lambda element, when=DoFn.TimestampParam: print(element, when))
    a Timestamp(-9223372036854.775000)
    b Timestamp(10)
    """

    # pytest would collect a class with this name.
    __test__ = False
    is_bounded = False

    def __init__(
        self,
        coder: object = None,
        events: Iterable[Event] | None = None,
        output_tags: Iterable[str | None] | None = None,
    ) -> None:
        super().__init__()
        self.output_tags: set[str | None] = set(output_tags or ())
        self._events: list[Event] = []
        self._watermarks: dict[str | None, Timestamp] = {}
        for event in events or ():
            tag = None if isinstance(event, ProcessingTimeEvent) else event.tag
            if tag is not None and tag not in self.output_tags:
                raise ValueError(f"event {event} names output {tag!r}, which is none of output_tags {self.output_tags}")
            self._add(event)

    def _watermark(self, tag: str | None) -> Timestamp:
        return self._watermarks.get(tag, Timestamp(micros=MIN_TIMESTAMP))

    def _add(self, event: Event) -> Self:
        if isinstance(event, ElementEvent):
            self.output_tags.add(event.tag)
            if any(element.timestamp.micros >= MAX_TIMESTAMP for element in event.timestamped_values):
                raise ValueError(f"elements must be before the end of time, got {event}")
        elif isinstance(event, WatermarkEvent):
            self.output_tags.add(event.tag)
            before = self._watermark(event.tag)
            if event.new_watermark <= before:
                raise ValueError(f"the watermark must go on from {before}, got {event.new_watermark}")
            self._watermarks[event.tag] = event.new_watermark
        elif event.advance_by.micros <= 0:
            raise ValueError(f"the clock must go on, got {event}")
        self._events.append(event)
        return self

    def add_elements(
        self, elements: Iterable[object], tag: str | None = None, event_timestamp: TimestampTypes | None = None
    ) -> Self:
        """Add an event: elements arrive on an output.

        Args:
            elements: Values, `TimestampedValue`s, or `WindowedValue`s, whose windows are ignored.
            tag: Tag of the output; None is the main output.
            event_timestamp: Timestamp of the bare values, in seconds since 1970 UTC or as a `Timestamp`; by default
                the watermark of the output.
        """
        time = self._watermark(tag) if event_timestamp is None else Timestamp.of(event_timestamp)
        return self._add(ElementEvent([_timestamped(element, time) for element in elements], tag))

    def advance_watermark_to(self, new_watermark: TimestampTypes, tag: str | None = None) -> Self:
        """Add an event: the watermark of an output advances to a timestamp, in seconds since 1970 UTC."""
        return self._add(WatermarkEvent(new_watermark, tag))

    def advance_watermark_to_infinity(self, tag: str | None = None) -> Self:
        """Add an event: the watermark of an output advances to the end of time."""
        return self.advance_watermark_to(Timestamp(micros=MAX_TIMESTAMP), tag)

    def advance_processing_time(self, advance_by: DurationTypes) -> Self:
        """Add an event: the wall clock advances by seconds, or by a `Duration`."""
        return self._add(ProcessingTimeEvent(advance_by))

    def expand(self, inputs: PBegin) -> Outputs:  # type: ignore[override]  # several outputs, as in Beam
        """One collection, or a dict of collections by tag if an event or `output_tags` names a tag."""
        if self.output_tags <= {None}:
            return super().expand(inputs)
        tags = sorted(self.output_tags, key=str)
        return {tag: PCollection(inputs.pipeline, is_bounded=False, tag=tag) for tag in tags}

    def injector_of(self, tag: str | None) -> EventInjector:
        """The injector that plays the events of one output."""
        return EventInjector(self._events, tag)


def _timestamped(element: object, otherwise: Timestamp) -> TimestampedValue[object]:
    if isinstance(element, TimestampedValue):
        return element
    if isinstance(element, WindowedValue):
        return TimestampedValue(element.value, element.timestamp)
    return TimestampedValue(element, otherwise)
