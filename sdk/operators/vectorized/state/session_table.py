"""Where: tables of parts of sessions, each of which combines some elements of one session.

They are a `WindowTable` with the columns of `SESSION`; start and end are the timestamp of the first element and that of
the last one plus the gap. Parts are in any order unless a function says otherwise, and several may be of one session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.segment_store import segment_lines
from headrace.sdk.operators.combining.aggregates import Reducers, whole_numbers
from headrace.sdk.operators.combining.session_lifting import Runs, kept_of, runs_of_stretches
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import END, ONE_PANE, START, WindowTable, objects_of

SESSION = (*ONE_PANE, "due")
DUE = len(ONE_PANE)
"""Index of the column with the end of the session as it was known when the part was written, microseconds UTC: later
than `END` if the session continues."""
Kept = NDArray[np.int64] | NDArray[np.object_]
"""The column that a reducer keeps: int64, or Python objects where 64 bits are not enough."""


def session_parts(
    key_hashes: pa.Array, keys: pa.Array, numbers: list[Numbers], kept: Sequence[Kept], reducers: Reducers
) -> WindowTable:
    """A table of parts: with numbers if all kept columns are int64, else with accumulators.

    Args:
        key_hashes: See `WindowTable`.
        keys: See `WindowTable`.
        numbers: The columns of `SESSION`: int64.
        kept: One column for each part of the reducers that keeps values.
        reducers: The reducers.
    """
    if all(column.dtype == np.int64 for column in kept):
        return WindowTable(key_hashes, keys, numbers, cast("list[Numbers]", list(kept)))
    accumulators = reducers.accumulators(cast("Sequence[Numbers]", kept), numbers[2])
    nothing = [np.zeros(len(keys), np.int64) for _ in kept]
    return WindowTable(key_hashes, keys, numbers, nothing, objects_of([(each,) for each in accumulators]))


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


def encoded_parts(parts: WindowTable, accumulated: Accumulated) -> pa.RecordBatch:
    """Encode the parts in their order, as a segment has them."""
    kept = list(map(of_numbers, parts.kept))
    if parts.as_values().any():
        rows = [kept_of(accumulated.reducers, each) for each in accumulated.accumulators(parts)]
        kept = [_stored(column) for column in zip(*rows, strict=True)]
    columns = {name: of_numbers(parts[SESSION.index(name)]) for name in ("start", "end", "due", "count")}
    columns |= {f"kept{number}": column for number, column in enumerate(kept)}
    return segment_lines(parts.key_hashes, parts.keys, columns)


def decoded_parts(table: pa.RecordBatch, reducers: Reducers) -> WindowTable:
    """Decode the parts of a segment; arrays may be read-only."""
    key_hashes, keys, *columns = table.columns
    starts, ends, due, counts = (cast(Numbers, numbers_in(column)) for column in columns[:4])
    return session_parts(key_hashes, keys, [starts, ends, counts, due], list(map(_loaded, columns[4:])), reducers)


def _stored(values: Sequence[object]) -> pa.Array:
    numbers = whole_numbers(values)
    return pa.array(list(map(dumps, values)), pa.large_binary()) if numbers is None else of_numbers(numbers)


def _loaded(column: pa.Array) -> Kept:
    if pa.types.is_int64(column.type):
        return cast(Kept, numbers_in(column))
    return objects_of([loads(data) for data in column.to_pylist()])
