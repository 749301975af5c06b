"""When: triggers on processing time, which is the wall clock of the runner (Streaming 102, listings 4 and 9)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND, Duration, DurationTypes
from headrace.sdk.triggers.data_driven import Always
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@named("AtWallTime")
@dataclass(frozen=True, slots=True)
class AtWallTime(Trigger):
    """Fires once, at a wall time that is computed from the arrival of the first element of the pane.

    The progress of the trigger is this wall time, microseconds UTC. Subclasses implement `fires_at`.
    """

    @abstractmethod
    def fires_at(self, came_us: int) -> int:
        """The wall time at which a pane fires whose first element arrived at `came_us`; both are microseconds UTC."""

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The wall time at which the pane fires; the first element sets it."""
        return self.fires_at(moment.wall_time) if progress is None else progress

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """The earliest wall time of all windows; `FINISHED` only if all triggers have finished."""
        going = [part for part in parts if part is not FINISHED]
        return min((part for part in going if isinstance(part, int)), default=None) if going else FINISHED

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether the wall clock has reached the time."""
        return isinstance(progress, int) and moment.wall_time >= progress

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Return `FINISHED`."""
        return FINISHED

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """The wall time at which the pane fires; None if there is none or it has been reached."""
        return progress if isinstance(progress, int) and progress > wall_time else None

    def continuation(self) -> Trigger:
        """`Always`: the next grouping emits each pane of this grouping without another delay."""
        return Always()

    @property
    def uses_wall_time(self) -> bool:
        """True."""
        return True


@named("AfterProcessingTime")
@dataclass(frozen=True, slots=True, init=False)
class AfterProcessingTime(AtWallTime):
    """Fires once, `delay` seconds (or a `timedelta`) of wall time after the first element of the pane has arrived.

    >>> from datetime import timedelta
    >>> AfterProcessingTime(timedelta(minutes=1))
    AfterProcessingTime(delay=60.0)
    """

    delay: float = 0

    def __init__(self, delay: DurationTypes = 0) -> None:
        object.__setattr__(self, "delay", _seconds("AfterProcessingTime: delay", delay))

    def fires_at(self, came_us: int) -> int:
        """The arrival plus the delay, microseconds UTC."""
        return came_us + round(self.delay * SECOND)


@named("AtPeriod")
@dataclass(frozen=True, slots=True, init=False)
class AtPeriod(AtWallTime):
    """Fires once, when the wall clock next reaches a multiple of `every` seconds, plus `offset`, since 1970 UTC.

    All windows fire at the same instants, whenever their elements arrived: `Repeatedly(AtPeriod(60))` emits the
    elements of each minute of the wall clock (Beam Java: `AfterProcessingTime` with `alignedTo`).

    Args:
        every: Length of the period, seconds or a `timedelta`.
        offset: Distance of the instants from the multiples of `every`, seconds or a `timedelta`.

    >>> AtPeriod(60, offset=5).fires_at(125_000_000)
    185000000
    >>> AtPeriod(60, offset=5).fires_at(124_999_999)
    125000000
    """

    every: float
    offset: float = 0

    def __init__(self, every: DurationTypes, offset: DurationTypes = 0) -> None:
        object.__setattr__(self, "every", _seconds("AtPeriod: every", every))
        object.__setattr__(self, "offset", _seconds("AtPeriod: offset", offset, least=-_MOST))
        if round(self.every * SECOND) < 1:
            raise ValueError(f"AtPeriod: every is {self.every!r} s; give a microsecond or more")

    def fires_at(self, came_us: int) -> int:
        """The end of the period in which the element arrived; the end of a period belongs to the next period."""
        period = round(self.every * SECOND)
        return came_us + period - (came_us - round(self.offset * SECOND)) % period


_MOST = MAX_TIMESTAMP // 2
"""Longest delay, microseconds; a wall time plus this delay stays below `MAX_TIMESTAMP`."""


def _seconds(name: str, given: DurationTypes, least: int = 0) -> float:
    """A valid length of wall time in seconds: numbers as they are given, other durations converted to float.

    Raises ValueError, with `name` in its message, for a length below `least` microseconds, above `_MOST`, or of no
    duration type.
    """
    try:
        fits = least <= Duration.of(given).micros <= _MOST
    except (TypeError, ValueError):
        fits = False
    if not fits:
        wanted = "0 or more seconds" if least == 0 else "seconds"
        raise ValueError(f"{name} is {given!r:.80} s; give {wanted}, at most {_MOST // SECOND}, or a timedelta")
    return given if isinstance(given, (int, float)) else float(Duration.of(given))
