"""What a `Grouping` has stored, for what goes on by columns in its place, and the other way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.state import Delta
from headrace.lowlevel.timer import HOLD, TimeDomain
from headrace.sdk.columns.keys import ENCODED
from headrace.sdk.columns.lines import ENDED, FINISHED, KEPT, TIMELY, Lines
from headrace.sdk.columns.objects import Held
from headrace.sdk.columns.parts import objects_of
from headrace.sdk.columns.reducers import Reducers
from headrace.sdk.columns.storedwindows import StoredWindow
from headrace.sdk.contents import Reduction
from headrace.sdk.frames import RECORD
from headrace.sdk.rules import Rules
from headrace.sdk.triggers import Progress
from headrace.sdk.windowstate import EMPTY, WindowState

TAKEN = -1
"""Age of lines that no epoch has written yet."""


def take_over(rules: Rules, context: IntervalContext) -> Iterator[Held]:
    """The accumulators of all its windows, whose records and timers are taken away. Once: then there are none."""
    for row, key, state in _windows(rules, context):
        if state.content is not EMPTY:
            yield Held(row, key, state.frame.start, state.frame.end, state.content, state.fresh)


def lines_of(rules: Rules, reducers: Reducers, wake_in: Callable[[Progress], int], context: IntervalContext) -> Lines:
    """The same of windows that have several panes, with all that there is to know of them.

    `wake_in` gives the wall time that a trigger's progress remembers, microseconds UTC.
    """
    windows = list(_windows(rules, context))
    numbers = np.zeros((KEPT + len(reducers.kept), len(windows)), np.int64)
    for place, (_, _, state) in enumerate(windows):
        flags = TIMELY * state.timely | FINISHED * state.finished | ENDED * (state.due != state.frame.end)
        held = max(1, state.live) if state.content is not EMPTY else 0
        panes = (state.index, state.nonspeculative, flags, TAKEN, wake_in(state.progress))
        numbers[:KEPT, place] = (state.frame.start, state.frame.end, held, state.fresh, *panes)
    rows, keys = (
        pa.array([row for row, *_ in windows], pa.binary(16)),
        pa.array([key for _, key, _ in windows], ENCODED),
    )
    return Lines(rows, keys, numbers, objects_of([_held(state) for *_, state in windows]))


def store_windows(rules: Rules, windows: Iterable[StoredWindow], delta: Delta) -> None:
    """Store windows as records, with their timers and holds."""
    contents = rules.contents
    assert isinstance(contents, Reduction), "what worked by columns combines"
    for row, key, state in windows:
        frame = state.frame
        delta.keys[row] = key
        marks = {0: state.timer, int(TimeDomain.WALL_TIME): state.wake}
        if not state.finished:
            state.held = state.wanted_hold
            marks[HOLD] = state.held
        delta.cells[row, frame.cell] = state.encode(None if state.finished else contents.packed(state))
        delta.marks.update({(row, domain, frame.tag): time for domain, time in marks.items() if time is not None})


def _held(state: WindowState) -> tuple[object] | None:
    return None if state.content is EMPTY else (state.content,)


def _windows(rules: Rules, context: IntervalContext) -> Iterator[tuple[bytes, bytes, WindowState]]:
    """Row, encoded key and state of all its windows, whose records and timers are taken away."""
    if not context.copy.count()["keys"]:
        return
    keys: dict[bytes, bytes] = {}
    for stored in context.copy.dump():
        keys.update(stored.keys)
        _forget(stored, context.delta)
        for (row, cell), data in stored.cells.items():
            if cell.startswith(RECORD) and data is not None:
                yield row, keys[row], _state(rules, cell, data)


def _forget(stored: Delta, delta: Delta) -> None:
    delta.cells.update(dict.fromkeys(stored.cells))
    delta.marks.update(dict.fromkeys(stored.marks))


def _state(rules: Rules, cell: bytes, data: bytes) -> WindowState:
    state = WindowState.decode(rules.frames.of_code(cell.removeprefix(RECORD)), data)
    assert isinstance(rules.contents, Reduction), "what works by columns combines"
    if not state.finished:
        state.content = rules.contents.unpack(state.content)
    return state
