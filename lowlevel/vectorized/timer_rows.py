"""Timers as columns, in memory and in segments (MillWheel paper §4.6).

Timers that are not due yet are kept in segments by the time at which they are due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers
from headrace.lowlevel.columnar.key_columns import ENCODED, Numbers, dense, distinct_numbers, first_indices, numbered
from headrace.lowlevel.state import segment
from headrace.lowlevel.state.state_store import Mark
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.vectorized.fields import Column, Field, Layout
from headrace.lowlevel.vectorized.segment_store import Format, Name, Naming, SegmentStore, Table, segment_lines

_ROW_TYPE = pa.binary(16)
TIMESTAMP, HOLD = "timestamp", "hold"
"""Names of a segment's columns other than row, key and timer fields."""
RESERVED = frozenset([segment.ROW, segment.KEY, TIMESTAMP, HOLD, "keys", "timestamps"])
"""Names that timer fields cannot have."""
_LARGEST_SUM = 1 << 62
"""Sums of integers that may exceed this are refused."""
NO_HOLD = MAX_TIMESTAMP
"""The hold of a timer that holds no watermark."""
HOLD_TAG = "timers"
"""The tag of a column computation's timers and holds, for inspection."""
STATE_ASPECT, TIMER_ASPECT, TIMERS_ASPECT = "state field", "timer field", "timers combined"
"""Names of aspects in a column computation's state signature. Only column computations have the last one."""


