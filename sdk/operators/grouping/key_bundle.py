"""When: one bundle of one key of a grouping, from elements and timers to panes and stored windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import cast

from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import Timestamp
from headrace.lowlevel.topology.computation import Context
from headrace.lowlevel.topology.timer import TimeDomain, Timer
from headrace.sdk.model.panes import UNMATCHED_RETRACTIONS, is_retraction
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.grouping.key_windows import KeyWindows
from headrace.sdk.operators.grouping.pane_output import PaneOutput
from headrace.sdk.operators.grouping.window_assignment import Arrivals, Sorter, WindowInput, joined_arrivals
from headrace.sdk.operators.grouping.window_state import WindowState
from headrace.sdk.triggers import FINISHED, Moment
from headrace.sdk.windows import TimestampCombiner
from headrace.sdk.windows.window_fn import OUTSIDE_WINDOWS
from headrace.sdk.windows.window_namespace import WindowNamespace


class KeyBundle:
    """The windows of one key while a bundle runs.

    Args:
        config: Settings of the grouping.
        sort_retractions: Sorts retractions by window.
        context: The context of the key.
    """

    __slots__ = (
        "_awaiting_trigger",
        "_config",
        "_panes",
        "_retractions",
        "_sort_retractions",
        "_unmerged",
        "_windows",
        "context",
    )

    def __init__(self, config: GroupingConfig, sort_retractions: Sorter, context: Context) -> None:
        self._config, self._sort_retractions, self.context = config, sort_retractions, context
        self._windows = KeyWindows(config, context)
        self._panes = PaneOutput(config, self._windows, context)
        self._awaiting_trigger: list[WindowState] = []
        """Windows whose trigger is asked when all elements of the bundle are added."""
        self._unmerged: list[Arrivals] = []
        """Elements of merging windows, until all elements of the bundle are there."""
        self._retractions: list[tuple[object, int]] = []
        """Retractions, until all elements of the bundle are there, which they may retract."""

    # What the worker calls

    def add(self, batch: Batch, sort: Sorter, may_retract: bool) -> None:
        """Sort the elements of a batch by window and add them; some of them may be retractions if `may_retract`."""
        context = self.context
        if may_retract:
            batch = self._without_retractions(batch)
        arrivals = sort(batch.values, batch.timestamps, self._windows.watermark)
        if self._config.merging:
            # All elements of a bundle merge at once, however many batches it has.
            self._unmerged.append(arrivals)
        else:
            self._distribute(arrivals, self._add)
        if arrivals.folded:
            # The counter states elements, also those combined before the shuffle.
            context.count("records", arrivals.folded)
        if arrivals.outside:
            context.count(OUTSIDE_WINDOWS, arrivals.outside)

    def fire(self, timer: Timer) -> None:
        """Process the end, the closing or the wall time of a window."""
        self._ask_triggers()
        state = self._windows.find(self._config.namespaces.of_tag(timer.tag))
        if state is None:
            return
        state.changed = True
        if timer.domain is TimeDomain.LOW_WATERMARK:
            state.timer = None
            self._reach(state)
        else:
            state.wake = None
            self._ask(state, self.context.watermark)
            if not state.removed:
                self._windows.set_wake(state)

    def finish(self, output_stream: str) -> None:
        """Process windows that end or close within the bundle, send the panes, store the windows that stay."""
        self._ask_triggers()
        watermark = self.context.watermark
        due = [state for state in self._windows if state.due <= watermark]
        for state in sorted(due, key=_due) if len(due) > 1 else due:
            self._reach(state)
        for state in self._windows:
            if state.changed:
                self._windows.store(state)
        self._panes.send(output_stream)

    # Elements

    def _distribute(self, arrivals: Arrivals, apply: Callable[[WindowInput], None]) -> None:
        """Merge windows as the elements require, then `apply` the elements; late elements are dropped."""
        by_window = arrivals.by_window
        for namespace, number in arrivals.late:
            self._drop(namespace, number)
        if self._config.merging and by_window:
            if self._config.takes_back:
                by_window = list(map(_as_members, by_window))
            by_window, late = self._windows.merge(by_window, arrivals.disjoint)
            for arrival in late:
                self._drop(arrival.namespace, arrival.lost)
            if self._config.takes_back:
                # Removing elements may split the window, so all elements of a window are removed at once.
                by_window = _joined_by_window(by_window)
        for arrival in by_window:
            apply(arrival)

    def _drop(self, namespace: WindowNamespace, number: int) -> None:
        """Drop late elements; those that a later window takes are not in the number."""
        if number:
            self.context.drop_late(number, namespace.window)

    def _add(self, arrival: WindowInput) -> None:
        """Add elements to a window; they are dropped if the window is closed or its trigger has finished."""
        namespace, items, elements, lost, timestamps = arrival
        windows, config = self._windows, self._config
        state = windows.find_or_open(namespace)
        if state is None or state.progress is FINISHED:
            self._drop(namespace, lost)
            return
        state.changed = True
        state.fresh += elements
        state.live += elements
        if windows.watermark >= namespace.end or not config.quiet or state.progress is not None:
            self._inform_trigger(state, elements, items)
        if timestamps is not None and windows.watermark < namespace.end:
            self._stamp(state, timestamps)
        config.contents.add(state, items)

    def _inform_trigger(self, state: WindowState, elements: int, items: Sequence[object]) -> None:
        """Report elements to the trigger, which is asked when all elements of the bundle are there."""
        windows, trigger = self._windows, self._config.trigger
        moment = windows.moment(state.namespace, windows.watermark)
        state.progress = trigger.on_elements(state.progress, elements, items, moment)
        windows.set_wake(state)
        if trigger.should_fire(state.progress, moment):
            self._awaiting_trigger.append(state)

    def _stamp(self, state: WindowState, timestamps: Sequence[int]) -> None:
        """Combine the timestamps of elements that are not below the output watermark into the next pane's timestamp."""
        windowing, namespace = self._config.windowing, state.namespace
        combiner, watermark = windowing.timestamp_combiner, self._windows.watermark
        if combiner is TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED:
            transform = windowing.window_fn.get_transformed_output_time
            timestamps = [transform(namespace.window, Timestamp(micros=time)).micros for time in timestamps]
        floor = watermark if state.held is None else min(watermark, state.held)
        timely = [time for time in timestamps if time >= floor]
        if state.stamp is not None:
            timely.append(state.stamp)
        if timely:
            state.stamp = reduce(combiner.combine, timely)

    # Retractions

    def _without_retractions(self, batch: Batch) -> Batch:
        """The elements of a batch; retractions are put aside until all elements of the bundle are there."""
        elements: list[tuple[object, int]] = []
        for value, timestamp in batch.rows():
            (self._retractions if _is_retraction(value) else elements).append((value, timestamp))
        return _batch(elements)

    def _take_back(self) -> None:
        """Remove the elements that the bundle's retractions retract."""
        batch, self._retractions = _batch(self._retractions), []
        self._distribute(self._sort_retractions(batch.values, batch.timestamps, self._windows.watermark), self._remove)

    def _remove(self, arrival: WindowInput) -> None:
        """Remove elements from a window; they are dropped if the window is closed or its trigger has finished."""
        windows, namespace, context = self._windows, arrival.namespace, self.context
        state = windows.find(namespace)
        if state is None or state.progress is FINISHED:
            if state is None and not is_closed(namespace.closes, windows.watermark):
                context.count(UNMATCHED_RETRACTIONS, arrival.elements)
            else:
                self._drop(namespace, arrival.lost)
            return
        found = self._config.contents.remove(state, arrival.items, context)
        if found < arrival.elements:
            context.count(UNMATCHED_RETRACTIONS, arrival.elements - found)
        if found:
            state.live -= found
            state.fresh += found
            state.changed = True
            for part in windows.split(state):
                self._inform_trigger(part, found, ())

    # Triggers

    def _ask_triggers(self) -> None:
        """Add what waits for the end of the elements, then ask the triggers, at the watermark of the elements."""
        if self._unmerged:
            parts, self._unmerged = self._unmerged, []
            self._distribute(joined_arrivals(parts), self._add)
        if self._retractions:
            self._take_back()
        windows, self._awaiting_trigger = self._awaiting_trigger, []
        for state in windows:
            if state.fresh and not state.removed:
                self._ask(state, self._windows.watermark)

    def _ask(self, state: WindowState, watermark: int) -> None:
        """Emit a pane if the trigger fires."""
        moment = self._windows.moment(state.namespace, watermark)
        if state.progress is not FINISHED and self._config.trigger.should_fire(state.progress, moment):
            self._fire(state, moment)

    def _reach(self, state: WindowState) -> None:
        """Process a window whose end or closing the watermark has reached."""
        namespace, watermark = state.namespace, self.context.watermark
        self._panes.now = state.due
        if is_closed(namespace.closes, watermark):
            self._close(state)
            return
        state.changed = True
        state.due = namespace.closes
        self._ask(state, watermark)
        if not state.fresh:
            state.timely = False

    def _fire(self, state: WindowState, moment: Moment) -> None:
        """Emit a pane of a window whose trigger fires."""
        config = self._config
        progress = config.trigger.on_fire(state.progress, moment)
        finished = progress is FINISHED
        self._panes.emit(state, early=not moment.past_end, is_last=finished, triggered=True)
        state.progress = progress
        state.changed = True
        if finished or config.discarding:
            config.contents.discard(state, self.context)
            state.live = 0
        if finished:
            self._windows.finish(state)
        self._windows.set_wake(state)

    def _close(self, state: WindowState) -> None:
        """Close a window: emit the rest and delete its state."""
        if state.progress is not FINISHED:
            triggered = False
            if not state.fresh:
                moment = self._windows.moment(state.namespace, self.context.watermark)
                triggered = self._config.trigger.should_fire(state.progress, moment)
            self._panes.emit(state, early=False, is_last=True, triggered=triggered)
        self._config.contents.discard(state, self.context)
        self._windows.free(state)


def _batch(elements: list[tuple[object, int]]) -> Batch:
    return Batch([value for value, _ in elements], [timestamp for _, timestamp in elements])


def _is_retraction(value: object) -> bool:
    return is_retraction(cast("tuple[object, tuple[object, object, object]]", value)[1][2])


def _as_members(arrival: WindowInput) -> WindowInput:
    code = arrival.namespace.code
    return arrival._replace(items=[(item, code) for item in arrival.items])


def _joined_by_window(arrivals: list[WindowInput]) -> list[WindowInput]:
    """The same elements with one entry for each window."""
    merged: dict[bytes, WindowInput] = {}
    for arrival in arrivals:
        before = merged.get(arrival.namespace.code)
        if before is not None:
            stamps = None if arrival.timestamps is None else [*(before.timestamps or ()), *arrival.timestamps]
            arrival = WindowInput(
                arrival.namespace,
                before.items + arrival.items,
                before.elements + arrival.elements,
                before.lost + arrival.lost,
                stamps,
            )
        merged[arrival.namespace.code] = arrival
    return list(merged.values())


def _due(state: WindowState) -> int:
    return state.due
