"""When and how for all keys of an interval at once, where windows have several panes: the quick way of `CombinePerKey`.

It takes what `LiftedCombine` has combined, and puts out what a `Grouping` would (tests hold the two against each
other), for triggers that count elements; see `firing`. A bundle looks at the windows that something came for, and at
those whose end or closing the watermark has reached; all others stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

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
from headrace.sdk.columns.lines import AGE, COUNT, END, ENDED, FINISHED, FRESH, START, TIMELY, Lines
from headrace.sdk.columns.paneshelf import PaneShelf
from headrace.sdk.columns.reducers import Reducers
from headrace.sdk.columns.sessions import Flags
from headrace.sdk.columns.shape import Single, Tuple, pair
from headrace.sdk.columns.takeover import TAKEN, lines_of
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

    def state_signature(self) -> Mapping[str, str]:
        """See `ColumnCombining`."""
        return {**super().state_signature(), "layout": "panes"}

    def process_interval(self, parcels: Sequence[Parcel], context: IntervalContext) -> None:
        """See `IntervalComputation`."""
        shelf, firing, now = PaneShelf(context), self._firing, context.watermark
        came = self._arrivals.of(parcels, context, firing.closed_until(context.watermark_before))
        taken = lines_of(self._rules, self._reducers, context)
        stored = Lines.joined([*self._stored(shelf, came.lines, context), taken], self._width)
        windows = self._windows(stored, came, context)
        lines = windows.lines
        if len(lines):
            asked = firing.ask(lines, windows.came, windows.existed, context.watermark_before)
            due = firing.due(lines)
            reached = [firing.end(lines, now), firing.close(lines, now)]
            self._put_out(_in_order(windows, asked, reached, due), context)
        stays = lines[END] > firing.closed_until(now)
        shelf.keep(lines.where(stays & windows.changed), firing.closed_until(now))

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
        self._firing.end(lines, context.watermark_before)
        return self._add(lines, existed, opened, came, its, context)

    def _open(self, lines: Lines, new: Flags, context: IntervalContext) -> None:
        """Let lines be of windows that nothing is known of yet."""
        lines.numbers[COUNT:, new] = 0
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
        enough = self._firing.enough(lines, existed, context.watermark_before)
        order = came.order(groups, before, enough)
        if len(groups):
            parts = Lines.joined([lines, came.lines], self._width)
            self._accumulated.merge(lines, parts, np.concatenate([np.arange(len(lines)), groups]), context)
        lines[FRESH] += elements
        changed = (elements > 0) | (lines[AGE] == TAKEN)
        return _Windows(lines, existed, changed, elements > 0, order, opened)

    # What goes out

    def _put_out(self, panes: Panes, context: IntervalContext) -> None:
        """Send panes on; a key that has some of its results as values has them all so, to keep their order."""
        if not len(panes.lines):
            return
        by_value = self._accumulated.only_values(panes.lines)
        if by_value.any():
            also = set(panes.lines.rows.filter(pa.array(by_value)).to_pylist())
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


def _in_order(windows: _Windows, asked: Panes, reached: Sequence[Panes], due: Numbers) -> Panes:
    """The panes of a key as a `Grouping` puts them out: those of elements, then those of the watermark by its time.

    At one time, windows that were there before come first, in order of their timers' tags.
    """
    at_end = Panes.joined(reached)
    places = at_end.places
    existed = windows.existed[places]
    among = np.where(existed, _by_tag(at_end.lines), windows.opened[places])
    after = at_end.taken(np.lexsort((among, ~existed, due[places])))
    return Panes.joined([asked.taken(np.argsort(windows.order[asked.places], kind="stable")), after])


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
