"""When and how for the windows of all keys of an interval at once: the vectorized implementation of `CombinePerKey`.

`ColumnGrouping` takes the output of `LiftedCombine` and emits the same panes as a `Grouping`; tests compare the two.

The grouping has two modes. If windows have one pane, a bundle appends its parts of open windows to the state, and these
parts are read when the watermark reaches the end of the windows. If windows have several panes, a bundle updates the
state: the bundle reads the windows that receive elements, those whose wall time has come, and those whose end or
closing the watermark has reached; evaluates the trigger (see `trigger_kernel`); and writes the windows that have
changed. In both modes, the cost of an epoch does not depend on the size of the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from headrace.lowlevel.columnar.key_columns import Flags, Numbers, first_indices
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import IntervalComputation, IntervalContext
from headrace.lowlevel.vectorized.segment_store import SegmentStore
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, RunsCombiner
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining.aggregates import Reducers
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.grouping.window_assignment import LiftedNamespaces
from headrace.sdk.operators.vectorized.pane_output import PaneOutput, ShownPanes
from headrace.sdk.operators.vectorized.state.segment_formats import PartFormat, WakeFormat, WindowFormat
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_input import Arrivals, ArrivalTables, drop_late
from headrace.sdk.operators.vectorized.state.window_table import (
    AGE,
    END,
    ENDED,
    FINISHED,
    FRESH,
    NEVER,
    START,
    TIMELY,
    WAKE,
    WindowTable,
)
from headrace.sdk.operators.vectorized.state_migration import TAKEN, TakenOver, lines_of
from headrace.sdk.operators.vectorized.trigger_kernel import Firing, Panes
from headrace.sdk.windows.windowing import Windowing


@named("ColumnCombining")
class ColumnCombining(RunsCombiner, IntervalComputation):
    """Combines the values of all keys of an interval at once; subclasses implement the assignment of windows.

    Args:
        config: Configuration of the grouping.
        combine: A CombineFn for which `reducers_of` gives reducers.
        reducers: The reducers of `combine`.
        output_stream: Stream to which panes are sent, in the form FIRED.
    """

    def __init__(self, config: GroupingConfig, combine: AnyCombineFn, reducers: Reducers, output_stream: str) -> None:
        self._config, self._combine, self._reducers = config, combine, reducers
        self._output_stream = output_stream

    def state_signature(self) -> Mapping[str, str]:
        """See `GroupingConfig`."""
        return self._config.state_signature(self._combine)


class _Windows(NamedTuple):
    """The windows that a bundle reads or opens; all arrays have one entry for each line: flags bool, numbers int64."""

    lines: WindowTable
    """One line for each key and window."""
    existed: Flags
    """Whether the window was open before the bundle."""
    changed: Flags
    """Whether the line must be written if the window stays open."""
    extended: Flags
    """Whether the bundle has elements for the window."""
    order: Numbers
    """Index of the arrival with which the window had enough elements for a pane; a sort key."""
    opened: Numbers
    """Index of the arrival that opened the window in this bundle; a sort key."""
    enough: Numbers
    """Number of elements since the last pane from which on the window is ready to fire."""
    waited: Numbers
    """The wall time that the window waited for before the bundle, microseconds UTC; `NEVER` for none."""


@named("ColumnGrouping")
class ColumnGrouping(ColumnCombining):
    """Combines the lifted elements of each key and window, and emits panes.

    Args:
        windowing: Windows for which `eligibility.obstacle` is None, other than sessions.
        combine: A CombineFn for which `reducers_of` gives reducers.
        reducers: The reducers of `combine`.
        output_stream: Stream to which panes are sent, in the form FIRED.
    """

    def __init__(self, windowing: Windowing, combine: AnyCombineFn, reducers: Reducers, output_stream: str) -> None:
        super().__init__(GroupingConfig(windowing, combine, GroupingInputForm.LIFTED), combine, reducers, output_stream)
        self._append_only = windowing.puts_out_once
        # The rules by the type of the trigger are enough: windows with one pane do not evaluate the trigger.
        firing = Firing.after_end(windowing) if self._append_only else Firing.of(windowing)
        assert firing is not None, "eligibility has looked"
        self._firing = firing
        self._accumulated = Accumulated(reducers, combine)
        self._output = PaneOutput(self._accumulated, output_stream, in_global=self._config.namespaces.are_global)
        self._shown = ShownPanes(self._accumulated)
        namespaces = LiftedNamespaces(windowing, self._config.namespaces)
        self._arrivals = ArrivalTables(windowing, namespaces, reducers, self._append_only)

    def process_interval(self, blocks: Sequence[Block], context: IntervalContext) -> None:
        """See `IntervalComputation`."""
        if self._append_only:
            self._append(blocks, context)
        else:
            self._update(blocks, context)

    def _taken_over(self, context: IntervalContext) -> TakenOver:
        """What a `Grouping` has stored; its records are deleted."""
        return lines_of(self._config, len(self._reducers.kept), self._firing.wake_in, context)

    # Windows with one pane

    def _append(self, blocks: Sequence[Block], context: IntervalContext) -> None:
        """Store arrivals of open windows, and emit the windows whose end the watermark reaches in this bundle."""
        before, now, reducers = context.watermark_before, context.watermark, self._reducers
        store = SegmentStore(context, PartFormat(self._accumulated, context))
        arrivals = self._arrivals.of(blocks, context, before)
        new = WindowTable.joined([self._taken_over(context).windows.without_panes(), arrivals.lines], reducers)
        due = WindowTable.joined([*store.between(before, now), new.where(new[END] <= now)], reducers)
        self._output.emit(self._accumulated.reduced(due, context).by_end(), None, context)
        store.keep(self._accumulated.reduced(new.where(new[END] > now), context), done_until=now)

    # Windows with several panes

    def _update(self, blocks: Sequence[Block], context: IntervalContext) -> None:
        """Read the windows that this bundle affects, emit their panes, and write the windows that have changed."""
        store, firing, closed = (
            SegmentStore(context, WindowFormat(self._accumulated)),
            self._firing,
            self._closed(context),
        )
        wakes = SegmentStore(context, WakeFormat(self._accumulated)) if firing.waits else None
        arrivals = self._arrivals.of(blocks, context, firing.closed_until(context.watermark_before))
        begun = WindowTable.empty(0) if wakes is None else wakes.pop(context.wall_time)
        taken_over = self._taken_over(context)
        stored = self._stored(store, arrivals.lines, begun, context)
        windows = self._windows(WindowTable.joined([*stored, taken_over.windows], self._reducers), arrivals, context)
        lines = windows.lines
        panes = self._fire(windows, context)
        if firing.retracts:
            self._output.emit(*self._shown.with_retractions(panes, taken_over.shown, closed, context), context)
        else:
            self._output.emit(panes.lines, panes.codes, context)
        if wakes is not None:
            wakes.keep(self._waiting(windows, begun, context), done_until=closed)
            context.next_wall_timer = wakes.least
        changed = lines.where((lines[END] > closed) & windows.changed)
        changed[AGE] = context.epoch
        store.keep(changed, done_until=closed)

    def _closed(self, context: IntervalContext) -> int:
        """The latest end of a window that is closed after this bundle, microseconds UTC."""
        return self._firing.closed_until(context.watermark)

    def _waiting(self, windows: _Windows, begun: WindowTable, context: IntervalContext) -> WindowTable:
        """The wakes to store: windows that begin to wait for a wall time, and those of `begun` that are not due yet."""
        lines, wall_time, closed = windows.lines, context.wall_time, self._closed(context)
        begins = (lines[WAKE] != windows.waited) | (lines[AGE] == TAKEN)
        waits = (lines[END] > closed) & begins & (lines[WAKE] > wall_time) & (lines[WAKE] < NEVER)
        later = begun.where((begun[END] > closed) & (begun[WAKE] > wall_time))
        return WindowTable.joined([later, lines.where(waits).without_contents()], None)

    def _fire(self, windows: _Windows, context: IntervalContext) -> Panes:
        """Fire panes in their order of emission: panes due to elements, to the wall clock, then to the watermark."""
        firing, lines, wall_time = self._firing, windows.lines, context.wall_time
        before, now = context.watermark_before, context.watermark
        asked = firing.ask(lines, windows.extended | self._waited(lines), windows.enough, before)
        wakes = lines[WAKE].copy()
        enough = firing.enough(lines, windows.existed, before, wall_time)
        awake = firing.ask(lines, wakes <= wall_time, enough, before)
        windows.changed[awake.indices] = True
        due = firing.due(lines)
        reached = [firing.end(lines, now, wall_time), firing.close(lines, now)]
        return Panes.joined([_as_asked(windows, asked), _as_due(awake, wakes), _in_order(windows, reached, due)])

    def _waited(self, lines: WindowTable) -> Flags:
        """Which windows of a `Grouping` have ended and held the watermark for a pane; here that pane is due at once."""
        waited = (lines[AGE] == TAKEN) & lines.has(ENDED) & lines.has(TIMELY) & (lines[FRESH] > 0)
        return cast(Flags, waited & (not self._firing.at_end))

    def _stored(
        self, store: SegmentStore[WindowTable], arrived: WindowTable, begun: WindowTable, context: IntervalContext
    ) -> list[WindowTable]:
        """Stored lines of the windows that this bundle affects; outdated lines and other windows may be among them."""
        woken = begun.where(
            (begun[WAKE] <= context.wall_time) & (begun[END] > self._firing.closed_until(context.watermark_before))
        )
        return [
            *store.of_keys(arrived.key_hashes, arrived[END]),
            *store.between(context.watermark_before, context.watermark),
            *self._closing(store, context),
            *store.of_keys(woken.key_hashes, woken[END]),
        ]

    def _closing(self, store: SegmentStore[WindowTable], context: IntervalContext) -> list[WindowTable]:
        """Stored lines of windows that this bundle closes; an empty list if no window emits a pane at its closing."""
        before, firing = context.watermark_before, self._firing
        closing = list(store.between(firing.closed_until(before), min(before, self._closed(context))))
        has_news = firing.empty_last or any(lines[FRESH].any() for lines in closing)
        return closing if has_news else []

    def _windows(self, stored: WindowTable, arrivals: Arrivals, context: IntervalContext) -> _Windows:
        both = WindowTable.joined([stored, arrivals.lines], self._reducers)
        groups, count = both.groups()
        arrived = groups[len(stored) :]
        newest = stored.newest_indices(groups[: len(stored)], count)
        existed = newest >= 0
        opened = np.full(count, len(both), np.int64)
        opened[arrived[::-1]] = np.arange(len(both) - 1, len(stored) - 1, -1)
        lines = both.taken(np.where(existed, newest, opened))
        self._open(lines, ~existed, context)
        self._firing.end(lines, context.watermark_before, context.wall_time)
        return self._add(lines, existed, opened, arrivals, arrived, context)

    def _open(self, lines: WindowTable, new: Flags, context: IntervalContext) -> None:
        """Initialise the lines of new windows: no contents, no panes, and flags by the position of the watermark."""
        for column in lines.numbers[FRESH:WAKE]:
            column[new] = 0
        lines[WAKE][new] = NEVER
        lines.clear(new)
        past = lines[END] <= context.watermark_before
        lines.set_flag(TIMELY, new & ~past)
        lines.set_flag(ENDED, new & past)

    def _add(
        self,
        lines: WindowTable,
        existed: Flags,
        opened: Numbers,
        arrivals: Arrivals,
        groups: Numbers,
        context: IntervalContext,
    ) -> _Windows:
        """Add arrivals to their windows; arrivals of finished windows are dropped.

        `groups` has the index of the line for each arrival: int64. Raises StepError for errors of the CombineFn.
        """
        takes = ~lines.has(FINISHED)[groups]
        if not takes.all():
            late = arrivals.lines
            drop_late(context, late.keys, (late[START], late[END]), np.where(takes, 0, arrivals.lost))
            arrivals, groups = arrivals.where(takes), groups[takes]
        before = lines[FRESH].copy()
        elements = np.zeros(len(lines), np.int64)
        np.add.at(elements, groups, arrivals.lines[FRESH])
        waited = lines[WAKE].copy()
        self._firing.wait(lines, elements > 0, context.watermark_before, context.wall_time)
        enough = self._firing.enough(lines, existed, context.watermark_before, context.wall_time)
        order = arrivals.order(groups, before, enough)
        if len(groups):
            parts = WindowTable.joined([lines, arrivals.lines], self._reducers)
            self._accumulated.merge(lines, parts, np.concatenate([np.arange(len(lines)), groups]), context)
        lines[FRESH] += elements
        changed = (elements > 0) | (lines[AGE] == TAKEN)
        return _Windows(lines, existed, changed, elements > 0, order, opened, enough, waited)


def _as_asked(windows: _Windows, asked: Panes) -> Panes:
    """Panes that elements have fired, in the order in which their windows had enough elements."""
    return asked.taken(np.argsort(windows.order[asked.indices], kind="stable"))


def _as_due(awake: Panes, wakes: Numbers) -> Panes:
    """Panes that the wall clock has fired, in the order in which the timers of a `Grouping` would fire."""
    return awake.taken(np.lexsort((_by_tag(awake.lines), wakes[awake.indices])))


def _in_order(windows: _Windows, reached: Sequence[Panes], due: Numbers) -> Panes:
    """Panes that the watermark has fired, ordered by the watermark at which they are due.

    Of panes that are due at the same watermark, windows that were open before the bundle come first, in the order of
    the tags of their timers.
    """
    at_end = Panes.joined(reached)
    indices = at_end.indices
    existed = windows.existed[indices]
    among = np.where(existed, _by_tag(at_end.lines), windows.opened[indices])
    return at_end.taken(np.lexsort((among, ~existed, due[indices])))


def _by_tag(lines: WindowTable) -> Numbers:
    """The rank of each line's window in the order of the timer tags that a `Grouping` gives to windows: int64."""
    numbers = lines.windows()
    count = int(numbers.max(initial=-1)) + 1
    first = first_indices(numbers, count)
    starts, ends = lines[START][first].tolist(), lines[END][first].tolist()
    tags = [f"{start}:{end}" for start, end in zip(starts, ends, strict=True)]
    ranks = np.empty(count, np.int64)
    ranks[sorted(range(count), key=tags.__getitem__)] = np.arange(count)
    return ranks[numbers]
