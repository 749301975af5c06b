"""Where: tables of parts of sessions, each of which combines some elements of one session.

They are a `WindowTable` with the columns of `SESSION`; start and end are the timestamp of the first element and that of
the last one plus the gap. Parts are in any order unless a function says otherwise, and several may be of one session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.class_lookup import loads
from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.state import segment
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.sdk.operators.combining.aggregates import Reducers
from headrace.sdk.operators.combining.session_lifting import Runs, runs_of_stretches
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import END, ONE_PANE, START, WindowTable, objects_of

SESSION = (*ONE_PANE, "due")
DUE = len(ONE_PANE)
"""Index of the column with the end of the session as it was known when the part was written, microseconds UTC: later
than `END` if the session continues."""
SESSION_COLUMNS = {name: SESSION.index(name) for name in SESSION}
"""Name -> index of each column, as segments have them."""


def runs_of(parts: WindowTable) -> Runs:
    """The parts by session: those of a key that overlap are of one session."""
    return runs_of_stretches(parts.key_hashes, parts[START], parts[END])


def sessions_of(parts: WindowTable, accumulated: Accumulated, context: IntervalContext) -> WindowTable:
    """One part for each session, in any order; its `DUE` is the latest of the session's parts.

    Raises StepError for errors of the CombineFn.
    """
    runs = runs_of(parts)
    if runs.number == len(parts):
        return parts
    parts = parts.taken(runs.order)
    first = np.flatnonzero(np.diff(runs.groups, prepend=-1))
    found = parts.taken(first)
    found[START] = np.minimum.reduceat(parts[START], first)
    for column in (END, DUE):
        found[column] = np.maximum.reduceat(parts[column], first)
    accumulated.merge(found, parts, runs.groups, context)
    return found


def decoded_parts(table: pa.RecordBatch, reducers: Reducers) -> WindowTable:
    """Decode the parts of a segment; arrays may be read-only."""
    if segment.SAME in (table.schema.metadata or {}):
        return WindowTable.decode(table, SESSION)
    # 0.1.0 stored accumulators by part of the reducers, as numbers or pickled.
    key_hashes, keys, *columns = table.columns
    starts, ends, due, counts = (cast(Numbers, numbers_in(column)) for column in columns[:4])
    decoded = WindowTable(key_hashes, keys, [starts, ends, counts, due], columns[4:])
    if all(pa.types.is_int64(column.type) for column in columns[4:]):
        return decoded
    rows = zip(zip(*map(_loaded, columns[4:]), strict=True), counts.tolist(), strict=True)
    return valued_parts(decoded, [reducers.accumulator(kept, count) for kept, count in rows], reducers)


def valued_parts(parts: WindowTable, accumulators: Sequence[object], reducers: Reducers) -> WindowTable:
    """The parts with these accumulators as their contents."""
    nothing = [pa.nulls(len(parts)) for _ in reducers.kept]
    values = objects_of([(accumulator,) for accumulator in accumulators])
    return WindowTable(parts.key_hashes, parts.keys, parts.numbers, nothing, values)


def _loaded(column: pa.Array) -> list[object]:
    values = column.to_pylist()
    return values if pa.types.is_int64(column.type) else list(map(loads, values))
