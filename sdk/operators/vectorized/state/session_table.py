"""Where: tables of parts of sessions, in memory and in segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers
from headrace.lowlevel.columnar.key_columns import ENCODED, Numbers
from headrace.lowlevel.state import segment
from headrace.lowlevel.vectorized.segment_store import Table
from headrace.sdk.operators.combining.aggregates import LARGEST_SUM, Reducer, Reducers
from headrace.sdk.operators.combining.session_lifting import Runs, runs_of_stretches
from headrace.sdk.operators.vectorized.state.window_table import (
    KEY_HASH,
    WindowTable,
    objects_of,
)

Kept = NDArray[np.int64] | NDArray[np.object_]
"""The column that a reducer keeps: int64, or Python objects where 64 bits are not enough."""


@dataclass(frozen=True, slots=True)
class SessionTable(Table):
    """Parts of sessions, each of which combines some elements of one session; times are microseconds UTC.

    All arrays have one entry for each part. Parts are in any order unless a method says otherwise, and several may be
    of one session.
    """

    key_hashes: pa.Array
    """The 16-byte hash of the key: of type `KEY_HASH`, without nulls."""
    keys: pa.Array
    """The key's encoding: of type `ENCODED`, without nulls."""
    starts: Numbers
    """Timestamp of the first element."""
    ends: Numbers
    """Timestamp of the last element plus the gap."""
    due: Numbers
    """End of the session as it was known when the part was written: later than `ends` if the session continues."""
    kept: list[Kept]
    """One column for each part of the reducers that keeps values."""
    counts: Numbers
    """Number of elements."""

    def taken(self, indices: Numbers) -> SessionTable:
        """A copy of the parts at these indices."""
        where = of_numbers(indices)
        return SessionTable(
            self.key_hashes.take(where),
            self.keys.take(where),
            self.starts[indices],
            self.ends[indices],
            self.due[indices],
            [column[indices] for column in self.kept],
            self.counts[indices],
        )

    def runs(self) -> Runs:
        """Group the parts by session: parts of a key that overlap are of one session."""
        return runs_of_stretches(self.key_hashes, self.starts, self.ends)

    def reduced(self, reducers: Reducers, runs: Runs | None = None) -> SessionTable:
        """One part for each session, in any order; its `due` is the latest of the session's parts."""
        runs = runs or self.runs()
        if runs.number == len(self):
            return self
        key_hashes = self.taken(runs.order)
        first = np.flatnonzero(np.diff(runs.groups, prepend=-1))
        joined = key_hashes.taken(first)
        return SessionTable(
            joined.key_hashes,
            joined.keys,
            np.minimum.reduceat(key_hashes.starts, first),
            np.maximum.reduceat(key_hashes.ends, first),
            np.maximum.reduceat(key_hashes.due, first),
            reduced(reducers, runs.groups, runs.number, key_hashes.kept),
            np.add.reduceat(key_hashes.counts, first),
        )

    def encode(self) -> pa.RecordBatch:
        """Encode the parts in their order, as a segment has them."""
        columns = {"row": self.key_hashes, "key": self.keys}
        numbers = {"start": self.starts, "end": self.ends, "due": self.due, "count": self.counts}
        columns |= {name: of_numbers(column) for name, column in numbers.items()}
        columns |= {f"kept{number}": _stored(column) for number, column in enumerate(self.kept)}
        fields = [pa.field(name, column.type) for name, column in columns.items()]
        fields[1] = fields[1].with_metadata(segment.ENCODED)
        return pa.record_batch(list(columns.values()), schema=pa.schema(fields))

    @classmethod
    def decode(cls, table: pa.RecordBatch) -> SessionTable:
        """Decode the parts of a segment; arrays may be read-only."""
        key_hashes, keys, *columns = table.columns
        starts, ends, due, counts = (cast(Numbers, numbers_in(column)) for column in columns[:4])
        return cls(key_hashes, keys, starts, ends, due, list(map(_loaded, columns[4:])), counts)

    def windows(self, reducers: Reducers) -> WindowTable:
        """The parts as lines of windows: with numbers if all kept columns are int64, else with accumulators."""
        bounds = [self.starts, self.ends, self.counts]
        if all(column.dtype == np.int64 for column in self.kept):
            return WindowTable(self.key_hashes, self.keys, bounds, cast("list[Numbers]", self.kept))
        kept = [np.zeros(len(self), np.int64) for _ in self.kept]
        values = objects_of([(accumulator,) for accumulator in self._accumulators(reducers)])
        return WindowTable(self.key_hashes, self.keys, bounds, kept, values)

    def _accumulators(self, reducers: Reducers) -> Sequence[object]:
        """The accumulators of the CombineFn, one for each part."""
        counts = self.counts.tolist()
        kept = dict(zip(reducers.kept, (column.tolist() for column in self.kept), strict=True))
        accumulators = [
            list(zip(kept[index], counts, strict=True)) if part is Reducer.MEAN else kept.get(index, counts)
            for index, part in enumerate(reducers.parts)
        ]
        return list(zip(*accumulators, strict=True)) if reducers.of_tuples else accumulators[0]

    @classmethod
    def joined(cls, parts: Sequence[SessionTable], width: int) -> SessionTable:
        """Concatenate tables in their order; `width` is the number of columns that reducers keep.

        A kept column of the result has Python objects if the column of one of the tables has.
        """
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.empty(0, np.int64)
            return cls(pa.nulls(0, KEY_HASH), pa.nulls(0, ENCODED), none, none, none, [none] * width, none)
        return cls(
            pa.concat_arrays([part.key_hashes for part in parts]),
            pa.concat_arrays([part.keys for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.due for part in parts]),
            [np.concatenate(columns) for columns in zip(*(part.kept for part in parts), strict=True)],
            np.concatenate([part.counts for part in parts]),
        )


