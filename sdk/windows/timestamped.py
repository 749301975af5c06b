"""Where: a value with its event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp, TimestampTypes

V = TypeVar("V")


@stored_as("TimestampedValue")
@dataclass(frozen=True, order=True, init=False)
class TimestampedValue(Generic[V]):
    """An output of a function with its own timestamp (seconds since 1970 UTC, or a `Timestamp`).

    >>> TimestampedValue("britney", 12)
    TimestampedValue(value='britney', timestamp=Timestamp(12))
    """

    # Not by `slots=True`: such a frozen class does not bear what `TimestampedValue[str](...)` sets on its instances.
    __slots__ = ("timestamp", "value")

    value: V
    timestamp: Timestamp

    def __init__(self, value: V, timestamp: TimestampTypes) -> None:
        at = Timestamp.of(timestamp)
        if not MIN_TIMESTAMP <= at.micros <= MAX_TIMESTAMP:
            raise ValueError(
                f"{value!r:.200} is given the timestamp {at.micros / 1e6:g} s, beyond the year 294000, where time "
                "ends; timestamps are seconds, or Timestamp(micros=...)"
            )
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "timestamp", at)

    def __getstate__(self) -> list[object]:
        return [self.value, self.timestamp]

    def __setstate__(self, state: tuple[V, Timestamp]) -> None:
        for name, value in zip(("value", "timestamp"), state, strict=True):
            object.__setattr__(self, name, value)
