"""What: the windows that a vectorized grouping keeps in segments, as the window states of a `Grouping`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.segment_store import Format, SegmentStore, T
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, combiner_kind
from headrace.sdk.expressions.element_schema import panes_of
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.grouping.pane_output import EmittedPane
from headrace.sdk.operators.grouping.window_state import EMPTY, WindowState
from headrace.sdk.operators.vectorized.state.segment_formats import (
    PartFormat,
    SessionFormat,
    ShownFormat,
    WakeFormat,
    WindowFormat,
)
from headrace.sdk.operators.vectorized.state.session_table import DUE, sessions_of
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import (
    COUNT,
    END,
    ENDED,
    FINISHED,
    FRESH,
    INDEX,
    NEVER,
    NONSPECULATIVE,
    PANE,
    START,
    TIMELY,
    WAKE,
    WindowTable,
)
from headrace.sdk.operators.vectorized.trigger_kernel import Firing
from headrace.sdk.triggers import FINISHED as NO_MORE
from headrace.sdk.triggers import AfterAll, AfterAny, AfterCount, AfterWatermark, Progress, Repeatedly, Trigger
from headrace.sdk.triggers.composite import joined
from headrace.sdk.triggers.processing_time import AtWallTime


def progress_of(trigger: Trigger, fresh: int, wake: int | None, ended: bool) -> Progress:
    """The progress of a trigger that counts elements or waits for wall times.

    Args:
        trigger: A trigger that `Firing` supports, with any counts and times.
        fresh: Elements since the last pane.
        wake: The wall time that the next pane waits for, microseconds UTC; None for none.
        ended: Whether the watermark has reached the end of the window.

    >>> progress_of(AfterWatermark(early=AfterCount(5)), 3, None, False)
    (False, 3, None)
    """
    if not isinstance(trigger, AfterWatermark):
        return _waiting(trigger, fresh, wake)
    part = trigger.late if ended else trigger.early
    waiting = None if part is None else _waiting(part, fresh, wake)
    if ended:
        return True, None, waiting
    return None if waiting is None else (False, waiting, None)


def _waiting(trigger: Trigger, fresh: int, wake: int | None) -> Progress:
    """The progress of a trigger that starts again whenever it has fired."""
    if isinstance(trigger, Repeatedly):
        return _waiting(trigger.underlying, fresh, wake)
    if isinstance(trigger, AfterCount):
        return fresh or None
    if isinstance(trigger, AtWallTime):
        return wake
    if isinstance(trigger, (AfterAny, AfterAll)):
        return joined((_waiting(part, fresh, wake) for part in trigger.triggers), finished=False)
    return None


def windows_in_segments(
    config: GroupingConfig, combine: AnyCombineFn, context: IntervalContext
) -> Iterator[tuple[bytes, bytes, WindowState]]:
    """Hash and encoding of the key, and state, of each window that is open before the bundle; segments are deleted.

    Raises `CheckpointError` if the combiner is not the one that the segments were written with.
    """
    reducers = reducers_of(combine)
    if reducers is None:
        raise CheckpointError(
            f"step {context.name!r} has stored numbers of the engine's {combiner_kind(combine)}; the "
            "program's own of that name cannot go on with them; give it, or the step, another name"
        )
    accumulated, before = Accumulated(reducers, combine), context.watermark_before
    parts = accumulated.reduced(_popped(PartFormat(accumulated, context), context), context)
    sessions = _popped(SessionFormat(accumulated, context), context)
    # A part whose session continued was stored again.
    sessions = sessions_of(sessions.where(sessions[DUE] > before), accumulated, context)
    windows = _popped(WindowFormat(accumulated), context).newest()
    # The lines of windows have the wall times that they wait for.
    _popped(WakeFormat(accumulated), context)
    firing = Firing.after_end(config.windowing)
    lines = WindowTable.joined([_without_pane(parts), _without_pane(sessions), windows], reducers)
    lines = lines.where(lines[END] > firing.closed_until(before))
    if not len(lines):
        return
    # Stored lines do not tell whether their windows have ended since and have fired then; `end` finds out.
    lines = lines.taken(np.arange(len(lines)))
    firing.end(lines, before, context.wall_time)
    key_hashes, keys, due = lines.key_hashes.to_pylist(), lines.keys.to_pylist(), firing.due(lines).tolist()
    columns = zip(key_hashes, keys, lines.accumulators(reducers), due, _columns(lines), strict=True)
    for key_hash, key, accumulator, until, numbers in columns:
        yield key_hash, key, _state(config, accumulator, until, numbers)


def panes_in_segments(
    config: GroupingConfig, combine: AnyCombineFn, context: IntervalContext
) -> Iterator[tuple[bytes, EmittedPane]]:
    """Hash of the key, and pane, for the last emitted pane of each window that may retract it; segments are deleted."""
    if not config.retracting or (reducers := reducers_of(combine)) is None:
        return
    accumulated = Accumulated(reducers, combine)
    lines = _popped(ShownFormat(accumulated), context).newest()
    results, panes = accumulated.results(lines, context), panes_of(lines[PANE])
    starts, ends = lines[START].tolist(), lines[END].tolist()
    rows = zip(lines.key_hashes.to_pylist(), lines.keys.to_pylist(), starts, ends, results, panes, strict=True)
    for key_hash, key, start, end, result, pane in rows:
        namespace = config.namespaces.of_bounds(start, end)
        yield key_hash, EmittedPane((context.decoded(key), result), namespace.code, pane, namespace.last)


def _popped(format_: Format[T], context: IntervalContext) -> T:
    """All lines of one format; their segments are deleted."""
    return SegmentStore(context, format_).pop(NEVER)


def _without_pane(lines: WindowTable) -> WindowTable:
    """The lines of windows that have one pane, which fires at their end, as those of windows that may have several."""
    lines = lines.without_panes().with_panes()
    lines.set_flag(TIMELY, np.ones(len(lines), np.bool_))
    return lines


def _state(config: GroupingConfig, accumulator: object, due: int, numbers: Sequence[int]) -> WindowState:
    start, end, count, fresh, index, nonspeculative, wake, *flags = numbers
    timely, ended, finished = map(bool, flags)
    waits = None if wake == NEVER else wake
    return WindowState.of_segment(
        config.namespaces.of_bounds(start, end),
        due,
        (fresh, count),
        accumulator if count else EMPTY,
        (index, nonspeculative, timely),
        NO_MORE if finished else progress_of(config.trigger, fresh, waits, ended),
        None if finished else waits,
    )


def _columns(lines: WindowTable) -> Iterator[tuple[int, ...]]:
    numbers: list[Numbers] = [lines[index] for index in (START, END, COUNT, FRESH, INDEX, NONSPECULATIVE, WAKE)]
    flags = [lines.has(flag) for flag in (TIMELY, ENDED, FINISHED)]
    return zip(*(column.tolist() for column in (*numbers, *flags)), strict=True)
