"""When and how for all keys of an interval at once, where windows have several panes: the quick way of `CombinePerKey`.

It takes what `LiftedCombine` has combined, and puts out what a `Grouping` would (tests hold the two against each
other), for triggers that count elements or wait; see `firing`. A bundle looks at the windows that something came for,
at those whose wall time has come, and at those whose end or closing the watermark has reached; all others stay where
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.columnkeys import Numbers, first_places
from headrace.lowlevel.columns import ColumnBatch
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.parcel import Parcel
from headrace.lowlevel.record import Batch
from headrace.sdk.arrivals import InputForm, LiftedFrames
from headrace.sdk.columns.accumulated import Accumulated
from headrace.sdk.columns.combining import ColumnCombining
from headrace.sdk.columns.fired import Fired, panes_of
from headrace.sdk.columns.firing import Firing, Panes
from headrace.sdk.columns.grouping import has_windows, size_of
from headrace.sdk.columns.keys import Keys, decoded
from headrace.sdk.columns.linearrivals import Came, LineArrivals
from headrace.sdk.columns.lines import AGE, COUNT, END, ENDED, FINISHED, FRESH, NEVER, START, TIMELY, WAKE, Lines
from headrace.sdk.columns.paneshelf import PaneShelf
from headrace.sdk.columns.reducers import Reducers
from headrace.sdk.columns.sessions import Flags
from headrace.sdk.columns.shape import Single, Tuple, pair
from headrace.sdk.columns.takeover import TAKEN, lines_of
from headrace.sdk.columns.wakeshelf import WakeShelf
from headrace.sdk.contents import Combiner
from headrace.sdk.rules import Rules
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import BoundedWindow, GlobalWindow, IntervalWindow


def has_panes(windowing: Windowing) -> bool:
    """Whether the panes of a windowing are those that a `ColumnPanes` puts out."""
    return has_windows(windowing) and Firing.of(windowing) is not None


class _Windows(NamedTuple):
    """The windows that a bundle looks at, a line for each."""

    lines: Lines
    existed: Flags
    """Whether it was there before."""
    changed: Flags
    """Whether it is to be written if it stays."""
    came: Flags
    """Whether elements came for it."""
    order: Numbers
    """When it had enough elements for a pane, for sorting."""
    opened: Numbers
    """When it was opened in this bundle, for sorting."""
    enough: Numbers
    """How many new elements make a pane."""
    waited: Numbers
    """The wall time that it waited for before, microseconds UTC."""


class ColumnPanes(ColumnCombining):
    """Adds up the lifted elements of each key and window, and puts out its panes.

    Args:
        windowing: One for which `has_panes`.
        combine: A CombineFn that reducers stand for.
        reducers: These.
        output_stream: Where the panes go, in the form FIRED.
    """

    def __init__(self, windowing: Windowing, combine: Combiner, reducers: Reducers, output_stream: str) -> None:
        super().__init__(Rules.of(windowing, combine, InputForm.LIFTED), combine, reducers, output_stream)
        firing = Firing.of(windowing)
        assert firing is not None, "ask has_panes() first"
        self._firing, self._size, self._width = firing, size_of(windowing), len(reducers.kept)
        self._accumulated = Accumulated(reducers, combine)
        self._arrivals = LineArrivals(LiftedFrames(windowing, self._rules.frames), self._size, self._width)

    def process_interval(self, parcels: Sequence[Parcel], context: IntervalContext) -> None:
        """See `IntervalComputation`."""
        shelf, firing, now = PaneShelf(context), self._firing, context.watermark
        wakes = WakeShelf(context) if firing.waits else None
        closed = firing.closed_until(context.watermark_before)
        came = self._arrivals.of(parcels, context, closed)
        taken = lines_of(self._rules, self._reducers, firing.wake_in, context)
        due = [] if wakes is None else shelf.of_windows(wakes.due(closed))
        stored = Lines.joined([*self._stored(shelf, came.lines, context), *due, taken], self._width)
        windows = self._windows(stored, came, context)
        lines = windows.lines
        if len(lines):
            self._put_out(self._fire(windows, context), context)
        stays = lines[END] > firing.closed_until(now)
        if wakes is not None:
            begun = (lines[WAKE] != windows.waited) | (lines[AGE] == TAKEN)
            waits = stays & begun & (lines[WAKE] > context.wall_time) & (lines[WAKE] < NEVER)
            wakes.keep(lines.where(waits), firing.closed_until(now))
        shelf.keep(lines.where(stays & windows.changed), firing.closed_until(now))

    def _fire(self, windows: _Windows, context: IntervalContext) -> Panes:
        """The panes, in their order: of what came, of the wall clock, of the watermark."""
        firing, lines, wall_time = self._firing, windows.lines, context.wall_time
        before, now = context.watermark_before, context.watermark
        asked = firing.ask(lines, windows.came | self._waited(lines), windows.enough, before)
        wakes = lines[WAKE].copy()
        enough = firing.enough(lines, windows.existed, before, wall_time)
        awake = firing.ask(lines, wakes <= wall_time, enough, before)
        windows.changed[awake.places] = True
        due = firing.due(lines)
        reached = [firing.end(lines, now, wall_time), firing.close(lines, now)]
        return Panes.joined([_as_asked(windows, asked), _as_due(awake, wakes), _in_order(windows, reached, due)])

    def _waited(self, lines: Lines) -> Flags:
        """Windows taken over that are past their end and held the watermark for a pane, which is due at once here."""
        waited = (lines[AGE] == TAKEN) & lines.has(ENDED) & lines.has(TIMELY) & (lines[FRESH] > 0)
        return cast(Flags, waited & (not self._firing.at_end))

    # What is looked at

    def _stored(self, shelf: PaneShelf, came: Lines, context: IntervalContext) -> list[Lines]:
        """The windows that elements came for, and those that are due."""
        firing, before, now = self._firing, context.watermark_before, context.watermark
        closing = list(shelf.ending(firing.closed_until(before), min(before, firing.closed_until(now))))
        if not firing.empty_last and not any(lines[FRESH].any() for lines in closing):
            # They have put out all that they had.
            closing = []
        return [*shelf.of_windows(came), *shelf.ending(before, now), *closing]

    def _windows(self, stored: Lines, came: Came, context: IntervalContext) -> _Windows:
        both = Lines.joined([stored, came.lines], self._width)
        groups, count = both.groups()
        its = groups[len(stored) :]
        newest = stored.newest_places(groups[: len(stored)], count)
        existed = newest >= 0
        opened = np.full(count, len(both), np.int64)
        opened[its[::-1]] = np.arange(len(both) - 1, len(stored) - 1, -1)
        lines = both.taken(np.where(existed, newest, opened))
        self._open(lines, ~existed, context)
        self._firing.end(lines, context.watermark_before, context.wall_time)
        return self._add(lines, existed, opened, came, its, context)

    def _open(self, lines: Lines, new: Flags, context: IntervalContext) -> None:
        """Let lines be of windows that nothing is known of yet."""
        lines.numbers[COUNT:, new] = 0
        lines.numbers[WAKE, new] = NEVER
        lines.empty(new)
        past = lines[END] <= context.watermark_before
        lines.set_flag(TIMELY, new & ~past)
        lines.set_flag(ENDED, new & past)

    def _add(
        self, lines: Lines, existed: Flags, opened: Numbers, came: Came, groups: Numbers, context: IntervalContext
    ) -> _Windows:
        """Add what came to the windows that take something more."""
        takes = ~lines.has(FINISHED)[groups]
        if not takes.all():
            if late := int(came.lost[~takes].sum()):
                context.count("dropped_late", late)
            came, groups = came.where(takes), groups[takes]
        before = lines[FRESH].copy()
        elements = np.zeros(len(lines), np.int64)
        np.add.at(elements, groups, came.lines[FRESH])
        waited = lines[WAKE].copy()
        self._firing.wait(lines, elements > 0, context.watermark_before, context.wall_time)
        enough = self._firing.enough(lines, existed, context.watermark_before, context.wall_time)
        order = came.order(groups, before, enough)
        if len(groups):
            parts = Lines.joined([lines, came.lines], self._width)
            self._accumulated.merge(lines, parts, np.concatenate([np.arange(len(lines)), groups]), context)
        lines[FRESH] += elements
        changed = (elements > 0) | (lines[AGE] == TAKEN)
        return _Windows(lines, existed, changed, elements > 0, order, opened, enough, waited)

    # What goes out

    def _put_out(self, panes: Panes, context: IntervalContext) -> None:
        """Send panes on; a key that has some of its results as values has them all so, to keep their order."""
        if not len(panes.lines):
            return
        by_value = self._accumulated.only_values(panes.lines)
        if by_value.any():
            also = set(panes.lines.rows.filter(of_numbers(by_value)).to_pylist())
            by_value = np.fromiter((row in also for row in panes.lines.rows.to_pylist()), np.bool_, len(by_value))
            self._emit_values(panes.where(by_value), context)
            panes = panes.where(~by_value)
        keys = decoded(panes.lines.keys, context.key_coder)
        if isinstance(keys, Keys):
            self._emit(panes, keys, context)
        else:
            self._emit_values(panes, context)

    def _emit(self, panes: Panes, keys: Keys, context: IntervalContext) -> None:
        lines = panes.lines
        results = self._reducers.results(lines.kept, lines[COUNT])
        singles = tuple(Single(len(keys.columns) + number) for number in range(len(results)))
        result = Tuple(singles) if self._reducers.of_tuples else singles[0]
        columns = [*keys.columns, *results, *map(pa.array, (lines[START], lines[END], panes.codes))]
        table = pa.RecordBatch.from_arrays(columns, [f"f{number}" for number in range(len(columns))])
        first = len(columns) - 3
        shape = Fired(pair(keys.shape, result), first, first + 1, first + 2, in_global=self._size is None)
        context.emit(self._output_stream, ColumnBatch(table, lines[END] - 1, shape))

    def _emit_values(self, panes: Panes, context: IntervalContext) -> None:
        lines = panes.lines
        keys = map(context.key_coder.decode, lines.keys.to_pylist())
        pairs = zip(keys, self._accumulated.results(lines, context), strict=True)
        windows = map(self._window, lines[START].tolist(), lines[END].tolist())
        values = list(zip(pairs, windows, panes_of(panes.codes), strict=True))
        context.emit(self._output_stream, Batch(values, (lines[END] - 1).tolist()))

    def _window(self, start: int, end: int) -> BoundedWindow:
        return GlobalWindow() if self._size is None else IntervalWindow.of_micros(start, end)


def _as_asked(windows: _Windows, asked: Panes) -> Panes:
    """The panes of a key that elements made, in the order in which they had enough."""
    return asked.taken(np.argsort(windows.order[asked.places], kind="stable"))


def _as_due(awake: Panes, wakes: Numbers) -> Panes:
    """The panes of a key that the wall clock made, as their timers would fire."""
    return awake.taken(np.lexsort((_by_tag(awake.lines), wakes[awake.places])))


def _in_order(windows: _Windows, reached: Sequence[Panes], due: Numbers) -> Panes:
    """The panes of a key that the watermark made, by its time.

    At one time, windows that were there before come first, in order of their timers' tags.
    """
    at_end = Panes.joined(reached)
    places = at_end.places
    existed = windows.existed[places]
    among = np.where(existed, _by_tag(at_end.lines), windows.opened[places])
    return at_end.taken(np.lexsort((among, ~existed, due[places])))


def _by_tag(lines: Lines) -> Numbers:
    """The place of each one's window in the order of the tags that timers of windows have."""
    numbers = lines.windows()
    count = int(numbers.max(initial=-1)) + 1
    first = first_places(numbers, count)
    starts, ends = lines[START][first].tolist(), lines[END][first].tolist()
    tags = [f"{start}:{end}" for start, end in zip(starts, ends, strict=True)]
    ranks = np.empty(count, np.int64)
    ranks[sorted(range(count), key=tags.__getitem__)] = np.arange(count)
    return ranks[numbers]
