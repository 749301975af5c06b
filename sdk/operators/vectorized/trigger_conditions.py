"""When: what makes a pane ready, again and again: a number of new elements, a wall time, or both; for columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from headrace.lowlevel.columnkeys import Numbers
from headrace.sdk.columns.lines import NEVER, WAKE, Lines
from headrace.sdk.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterProcessingTime,
    Always,
    AtPeriod,
    Progress,
    Repeatedly,
    Trigger,
)
from headrace.sdk.triggers.processing_time import AtWallTime


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a repeated trigger waits for, anew after each pane.

    >>> Readiness.of(Repeatedly(AfterAny(AfterCount(100), AfterProcessingTime(10)))).count
    100
    """

    count: int | None = None
    """So many new elements or more; None if their number does not matter."""
    wall: AtWallTime | None = None
    """A wall time that follows from when the first of them came."""
    both: bool = False
    """Whether it waits for both; else for what is first."""
    part: int | None = None
    """Which part of a composite trigger waits for wall time."""

    @classmethod
    def of(cls, trigger: Trigger) -> Readiness | None:
        """What a trigger means that begins anew whenever it has fired; None if it is another."""
        if type(trigger) is Always:
            return cls(1)
        inner = trigger.underlying if type(trigger) is Repeatedly else None
        if inner is None:
            return None
        if type(inner) in (AfterAny, AfterAll):
            return cls._of_parts(cast("AfterAny | AfterAll", inner))
        return cls._of_one(inner) or cls.of(inner)

    @classmethod
    def _of_one(cls, trigger: Trigger) -> Readiness | None:
        if type(trigger) is AfterCount:
            return cls(trigger.count)
        return cls(wall=trigger) if isinstance(trigger, AtWallTime) and type(trigger) in _CLOCKS else None

    @classmethod
    def _of_parts(cls, trigger: AfterAny | AfterAll) -> Readiness | None:
        """Of counts side by side, and one wall time at most."""
        parts = [cls._of_one(part) for part in trigger.triggers]
        known = [part for part in parts if part is not None]
        walls = [place for place, part in enumerate(known) if part.wall is not None]
        if len(known) < len(parts) or len(walls) > 1:
            return None
        counts = [part.count for part in known if part.count is not None]
        together = type(trigger) is AfterAll
        wall = known[walls[0]].wall if walls else None
        return cls((max if together else min)(counts), wall, together, walls[0] if walls else None)

    @property
    def at_once(self) -> bool:
        """Whether whatever comes makes a pane."""
        return self.count == 1 and (self.wall is None or not self.both)

    def enough(self, lines: Lines, wall_time: int) -> Numbers | int:
        """How many new elements make a pane of each line at a wall time, microseconds UTC."""
        count = NEVER if self.count is None else self.count
        if self.wall is None:
            return count
        due = lines[WAKE] <= wall_time
        return cast(Numbers, np.where(due, count, NEVER) if self.both else np.where(due, 1, count))

    def wake_in(self, progress: Progress) -> int:
        """The wall time that the trigger remembers, microseconds UTC; `NEVER` if none."""
        if self.wall is None:
            return NEVER
        told = progress[self.part] if self.part is not None and isinstance(progress, tuple) else progress
        return told if isinstance(told, int) else NEVER


_CLOCKS = (AfterProcessingTime, AtPeriod)
"""Those whose methods are known; a subclass may have others."""