class TimerCombination(Enum):
    """How timers with the same key and timestamp are combined into one."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"

    def combined(self, groups: Numbers, count: int, values: Column) -> Column:
        """Combine values by group.

        Args:
            groups: For each value, the number of its group, from 0.
            count: Number of groups; each has at least one value.
            values: As many values as groups.

        Returns:
            `count` values of the same dtype, in the order of groups.

        Raises:
            OverflowError: A sum of integers could exceed 64 bits.
        """
        if self is TimerCombination.SUM:
            if values.dtype.kind == "i" and len(values):
                largest = max(abs(int(values.max())), abs(int(values.min())))
                if largest * len(values) >= _LARGEST_SUM and largest * int(np.bincount(groups).max()) >= _LARGEST_SUM:
                    raise OverflowError(f"sums of numbers as large as {largest} may need more than 64 bits")
            sums = np.zeros(count, values.dtype)
            np.add.at(sums, groups, values)
            return sums
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(count))
        least = np.minimum if self is TimerCombination.MIN else np.maximum
        return cast(Column, least.reduceat(values[order], starts))


@dataclass(frozen=True, slots=True)
class TimerRows(Table):
    """Timers of several keys: arrays with one item for each timer."""

    key_hashes: pa.Array
    keys: pa.Array
    """Encoded key, of type `large_binary`."""
    timestamps: Numbers
    """Time at which the timer is due, int64, microseconds UTC."""
    holds: Numbers
    """Time at which the timer holds the output watermark, int64, microseconds UTC; `NO_HOLD` for no hold."""
    columns: list[Column]
    """The values of each timer field."""

    def taken(self, indices: Numbers) -> TimerRows:
        """The timers at these indices."""
        where = of_numbers(indices)
        columns = [column[indices] for column in self.columns]
        return TimerRows(
            self.key_hashes.take(where), self.keys.take(where), self.timestamps[indices], self.holds[indices], columns
        )

    def combined(self, numbers: Numbers, combinations: Sequence[TimerCombination]) -> tuple[TimerRows, Numbers]:
        """Combine timers with the same key and timestamp.

        Args:
            numbers: The key number of each timer.
            combinations: For each field, how its values are combined.

        Returns:
            The timers, sorted by key number and timestamp, and the key number of each.

        Raises:
            OverflowError: A sum of integers could exceed 64 bits.
        """
        distinct, ranks = distinct_numbers(self.timestamps)
        groups, names = dense(numbers * max(1, len(distinct)) + ranks)
        count = len(names)
        firsts = first_indices(groups, count)
        timers = self.taken(firsts)
        if count == len(self):
            return timers, numbers[firsts]
        pairs = zip(combinations, self.columns, strict=True)
        columns = [combination.combined(groups, count, column) for combination, column in pairs]
        holds = timers.holds
        if (self.holds != NO_HOLD).any():
            holds = cast(Numbers, TimerCombination.MIN.combined(groups, count, self.holds))
        return replace(timers, holds=holds, columns=columns), numbers[firsts]

    def ordered(self, numbers: Numbers) -> tuple[TimerRows, Numbers]:
        """The timers, sorted by key number and timestamp, and the key number of each."""
        distinct, ranks = distinct_numbers(self.timestamps)
        order = np.argsort(numbers * max(1, len(distinct)) + ranks, kind="stable")
        return self.taken(order), numbers[order]

    @classmethod
    def concatenated(cls, parts: Sequence[TimerRows], layout: Layout) -> TimerRows:
        """Concatenate timers; without parts, the result is empty."""
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.empty(0, np.int64)
            empty = [np.empty(0, field.dtype()) for field in layout.fields.values()]
            return cls(pa.nulls(0, _ROW_TYPE), pa.nulls(0, ENCODED), none, none, empty)
        return cls(
            pa.concat_arrays([part.key_hashes for part in parts]),
            pa.concat_arrays([part.keys for part in parts]),
            np.concatenate([part.timestamps for part in parts]),
            np.concatenate([part.holds for part in parts]),
            [np.concatenate(columns) for columns in zip(*(part.columns for part in parts), strict=True)],
        )

    # Encoding in segments

    def encode(self, layout: Layout) -> pa.RecordBatch:
        """The timers as a segment has them, see `headrace.lowlevel.state.segment`."""
        columns = {TIMESTAMP: of_numbers(self.timestamps)}
        if (self.holds != NO_HOLD).any():
            columns[HOLD] = of_numbers(self.holds)
        for (name, field), column in zip(layout.fields.items(), self.columns, strict=True):
            columns[name] = _stored(column, field.of_type())
        return segment_lines(self.key_hashes, self.keys, columns)

    @classmethod
    def decode(cls, table: pa.RecordBatch, layout: Layout) -> TimerRows:
        """The timers of a segment; a field that the segment does not have gets its default."""
        found = dict(zip(table.schema.names, table.columns, strict=True))
        holds = numbers_in(found[HOLD]) if HOLD in found else np.full(table.num_rows, NO_HOLD, np.int64)
        columns = [
            _values(found[name], field) if name in found else np.repeat(layout.defaults[name], table.num_rows)
            for name, field in layout.fields.items()
        ]
        return cls(table.column(0), table.column(1), numbers_in(found[TIMESTAMP]), holds, columns)


def _values(column: pa.Array, field: Field) -> Column:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return cast(Column, numbers_in(column).astype(field.dtype(), copy=False))


def _stored(column: Column, kind: pa.DataType) -> pa.Array:
    """Convert a column to the Arrow type of its field."""
    array = of_numbers(column) if column.dtype.kind in "bif" else None
    return array if array is not None and array.type == kind else pa.array(column, kind)


@dataclass(frozen=True, slots=True)
class TimerFormat(Format[TimerRows]):
    """Format of timers; a segment's name states the least hold of its timers, so that the oldest hold is found."""

    layout: Layout
    combinations: Sequence[TimerCombination] | None
    """For each field, how timers with the same key and timestamp are combined; None if they are not combined."""
    naming = Naming(b"", ">BQII")

    def times(self, table: TimerRows) -> Numbers:
        """See `Format`."""
        return table.timestamps

    def bound(self, table: TimerRows) -> int:
        """See `Format`: the least hold, microseconds UTC; `NO_HOLD` if there is none."""
        return int(table.holds.min())

    def end(self, name: Name) -> int:
        """See `Format`: the timestamp of the last timer."""
        return name.greatest

    def joined(self, tables: Sequence[TimerRows]) -> TimerRows:
        """See `Format`."""
        return TimerRows.concatenated(tables, self.layout)

    def compacted(self, table: TimerRows) -> TimerRows:
        """See `Format`: one timer for each key and timestamp, if timers are combined."""
        if self.combinations is None:
            return table
        return table.combined(numbered([table.key_hashes]), self.combinations)[0]

    def encode(self, table: TimerRows) -> pa.RecordBatch:
        """See `Format`."""
        return table.encode(self.layout)

    def decode(self, batch: pa.RecordBatch) -> TimerRows:
        """See `Format`."""
        return TimerRows.decode(batch, self.layout)


def oldest_hold(store: SegmentStore[TimerRows], fired_until: int) -> tuple[Mark, bytes] | None:
    """The oldest hold of the timers after `fired_until`, microseconds UTC, and its encoded key; None if there is none.

    Segments are read in the order of their least holds, until the next one cannot have an older hold.
    """
    oldest: tuple[Mark, bytes] | None = None
    for name, parts in sorted(store.names.items(), key=lambda item: item[1].bound):
        if parts.bound == NO_HOLD or (oldest is not None and oldest[0].timestamp <= parts.bound):
            break
        timers = store.read(name)
        timers = timers.where(timers.timestamps > fired_until)
        if not len(timers):
            continue
        index = int(np.argmin(timers.holds))
        hold = Mark(int(timers.holds[index]), timers.key_hashes[index].as_py(), HOLD_TAG)
        if hold.timestamp != NO_HOLD and (oldest is None or hold < oldest[0]):
            oldest = hold, timers.keys[index].as_py()
    return oldest
