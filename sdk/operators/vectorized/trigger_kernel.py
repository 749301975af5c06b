"""When and how: vectorized evaluation of count and wall-time triggers for the windows of all keys of an interval.

`Grouping` evaluates the trigger of one window; `Firing` evaluates the triggers of all lines of a `WindowTable`. A
trigger is evaluated after the elements of a bundle, when the wall clock reaches a time that the trigger waits for, when
the watermark reaches the end of a window, and when the allowed lateness of a window is over. The state of such a
trigger is the number of elements since the last pane, the wall time that the next pane waits for, and whether the
watermark has reached the end of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from headrace.lowlevel.columnar.key_columns import Flags, Numbers
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.sdk.expressions.element_schema import pane_codes
from headrace.sdk.model.panes import PaneInfoTiming
from headrace.sdk.operators.vectorized.state.window_table import (
    END,
    ENDED,
    FINISHED,
    FRESH,
    INDEX,
    NEVER,
    NONSPECULATIVE,
    TIMELY,
    WAKE,
    WindowTable,
)
from headrace.sdk.triggers import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    AtPeriod,
    DefaultTrigger,
    Progress,
    Repeatedly,
    Trigger,
)
from headrace.sdk.triggers.processing_time import AtWallTime
from headrace.sdk.windows import GlobalWindows
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior, Windowing

_CLOCKS = (AfterProcessingTime, AtPeriod)
"""Supported wall-time triggers; a subclass may override their methods and is not supported."""
EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE


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


class Panes(NamedTuple):
    """Panes that have fired; the two arrays and `lines` have one entry for each pane, in the same order."""

    indices: Numbers
    """Index of the pane's line in the table that was evaluated: int64."""
    lines: WindowTable
    """Copies of these lines as they were when the panes fired."""
    codes: Numbers
    """Each pane's `PaneInfo` as a number (see `pane_codes`): int64."""

    def taken(self, indices: Numbers) -> Panes:
        """A copy of the panes at these indices: int64, in any order."""
        return Panes(self.indices[indices], self.lines.taken(indices), self.codes[indices])

    def where(self, chosen: Flags) -> Panes:
        """The panes whose entry in `chosen`, a bool array with one entry for each pane, is True."""
        return self.taken(np.flatnonzero(chosen))

    @classmethod
    def joined(cls, parts: Sequence[Panes]) -> Panes:
        """Concatenate panes in their order. Raises ValueError if `parts` is empty."""
        indices, codes = (np.concatenate([part[at] for part in parts]) for at in (0, 2))
        return cls(indices, WindowTable.joined([part.lines for part in parts], None), codes)


