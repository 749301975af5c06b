"""When: triggers on the progress of wall time (Streaming 102, listings 4 and 9)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.time import SECOND
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


@dataclass(frozen=True, slots=True)
class AfterProcessingTime(AtWallTime):
    """Fires once, `delay` seconds of wall time after the first element of the pane came."""

    delay: float = 0

    def __post_init__(self) -> None:
        if not _is_span(self.delay):
            raise ValueError(f"AfterProcessingTime: delay is {self.delay!r} s; give 0 or more seconds")

    def fires_at(self, came_us: int) -> int:
        """The delay later."""
        return came_us + int(self.delay * SECOND)


@dataclass(frozen=True, slots=True)
class AtPeriod(AtWallTime):
    """Fires once, when the wall clock next is at a multiple of `every` seconds (and `offset` more) since 1970 UTC.

    All windows fire at the same instants, whenever their elements came: `Repeatedly(AtPeriod(60))` gives what each
    minute of the wall clock brought (Beam Java: `AfterProcessingTime` with `alignedTo`).

    Args:
        every: Length of the period, seconds.
        offset: How long after the multiples, seconds.

    >>> AtPeriod(60, offset=5).fires_at(125_000_000)
    185000000
    >>> AtPeriod(60, offset=5).fires_at(124_999_999)
    125000000
    """

    every: float
    offset: float = 0

    def __post_init__(self) -> None:
        if round(self.every * SECOND) < 1:
            raise ValueError(f"AtPeriod: every is {self.every!r} s; give a microsecond or more")

    def fires_at(self, came_us: int) -> int:
        """The end of the period in which the element came; one that comes just as a period ends is in the next."""
        period = round(self.every * SECOND)
        return came_us + period - (came_us - round(self.offset * SECOND)) % period


def _is_span(delay: object) -> bool:
    return isinstance(delay, (int, float)) and delay >= 0
