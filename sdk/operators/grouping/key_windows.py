"""Where: the windows of one key that a bundle touches, read from storage and written back."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.topology.computation import Context
from headrace.lowlevel.topology.timer import TimeDomain
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.grouping.merging import Merged, merge_windows
from headrace.sdk.operators.grouping.pane_output import EmittedPane, EmittedPanes
from headrace.sdk.operators.grouping.window_assignment import WindowInput, joined_by_window
from headrace.sdk.operators.grouping.window_contents import RetractableContents
from headrace.sdk.operators.grouping.window_state import WindowState
from headrace.sdk.triggers import Moment
from headrace.sdk.windows import Sessions
from headrace.sdk.windows.bounded import decode_interval
from headrace.sdk.windows.window_namespace import RECORD, WindowNamespace


class KeyWindows:
    """Finds, opens, merges, splits, stores and frees the windows of a key; `context` is the key's."""

    def __init__(self, config: GroupingConfig, context: Context) -> None:
        self._config = config
        self._context = context
        self.watermark = context.watermark
        """Input watermark of the bundle's elements; microseconds UTC."""
        self.wall_time = context.wall_time
        self._open: dict[bytes, WindowState] = {}
        self._dormant: dict[bytes, bytes] | None = None
        """Stored records not decoded yet, by code; None until the records are listed, which only merging needs."""

    def __iter__(self) -> Iterator[WindowState]:
        return iter(self._open.values())

    def find(self, namespace: WindowNamespace) -> WindowState | None:
        """A window's state; None if there is none."""
        return self._open.get(namespace.code) or self._load(namespace)

    def find_or_open(self, namespace: WindowNamespace) -> WindowState | None:
        """A window's state, new if there is none; None if the window is closed, so that its elements are late."""
        state = self._open.get(namespace.code)
        if state is not None:
            return state
        if is_closed(namespace.closes, self.watermark):
            return None
        return self._load(namespace) or self._begin(namespace)

    def _begin(self, namespace: WindowNamespace) -> WindowState:
        state = self._open[namespace.code] = WindowState(namespace, self.watermark)
        return state

    def _load(self, namespace: WindowNamespace) -> WindowState | None:
        data = self._context.read(namespace.cell) if self._dormant is None else self._dormant.pop(namespace.code, None)
        if data is None:
            return None
        state = self._open[namespace.code] = WindowState.decode(namespace, data, self._config.contents.unpack)
        return state

    # Merging

    def merge(self, arrivals: list[WindowInput], disjoint: bool) -> list[WindowInput]:
        """Merge windows as new elements require it, and return the elements by merged window.

        `disjoint` says that the new elements' windows do not merge among themselves.
        """
        windows = self._mergeable(arrivals)
        if not windows and (disjoint or len(arrivals) < 2):
            return arrivals
        windows.update((arrival.namespace.code, arrival.namespace) for arrival in arrivals)
        merged_into: dict[bytes, WindowNamespace] = {}
        for merged in merge_windows(self._config.windowing.window_fn, self._config.namespaces, list(windows.values())):
            if len(merged.parts) > 1 or merged.parts[0].code != merged.namespace.code:
                self._join(merged)
            merged_into.update((part.code, merged.namespace) for part in merged.parts)
        return [replace(arrival, namespace=merged_into[arrival.namespace.code]) for arrival in arrivals]

    def _mergeable(self, arrivals: list[WindowInput]) -> dict[bytes, WindowNamespace]:
        """The windows of the key that new elements may merge with, by code."""
        if self._dormant is None:
            stored = ((cell[len(RECORD) :], data) for cell, data in self._context.scan(RECORD))
            self._dormant = {code: data for code, data in stored if code not in self._open}
        if self._config.takes_back:
            # A fully retracted window does not merge; it only emits its retraction.
            found = [*self, *map(self.find, map(self._config.namespaces.of_code, list(self._dormant)))]
            return {state.namespace.code: state.namespace for state in found if state is not None and state.live}
        windows = {state.namespace.code: state.namespace for state in self}
        sessions = type(self._config.windowing.window_fn) is Sessions
        codes = _touched(self._dormant, arrivals) if sessions else self._dormant
        windows.update((code, self._config.namespaces.of_code(code)) for code in codes)
        return windows

    def holding(self, arrivals: list[WindowInput]) -> list[WindowInput]:
        """Retracted elements, each with the window that may hold it, or with one that is not there.

        A window that holds an element stays as it is if it merges with the element's own window.
        """
        live, config, holders = self._mergeable(arrivals), self._config, []
        for arrival in arrivals:
            own = arrival.namespace
            windows = list({**live, own.code: own}.values())
            merged = merge_windows(config.windowing.window_fn, config.namespaces, windows)
            holder = next(each.namespace for each in merged if any(part.code == own.code for part in each.parts))
            holders.append(replace(arrival, namespace=holder))
        # Removing elements may split a window, so all elements of a window are removed at once.
        return joined_by_window(holders)

    def _join(self, merged: Merged) -> None:
        """Let one window take over content, progress, timers, holds and emitted panes of several.

        The merged window numbers its panes from 0, unless one of the parts has the same bounds: then it goes on with
        the numbers of that part.
        """
        namespace, config = merged.namespace, self._config
        namespaces = {part.code: part for part in merged.parts}
        if config.takes_back:
            # There may be a fully retracted window with the same bounds.
            namespaces[namespace.code] = namespace
        parts = [state for part in namespaces.values() if (state := self.find(part)) is not None]
        if not parts:
            return
        target = next((part for part in parts if part.namespace.code == namespace.code), None) or self._begin(namespace)
        moment = self.moment(namespace, self.watermark)
        progress = config.trigger.on_merge([part.progress for part in parts], moment)
        config.contents.merge(target, parts)
        target.join(parts, progress, config.windowing.timestamp_combiner, moment.past_end)
        self._move_panes(parts, target)
        for part in parts:
            if part is not target:
                self.free(part)
        self.set_wake(target)

    def _move_panes(self, parts: list[WindowState], target: WindowState) -> None:
        """Let one window retract the panes that several windows have emitted."""
        emitted = EmittedPanes(self._context)
        if panes := [pane for part in parts for pane in emitted.take(part)]:
            emitted.put(target, panes)

    def split(self, state: WindowState) -> list[WindowState]:
        """Split a merged window from which elements were removed; returns the windows that are left.

        The first of several windows takes over the panes to retract. Each of them counts its elements as new, and
        numbers its panes from 0 unless it has the bounds of the merged window.
        """
        config, contents = self._config, self._config.contents
        if not config.merging or not state.live:
            return [state]
        assert isinstance(contents, RetractableContents), "a merging grouping keeps each element with its own window"
        members: dict[bytes, list[object]] = {}
        for member in contents.members(state, self._context):
            members.setdefault(member[1], []).append(member)
        groups = merge_windows(
            config.windowing.window_fn, config.namespaces, list(map(config.namespaces.of_code, members))
        )
        if [merged.namespace.code for merged in groups] == [state.namespace.code]:
            return [state]
        panes = EmittedPanes(self._context).take(state)
        contents.discard(state, self._context)
        self.free(state)
        parts = [self._part_of(state, merged, members) for merged in groups]
        self._inherit(parts, state, panes)
        return parts

    def _inherit(self, parts: list[WindowState], whole: WindowState, panes: list[EmittedPane]) -> None:
        """Pass timestamp, emitted panes and pane numbers of a split window on to its parts."""
        first, emitted = parts[0], EmittedPanes(self._context)
        first.inherit_stamp(whole)
        if panes:
            emitted.put(first, [*emitted.take(first), *panes])
        for part in parts:
            if part.namespace.code == whole.namespace.code:
                part.inherit_numbers(whole)

    def _part_of(self, whole: WindowState, merged: Merged, members: dict[bytes, list[object]]) -> WindowState:
        """One part of a split window, with its elements; `members` are the elements by code of their own window."""
        namespace, config = merged.namespace, self._config
        # There may be a fully retracted window with the same bounds, which has not emitted its retraction yet.
        part = self.find(namespace)
        progresses = [whole.progress] if part is None else [whole.progress, part.progress]
        part = part or self._begin(namespace)
        items = [member for window in merged.parts for member in members[window.code]]
        config.contents.add(part, items)
        part.add(len(items))
        part.progress_to(config.trigger.on_merge(progresses, self.moment(namespace, self.watermark)))
        self.set_wake(part)
        return part

    def finish(self, state: WindowState) -> None:
        """Mark a window whose trigger has finished: its elements are dropped until the window closes.

        A merging window is freed instead: later elements begin a new window.
        """
        state.finish()
        if state.shown:
            EmittedPanes(self._context).forget(state)
        if self._config.merging:
            self.free(state)

    # Storage

    def store(self, state: WindowState) -> None:
        """Write a window's record, timer and hold."""
        namespace, context = state.namespace, self._context
        if state.timer != state.due:
            context.set_timer(namespace.tag, state.due)
        hold = state.wanted_hold
        if hold != state.held:
            if hold is None:
                context.release(namespace.tag)
            else:
                context.hold(hold, namespace.tag)
        if state.timer != state.due or hold != state.held:
            state.set_marks(hold)
        packed = None if state.finished else self._config.contents.pack(state, context)
        try:
            record = state.encode(packed)
        except Exception as error:
            raise self._unstorable(state, error) from error
        context.write(namespace.cell, record)

    def _unstorable(self, state: WindowState, error: Exception) -> Exception:
        """The `TypeError` for a record that cannot be pickled: it names the trigger's progress or the accumulator."""
        try:
            pickle.dumps(state.progress)
        except Exception:
            return TypeError(
                f"trigger {self._config.trigger} remembers {state.progress!r:.200} of window {state.namespace.window}, "
                f"which cannot be stored ({error}); use only None, numbers, strings and tuples in a trigger's progress"
            )
        return TypeError(
            f"the contents of window {state.namespace.window}, {state.content!r:.200}, cannot be stored ({error}); "
            "use accumulators and values that can be pickled"
        )

    def free(self, state: WindowState) -> None:
        """Delete a window's record, timers and hold; its content must be discarded or moved already."""
        namespace, context = state.namespace, self._context
        if state.timer is not None:
            context.delete_timer(namespace.tag)
        if state.wake is not None:
            context.delete_timer(namespace.tag, TimeDomain.WALL_TIME)
        if state.held is not None:
            context.release(namespace.tag)
        if state.stored:
            context.write(namespace.cell, None)
        if state.shown:
            EmittedPanes(context).forget(state)
        state.free()
        del self._open[namespace.code]

    def set_wake(self, state: WindowState) -> None:
        """Set the wall-time timer of a window to the next time that its trigger asks for."""
        if not self._config.uses_wall_time:
            return
        wake = None if state.finished else self._config.trigger.wake_at(state.progress, self.wall_time)
        if wake != state.wake:
            if wake is None:
                self._context.delete_timer(state.namespace.tag, TimeDomain.WALL_TIME)
            else:
                self._context.set_timer(state.namespace.tag, wake, TimeDomain.WALL_TIME)
            state.wake_at(wake)

    def moment(self, namespace: WindowNamespace, watermark: int) -> Moment:
        """What a trigger sees of a window when the watermark is at `watermark`, microseconds UTC."""
        return _moment(namespace.end, watermark, self.wall_time, self._config.merging)


_moment = lru_cache(1_000)(Moment)
"""Cached, as all keys of a bundle have the same few moments."""


def _touched(stored: Iterable[bytes], arrivals: list[WindowInput]) -> list[bytes]:
    """Codes of the stored sessions that overlap a new one; stored sessions never overlap each other."""
    new_intervals = [decode_interval(arrival.namespace.code) for arrival in arrivals]
    touched = []
    for code in stored:
        start, end = decode_interval(code)
        if any(start < new_end and new_start < end for new_start, new_end in new_intervals):
            touched.append(code)
    return touched
