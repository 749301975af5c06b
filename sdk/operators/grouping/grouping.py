"""When and how for one key: the computation behind `GroupByKey` and `CombinePerKey` (Streaming 102).

A `Grouping` gives each bundle of a key to a `KeyBundle`, whose methods stand in the order of the algorithm:

1. *Assign*: each element goes to its windows (`add`; the rules are in `window_assignment`).
2. *Merge*: windows that touch become one, once all elements of the bundle are there (`_merge`; `key_windows`).
3. *Late?* Elements of windows that are closed, or whose trigger has finished, are dropped and counted (`_drop`).
4. *Add*: elements are added to the contents of their window and reported to its trigger (`_add`; `window_contents`).
   After the last element, those that the bundle's retractions retract are removed (`_remove`). A retraction that comes
   before its element waits for it (`pending_retractions`).
5. *Ask the trigger*: after the last element of the bundle, at the end of a window, and at wall times (`_ask`).
6. *Emit or retract*: if the trigger fires, a pane is emitted after retractions of earlier panes (`pane_output`).
7. *Purge*: contents are discarded if later panes do not have them.
8. *Close*: when the watermark reaches the end of a window plus the allowed lateness, the rest is emitted, and the state
   of the window is deleted (`_close`). What stays open is stored at the end of the bundle (`finish`).

The first element of a window opens it; a timer waits for its end, then for its closing. A window that opens and closes
in one bundle never touches storage. What a window remembers is its `WindowState`, which alone writes its fields.

The output watermark is held at the timestamp of the next pane if it could pass that timestamp. If panes have the
timestamp of their window's end, a hold is needed only for a window that has ended without its pane: before the end, the
input watermark is below that timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias, cast

from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.lowlevel.topology.computation import BundleComputation, Context, IntervalContext
from headrace.lowlevel.topology.timer import TimeDomain, Timer
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, RunsCombiner
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.model.panes import UNMATCHED_RETRACTIONS, is_retraction
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.grouping.key_windows import KeyWindows
from headrace.sdk.operators.grouping.pane_output import PaneOutput
from headrace.sdk.operators.grouping.pending_retractions import PendingRetractions
from headrace.sdk.operators.grouping.window_assignment import (
    Arrivals,
    Sorter,
    WindowInput,
    joined_arrivals,
    joined_by_window,
    sorter,
)
from headrace.sdk.operators.grouping.window_state import WindowState
from headrace.sdk.triggers import FINISHED
from headrace.sdk.windows import TimestampCombiner
from headrace.sdk.windows.window_fn import OUTSIDE_WINDOWS
from headrace.sdk.windows.window_namespace import TimerTag, WindowNamespace
from headrace.sdk.windows.windowing import Windowing

StateMigration: TypeAlias = Callable[[GroupingConfig, AnyCombineFn | None, IntervalContext], None]
"""Stores the windows that the vectorized implementation has for an interval as the records of a `Grouping`."""


@named("Grouping")
class Grouping(RunsCombiner, BundleComputation):
    """Groups the values of each key and window, or combines them, and emits the panes.

    Values of the input are pairs of key and payload; those of the output are triples: the pair of key and result, its
    window and its `PaneInfo`.

    Args:
        windowing: Windows, trigger, accumulation mode and allowed lateness.
        combine: The CombineFn; None to group the values into lists.
        input_forms: Form of the payloads of each input stream, or one form for all of them. A form of accumulators
            (`LIFTED`, `SHARDED`) excludes the forms of values.
        output_stream: Stream of the panes.
        takes_back: Whether the input may have retractions, which are in streams of the form `WINDOWED`. A retraction
            removes the element that it retracts.
        migration: Takes over the state of a vectorized grouping; None if this grouping is never vectorized.
    """

    def __init__(
        self,
        windowing: Windowing,
        combine: AnyCombineFn | None = None,
        input_forms: GroupingInputForm | Mapping[str, GroupingInputForm] = GroupingInputForm.PLAIN,
        output_stream: str = "grouped",
        takes_back: bool = False,
        migration: StateMigration | None = None,
    ) -> None:
        self._combine = combine
        self._output_stream = output_stream
        self._migration = migration
        forms = {None: input_forms} if isinstance(input_forms, GroupingInputForm) else input_forms
        self._config = GroupingConfig(windowing, combine, next(iter(forms.values())), takes_back)
        self._sorters = {stream: sorter(windowing, form, self._config.namespaces) for stream, form in forms.items()}
        """Input stream (None: all streams) -> the sorter of its records."""
        self._retracting = {each for each, form in forms.items() if takes_back and form is GroupingInputForm.WINDOWED}
        """The streams that may have retractions."""
        self._sort_retractions = sorter(windowing, GroupingInputForm.WINDOWED, self._config.namespaces)
        self._bundle: KeyBundle | None = None
        """The bundle of the key that the worker processes."""

    def state_signature(self) -> Mapping[str, str]:
        """See `GroupingConfig`."""
        return self._config.state_signature(self._combine)

    def take_over(self, context: IntervalContext) -> None:
        """Store the state of a vectorized grouping as records of this one."""
        if self._migration is not None:
            self._migration(self._config, self._combine, context)

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Add the elements to their windows."""
        known = stream if stream in self._sorters else None
        self._bundle_of(context).add(batch, self._sorters[known], known in self._retracting)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Process the end, the closing or the wall time of a window."""
        self._bundle_of(context).fire(timer)

    def finish_key(self, context: Context) -> None:
        """Process windows that end or close within the bundle, send the panes, store the windows that stay."""
        bundle = self._bundle
        if bundle is not None and bundle.context is context:
            bundle.finish(self._output_stream)
            self._bundle = None

    def _bundle_of(self, context: Context) -> KeyBundle:
        """The bundle of the context's key; a new one at the first call for the key."""
        bundle = self._bundle
        if bundle is None or bundle.context is not context:
            bundle = self._bundle = KeyBundle(self._config, self._sort_retractions, context)
        return bundle


