"""When: triggers on the progress of wall time (Streaming 102, listings 4 and 9)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND, Duration, DurationTypes
from headrace.sdk.triggers.always import Always
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@dataclass(frozen=True, slots=True)
class AtWallTime(Trigger):
    """Fires once, at a wall time that follows from when the first element of the pane came.

    Its progress is that time, microseconds UTC.
    """

    @abstractmethod
    def fires_at(self, came_us: int) -> int:
        """When a pane fires whose first element came then; both microseconds UTC."""

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The first element sets the time."""
        return self.fires_at(moment.wall_time) if progress is None else progress

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """The earliest time of all; finished only if all were."""
        going = [part for part in parts if part is not FINISHED]
        return min((part for part in going if isinstance(part, int)), default=None) if going else FINISHED

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Once the time has come."""
        return isinstance(progress, int) and moment.wall_time >= progress

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Finished."""
        return FINISHED

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """The time, until it has come."""
        return progress if isinstance(progress, int) and progress > wall_time else None

    def continuation(self) -> Trigger:
        """The time was waited for already: what comes is passed on."""
        return Always()

    @property
    def uses_wall_time(self) -> bool:
        """Yes."""
        return True


@dataclass(frozen=True, slots=True, init=False)
class AfterProcessingTime(AtWallTime):
    """Fires once, `delay` seconds (or a `timedelta`) of wall time after the first element of the pane came.

    >>> from datetime import timedelta
    >>> AfterProcessingTime(timedelta(minutes=1))
    AfterProcessingTime(delay=60.0)
    """

    delay: float = 0

    def __init__(self, delay: DurationTypes = 0) -> None:
        object.__setattr__(self, "delay", _seconds("AfterProcessingTime: delay", delay))

    def fires_at(self, came_us: int) -> int:
        """The delay later."""
        return came_us + int(self.delay * SECOND)


@dataclass(frozen=True, slots=True, init=False)
class AtPeriod(AtWallTime):
    """Fires once, when the wall clock next is at a multiple of `every` seconds (and `offset` more) since 1970 UTC.

    All windows fire at the same instants, whenever their elements came: `Repeatedly(AtPeriod(60))` gives what each
    minute of the wall clock brought (Beam Java: `AfterProcessingTime` with `alignedTo`).

    Args:
        every: Length of the period, seconds or a `timedelta`.
        offset: How long after the multiples, as `every`.

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
        """The end of the period in which the element came; one that comes just as a period ends is in the next."""
        period = round(self.every * SECOND)
        return came_us + period - (came_us - round(self.offset * SECOND)) % period


_MOST = MAX_TIMESTAMP // 2
"""Microseconds that a wall time may be put off by, so that it stays before the end of time."""


def _seconds(name: str, given: DurationTypes, least: int = 0) -> float:
    """A length of wall time, if a trigger can wait for it: a number of seconds as it is, others in seconds."""
    try:
        fits = least <= Duration.of(given).micros <= _MOST
    except (TypeError, ValueError):
        fits = False
    if not fits:
        wanted = "0 or more seconds" if least == 0 else "seconds"
        raise ValueError(f"{name} is {given!r:.80} s; give {wanted}, at most {_MOST // SECOND}, or a timedelta")
    return given if isinstance(given, (int, float)) else float(Duration.of(given))
