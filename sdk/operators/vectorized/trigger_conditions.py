"""When: the condition of a repeated trigger (a number of elements, a wall time, or both), evaluated for columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.sdk.operators.vectorized.state.window_table import NEVER, WAKE, WindowTable
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
    """The condition under which a repeated trigger fires; after each pane the condition is evaluated from the start.

    >>> Readiness.of(Repeatedly(AfterAny(AfterCount(100), AfterProcessingTime(10)))).count
    100
    """

    count: int | None = None
    """Least number of elements since the last pane; None if the number of elements does not matter."""
    wall: AtWallTime | None = None
    """Trigger that gives the wall time to wait for, from the arrival of the first element; None if there is no such."""
    both: bool = False
    """Whether `count` and `wall` must both be reached (`AfterAll`); if False, one of them is enough (`AfterAny`)."""
    part: int | None = None
    """Index of the part of a composite trigger that waits for a wall time; None if there is no such part."""

    @classmethod
    def of(cls, trigger: Trigger) -> Readiness | None:
        """The condition of `Always` or of `Repeatedly` counts and at most one wall time; None for other triggers."""
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
        """The condition of a composite trigger of counts and at most one wall time; None if it has other parts."""
        parts = [cls._of_one(part) for part in trigger.triggers]
        known = [part for part in parts if part is not None]
        walls = [index for index, part in enumerate(known) if part.wall is not None]
        if not parts or len(known) < len(parts) or len(walls) > 1:
            return None
        counts = [part.count for part in known if part.count is not None]
        together = type(trigger) is AfterAll
        wall = known[walls[0]].wall if walls else None
        return cls((max if together else min)(counts), wall, together, walls[0] if walls else None)

    @property
    def at_once(self) -> bool:
        """Whether one element is always enough for a pane."""
        return self.count == 1 and (self.wall is None or not self.both)

    def enough(self, lines: WindowTable, wall_time: int) -> Numbers | int:
        """The number of elements since the last pane from which on each line is ready to fire.

        Args:
            lines: Lines whose `WAKE` is compared with the wall time.
            wall_time: Microseconds UTC.

        Returns:
            One number if it is the same for all lines, else int64 with one entry for each line; `NEVER` if no number of
            elements is enough.
        """
        count = NEVER if self.count is None else self.count
        if self.wall is None:
            return count
        due = lines[WAKE] <= wall_time
        return cast(Numbers, np.where(due, count, NEVER) if self.both else np.where(due, 1, count))

    def wake_in(self, progress: Progress) -> int:
        """The wall time, microseconds UTC, that is stored in the trigger's progress; `NEVER` if there is none."""
        if self.wall is None:
            return NEVER
        wake = progress[self.part] if self.part is not None and isinstance(progress, tuple) else progress
        return wake if isinstance(wake, int) else NEVER


_CLOCKS = (AfterProcessingTime, AtPeriod)
"""Supported wall-time triggers; a subclass may override their methods and is not supported."""