@dataclass(frozen=True, slots=True)
class Firing:
    """The rules by which windows fire: when the trigger is ready, the allowed lateness, and how panes accumulate.

    Arrays that methods take and return have one entry for each line of the `WindowTable` that is their argument: flags
    are bool, numbers are int64. Watermarks and wall times are microseconds UTC.
    """

    early: Readiness | None
    """When an early pane is ready; None if there are no early panes."""
    late: Readiness | None
    """When a late pane is ready; None if elements after the on-time pane are dropped."""
    at_end: bool
    """Whether the trigger fires when the watermark reaches the end of the window."""
    windowing: Windowing

    @property
    def lateness(self) -> int:
        """Allowed lateness: the time from the end of a window until it is closed, microseconds."""
        return self.windowing.allowed_lateness_us

    @property
    def retracts(self) -> bool:
        """Whether a pane retracts the one before it."""
        return self.windowing.accumulation_mode is AccumulationMode.ACCUMULATING_AND_RETRACTING

    @property
    def empty_last(self) -> bool:
        """Whether the last pane is emitted even if no elements have arrived since the previous pane."""
        return self.windowing.closing_behavior is ClosingBehavior.FIRE_ALWAYS

    @classmethod
    def of(cls, windowing: Windowing) -> Firing | None:
        """The rules of a windowing; None if vectorized evaluation does not support the windowing.

        >>> Firing.of(Windowing.of(Windowing().window_fn, allowed_lateness=5)).late.count
        1
        """
        phases = _phases(windowing.trigger)
        if phases is None:
            return None
        early, late, at_end = phases
        stays = windowing.allowed_lateness_us and type(windowing.window_fn) is not GlobalWindows
        if not at_end and stays and not (early and early.at_once):
            # A pane that is not ready when its window ends would hold the watermark until the window closes.
            return None
        return cls(early, late, at_end, windowing)

    @classmethod
    def after_end(cls, windowing: Windowing) -> Firing:
        """The rules that follow from the type of the trigger, without the counts and times of its parts.

        The result is enough for `closed_until` and `due`, for `end` of windows whose panes have been emitted, and for
        windows that have one pane.
        """
        trigger = windowing.trigger
        once = type(trigger) is AfterWatermark and trigger.late is None
        late = None if once else Readiness(1)
        at_end = type(trigger) in (DefaultTrigger, AfterWatermark)
        return cls(None, late, at_end, windowing)

    def closed_until(self, watermark: int) -> int:
        """The latest end of a window that is closed at this watermark, microseconds UTC."""
        return watermark if watermark >= MAX_TIMESTAMP else max(watermark - self.lateness, MIN_TIMESTAMP)

    def due(self, lines: WindowTable) -> Numbers:
        """The next watermark at which each line is evaluated: the end of its window, or the closing if it has ended.

        The result is int64, microseconds UTC.
        """
        latest = MAX_TIMESTAMP - self.lateness
        closes = np.where(lines[END] > latest, MAX_TIMESTAMP, np.minimum(lines[END], latest) + self.lateness)
        return cast(Numbers, np.where(lines.has(ENDED), closes, lines[END]))

    @property
    def waits(self) -> bool:
        """Whether early or late panes may wait for a wall time."""
        return any(phase is not None and phase.wall is not None for phase in (self.early, self.late))

    def wake_in(self, progress: Progress) -> int:
        """The wall time, microseconds UTC, that is stored in a trigger's progress; `NEVER` if there is none."""
        phase = self.early
        if self.at_end and isinstance(progress, tuple):
            is_late, early, late = progress
            phase, progress = (self.late, late) if is_late else (self.early, early)
        return NEVER if phase is None else phase.wake_in(progress)

    def wait(self, lines: WindowTable, arrived: Flags, watermark: int, wall_time: int) -> None:
        """Set `WAKE` of the lines in `arrived` that do not wait for a wall time yet, if their phase waits for one.

        Args:
            lines: Changed in place.
            arrived: Which lines have elements of this bundle.
            watermark: Decides whether a line is in the early or in the late phase.
            wall_time: When the elements arrived.
        """
        past = lines[END] <= watermark
        for phase, in_phase in ((self.early, ~past), (self.late, past)):
            if phase is not None and phase.wall is not None:
                lines[WAKE][in_phase & arrived & (lines[WAKE] == NEVER)] = phase.wall.fires_at(wall_time)

    def enough(self, lines: WindowTable, existed: Flags, watermark: int, wall_time: int) -> Numbers:
        """The number of elements since the last pane from which on each line is ready to fire.

        Args:
            lines: Not changed.
            existed: Which lines are of windows that were open before the bundle.
            watermark: Decides whether a line is in the early or in the late phase.
            wall_time: Compared with the wall times that lines wait for.

        Returns:
            int64; `NEVER` for a line that no number of elements makes ready.
        """
        past = lines[END] <= watermark
        enough = np.where(past, _enough(self.late, lines, wall_time), _enough(self.early, lines, wall_time))
        if self.at_end:
            # A window that is opened after its end fires with its first elements: the watermark has reached the end.
            enough[past & ~existed] = 1
        return cast(Numbers, enough)

    def ask(self, lines: WindowTable, which: Flags, enough: Numbers, watermark: int) -> Panes:
        """Fire the chosen lines that are ready: after the elements of a bundle, or at a wall time.

        Args:
            lines: Changed in place: those that fire are marked as fired, and cleared if panes discard.
            which: Lines that may fire.
            enough: The result of `enough` for these lines.
            watermark: Decides whether panes are early, and whether they are the last of their windows.
        """
        past = lines[END] <= watermark
        fires = which & ~lines.has(FINISHED) & (lines[FRESH] >= enough)
        finishes = past & (self.late is None)
        return self._fire(lines, fires, early=~past, is_last=finishes)

    def end(self, lines: WindowTable, watermark: int, wall_time: int) -> Panes:
        """Set `ENDED` on lines whose windows have ended but are not closed at the watermark; fire those that are ready.

        Every such line fires if `at_end` is True; otherwise a line fires if its late phase is ready at the wall time.
        The lines are changed in place.
        """
        ending = ~lines.has(ENDED) & (lines[END] <= watermark) & (lines[END] > self.closed_until(watermark))
        fires = ending & ~lines.has(FINISHED)
        if not self.at_end:
            fires &= lines[FRESH] >= _enough(self.late, lines, wall_time)
        never = np.zeros(len(lines), np.bool_)
        fired = self._fire(lines, fires, early=never, is_last=never | (self.late is None))
        lines.set_flag(ENDED, ending)
        lines.set_flag(TIMELY, ending & (lines[FRESH] == 0), on=False)
        return fired

    def close(self, lines: WindowTable, watermark: int) -> Panes:
        """Emit the last panes of windows that are closed at the watermark; the lines are changed in place."""
        closing = (lines[END] <= self.closed_until(watermark)) & ~lines.has(FINISHED)
        triggered = ~lines.has(ENDED) & self.at_end
        never = np.zeros(len(lines), np.bool_)
        return self._emit(lines, closing, never, ~never, triggered)

    def _fire(self, lines: WindowTable, fires: Flags, early: Flags, is_last: Flags) -> Panes:
        """Emit panes of the lines in `fires`, and update these lines as a firing trigger does.

        Lines are cleared if panes discard or `is_last` is True; `FINISHED` is set where `is_last` is True; `WAKE`
        becomes `NEVER`.
        """
        fired = self._emit(lines, fires, early, is_last, np.ones(len(lines), np.bool_))
        discards = self.windowing.accumulation_mode is AccumulationMode.DISCARDING
        lines.clear(fires & (is_last | discards))
        lines.set_flag(FINISHED, fires & is_last)
        lines[WAKE][fires] = NEVER
        return fired

    def _emit(self, lines: WindowTable, which: Flags, early: Flags, is_last: Flags, triggered: Flags) -> Panes:
        """Panes of the lines in `which` that have new elements, or whose empty pane is to be emitted.

        Pane indices and the number of new elements are updated in place. `early` and `is_last` are properties of the
        panes; `triggered` is False where only the closing of the window asks for a pane.
        """
        timing = np.where(early, EARLY, np.where(lines.has(TIMELY), ON_TIME, LATE)).astype(np.int64)
        wanted = lines[FRESH] > 0
        if self.at_end and self.windowing.on_time_behavior is OnTimeBehavior.FIRE_ALWAYS:
            wanted |= triggered & (timing == ON_TIME)
        if self.empty_last:
            wanted |= is_last
        wanted &= which
        indices = np.flatnonzero(wanted)
        nonspeculative = np.where(early, -1, lines[NONSPECULATIVE])
        codes = pane_codes(lines[INDEX][indices], nonspeculative[indices], timing[indices], is_last[indices])
        fired = Panes(indices, lines.taken(indices), codes)
        lines[INDEX] += wanted
        lines[NONSPECULATIVE] += wanted & ~early
        lines.set_flag(TIMELY, wanted & ~early, on=False)
        lines[FRESH][which] = 0
        return fired


def _enough(phase: Readiness | None, lines: WindowTable, wall_time: int) -> Numbers | int:
    return NEVER if phase is None else phase.enough(lines, wall_time)


def _phases(trigger: Trigger) -> tuple[Readiness | None, Readiness | None, bool] | None:
    """Values of the fields `early`, `late` and `at_end` of `Firing`; None if the trigger is not supported."""
    if type(trigger) is DefaultTrigger:
        return None, Readiness(1), True
    if type(trigger) is AfterWatermark:
        early, late = (Readiness.of(part) if part else None for part in (trigger.early, trigger.late))
        expressed = (early is None) == (trigger.early is None) and (late is None) == (trigger.late is None)
        return (early, late, True) if expressed else None
    always = Readiness.of(trigger)
    return None if always is None else (always, always, False)
