"""What: tables of windows of many keys, in memory and in segments, with their contents and their past panes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers
from headrace.lowlevel.columnar.key_columns import ENCODED, Flags, Numbers, dense, distinct_numbers, numbered
from headrace.lowlevel.state import segment
from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.vectorized.segment_store import Table, segment_lines
from headrace.sdk.operators.combining.aggregates import Reducers

NAMES = ("start", "end", "count", "fresh", "index", "nonspeculative", "flags", "age", "wake")
START, END, COUNT, FRESH, INDEX, NONSPECULATIVE, FLAGS, AGE, WAKE = range(len(NAMES))
"""Indices of columns: start and end of the window (microseconds UTC), number of elements in its contents,
number of elements since its last pane, number of panes, number of panes that were not early, flags, the epoch that
wrote the line, and the wall time from which its next pane may be due (microseconds UTC)."""
PANE = FRESH
"""Index of the column that has the number of an emitted pane, in lines of emitted panes."""
ONE_PANE = NAMES[:FRESH]
"""The columns of windows that have one pane."""
NEVER = int(np.iinfo(np.int64).max)
"""`WAKE` of windows that do not wait for a wall time."""
TIMELY, ENDED, FINISHED = 1, 2, 4
"""Flags: the next pane at or after the end is on time; the watermark had reached the end when the line was written;
the trigger has finished."""
KEY_HASH = pa.binary(16)
"""Type of columns with the hashes of keys."""
_VALUE = "value"
"""Name of the column with accumulators that 64-bit numbers do not express."""


def encoded_numbers(columns: Mapping[str, Numbers]) -> tuple[dict[str, pa.Array], dict[str, int]]:
    """The columns as a segment has them, of which each has at least one line: those that vary, and the other numbers.

    >>> encoded_numbers({"start": np.array([5, 7]), "count": np.array([1, 1])})[1]
    {'count': 1}
    """
    varying = {name: of_numbers(column) for name, column in columns.items() if np.ptp(column)}
    return varying, {name: int(column[0]) for name, column in columns.items() if name not in varying}


def decoded_numbers(table: pa.RecordBatch, names: Sequence[str], same: Mapping[str, int]) -> list[Numbers]:
    """Decode the columns of these names, as read-only arrays or not; columns in neither `table` nor `same` are 0."""
    stored = table.schema.names
    return [
        cast(Numbers, numbers_in(table.column(name)))
        if name in stored
        else np.full(table.num_rows, same.get(name, 0), np.int64)
        for name in names
    ]


def window_numbers(starts: Numbers, ends: Numbers) -> Numbers:
    """A number for each line's window: int64, from 0 without gaps, ordered by the windows' ends, then starts.

    >>> window_numbers(np.array([5, 0, 5]), np.array([9, 5, 9])).tolist()
    [1, 0, 1]
    """
    numbers = distinct_numbers(ends)[1]
    if len(ends) and np.ptp(ends - starts):
        distinct, others = distinct_numbers(starts)
        numbers, _ = dense(numbers * len(distinct) + others)
    return numbers


def window_groups(key_hashes: pa.Array, starts: Numbers, ends: Numbers) -> tuple[Numbers, int]:
    """A number for each line's key and window, and how many of these there are.

    Numbers are int64, from 0 without gaps, in the order of `window_numbers`; within a window, in that of the keys.
    """
    if not len(ends):
        return np.empty(0, np.int64), 0
    keys = numbered([key_hashes])
    groups, names = dense(window_numbers(starts, ends) * (int(keys.max()) + 1) + keys)
    return groups, len(names)


@stored_as("EmittedResult")
class EmittedResult(NamedTuple):
    """The result that a `Grouping` has put out in a pane, in place of the accumulator that it came from."""

    value: object


@dataclass(slots=True)
class WindowTable(Table):
    """A line for each key and window, or for a part of a window; methods change the numbers in place.

    All arrays have one entry for each line. Unless a method says otherwise, lines are in any order, and several may be
    of one key and window.
    """

    key_hashes: pa.Array
    """The 16-byte hash of the key: of type `KEY_HASH`, without nulls."""
    keys: pa.Array
    """The key's encoding: of type `ENCODED`, without nulls."""
    numbers: list[Numbers]
    """The columns of `NAMES`, or only those of `ONE_PANE`, or those of `SESSION`: int64."""
    kept: list[pa.Array]
    """The columns that reducers keep; null, or anything, for lines without elements or with an entry in `values`."""
    values: NDArray[np.object_] | None = None
    """Accumulators that columns do not express: Python objects, each in a tuple of one, and None for other lines; None
    instead of an array if there are no such accumulators. The line of an emitted pane may have an `EmittedResult`."""

    @classmethod
    def empty(cls, width: int) -> WindowTable:
        """A table without lines; `width` is the number of columns that reducers keep."""
        none = np.empty(0, np.int64)
        return cls(pa.nulls(0, KEY_HASH), pa.nulls(0, ENCODED), [none] * len(NAMES), [pa.nulls(0)] * width)

    def __getitem__(self, column: int) -> Numbers:
        return self.numbers[column]

    def __setitem__(self, column: int, numbers: Numbers | int) -> None:
        self.numbers[column][:] = numbers

    def has(self, flag: int) -> Flags:
        """Which lines have a flag set: bool, one entry for each line."""
        return cast(Flags, self.numbers[FLAGS] & flag != 0)

    def set_flag(self, flag: int, chosen: Flags, on: bool = True) -> None:
        """Set (`on`) or clear a flag of the lines where `chosen` is True."""
        column = self.numbers[FLAGS]
        column[chosen] = column[chosen] | flag if on else column[chosen] & ~flag

    def as_values(self) -> Flags:
        """Which lines have an accumulator in `values`: bool, one entry for each line."""
        if self.values is None:
            return np.zeros(len(self), np.bool_)
        return np.fromiter((value is not None for value in self.values.tolist()), np.bool_, len(self))

    def clear(self, chosen: Flags) -> None:
        """Delete the contents of the lines where `chosen` is True."""
        self[COUNT][chosen] = 0
        if chosen.any():
            self.kept = [emptied(column, chosen) for column in self.kept]
        if self.values is not None:
            self.values[chosen] = None

    def taken(self, indices: Numbers) -> WindowTable:
        """A copy of the lines at these indices."""
        where = of_numbers(indices)
        numbers, kept = [column.take(indices) for column in self.numbers], [column.take(where) for column in self.kept]
        values = None if self.values is None else self.values[indices]
        return WindowTable(self.key_hashes.take(where), self.keys.take(where), numbers, kept, values)

    def by_end(self) -> WindowTable:
        """The lines ordered by the ends, then the starts, of their windows; the sort is stable."""
        if bool((np.diff(self[END]) >= 0).all()) and bool((np.diff(self[START]) >= 0).all()):
            return self
        lengths = self[END] - self[START]
        same = len(self) == 0 or lengths.min() == lengths.max()
        if same and (np.diff(self[END]) >= 0).all():
            return self
        return self.taken(np.argsort(self[END], kind="stable") if same else np.lexsort((self[START], self[END])))

    def without_contents(self) -> WindowTable:
        """The same lines without the contents of windows; the two tables share their numbers."""
        return WindowTable(self.key_hashes, self.keys, self.numbers, [])

    def without_panes(self) -> WindowTable:
        """The same lines with the columns of `ONE_PANE`; the two tables share their numbers."""
        return WindowTable(self.key_hashes, self.keys, self.numbers[:FRESH], self.kept, self.values)

    def with_panes(self) -> WindowTable:
        """The same lines, which have the columns of `ONE_PANE`, with all columns: of windows that have had no pane.

        `FRESH` is `COUNT`, `WAKE` is `NEVER`, other numbers are 0. The two tables share the other numbers.
        """
        zeros = [np.zeros(len(self), np.int64) for _ in NAMES[INDEX:WAKE]]
        numbers = [*self.numbers, self[COUNT].copy(), *zeros, np.full(len(self), NEVER)]
        return WindowTable(self.key_hashes, self.keys, numbers, self.kept, self.values)

    def windows(self) -> Numbers:
        """See `window_numbers`."""
        return window_numbers(self[START], self[END])

    def groups(self) -> tuple[Numbers, int]:
        """See `window_groups`."""
        return window_groups(self.key_hashes, self[START], self[END])

    def newest(self) -> WindowTable:
        """For each key and window, the line that the latest epoch wrote."""
        groups, count = self.groups()
        return self if count == len(self) else self.taken(self.newest_indices(groups, count))

    def newest_indices(self, groups: Numbers, count: int) -> Numbers:
        """The index of the line that the latest epoch wrote, for each group: int64 of length `count`; -1 for no line.

        `groups` has a number for each line: int64, from 0 to below `count`. Of lines of one epoch, the last is taken.
        """
        indices = np.full(count, -1, np.int64)
        order = np.argsort(self[AGE], kind="stable")
        # If an index occurs several times, NumPy keeps the last assignment.
        indices[groups[order]] = order
        return indices

    def encode(self, stored: Mapping[str, int], metadata: Mapping[bytes, bytes] | None = None) -> pa.RecordBatch:
        """Encode the lines in their order, as a segment has them; there is at least one line.

        Args:
            stored: Name -> index of each column to store; others are decoded as 0, and `WAKE` as `NEVER`.
            metadata: Added to the metadata of the Arrow schema.
        """
        columns, same = encoded_numbers({name: self.numbers[index] for name, index in stored.items()})
        columns |= {f"kept{index}": column for index, column in enumerate(self.kept)}
        if self.values is not None and self.as_values().any():
            columns[_VALUE] = pa.array(list(map(_dumped, self.values.tolist())), pa.large_binary())
        if same.get(NAMES[WAKE]) == NEVER:
            del same[NAMES[WAKE]]
        metadata = {segment.SAME: json.dumps(same).encode(), **(metadata or {})}
        return segment_lines(self.key_hashes, self.keys, columns, metadata)

    @classmethod
    def decode(cls, table: pa.RecordBatch, names: Sequence[str] = NAMES) -> WindowTable:
        """Decode the lines of a segment; arrays may be read-only. `names` are the columns: all of `NAMES`, say."""
        stored = table.schema.names
        # `encode` leaves the column out if no line waits for a wall time, which is the common case.
        same: dict[str, int] = {NAMES[WAKE]: NEVER, **json.loads((table.schema.metadata or {})[segment.SAME])}
        numbers = decoded_numbers(table, names, same)
        kept = [table.column(name) for name in stored if name.startswith("kept")]
        decoded = cls(table.column(0), table.column(1), numbers, kept)
        if _VALUE in stored:
            decoded.values = objects_of(list(map(_loaded, table.column(_VALUE).to_pylist())))
            # 0.1.0 stored zeros.
            decoded.kept = [emptied(column, decoded.as_values()) for column in kept]
        return decoded

    @classmethod
    def joined(cls, parts: Sequence[WindowTable], reducers: Reducers | None) -> WindowTable:
        """Concatenate tables that have the same columns, in their order.

        Contents whose columns are of other types than those of the first part that has any become accumulators.
        The result is one of `parts` if no other one has lines.

        Args:
            parts: The tables.
            reducers: The reducers that keep the contents; None if there are none, or if all contents are of one type.
        """
        parts = [part for part in parts if len(part)] or parts[:1]
        if not parts:
            return cls.empty(0 if reducers is None else len(reducers.kept))
        if len(parts) == 1:
            return parts[0]
        if reducers is not None:
            parts = _alike(parts, reducers)
        values = None
        if any(part.values is not None for part in parts):
            nothing = (np.full(len(part), None, object) if part.values is None else part.values for part in parts)
            values = np.concatenate(list(nothing))
        return cls(
            pa.concat_arrays([part.key_hashes for part in parts]),
            pa.concat_arrays([part.keys for part in parts]),
            [np.concatenate(columns) for columns in zip(*(part.numbers for part in parts), strict=True)],
            list(map(pa.concat_arrays, zip(*(part.kept for part in parts), strict=True))),
            values,
        )

    def accumulators(self, reducers: Reducers) -> list[object]:
        """The accumulators of the CombineFn, one for each line; meaningless for a line with a `COUNT` of 0."""
        made = reducers.accumulators(self.kept, self[COUNT])
        if self.values is None:
            return made
        return [number if value is None else value[0] for number, value in zip(made, self.values.tolist(), strict=True)]


