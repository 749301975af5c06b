"""What: conversion of the state of a per-key `Grouping` into tables of a vectorized grouping, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.class_lookup import loads
from headrace.lowlevel.columnar.key_columns import ENCODED
from headrace.lowlevel.state.state_store import Delta
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.topology.timer import HOLD, TimeDomain
from headrace.lowlevel.vectorized.segment_store import SegmentStore
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.expressions.element_schema import code_of
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.grouping.pane_output import SHOWN, EmittedPanes, encode_panes
from headrace.sdk.operators.grouping.window_contents import Chunks, Reduction, stored_values
from headrace.sdk.operators.grouping.window_state import EMPTY, WindowState
from headrace.sdk.operators.vectorized.state.element_table import (
    END,
    EPOCH,
    POSITION,
    START,
    ElementTable,
    ValueLists,
    unpickled_lists,
)
from headrace.sdk.operators.vectorized.state.segment_formats import ElementFormat
from headrace.sdk.operators.vectorized.state.window_table import (
    ENDED,
    FINISHED,
    KEY_HASH,
    NEVER,
    TIMELY,
    EmittedResult,
    WindowTable,
    objects_of,
)
from headrace.sdk.operators.vectorized.stored_windows import panes_in_segments, windows_in_segments
from headrace.sdk.triggers import Progress
from headrace.sdk.windows.window_namespace import RECORD

TAKEN = -1
"""`AGE` of lines that come from records of a `Grouping` and that no epoch has written yet."""


class TakenOver(NamedTuple):
    """What a `Grouping` has stored, as lines in no particular order, with `AGE` set to `TAKEN`."""

    windows: WindowTable
    """One line for each key and window; `values` has the contents, as accumulators."""
    shown: WindowTable
    """The panes that their windows would retract; `values` has an `EmittedResult` for each."""


def lines_of(
    config: GroupingConfig, width: int, wake_in: Callable[[Progress], int], context: IntervalContext
) -> TakenOver:
    """The windows that a `Grouping` has stored; their records and timers are deleted with the current epoch.

    Args:
        config: Configuration of the grouping.
        width: Number of columns that reducers keep.
        wake_in: Gives the wall time in a trigger's progress, microseconds UTC; `NEVER` if there is none.
        context: State of the interval.
    """
    windows, shown = _Lines(), _Lines()
    for key_hash, key, state in _windows(config, context):
        bounds = state.namespace.start, state.namespace.end
        flags = TIMELY * state.timely | FINISHED * state.finished | ENDED * (state.due != state.namespace.end)
        held = max(1, state.live) if state.content is not EMPTY else 0
        numbers = (*bounds, held, state.fresh, state.index, state.nonspeculative, flags, TAKEN, wake_in(state.progress))
        windows.add(key_hash, key, numbers, None if state.content is EMPTY else (state.content,))
        for pane in EmittedPanes.stored(context.store, key_hash, state):
            numbers = (*bounds, 1, code_of(pane.pane), pane.pane.index, 0, 0, TAKEN, NEVER)
            shown.add(key_hash, key, numbers, (EmittedResult(cast("tuple[object, object]", pane.value)[1]),))
    return TakenOver(windows.table(width), shown.table(width))


class _Lines:
    """Lines of a table, one by one."""

    def __init__(self) -> None:
        self._lines: list[tuple[bytes, bytes, tuple[int, ...], object]] = []

    def add(self, key_hash: bytes, key: bytes, numbers: tuple[int, ...], value: object) -> None:
        self._lines.append((key_hash, key, numbers, value))

    def table(self, width: int) -> WindowTable:
        """The table; `width` is the number of columns that reducers keep, which are null."""
        if not self._lines:
            return WindowTable.empty(width)
        key_hashes, keys, numbers, values = zip(*self._lines, strict=True)
        columns = [np.array(column, np.int64) for column in zip(*numbers, strict=True)]
        kept = [pa.nulls(len(keys)) for _ in range(width)]
        return WindowTable(pa.array(key_hashes, KEY_HASH), pa.array(keys, ENCODED), columns, kept, objects_of(values))


def records_of_segments(config: GroupingConfig, combine: AnyCombineFn | None, context: IntervalContext) -> None:
    """Convert the windows in an interval's segments to records of a `Grouping`; without a combiner, they hold values.

    Raises CheckpointError if `combine` is not a combiner of the engine; see `windows_in_segments`.
    """
    if combine is None:
        _records_of_elements(config, context)
        return
    contents = config.contents
    assert isinstance(contents, Reduction), "what worked by columns combines"
    shown = {(key_hash, pane.code): pane for key_hash, pane in panes_in_segments(config, combine, context)}
    for key_hash, key, state in windows_in_segments(config, combine, context):
        if (pane := shown.get((key_hash, state.namespace.code))) and not state.finished:
            context.delta.cells[key_hash, SHOWN + pane.code] = encode_panes([pane])
            state.show(True)
        _store(key_hash, key, state, None if state.finished else contents.packed(state), context.delta)


def _store(key_hash: bytes, key: bytes, state: WindowState, packed: object, delta: Delta) -> None:
    """Store a window as the record of a `Grouping`, with its timers and hold; `packed` is its content."""
    delta.keys[key_hash] = key
    marks = {int(TimeDomain.LOW_WATERMARK): state.timer, int(TimeDomain.WALL_TIME): state.wake}
    if not state.finished:
        state.set_marks(state.wanted_hold)
        marks[HOLD] = state.held
    delta.cells[key_hash, state.namespace.cell] = state.encode(packed)
    tag = state.namespace.tag
    delta.marks.update({(key_hash, domain, tag): time for domain, time in marks.items() if time is not None})


def elements_of_records(config: GroupingConfig, context: IntervalContext) -> Iterator[ElementTable]:
    """The values that the windows of a `Grouping` hold, in the order of their arrival; its records are deleted.

    Their `EPOCH` is `TAKEN`, which is before that of all others.
    """
    lines: list[tuple[bytes, bytes, WindowState, bytes]] = []
    windows = list(_windows(config, context))
    for key_hash, key, state in windows:
        cells = state.content.cells() if isinstance(state.content, Chunks) else ()
        lines += [(key_hash, key, state, context.store.get(key_hash, cell) or b"") for cell in cells]
    if not lines:
        return
    key_hashes, keys, states, values = zip(*lines, strict=True)
    bounds = [np.array([getattr(state.namespace, bound) for state in states], np.int64) for bound in ("start", "end")]
    counts = np.array([len(loads(each)) for each in values], np.int64)
    numbers = [*bounds, np.full(len(lines), TAKEN), np.arange(len(lines)), counts]
    yield ElementTable(pa.array(key_hashes, KEY_HASH), pa.array(keys, ENCODED), numbers, ValueLists(list(values)))


def _records_of_elements(config: GroupingConfig, context: IntervalContext) -> None:
    """Convert the values in an interval's segments to records of a `Grouping`, with their timers."""
    table = SegmentStore(context, ElementFormat()).pop(NEVER)
    table = table.where(table[END] > context.watermark_before)
    table = table.taken(np.lexsort((table[POSITION], table[EPOCH])))
    by_window: dict[tuple[bytes, bytes, int, int], list[object]] = {}
    names = table.key_hashes.to_pylist(), table.keys.to_pylist(), table[START].tolist(), table[END].tolist()
    for name, values in zip(zip(*names, strict=True), unpickled_lists(table), strict=True):
        by_window.setdefault(name, []).extend(values)
    for (key_hash, key, start, end), values in by_window.items():
        state = WindowState.of_segment(config.namespaces.of_bounds(start, end), end, (len(values), len(values)))
        packed, cells = stored_values(state.namespace.code, values)
        context.delta.cells.update({(key_hash, cell): data for cell, data in cells.items()})
        _store(key_hash, key, state, packed, context.delta)


def _windows(config: GroupingConfig, context: IntervalContext) -> Iterator[tuple[bytes, bytes, WindowState]]:
    """Row, encoded key and state of each window of a `Grouping`; all records and timers are deleted."""
    if not context.store.count()["keys"]:
        return
    keys: dict[bytes, bytes] = {}
    for stored in context.store.dump():
        keys.update(stored.keys)
        context.delta.cells.update(dict.fromkeys(stored.cells))
        context.delta.marks.update(dict.fromkeys(stored.marks))
        for (key_hash, cell), data in stored.cells.items():
            if cell.startswith(RECORD) and data is not None:
                namespace = config.namespaces.of_code(cell.removeprefix(RECORD))
                yield key_hash, keys[key_hash], WindowState.decode(namespace, data, config.contents.unpack)
