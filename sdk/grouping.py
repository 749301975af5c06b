"""When and how for one key: the computation behind `GroupByKey` and `CombinePerKey` (Streaming 102).

A window lives like this. Its first element opens it; a timer waits for its end. Elements of a bundle are added, then
the trigger is asked once. When the watermark reaches the end, the trigger is asked again and the timer set to the
closing, allowed lateness later; there the rest is put out and everything of the window is freed. A window whose whole
life is in one bundle never touches storage.

The output watermark is held at the timestamp of the next pane where it could pass that. Where panes are at the end of
their window, this is only so once the window has ended without its pane: before, the input watermark is behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import cast

from headrace.lowlevel.computation import BundleComputation, Context
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import Timestamp
from headrace.lowlevel.timer import TimeDomain, Timer
from headrace.sdk.arrivals import Arrival, Arrivals, InputForm, sorter, together
from headrace.sdk.columns.storedwindows import windows_in_segments
from headrace.sdk.columns.takeover import store_windows
from headrace.sdk.contents import Combiner
from headrace.sdk.keywindows import KeyWindows
from headrace.sdk.panes import UNMATCHED_RETRACTIONS, PaneInfoTiming, is_retraction, pane_info
from headrace.sdk.rules import Rules
from headrace.sdk.shownpanes import ShownPane
from headrace.sdk.statesignature import combiner_kind, windowing_signature
from headrace.sdk.triggers import FINISHED, Moment
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import TimestampCombiner
from headrace.sdk.windowstate import WindowState

EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE
OUTSIDE = "outside_windows"
"""Counter of elements that the window function put into no window."""


class Grouping(BundleComputation):
    """Groups the values of each key and window, or combines them, and puts the panes out.

    Values of the input are pairs of key and payload, as `input_form` says; those of the output are triples: the pair
    of key and result, its window, its `PaneInfo`. With `takes_back` the input, in the form WINDOWED, may have
    retractions: what they stand for is taken out.
    """

    def __init__(
        self,
        windowing: Windowing,
        combine: Combiner | None = None,
        input_form: InputForm = InputForm.PLAIN,
        output_stream: str = "grouped",
        takes_back: bool = False,
    ) -> None:
        self._combine = combine
        self._output_stream = output_stream
        self._rules = Rules.of(windowing, combine, input_form, takes_back)
        self._sort = sorter(windowing, input_form, self._rules.frames)
        self._context: Context | None = None

    def setup(self) -> None:
        """Set the CombineFn up."""
        if self._combine is not None:
            self._combine.setup()

    def teardown(self) -> None:
        """Tear the CombineFn down."""
        if self._combine is not None:
            self._combine.teardown()

    def has_teardown(self) -> bool:
        """Whether the CombineFn's does anything."""
        return self._combine is not None and self._combine.has_teardown()

    def state_signature(self) -> Mapping[str, str]:
        """Windows, trigger, combiner, and in what form the windows' contents are."""
        own = {"combiner": combiner_kind(self._combine), "contents": self._rules.contents.kind}
        return {**windowing_signature(self._rules.windowing), **own}

    def take_over(self, context: IntervalContext) -> None:
        """Store as records what a grouping by columns has in segments."""
        if self._combine is not None:
            store_windows(self._rules, windows_in_segments(self._rules, self._combine, context), context.delta)

    # What the worker calls

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Add the elements to their windows."""
        self._turn_to(context)
        if self._rules.takes_back:
            batch = self._set_apart(batch)
        arrivals = self._sort(batch.values, batch.timestamps, self._windows.watermark)
        if self._rules.merging:
            # What a bundle brings merges at once, however many pieces it comes in.
            self._unmerged.append(arrivals)
        else:
            self._take(arrivals, self._add, context)
        if arrivals.folded:
            # So that the counter says elements, wherever they were combined.
            context.count("records", arrivals.folded)
        if arrivals.outside:
            context.count(OUTSIDE, arrivals.outside)

    def _take(self, arrivals: Arrivals, take: Callable[[Arrival], int], context: Context) -> None:
        """Add elements to their windows, or take them out, after the windows have merged; count those that are late."""
        by_window, late = arrivals.by_window, arrivals.late
        if self._rules.merging and by_window:
            if self._rules.takes_back:
                by_window = list(map(_as_members, by_window))
            by_window, dropped = self._windows.merge(by_window, arrivals.apart)
            late += dropped
            if self._rules.takes_back:
                # Taking elements out may split the window: all that go, go at once.
                by_window = _together(by_window)
        for arrival in by_window:
            late += take(arrival)
        if late:
            context.drop_late(late)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Go on with the window whose end, closing or wall time has come."""
        self._turn_to(context)
        self._ask_triggers(context)
        state = self._windows.find(self._rules.frames.of_tag(timer.tag))
        if state is None:
            return
        state.changed = True
        if timer.domain is TimeDomain.LOW_WATERMARK:
            state.timer = None
            self._reach(state, context)
        else:
            state.wake = None
            self._ask(state, context.watermark, context)
            if not state.removed:
                self._windows.set_wake(state)

    def finish_key(self, context: Context) -> None:
        """Go on with the windows that began in this bundle, then put the panes out and store what stays."""
        if self._context is not context:
            return
        self._ask_triggers(context)
        watermark = context.watermark
        due = [state for state in self._windows if state.due <= watermark]
        for state in sorted(due, key=_due) if len(due) > 1 else due:
            self._reach(state, context)
        for state in self._windows:
            if state.changed:
                self._windows.store(state)
        if self._values:
            self._put_out(context)
        self._context = None

    def _turn_to(self, context: Context) -> None:
        """Begin with a key, if this is the first call for it."""
        if self._context is context:
            return
        self._context = context
        self._windows = KeyWindows(self._rules, context)
        self._asking: list[WindowState] = []
        self._values: list[object] = []
        self._timestamps: list[int] = []
        self._fired_at: list[int] = []
        self._now = self._windows.watermark
        self._unmerged: list[Arrivals] = []
        self._retractions: list[tuple[object, int]] = []

    # Elements

    def _add(self, arrival: Arrival) -> int:
        """Add elements to a window; how many were dropped because it is closed."""
        frame, items, elements, lost, timestamps = arrival
        windows, rules = self._windows, self._rules
        state = windows.find_or_open(frame)
        if state is None or state.progress is FINISHED:
            return lost
        state.changed = True
        state.fresh += elements
        state.live += elements
        if windows.watermark >= frame.end or not rules.quiet or state.progress is not None:
            self._tell_trigger(state, elements, items)
        if timestamps is not None and windows.watermark < frame.end:
            self._stamp(state, timestamps)
        rules.contents.add(state, items)
        return 0

    def _tell_trigger(self, state: WindowState, elements: int, items: Sequence[object]) -> None:
        """Let the trigger know of elements; it is asked once the bundle's elements are all there."""
        windows, trigger = self._windows, self._rules.trigger
        moment = windows.moment(state.frame, windows.watermark)
        state.progress = trigger.on_elements(state.progress, elements, items, moment)
        windows.set_wake(state)
        if trigger.should_fire(state.progress, moment):
            self._asking.append(state)

    def _ask_triggers(self, context: Context) -> None:
        """Ask the triggers after the bundle's elements, at the watermark that was then."""
        if self._unmerged:
            parts, self._unmerged = self._unmerged, []
            self._take(together(parts), self._add, context)
        if self._retractions:
            self._take_back(context)
        asking, self._asking = self._asking, []
        for state in asking:
            if state.fresh and not state.removed:
                self._ask(state, self._windows.watermark, context)

    # Retractions

    def _set_apart(self, batch: Batch) -> Batch:
        """Keep retractions until all elements of the bundle are there, in whatever order they came; the others."""
        kept: list[tuple[object, int]] = []
        for row in batch.rows():
            (self._retractions if _is_retraction(row[0]) else kept).append(row)
        return _batch(kept)

    def _take_back(self, context: Context) -> None:
        """Take out what the bundle's retractions stand for."""
        batch, self._retractions = _batch(self._retractions), []
        arrivals = self._sort(batch.values, batch.timestamps, self._windows.watermark)
        self._take(arrivals, lambda arrival: self._remove(arrival, context), context)

    def _remove(self, arrival: Arrival, context: Context) -> int:
        """Take elements out of a window; how many were late because it is closed."""
        windows, frame = self._windows, arrival.frame
        state = windows.find(frame)
        if state is None or state.progress is FINISHED:
            if state is None and frame.closes > windows.watermark:
                context.count(UNMATCHED_RETRACTIONS, arrival.elements)
                return 0
            return arrival.lost
        found = self._rules.contents.remove(state, arrival.items, context)
        if found < arrival.elements:
            context.count(UNMATCHED_RETRACTIONS, arrival.elements - found)
        if found:
            state.live -= found
            state.fresh += found
            state.changed = True
            for part in windows.split(state):
                self._tell_trigger(part, found, ())
        return 0

    def _retract(self, state: WindowState) -> None:
        """Put out what the window has shown so far, as retractions."""
        frames = self._rules.frames
        for pane in self._windows.shown.take(state.frame):
            self._values.append((pane.value, frames.of_code(pane.code).window, pane.taken_back))
            self._timestamps.append(pane.timestamp)
            self._fired_at.append(self._now)
        state.shown = False

    def _stamp(self, state: WindowState, timestamps: Sequence[int]) -> None:
        """Combine the timestamps of elements that are in time for the output watermark."""
        windowing, frame = self._rules.windowing, state.frame
        combiner, watermark = windowing.timestamp_combiner, self._windows.watermark
        if combiner is TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED:
            transform = windowing.window_fn.get_transformed_output_time
            timestamps = [transform(frame.window, Timestamp(micros=time)).micros for time in timestamps]
        floor = watermark if state.held is None else min(watermark, state.held)
        timely = [time for time in timestamps if time >= floor]
        if state.stamp is not None:
            timely.append(state.stamp)
        if timely:
            state.stamp = reduce(combiner.combine, timely)

    # Panes

    def _ask(self, state: WindowState, watermark: int, context: Context) -> None:
        """Fire a window if its trigger says so."""
        moment = self._windows.moment(state.frame, watermark)
        if state.progress is not FINISHED and self._rules.trigger.should_fire(state.progress, moment):
            self._fire(state, moment, context)

    def _reach(self, state: WindowState, context: Context) -> None:
        """The watermark has reached the end of a window, or its closing."""
        frame, watermark = state.frame, context.watermark
        self._now = state.due
        if frame.closes <= watermark:
            self._close(state, context)
            return
        state.changed = True
        state.due = frame.closes
        self._ask(state, watermark, context)
        if not state.fresh:
            state.timely = False

    def _fire(self, state: WindowState, moment: Moment, context: Context) -> None:
        """The trigger said that it is time for a pane."""
        rules = self._rules
        progress = rules.trigger.on_fire(state.progress, moment)
        finished = progress is FINISHED
        self._emit(state, context, early=not moment.past_end, is_last=finished, triggered=True)
        state.progress = progress
        state.changed = True
        if finished or rules.discarding:
            rules.contents.discard(state, context)
            state.live = 0
        if finished:
            self._windows.finish(state)
        self._windows.set_wake(state)

    def _close(self, state: WindowState, context: Context) -> None:
        """Allowed lateness is over: put out what is left, and free everything."""
        if state.progress is not FINISHED:
            triggered = False
            if not state.fresh:
                moment = self._windows.moment(state.frame, context.watermark)
                triggered = self._rules.trigger.should_fire(state.progress, moment)
            self._emit(state, context, early=False, is_last=True, triggered=triggered)
        self._rules.contents.discard(state, context)
        self._windows.free(state)

    def _emit(self, state: WindowState, context: Context, *, early: bool, is_last: bool, triggered: bool) -> None:
        """Put a pane out, if there is something new or the pane is wanted even so."""
        rules = self._rules
        timing = EARLY if early else ON_TIME if state.timely else LATE
        on_time = triggered and timing is ON_TIME and rules.has_ontime_pane
        if state.fresh or (on_time and rules.empty_on_time) or (is_last and rules.empty_last):
            if state.shown:
                self._retract(state)
            if state.live or not (rules.retracting and rules.takes_back):
                self._show(state, context, early=early, is_last=is_last, timing=timing)
        state.fresh = 0
        # Until the pane at the end of the window, what is accumulated counts for the next timestamp too.
        if rules.discarding or not early or not rules.has_ontime_pane:
            state.stamp = None

    def _show(
        self, state: WindowState, context: Context, *, early: bool, is_last: bool, timing: PaneInfoTiming
    ) -> None:
        """Put out a pane of what the window holds."""
        frame = state.frame
        pane = pane_info(state.index == 0, is_last, timing, state.index, -1 if early else state.nonspeculative)
        value = (context.key, self._rules.contents.result(state, context))
        timestamp = frame.last if state.stamp is None else state.stamp
        self._values.append((value, frame.window, pane))
        self._timestamps.append(timestamp)
        self._fired_at.append(self._now)
        state.count_pane(early)
        if self._rules.retracting and not is_last:
            self._windows.shown.put(frame, [ShownPane(value, frame.code, pane, timestamp)])
            state.shown = True

    def _put_out(self, context: Context) -> None:
        """Send the panes on, ordered by the times that made them fire."""
        values, timestamps, fired_at = self._values, self._timestamps, self._fired_at
        if len(fired_at) > 1 and any(map(int.__gt__, fired_at, fired_at[1:])):
            order = sorted(range(len(fired_at)), key=fired_at.__getitem__)
            values = [values[index] for index in order]
            timestamps = [timestamps[index] for index in order]
        context.produce_batch(self._output_stream, Batch(values, timestamps))


def _batch(rows: list[tuple[object, int]]) -> Batch:
    return Batch([value for value, _ in rows], [timestamp for _, timestamp in rows])


def _is_retraction(value: object) -> bool:
    return is_retraction(cast("tuple[object, tuple[object, object, object]]", value)[1][2])


def _as_members(arrival: Arrival) -> Arrival:
    code = arrival.frame.code
    return arrival._replace(items=[(item, code) for item in arrival.items])


def _together(arrivals: list[Arrival]) -> list[Arrival]:
    """One arrival a window."""
    found: dict[bytes, Arrival] = {}
    for arrival in arrivals:
        held = found.get(arrival.frame.code)
        if held is not None:
            stamps = None if arrival.timestamps is None else [*(held.timestamps or ()), *arrival.timestamps]
            arrival = Arrival(
                arrival.frame,
                held.items + arrival.items,
                held.elements + arrival.elements,
                held.lost + arrival.lost,
                stamps,
            )
        found[arrival.frame.code] = arrival
    return list(found.values())


def _due(state: WindowState) -> int:
    return state.due
