"""What: the windows that a grouping by columns keeps in segments, as a `Grouping` knows windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from headrace.lowlevel import segment
from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.sdk.columns import objects
from headrace.sdk.columns.accumulated import Accumulated
from headrace.sdk.columns.firing import Firing
from headrace.sdk.columns.lines import (
    COUNT,
    END,
    ENDED,
    FINISHED,
    FRESH,
    INDEX,
    NEVER,
    NONSPECULATIVE,
    START,
    TIMELY,
    WAKE,
    Lines,
)
from headrace.sdk.columns.objects import Held
from headrace.sdk.columns.partials import Partials
from headrace.sdk.columns.parts import Parts, accumulators_of
from headrace.sdk.columns.progress import progress_of
from headrace.sdk.columns.reducers import Reducers, reducers_of
from headrace.sdk.columns.shelf import Name
from headrace.sdk.contents import Combiner
from headrace.sdk.frames import Frame
from headrace.sdk.rules import Rules
from headrace.sdk.statesignature import combiner_kind
from headrace.sdk.triggers import FINISHED as NO_MORE
from headrace.sdk.windows import GlobalWindow
from headrace.sdk.windowstate import EMPTY, WindowState


class StoredWindow(NamedTuple):
    """A window of a key."""

    row: bytes
    key: bytes
    """Encoded."""
    state: WindowState


def windows_in_segments(rules: Rules, combine: Combiner, context: IntervalContext) -> Iterator[StoredWindow]:
    """The windows of an interval that are open at the watermark before; their segments are taken away.

    Raises `CheckpointError` if the combiner is not the one that the segments were written with.
    """
    reducers = reducers_of(combine)
    if reducers is None:
        raise CheckpointError(
            f"step {context.place.name!r} has stored numbers of the engine's {combiner_kind(combine)}; the "
            "program's own of that name cannot go on with them; give it, or the step, another name"
        )
    return _Segments(rules, combine, reducers, context).windows()


class _Segments:
    """The segments of one interval, during one bundle."""

    def __init__(self, rules: Rules, combine: Combiner, reducers: Reducers, context: IntervalContext) -> None:
        self._rules, self._combine, self._reducers, self._context = rules, combine, reducers, context
        self._before = context.watermark_before
        self._held: list[Held] = []
        self._parts: list[Parts] = []
        self._lines: list[Lines] = []

    def windows(self) -> Iterator[StoredWindow]:
        """All of them."""
        names = self._context.copy.segment_names()
        for name in sorted(names, key=lambda name: Name.decode(name).age):
            contents = self._context.copy.segment(name)
            assert contents is not None, "it is in the list of names"
            self._sort_in(contents)
            self._context.drop(name)
        yield from self._of_one_pane(objects.merged(self._held, self._combine, self._context))
        yield from self._of_sessions()
        yield from self._of_lines()

    def _sort_in(self, contents: bytes) -> None:
        """What is open of a segment, which says itself of which kind it is."""
        schema = segment.decode(contents).schema
        metadata = schema.metadata or {}
        if segment.SAME in metadata:
            # Those that only point to lines need not be looked at: the lines say themselves when they wake.
            if segment.POINTS not in metadata:
                self._lines.append(Lines.decode(contents))
        elif "due" in schema.names:
            parts = Parts.decode(contents)
            self._parts.append(parts.where(parts.due > self._before))
        elif "accumulator" in schema.names:
            self._held += objects.decode(contents, self._before, MAX_TIMESTAMP)
        else:
            partials, size = Partials.decode(contents)
            open_ = partials.where(partials.ends > self._before)
            self._held += objects.of_partials(open_, self._reducers, size)

    def _of_one_pane(self, held: Iterable[Held]) -> Iterator[StoredWindow]:
        for one in held:
            yield self._in_time(one.row, one.key, self._frame(one.start, one.end), one.accumulator, one.elements)

    def _of_sessions(self) -> Iterator[StoredWindow]:
        found = Parts.joined([parts for parts in self._parts if len(parts)], len(self._reducers.kept))
        if not len(found):
            return
        parts = found.reduced(self._reducers)
        columns = (parts.rows.to_pylist(), parts.keys.to_pylist(), parts.starts.tolist(), parts.ends.tolist())
        accumulators = accumulators_of(parts, self._reducers)
        for row, key, start, end, held, count in zip(*columns, accumulators, parts.counts.tolist(), strict=True):
            yield self._in_time(row, key, self._frame(start, end), held, count)

    def _in_time(self, row: bytes, key: bytes, frame: Frame, content: object, elements: int) -> StoredWindow:
        """A window that waits for its end."""
        state = WindowState(frame)
        state.content = content
        state.fresh = state.live = elements
        state.timer = state.due = frame.end
        return StoredWindow(row, key, state)

    def _of_lines(self) -> Iterator[StoredWindow]:
        firing = Firing.after_end(self._rules.windowing)
        lines = Lines.joined(self._lines, len(self._reducers.kept)).newest()
        lines = lines.where(lines[END] > firing.closed_until(self._before))
        if not len(lines):
            return
        # That windows have ended is not written down, nor that they have put out their panes then.
        lines = lines.taken(np.arange(len(lines)))
        firing.end(lines, self._before, self._context.wall_time)
        accumulators = Accumulated(self._reducers, self._combine).accumulators(lines)
        rows, keys, due = lines.rows.to_pylist(), lines.keys.to_pylist(), firing.due(lines).tolist()
        for row, key, accumulator, until, numbers in zip(rows, keys, accumulators, due, _columns(lines), strict=True):
            yield StoredWindow(row, key, self._of_line(accumulator, until, numbers))

    def _of_line(self, accumulator: object, due: int, numbers: Sequence[int]) -> WindowState:
        start, end, count, fresh, index, nonspeculative, wake, *flags = numbers
        timely, ended, finished = map(bool, flags)
        state = WindowState(self._frame(start, end))
        state.content = accumulator if count else EMPTY
        state.fresh, state.live = fresh, count
        state.index, state.nonspeculative, state.timely = index, nonspeculative, timely
        state.timer = state.due = due
        waits = None if wake == NEVER else wake
        state.progress = NO_MORE if finished else progress_of(self._rules.trigger, fresh, waits, ended)
        state.wake = None if finished else waits
        return state

    def _frame(self, start: int, end: int) -> Frame:
        frames = self._rules.frames
        # The global window has no bounds of its own to be found by.
        return frames.of_window(GlobalWindow()) if frames.are_global else frames.of_interval(start, end)


def _columns(lines: Lines) -> Iterator[tuple[int, ...]]:
    numbers: list[Numbers] = [lines[place] for place in (START, END, COUNT, FRESH, INDEX, NONSPECULATIVE, WAKE)]
    flags = [lines.has(flag) for flag in (TIMELY, ENDED, FINISHED)]
    return zip(*(column.tolist() for column in (*numbers, *flags)), strict=True)
