"""Panes by brute force: every window with all that came to it, no storage, no timers; written apart from the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.sdk.model.panes import PaneInfo, PaneInfoTiming
from headrace.sdk.triggers import AccumulationMode
from headrace.sdk.windows import BoundedWindow, IntervalWindow, Sessions, TimestampCombiner
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior, Windowing
from tests.harness import Element, Pane
from tests.properties.nodes import Node, Now, node_of

EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE


@dataclass(eq=False)
class Open:
    """A window that has had elements and is not closed."""

    key: object
    window: BoundedWindow
    node: Node
    awaited: bool
    """Whether its pane on time is still to come."""
    values: list[object] = field(default_factory=list)
    fresh: int = 0
    panes: int = 0
    spoken: int = 0
    """Panes that were not EARLY."""
    times: list[int] = field(default_factory=list)
    """Event times that count for the timestamp of the next pane."""
    shown: list[Pane] = field(default_factory=list)
    """What is to be taken back."""


Elements = list[tuple[object, int]]
"""Values with their event times."""
Run = tuple[int, int, list[Open], Elements]
"""A stretch of time with the windows and the new elements in it."""


class Oracle:
    """A grouping as the model has it."""

    def __init__(self, windowing: Windowing) -> None:
        self.windowing = windowing
        self.merging = windowing.window_fn.is_merging()
        self.discarding = windowing.accumulation_mode is AccumulationMode.DISCARDING
        self.retracting = windowing.accumulation_mode is AccumulationMode.ACCUMULATING_AND_RETRACTING
        self.open: list[Open] = []
        self.watermark, self.wall = MIN_TIMESTAMP, 0
        self.panes: list[Pane] = []
        self.dropped = self.outside = 0

    # What happens

    def add(self, elements: Sequence[Element], wall: int) -> None:
        """A bundle of elements, at a wall time at which timers are yet to fire."""
        before, self.wall = self.wall, wall
        touched: dict[Open, list[tuple[object, int]]] = {}
        for key in dict.fromkeys(key for key, _, _ in elements):
            its = [(value, time) for of, value, time in elements if of == key]
            for window, values in self._sessions(key, its) if self.merging else self._windows(key, its):
                touched.setdefault(window, []).extend(values)
        for window, its in touched.items():
            values = [value for value, _ in its]
            window.values += values
            window.fresh += len(values)
            if self.watermark < window.window.end_us:
                window.times += [time for _, time in its]
            window.node.elements(values, self._now(window))
        for window in touched:
            self._ask(window)
        self.wall = before

    def clock(self, wall: int) -> None:
        """Wall time moves on."""
        before, self.wall = self.wall, wall
        for window in list(self.open):
            if not window.node.done and any(before < time <= wall for time in window.node.times()):
                self._ask(window)

    def advance(self, watermark: int) -> None:
        """The watermark moves on."""
        before, self.watermark = self.watermark, watermark
        for window in list(self.open):
            if self._closes(window.window) <= watermark:
                self._close(window)
            elif before < window.window.end_us <= watermark:
                self._ask(window)
                window.awaited = window.awaited and window.fresh > 0

    # Where

    def _windows(self, key: object, its: Elements) -> list[tuple[Open, Elements]]:
        added: list[tuple[Open, Elements]] = []
        for value, time in its:
            windows = self.windowing.window_fn.assign_all([time], [value])[0]
            self.outside += not windows
            last = max(windows, key=self._closes, default=None)
            for window in windows:
                found = self._find(key, window)
                if found is not None and not found.node.done:
                    added.append((found, [(value, time)]))
                elif window is last:
                    self.dropped += 1
        return added

    def _find(self, key: object, window: BoundedWindow) -> Open | None:
        if self._closes(window) <= self.watermark:
            return None
        found = [one for one in self.open if one.key == key and one.window == window]
        return found[0] if found else self._begin(key, window)

    def _begin(self, key: object, window: BoundedWindow) -> Open:
        self.open.append(Open(key, window, node_of(self.windowing.trigger), self.watermark < window.end_us))
        return self.open[-1]

    def _sessions(self, key: object, its: Elements) -> list[tuple[Open, Elements]]:
        assert isinstance(self.windowing.window_fn, Sessions)
        gap = self.windowing.window_fn.gap_size.micros
        runs: list[Run] = []
        for one in self.open:
            if one.key == key:
                assert isinstance(one.window, IntervalWindow)
                runs.append((one.window.start_us, one.window.end_us, [one], []))
        for value, time in its:
            if self._closes(IntervalWindow.of_micros(time, time + gap)) <= self.watermark:
                self.dropped += 1
            else:
                runs.append((time, time + gap, [], [(value, time)]))
        return [(self._session(key, run), run[3]) for run in _overlapping(runs) if run[3]]

    def _session(self, key: object, run: Run) -> Open:
        start, end, parts, _ = run
        window = IntervalWindow.of_micros(start, end)
        if [part.window for part in parts] == [window]:
            return parts[0]
        joined = self._begin(key, window)
        if parts:
            joined.node = joined.node.join([part.node for part in parts], self._now(joined))
            joined.awaited = joined.awaited or any(part.awaited for part in parts)
            joined.values = [value for part in parts for value in part.values]
            joined.fresh = sum(part.fresh for part in parts)
            joined.times = [time for part in parts for time in part.times]
            joined.shown = [pane for part in parts for pane in part.shown]
            self.open = [one for one in self.open if one not in parts]
        return joined

    # When

    def _closes(self, window: BoundedWindow) -> int:
        return min(window.end_us + self.windowing.allowed_lateness_us, MAX_TIMESTAMP)

    def _now(self, window: Open) -> Now:
        return Now(self.wall, self.watermark >= window.window.end_us, self.merging)

    def _ask(self, window: Open) -> None:
        now = self._now(window)
        if window.node.done or not window.node.ready(now):
            return
        window.node.fire(now)
        self._pane(window, triggered=True, last=window.node.done)
        if window.node.done:
            window.shown = []
            if self.merging:
                self.open.remove(window)

    def _close(self, window: Open) -> None:
        self.open.remove(window)
        if not window.node.done:
            self._pane(window, triggered=not window.fresh and window.node.ready(self._now(window)), last=True)

    # How

    def _pane(self, window: Open, *, triggered: bool, last: bool) -> None:
        early = self.watermark < window.window.end_us
        timing = EARLY if early else ON_TIME if window.awaited else LATE
        windowing = self.windowing
        at_end = triggered and timing is ON_TIME and window.node.has_on_time()
        if (
            window.fresh
            or (at_end and windowing.on_time_behavior is OnTimeBehavior.FIRE_ALWAYS)
            or (last and windowing.closing_behavior is ClosingBehavior.FIRE_ALWAYS)
        ):
            self.panes += [replace(one, info=replace(one.info, is_retraction=True)) for one in window.shown]
            info = PaneInfo(window.panes == 0, last, timing, window.panes, -1 if early else window.spoken)
            pane = Pane(window.key, list(window.values), window.window, self._timestamp(window), info)
            self.panes.append(pane)
            window.shown = [pane] if self.retracting else []
            window.panes += 1
            if not early:
                window.spoken += 1
                window.awaited = False
        window.fresh = 0
        if self.discarding:
            window.values = []
        # Early panes that accumulate have the time of all elements, until the pane at the end.
        if self.discarding or not early or not window.node.has_on_time():
            window.times = []

    def _timestamp(self, window: Open) -> int:
        """The event time of a pane; right as long as no element is late."""
        combiner = self.windowing.timestamp_combiner
        if not window.times or combiner is TimestampCombiner.OUTPUT_AT_EOW:
            return window.window.end_us - 1
        return max(window.times) if combiner is TimestampCombiner.OUTPUT_AT_LATEST else min(window.times)


def _overlapping(runs: list[Run]) -> list[Run]:
    """Those that overlap put together."""
    together: list[Run] = []
    for start, end, parts, its in sorted(runs, key=lambda run: run[:2]):
        if together and start < together[-1][1]:
            first, until, held, has = together.pop()
            together.append((first, max(until, end), [*held, *parts], [*has, *its]))
        else:
            together.append((start, end, parts, its))
    return together
