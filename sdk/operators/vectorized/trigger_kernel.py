"""When and how, for the windows of all keys of an interval: triggers that count or wait, as rules for columns.

What `Grouping` asks a trigger of one window, this asks of all: after the elements of a bundle, when the wall clock
reaches a time that it waits for, when the watermark reaches the end, and when allowed lateness is over. For these
triggers all that there is to remember is how many elements came since the last pane, until when the next one waits, and
whether the end has been reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.sdk.columns.fired import pane_codes
from headrace.sdk.columns.lines import (
    END,
    ENDED,
    FINISHED,
    FRESH,
    INDEX,
    NEVER,
    NONSPECULATIVE,
    TIMELY,
    WAKE,
    Lines,
)
from headrace.sdk.columns.readiness import Readiness
from headrace.sdk.columns.sessions import Flags
from headrace.sdk.panes import PaneInfoTiming
from headrace.sdk.triggers import AccumulationMode, AfterWatermark, DefaultTrigger, Progress, Trigger
from headrace.sdk.windowing import ClosingBehavior, OnTimeBehavior, Windowing
from headrace.sdk.windows import GlobalWindows

EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE


class Panes(NamedTuple):
    """What fires."""

    places: Numbers
    """Of the lines that it comes from."""
    lines: Lines
    """What they held."""
    codes: Numbers
    """The panes; see `pane_codes`."""

    def taken(self, places: Numbers) -> Panes:
        """Those at these places."""
        return Panes(self.places[places], self.lines.taken(places), self.codes[places])

    def where(self, chosen: Flags) -> Panes:
        """Those for which it is true."""
        return self.taken(np.flatnonzero(chosen))

    @classmethod
    def joined(cls, parts: Sequence[Panes]) -> Panes:
        """All of several."""
        places, codes = (np.concatenate([part[at] for part in parts]) for at in (0, 2))
        return cls(places, Lines.joined([part.lines for part in parts], 0), codes)


@dataclass(frozen=True, slots=True)
class Firing:
    """A trigger and how its panes accumulate."""

    early: Readiness | None
    """When there is a pane before the end; None: there is none."""
    late: Readiness | None
    """The same after the end; None: what comes then is dropped."""
    at_end: bool
    """Whether there is a pane at the end."""
    lateness: int
    """Microseconds for which a window stays after its end."""
    discarding: bool
    empty_on_time: bool
    """Whether the pane at the end is wanted even if nothing came since the last."""
    empty_last: bool
    """Whether the last pane is wanted even if nothing came since the one before."""

    @classmethod
    def of(cls, windowing: Windowing) -> Firing | None:
        """What a windowing means; None if columns do not express it.

        >>> Firing.of(Windowing.of(Windowing().window_fn, allowed_lateness=5)).late.count
        1
        """
        mode, lateness = windowing.accumulation_mode, windowing.allowed_lateness_us
        phases = _phases(windowing.trigger)
        if phases is None or mode is AccumulationMode.ACCUMULATING_AND_RETRACTING:
            return None
        early, late, at_end = phases
        stays = lateness and type(windowing.window_fn) is not GlobalWindows
        if not at_end and stays and not (early and early.at_once):
            # A pane that is not ready when its window ends would hold the watermark until the window closes.
            return None
        return cls(early, late, at_end, *_behavior(windowing))

    @classmethod
    def after_end(cls, windowing: Windowing) -> Firing:
        """What is known of the end of windows by the kind of the trigger alone, whatever it counts or waits for."""
        trigger = windowing.trigger
        once = type(trigger) is AfterWatermark and trigger.late is None
        late = None if once else Readiness(1)
        at_end = type(trigger) in (DefaultTrigger, AfterWatermark)
        return cls(None, late, at_end, *_behavior(windowing))

    def closed_until(self, watermark: int) -> int:
        """The latest end of a window that is closed at a watermark, microseconds UTC."""
        return watermark if watermark >= MAX_TIMESTAMP else max(watermark - self.lateness, MIN_TIMESTAMP)

    def due(self, lines: Lines) -> Numbers:
        """When the watermark next matters: the end of each one's window, or its closing."""
        latest = MAX_TIMESTAMP - self.lateness
        closes = np.where(lines[END] > latest, MAX_TIMESTAMP, np.minimum(lines[END], latest) + self.lateness)
        return cast(Numbers, np.where(lines.has(ENDED), closes, lines[END]))

    @property
    def waits(self) -> bool:
        """Whether a pane may wait for the wall clock."""
        return any(phase is not None and phase.wall is not None for phase in (self.early, self.late))

    def wake_in(self, progress: Progress) -> int:
        """The wall time that the trigger's progress remembers, microseconds UTC; `NEVER` if none."""
        phase = self.early
        if self.at_end and isinstance(progress, tuple):
            is_late, early, late = progress
            phase, progress = (self.late, late) if is_late else (self.early, early)
        return NEVER if phase is None else phase.wake_in(progress)

    def wait(self, lines: Lines, came: Flags, watermark: int, wall_time: int) -> None:
        """Set until when panes wait that begin with what came."""
        past = lines[END] <= watermark
        for phase, its in ((self.early, ~past), (self.late, past)):
            if phase is not None and phase.wall is not None:
                lines.numbers[WAKE, its & came & (lines[WAKE] == NEVER)] = phase.wall.fires_at(wall_time)

    def enough(self, lines: Lines, existed: Flags, watermark: int, wall_time: int) -> Numbers:
        """How many new elements make a pane of each line at a watermark and a wall time."""
        past = lines[END] <= watermark
        enough = np.where(past, _enough(self.late, lines, wall_time), _enough(self.early, lines, wall_time))
        if self.at_end:
            # The first elements after the end are in the pane that fires because of it.
            enough[past & ~existed] = 1
        return cast(Numbers, enough)

    def ask(self, lines: Lines, which: Flags, enough: Numbers, watermark: int) -> Panes:
        """The panes that are ready: after a bundle's elements, of lines that some came for, or at a wall time."""
        past = lines[END] <= watermark
        fires = which & ~lines.has(FINISHED) & (lines[FRESH] >= enough)
        finishes = past & (self.late is None)
        return self._fire(lines, fires, early=~past, is_last=finishes)

    def end(self, lines: Lines, watermark: int, wall_time: int) -> Panes:
        """The panes of windows that have ended and are not closed."""
        ending = ~lines.has(ENDED) & (lines[END] <= watermark) & (lines[END] > self.closed_until(watermark))
        fires = ending & ~lines.has(FINISHED)
        if not self.at_end:
            fires &= lines[FRESH] >= _enough(self.late, lines, wall_time)
        never = np.zeros(len(lines), np.bool_)
        fired = self._fire(lines, fires, early=never, is_last=never | (self.late is None))
        lines.set_flag(ENDED, ending)
        lines.set_flag(TIMELY, ending & (lines[FRESH] == 0), on=False)
        return fired

    def close(self, lines: Lines, watermark: int) -> Panes:
        """The last panes of windows that are closed."""
        closing = (lines[END] <= self.closed_until(watermark)) & ~lines.has(FINISHED)
        triggered = ~lines.has(ENDED) & self.at_end
        never = np.zeros(len(lines), np.bool_)
        return self._emit(lines, closing, never, ~never, triggered)

    def _fire(self, lines: Lines, fires: Flags, early: Flags, is_last: Flags) -> Panes:
        """The trigger says that it is time for a pane."""
        fired = self._emit(lines, fires, early, is_last, np.ones(len(lines), np.bool_))
        lines.empty(fires & (is_last | self.discarding))
        lines.set_flag(FINISHED, fires & is_last)
        lines.numbers[WAKE, fires] = NEVER
        return fired

    def _emit(self, lines: Lines, which: Flags, early: Flags, is_last: Flags, triggered: Flags) -> Panes:
        """Panes where there is something new, or where they are wanted even so."""
        timing = np.where(early, EARLY, np.where(lines.has(TIMELY), ON_TIME, LATE)).astype(np.int64)
        wanted = lines[FRESH] > 0
        if self.at_end and self.empty_on_time:
            wanted |= triggered & (timing == ON_TIME)
        if self.empty_last:
            wanted |= is_last
        wanted &= which
        places = np.flatnonzero(wanted)
        nonspeculative = np.where(early, -1, lines[NONSPECULATIVE])
        codes = pane_codes(lines[INDEX][places], nonspeculative[places], timing[places], is_last[places])
        fired = Panes(places, lines.taken(places), codes)
        lines[INDEX] += wanted
        lines[NONSPECULATIVE] += wanted & ~early
        lines.set_flag(TIMELY, wanted & ~early, on=False)
        lines.numbers[FRESH, which] = 0
        return fired


def _behavior(windowing: Windowing) -> tuple[int, bool, bool, bool]:
    """Lateness, whether panes discard, and whether empty ones are wanted at the end and when a window closes."""
    return (
        windowing.allowed_lateness_us,
        windowing.accumulation_mode is AccumulationMode.DISCARDING,
        windowing.on_time_behavior is OnTimeBehavior.FIRE_ALWAYS,
        windowing.closing_behavior is ClosingBehavior.FIRE_ALWAYS,
    )


def _enough(phase: Readiness | None, lines: Lines, wall_time: int) -> Numbers | int:
    return NEVER if phase is None else phase.enough(lines, wall_time)


def _phases(trigger: Trigger) -> tuple[Readiness | None, Readiness | None, bool] | None:
    """When there are an early and a late pane, and whether there is one at the end; None if columns do not tell."""
    if type(trigger) is DefaultTrigger:
        return None, Readiness(1), True
    if type(trigger) is AfterWatermark:
        early, late = (Readiness.of(part) if part else None for part in (trigger.early, trigger.late))
        expressed = (early is None) == (trigger.early is None) and (late is None) == (trigger.late is None)
        return (early, late, True) if expressed else None
    always = Readiness.of(trigger)
    return None if always is None else (always, always, False)
