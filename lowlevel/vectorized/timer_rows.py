"""Timers as rows of columns: whose, when, and what comes with them; in memory and in segments (paper §4.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel import segment
from headrace.lowlevel.arrays import numbers_in, of_numbers
from headrace.lowlevel.columnkeys import Numbers, dense, first_places, numbered
from headrace.lowlevel.columnwise.fields import Column, Field, Layout
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.tuplekeys import ENCODED

_ROW_TYPE = pa.binary(16)
TIMESTAMP, HOLD = "timestamp", "hold"
"""Names of columns of a segment, besides the row, the key, and the fields that come with timers."""
RESERVED = frozenset([segment.ROW, segment.KEY, TIMESTAMP, HOLD, "keys", "timestamps"])
"""Names that such fields cannot have."""
_LARGEST_SUM = 1 << 62
NO_HOLD = MAX_TIMESTAMP
HOLD_TAG = "timers"
"""Of timers by columns and of what they hold, where somebody looks at them."""
STATE_ASPECT, TIMER_ASPECT, TIMERS_ASPECT = "state field", "timer field", "timers combined"
"""Aspects of the signature of a column computation, the last one being no other computation's."""


class Way(Enum):
    """How rows of the same key and timestamp become one."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"

    def combined(self, groups: Numbers, count: int, values: Column) -> Column:
        """One value for each group. Raises `OverflowError` for sums that could be beyond 64 bits."""
        if self is Way.SUM:
            if values.dtype.kind == "i" and len(values):
                largest = max(abs(int(values.max())), abs(int(values.min())))
                if largest * len(values) >= _LARGEST_SUM and largest * int(np.bincount(groups).max()) >= _LARGEST_SUM:
                    raise OverflowError(f"sums of numbers as large as {largest} may need more than 64 bits")
            sums = np.zeros(count, values.dtype)
            np.add.at(sums, groups, values)
            return sums
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(count))
        least = np.minimum if self is Way.MIN else np.maximum
        return cast(Column, least.reduceat(values[order], starts))


@dataclass(frozen=True, slots=True)
class TimerRows:
    """Timers of several keys."""

    rows: pa.Array
    """Row of the key."""
    keys: pa.Array
    """Encoded keys."""
    timestamps: Numbers
    """When they are due, microseconds UTC."""
    holds: Numbers
    """Where each holds the output watermark; `NO_HOLD` for nowhere."""
    columns: list[Column]
    """What comes with them."""

    def __len__(self) -> int:
        return len(self.timestamps)

    def taken(self, places: Numbers) -> TimerRows:
        """The rows at these places."""
        where = of_numbers(places)
        columns = [column[places] for column in self.columns]
        return TimerRows(
            self.rows.take(where), self.keys.take(where), self.timestamps[places], self.holds[places], columns
        )

    def where(self, chosen: NDArray[np.bool_]) -> TimerRows:
        """The rows for which it is true; the same object if it is for all."""
        return self if chosen.all() else self.taken(np.flatnonzero(chosen))

    def combined(self, numbers: Numbers, ways: Sequence[Way]) -> tuple[TimerRows, Numbers]:
        """One row for each key and timestamp, in order of both, and the number of its key."""
        stamps, at = _ranked(self.timestamps)
        groups, names = dense(numbers * max(1, len(stamps)) + at)
        firsts = first_places(groups, len(names))
        one = self.taken(firsts)
        if len(names) == len(self):
            return one, numbers[firsts]
        columns = [way.combined(groups, len(names), column) for way, column in zip(ways, self.columns, strict=True)]
        holds = Way.MIN.combined(groups, len(names), self.holds) if (self.holds != NO_HOLD).any() else one.holds
        return replace(one, holds=cast(Numbers, holds), columns=columns), numbers[firsts]

    def ordered(self, numbers: Numbers) -> tuple[TimerRows, Numbers]:
        """In order of key and timestamp, and the number of each one's key."""
        stamps, at = _ranked(self.timestamps)
        order = np.argsort(numbers * max(1, len(stamps)) + at, kind="stable")
        return self.taken(order), numbers[order]

    def merged(self, ways: Sequence[Way] | None) -> TimerRows:
        """One row for each key and timestamp, if they are to be combined; else the same."""
        return self if ways is None else self.combined(numbered([self.rows]), ways)[0]

    @classmethod
    def joined(cls, parts: Sequence[TimerRows], layout: Layout) -> TimerRows:
        """All rows of several."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.empty(0, np.int64)
            empty = [np.empty(0, field.dtype()) for field in layout.fields.values()]
            return cls(pa.nulls(0, _ROW_TYPE), pa.nulls(0, ENCODED), none, none, empty)
        return cls(
            pa.concat_arrays([part.rows for part in parts]),
            pa.concat_arrays([part.keys for part in parts]),
            np.concatenate([part.timestamps for part in parts]),
            np.concatenate([part.holds for part in parts]),
            [np.concatenate(columns) for columns in zip(*(part.columns for part in parts), strict=True)],
        )

    # In segments

    def encode(self, layout: Layout) -> bytes:
        """As a segment."""
        names, columns = [segment.ROW, segment.KEY, TIMESTAMP], [self.rows, self.keys, of_numbers(self.timestamps)]
        if (self.holds != NO_HOLD).any():
            names.append(HOLD)
            columns.append(of_numbers(self.holds))
        for (name, field), column in zip(layout.fields.items(), self.columns, strict=True):
            names.append(name)
            columns.append(_stored(column, field.of_type()))
        fields = [
            pa.field(name, column.type, metadata=segment.ENCODED if name == segment.KEY else None)
            for name, column in zip(names, columns, strict=True)
        ]
        return segment.encode(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))

    @classmethod
    def decode(cls, contents: bytes, layout: Layout) -> TimerRows:
        """Those of a segment; a column that was not there when it was written has its default."""
        table = segment.decode(contents)
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


def _ranked(timestamps: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct timestamps in order, and the place of each one among them."""
    encoded = of_numbers(timestamps).dictionary_encode()
    distinct = numbers_in(encoded.dictionary)
    order = np.argsort(distinct)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[numbers_in(encoded.indices)]


def _stored(column: Column, kind: pa.DataType) -> pa.Array:
    """A column of a field of this type."""
    made = of_numbers(column) if column.dtype.kind in "bif" else None
    return made if made is not None and made.type == kind else pa.array(column, kind)
