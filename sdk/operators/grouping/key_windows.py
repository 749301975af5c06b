"""Where: the windows of one key that a bundle touches, from storage and back to it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from functools import lru_cache, reduce

from headrace.lowlevel.computation import Context
from headrace.lowlevel.timer import TimeDomain
from headrace.sdk.arrivals import Arrival
from headrace.sdk.frames import RECORD, Frame
from headrace.sdk.ledger import Ledger
from headrace.sdk.merging import Merged, merge_windows
from headrace.sdk.rules import Rules
from headrace.sdk.shownpanes import ShownPane, ShownPanes
from headrace.sdk.triggers import Moment
from headrace.sdk.windows import Sessions
from headrace.sdk.windows.coder import decode_interval
from headrace.sdk.windowstate import WindowState


class KeyWindows:
    """Finds, opens, merges, stores and frees the windows of the key that a context is at."""

    def __init__(self, rules: Rules, context: Context) -> None:
        self._rules = rules
        self._context = context
        self.watermark = context.watermark
        """Input watermark of the bundle's elements; microseconds UTC."""
        self.wall_time = context.wall_time
        self._open: dict[bytes, WindowState] = {}
        self._dormant: dict[bytes, bytes] | None = None
        """Records not looked at yet, by code; None as long as nobody had to know all of them."""

    def __iter__(self) -> Iterator[WindowState]:
        return iter(self._open.values())

    @property
    def shown(self) -> ShownPanes:
        """The panes that the windows may have to take back: few groupings have such."""
        return ShownPanes(self._context)

    def find(self, frame: Frame) -> WindowState | None:
        """A window's state; None if there is none."""
        return self._open.get(frame.code) or self._load(frame)

    def find_or_open(self, frame: Frame) -> WindowState | None:
        """A window's state, new if there is none; None if the window is closed."""
        state = self._open.get(frame.code)
        if state is not None:
            return state
        if frame.closes <= self.watermark:
            return None
        return self._load(frame) or self._begin(frame)

    def _begin(self, frame: Frame) -> WindowState:
        state = self._open[frame.code] = WindowState(frame)
        if self.watermark < frame.end:
            state.due = frame.end
        else:
            state.due = frame.closes
            state.timely = False
        return state

    def _load(self, frame: Frame) -> WindowState | None:
        data = self._context.read(frame.cell) if self._dormant is None else self._dormant.pop(frame.code, None)
        if data is None:
            return None
        state = self._open[frame.code] = WindowState.decode(frame, data)
        if not state.finished:
            state.content = self._rules.contents.unpack(state.content)
        return state

    # Merging

    def merge(self, arrivals: list[Arrival], apart: bool) -> tuple[list[Arrival], int]:
        """Merge windows as far as new elements make it necessary.

        The elements go to the merged windows; with how many were dropped, as their own window is closed. With `apart`,
        the new elements' windows do not merge among themselves.
        """
        came = [arrival for arrival in arrivals if arrival.frame.closes > self.watermark]
        late = sum(arrival.lost for arrival in arrivals if arrival.frame.closes <= self.watermark)
        windows = self._mergeable(came)
        if not windows and (apart or len(came) < 2):
            return came, late
        windows.update((arrival.frame.code, arrival.frame) for arrival in came)
        home: dict[bytes, Frame] = {}
        for merged in merge_windows(self._rules.windowing.window_fn, self._rules.frames, list(windows.values())):
            if len(merged.parts) > 1 or merged.parts[0].code != merged.frame.code:
                self._join(merged)
            home.update((part.code, merged.frame) for part in merged.parts)
        return [arrival._replace(frame=home[arrival.frame.code]) for arrival in came], late

    def _mergeable(self, came: list[Arrival]) -> dict[bytes, Frame]:
        """The windows of the key that new elements may merge with, by code."""
        if self._dormant is None:
            stored = ((cell[len(RECORD) :], data) for cell, data in self._context.scan(RECORD))
            self._dormant = {code: data for code, data in stored if code not in self._open}
        if self._rules.takes_back:
            # One from which everything was taken back only waits to say so: it holds nothing together.
            found = [*self, *map(self.find, map(self._rules.frames.of_code, list(self._dormant)))]
            return {state.frame.code: state.frame for state in found if state is not None and state.live}
        windows = {state.frame.code: state.frame for state in self}
        sessions = type(self._rules.windowing.window_fn) is Sessions
        codes = _touched(self._dormant, came) if sessions else self._dormant
        windows.update((code, self._rules.frames.of_code(code)) for code in codes)
        return windows

    def _join(self, merged: Merged) -> None:
        """Let one window take over what several hold: content, progress, timers, holds, and panes to take back.

        Numbers of panes are not passed on: they belong to a window, which counts from 0 unless it was there before.
        """
        frame, rules = merged.frame, self._rules
        frames = {part.code: part for part in merged.parts}
        if rules.takes_back:
            # A window of these bounds may be there with nothing in it.
            frames[frame.code] = frame
        parts = [state for part in frames.values() if (state := self.find(part)) is not None]
        if not parts:
            return
        target = next((part for part in parts if part.frame.code == frame.code), None)
        if target is None:
            target = self._open[frame.code] = WindowState(frame)
        moment = self.moment(frame, self.watermark)
        stamps = [part.stamp for part in parts if part.stamp is not None]
        target.progress = rules.trigger.on_merge([part.progress for part in parts], moment)
        rules.contents.merge(target, parts)
        target.fresh = sum(part.fresh for part in parts)
        target.live = sum(part.live for part in parts)
        # A window has one pane ON_TIME at most.
        waits = not target.nonspeculative and any(part.timely for part in parts)
        target.timely = not moment.past_end or waits
        target.stamp = reduce(rules.windowing.timestamp_combiner.combine, stamps) if stamps else None
        target.due = frame.closes if moment.past_end else frame.end
        target.changed = True
        self._pass_panes_on(parts, target)
        for part in parts:
            if part is not target:
                self.free(part)
        self.set_wake(target)

    def _pass_panes_on(self, parts: list[WindowState], target: WindowState) -> None:
        """What windows have put out is to be taken back by another from now on."""
        panes = [pane for part in parts if part.shown for pane in self.shown.take(part.frame)]
        for part in parts:
            part.shown = False
        if panes:
            self.shown.put(target.frame, panes)
            target.shown = True

    def split(self, state: WindowState) -> list[WindowState]:
        """What becomes of a merged window from which elements were taken back: what held it together may be gone.

        The first of several windows takes back what the one put out. To all of them their elements are new, and each
        counts its panes anew unless it has the bounds of the one.
        """
        rules, contents = self._rules, self._rules.contents
        if not rules.merging or not state.live:
            return [state]
        assert isinstance(contents, Ledger), "where windows merge, elements are kept with theirs"
        held: dict[bytes, list[object]] = {}
        for member in contents.members(state, self._context):
            held.setdefault(member[1], []).append(member)
        groups = merge_windows(rules.windowing.window_fn, rules.frames, list(map(rules.frames.of_code, held)))
        if [merged.frame.code for merged in groups] == [state.frame.code]:
            return [state]
        panes = self.shown.take(state.frame) if state.shown else []
        state.shown = False
        contents.discard(state, self._context)
        self.free(state)
        parts = [self._part_of(state, merged, held) for merged in groups]
        self._inherit(parts, state, panes)
        return parts

    def _inherit(self, parts: list[WindowState], whole: WindowState, panes: list[ShownPane]) -> None:
        """Pass on what a window that fell apart has put out."""
        first = parts[0]
        first.stamp = whole.stamp
        if panes:
            if first.shown:
                panes = [*self.shown.take(first.frame), *panes]
            self.shown.put(first.frame, panes)
            first.shown = True
        for part in parts:
            if part.frame.code == whole.frame.code:
                part.index, part.nonspeculative = whole.index, whole.nonspeculative

    def _part_of(self, whole: WindowState, merged: Merged, held: dict[bytes, list[object]]) -> WindowState:
        """A window with some of the elements of one that falls apart."""
        frame, rules = merged.frame, self._rules
        moment = self.moment(frame, self.watermark)
        # A window of these bounds may be there: one that waits to say that everything was taken back.
        part = self.find(frame)
        progresses = [whole.progress]
        if part is None:
            part = self._open[frame.code] = WindowState(frame)
            part.due = frame.closes if moment.past_end else frame.end
            part.timely = not moment.past_end
        else:
            progresses.append(part.progress)
        items = [member for of in merged.parts for member in held[of.code]]
        rules.contents.add(part, items)
        part.live += len(items)
        part.fresh += len(items)
        part.progress = rules.trigger.on_merge(progresses, moment)
        part.changed = True
        self.set_wake(part)
        return part

    def finish(self, state: WindowState) -> None:
        """The trigger of a window has finished: until the window closes, what comes for it is dropped.

        A window that could merge is forgotten instead: later elements begin a window of their own.
        """
        state.stamp = None
        state.due = state.frame.closes
        if state.shown:
            self.shown.forget(state.frame)
            state.shown = False
        if self._rules.merging:
            self.free(state)

    # Storage

    def store(self, state: WindowState) -> None:
        """Write a window's record, timer and hold."""
        frame, context = state.frame, self._context
        if state.timer != state.due:
            context.set_timer(frame.tag, state.due)
            state.timer = state.due
        hold = state.wanted_hold
        if hold != state.held:
            if hold is None:
                context.release(frame.tag)
            else:
                context.hold(hold, frame.tag)
            state.held = hold
        packed = None if state.finished else self._rules.contents.pack(state, context)
        try:
            record = state.encode(packed)
        except Exception as error:
            raise self._unstorable(state, error) from error
        context.write(frame.cell, record)

    def _unstorable(self, state: WindowState, error: Exception) -> Exception:
        """A clear error: it is the trigger's doing, or the accumulator's."""
        try:
            pickle.dumps(state.progress)
        except Exception:
            return TypeError(
                f"trigger {self._rules.trigger} remembers {state.progress!r:.200} of window {state.frame.window}, "
                f"which cannot be stored ({error}); let its progress be made of None, numbers, strings and tuples"
            )
        return TypeError(
            f"what is combined in window {state.frame.window}, {state.content!r:.200}, cannot be stored ({error}); "
            "let it be made of what can be pickled"
        )

    def free(self, state: WindowState) -> None:
        """Take away a window's record, timers and hold; its content is gone or another window's by now."""
        frame, context = state.frame, self._context
        if state.timer is not None:
            context.delete_timer(frame.tag)
        if state.wake is not None:
            context.delete_timer(frame.tag, TimeDomain.WALL_TIME)
        if state.held is not None:
            context.release(frame.tag)
        if state.stored:
            context.write(frame.cell, None)
        if state.shown:
            self.shown.forget(frame)
        state.removed = True
        del self._open[frame.code]

    def set_wake(self, state: WindowState) -> None:
        """Set the wall-time timer to what the trigger wants next."""
        if not self._rules.uses_wall_time:
            return
        wake = None if state.finished else self._rules.trigger.wake_at(state.progress, self.wall_time)
        if wake != state.wake:
            if wake is None:
                self._context.delete_timer(state.frame.tag, TimeDomain.WALL_TIME)
            else:
                self._context.set_timer(state.frame.tag, wake, TimeDomain.WALL_TIME)
            state.wake = wake
            state.changed = True

    def moment(self, frame: Frame, watermark: int) -> Moment:
        """What a trigger sees of a window at a watermark."""
        return _moment(frame.end, watermark, self.wall_time, self._rules.merging)


_moment = lru_cache(1_000)(Moment)
"""All keys of a bundle see the same few."""


def _touched(stored: Iterable[bytes], came: list[Arrival]) -> list[bytes]:
    """Codes of the stored sessions that overlap new ones; stored ones never overlap each other."""
    news = [decode_interval(arrival.frame.code) for arrival in came]
    touched = []
    for code in stored:
        start, end = decode_interval(code)
        if any(start < new_end and new_start < end for new_start, new_end in news):
            touched.append(code)
    return touched