class KeyBundle:
    """The algorithm of the module for one key and bundle: elements and timers become panes and stored windows.

    Args:
        config: Settings of the grouping.
        sort_retractions: Assigns retractions to windows.
        context: The context of the key.
    """

    def __init__(self, config: GroupingConfig, sort_retractions: Sorter, context: Context) -> None:
        self._config, self._sort_retractions, self.context = config, sort_retractions, context
        self._watermark = context.watermark
        """Input watermark of the bundle's elements; microseconds UTC."""
        self._windows = KeyWindows(config, context)
        self._panes = PaneOutput(config, context)
        self._pending = PendingRetractions(context)
        self._unmerged: list[Arrivals] = []
        """Elements of windows that may merge, until all elements of the bundle are there."""
        self._retractions: list[tuple[object, int]] = []
        """Retractions, until all elements of the bundle are there, which they may retract."""
        self._awaiting_trigger: list[WindowState] = []
        """Windows whose trigger is asked when all elements of the bundle are added."""

    # Elements: assign, merge, late?, add

    def add(self, batch: Batch, sort: Sorter, may_retract: bool) -> None:
        """Assign the elements of a batch to windows and add them; some may be retractions if `may_retract`."""
        if may_retract:
            batch = self._without_retractions(batch)
        arrivals = sort(batch.values, batch.timestamps, self._watermark)
        if self._config.takes_back and not self._config.contents.is_signed:
            arrivals = arrivals._replace(by_window=self._without_pending(arrivals.by_window))
        if self._config.merging:
            # All elements of a bundle merge at once, however many batches it has.
            self._unmerged.append(arrivals)
        else:
            self._add_all(arrivals)
        if arrivals.folded:
            # The counter states elements, also those combined before the shuffle.
            self.context.count("records", arrivals.folded)
        if arrivals.outside:
            self.context.count(OUTSIDE_WINDOWS, arrivals.outside)

    def _add_all(self, arrivals: Arrivals) -> None:
        """Merge windows as the elements require, then add the elements of each window."""
        by_window = self._in_time(arrivals)
        if self._config.merging and by_window:
            merged = self._windows.merge(by_window, arrivals.disjoint)
            by_window = joined_by_window(merged) if self._config.takes_back else merged
        for arrival in by_window:
            self._add(arrival)

    def _in_time(self, arrivals: Arrivals) -> list[WindowInput]:
        """The elements by window; those whose own window is closed are dropped, so that they merge nothing."""
        for namespace, number in arrivals.late:
            self._drop(namespace, number)
        if not self._config.merging:
            return arrivals.by_window
        in_time: list[WindowInput] = []
        for arrival in arrivals.by_window:
            if is_closed(arrival.namespace.closes, self._watermark):
                self._drop(arrival.namespace, arrival.lost)
            else:
                in_time.append(arrival.as_members() if self._config.takes_back else arrival)
        return in_time

    def _add(self, arrival: WindowInput) -> None:
        """Add elements to a window, and report them to its trigger."""
        namespace, items, elements, timestamps = arrival.namespace, arrival.items, arrival.elements, arrival.timestamps
        config, watermark = self._config, self._watermark
        state = self._windows.find_or_open(namespace)
        if state is None or state.progress is FINISHED:
            self._drop(namespace, arrival.lost)
            return
        if state.live < 0:
            self.context.count(UNMATCHED_RETRACTIONS, -min(elements, -state.live))
        state.add(elements)
        if watermark >= namespace.end or not config.quiet or state.progress is not None:
            self._inform_trigger(state, elements, items)
        if timestamps is not None and watermark < namespace.end:
            self._stamp(state, timestamps)
        config.contents.add(state, items)

    def _drop(self, namespace: WindowNamespace, number: int) -> None:
        """Drop late elements of a window; the number leaves out those that are in a later window too."""
        if number:
            self.context.drop_late(number, namespace.window)

    def _inform_trigger(self, state: WindowState, elements: int, items: Sequence[object]) -> None:
        """Report elements to the trigger, which is asked when all elements of the bundle are there."""
        moment, trigger = self._windows.moment(state.namespace, self._watermark), self._config.trigger
        state.progress_to(trigger.on_elements(state.progress, elements, items, moment))
        self._windows.set_wake(state)
        if trigger.should_fire(state.progress, moment):
            self._awaiting_trigger.append(state)

    def _stamp(self, state: WindowState, timestamps: Sequence[int]) -> None:
        """Let elements determine the timestamp of the next pane."""
        windowing, window = self._config.windowing, state.namespace.window
        if windowing.timestamp_combiner is TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED:
            transform = windowing.window_fn.get_transformed_output_time
            timestamps = [transform(window, Timestamp(micros=time)).micros for time in timestamps]
        state.stamp_elements(timestamps, self._watermark, windowing.timestamp_combiner)

    # Retractions: put aside, then taken back after the last element

    def _without_retractions(self, batch: Batch) -> Batch:
        """The elements of a batch; retractions are put aside."""
        elements: list[tuple[object, int]] = []
        for value, timestamp in batch.rows():
            (self._retractions if _is_retraction(value) else elements).append((value, timestamp))
        return _batch(elements)

    def _without_pending(self, by_window: list[WindowInput]) -> list[WindowInput]:
        """The elements by window, without those whose retractions have come before them."""
        kept: list[WindowInput] = []
        for arrival in by_window:
            left, cancelled = self._pending.cancel(arrival)
            if cancelled:
                self.context.count(UNMATCHED_RETRACTIONS, -cancelled)
            if left.items:
                kept.append(left)
        return kept

    def _remove_all(self, arrivals: Arrivals) -> None:
        """Remove retracted elements from the windows that hold them."""
        by_window = self._in_time(arrivals)
        for arrival in self._windows.holding(by_window) if self._config.merging else by_window:
            self._remove(arrival)

    def _remove(self, arrival: WindowInput) -> None:
        """Remove retracted elements from a window, which falls apart if it no longer merges without them."""
        windows, namespace, contents = self._windows, arrival.namespace, self._config.contents
        state = windows.find_or_open(namespace) if contents.is_signed else windows.find(namespace)
        if state is None and not is_closed(namespace.closes, self._watermark):
            self._let_wait(namespace, arrival.items)
            return
        if state is None or state.progress is FINISHED:
            self._drop(namespace, arrival.lost)
            return
        missing = contents.remove(state, arrival.items, self.context)
        self._let_wait(namespace, missing)
        if found := arrival.elements - len(missing):
            state.remove(found)
            if state.live < 0:
                self.context.count(UNMATCHED_RETRACTIONS, min(found, -state.live))
            for part in windows.split(state):
                self._inform_trigger(part, found, ())

    def _let_wait(self, namespace: WindowNamespace, items: list[object]) -> None:
        """Let retractions wait for the elements that they retract, under the windows in which these arrive."""
        if not items:
            return
        self.context.count(UNMATCHED_RETRACTIONS, len(items))
        if not self._config.merging:
            self._pending.add(namespace, items)
            return
        for item, code in cast("list[tuple[object, bytes]]", items):
            self._pending.add(self._config.namespaces.of_code(code), [item])

    # Triggers: asked after the last element, at the end of a window, and at wall times

    def _end_elements(self) -> None:
        """After the last element: merge windows, take elements back, ask the triggers; at the elements' watermark."""
        if self._unmerged:
            parts, self._unmerged = self._unmerged, []
            self._add_all(joined_arrivals(parts))
        if self._retractions:
            batch, self._retractions = _batch(self._retractions), []
            self._remove_all(self._sort_retractions(batch.values, batch.timestamps, self._watermark))
        windows, self._awaiting_trigger = self._awaiting_trigger, []
        for state in windows:
            if state.fresh and not state.removed:
                self._ask(state, self._watermark)

    def fire(self, timer: Timer) -> None:
        """Process the end, the closing or the wall time of a window."""
        self._end_elements()
        tag = TimerTag.parse(timer.tag)
        if tag.closing:
            self._pending.close(self._config.namespaces.of_tag(tag.window))
            return
        state = self._windows.find(self._config.namespaces.of_tag(timer.tag))
        if state is None:
            return
        state.timer_fired(timer.domain)
        if timer.domain is TimeDomain.LOW_WATERMARK:
            self._reach(state)
            return
        self._ask(state, self.context.watermark)
        if not state.removed:
            self._windows.set_wake(state)

    def _reach(self, state: WindowState) -> None:
        """Process a window whose end or closing the watermark has reached."""
        watermark = self.context.watermark
        self._panes.now = state.due
        if is_closed(state.namespace.closes, watermark):
            self._close(state)
            return
        state.end()
        self._ask(state, watermark)
        if not state.fresh:
            state.miss_on_time()

    def _ask(self, state: WindowState, watermark: int) -> None:
        """Ask the trigger; if it fires, emit a pane, and purge the contents if no later pane has them."""
        config, trigger = self._config, self._config.trigger
        moment = self._windows.moment(state.namespace, watermark)
        if state.progress is FINISHED or not trigger.should_fire(state.progress, moment):
            return
        progress = trigger.on_fire(state.progress, moment)
        finished = progress is FINISHED
        self._panes.emit(state, early=not moment.past_end, is_last=finished, triggered=True)
        state.fire(progress)
        if finished or config.discarding:
            config.contents.discard(state, self.context)
        if finished:
            self._windows.finish(state)
        self._windows.set_wake(state)

    # End of the window, and of the bundle

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

    def finish(self, output_stream: str) -> None:
        """Process windows that end or close within the bundle, send the panes, store the windows that stay."""
        self._end_elements()
        watermark = self.context.watermark
        due = [state for state in self._windows if state.due <= watermark]
        for state in sorted(due, key=_due) if len(due) > 1 else due:
            self._reach(state)
        for state in self._windows:
            if state.changed:
                self._windows.store(state)
        self._panes.send(output_stream)


_due = cast(Callable[[WindowState], int], attrgetter("due"))


def _batch(elements: list[tuple[object, int]]) -> Batch:
    return Batch([value for value, _ in elements], [timestamp for _, timestamp in elements])


def _is_retraction(value: object) -> bool:
    return is_retraction(cast("tuple[object, tuple[object, object, object]]", value)[1][2])
