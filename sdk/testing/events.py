"""Events of a `TestStream`: elements, watermarks and processing time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from headrace.lowlevel.time import Duration, DurationTypes, Timestamp, TimestampTypes
from headrace.sdk.model.special_outputs import TimestampedValue


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