def reduced(reducers: Reducers, groups: Numbers, count: int, columns: Sequence[Kept]) -> list[Kept]:
    """Combine kept values by group; columns whose sums might not fit into 64 bits become columns of Python numbers.

    Args:
        reducers: The reducers that keep the columns.
        groups: Group of each row, from 0 to below `count`: int64.
        count: Number of groups, each of which has at least one row.
        columns: One column for each part of the reducers that keeps values; each has the length of `groups`.

    Returns:
        One column for each of `columns`, with one entry for each group.
    """
    found: list[Kept] = []
    for index, column in zip(reducers.kept, columns, strict=True):
        part = reducers.parts[index]
        if column.dtype == np.int64 and _fits(part, cast(Numbers, column)):
            found.append(part.reduced(groups, count, cast(Numbers, column)))
        else:
            found.append(_of_values(part, groups, count, column.astype(object)))
    return found


def _fits(part: Reducer, column: Numbers) -> bool:
    if not part.adds or not len(column):
        return True
    return len(column) * max(abs(int(column.max())), abs(int(column.min()))) < LARGEST_SUM


def _of_values(part: Reducer, groups: Numbers, count: int, column: NDArray[np.object_]) -> NDArray[np.object_]:
    combine = (Reducer.SUM if part.adds else part).value()
    values: list[list[object]] = [[] for _ in range(count)]
    for group, value in zip(groups.tolist(), column.tolist(), strict=True):
        values[group].append(value)
    return objects_of([combine.merge_accumulators(parts) for parts in values])


def _stored(column: Kept) -> pa.Array:
    if column.dtype == np.int64:
        return of_numbers(column)
    return pa.array([dumps(value) for value in column.tolist()], pa.large_binary())


def _loaded(column: pa.Array) -> Kept:
    if pa.types.is_int64(column.type):
        return cast(Kept, numbers_in(column))
    return objects_of([loads(data) for data in column.to_pylist()])