def _alike(parts: Sequence[WindowTable], reducers: Reducers) -> Sequence[WindowTable]:
    """The tables with columns of contents of the same types."""
    kinds = [[column.type for column in part.kept] for part in parts]
    known = [kind for kind in kinds if pa.null() not in kind]
    if len(known) == len(kinds) and all(kind == known[0] for kind in known):
        return parts
    wanted = known[0] if known else kinds[0]
    return [
        part if kind == wanted else _as_values(part, wanted, reducers) for part, kind in zip(parts, kinds, strict=True)
    ]


def _as_values(part: WindowTable, kinds: Sequence[pa.DataType], reducers: Reducers) -> WindowTable:
    """The table with its contents as accumulators, and with columns of these types that have nothing."""
    held = zip(part.accumulators(reducers), part[COUNT].tolist(), strict=True)
    values = objects_of([(accumulator,) if count else None for accumulator, count in held])
    kept = [pa.nulls(len(part), kind) for kind in kinds]
    return WindowTable(part.key_hashes, part.keys, part.numbers, kept, values)


def emptied(column: pa.Array, chosen: Flags) -> pa.Array:
    """The column with nulls where `chosen` is True."""
    return pc.if_else(of_numbers(chosen), pa.nulls(1, column.type)[0], column)


def objects_of(values: Sequence[object]) -> NDArray[np.object_]:
    """A one-dimensional array of Python objects; sequences among the values are not unpacked."""
    column = np.empty(len(values), object)
    for index, value in enumerate(values):
        column[index] = value
    return column


def _dumped(value: object) -> bytes | None:
    return None if value is None else dumps(value)


def _loaded(data: bytes | None) -> object:
    return None if data is None else loads(data)
