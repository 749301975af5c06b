"""What: partial results of many keys and windows as columns, in memory and in segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel import segment
from headrace.lowlevel.arrays import numbers_in, of_numbers
from headrace.lowlevel.columnkeys import Numbers, dense, first_places, numbered
from headrace.sdk.columns.keys import ENCODED
from headrace.sdk.columns.reducers import Reducers

_ROW = pa.binary(16)
_SIZE = b"size"
"""Name in the metadata of a segment."""


@dataclass(frozen=True, slots=True)
class Partials:
    """Rows of partial results: whose they are, of which window, and what the reducers keep of how many elements."""

    rows: pa.Array
    """Row of the key."""
    keys: pa.Array
    """Encoded keys."""
    ends: Numbers
    """The window's end, microseconds UTC."""
    kept: list[Numbers]
    counts: Numbers

    def __len__(self) -> int:
        return len(self.ends)

    def taken(self, places: Numbers) -> Partials:
        """The rows at these places."""
        where = of_numbers(places)
        kept = [column[places] for column in self.kept]
        return Partials(self.rows.take(where), self.keys.take(where), self.ends[places], kept, self.counts[places])

    def where(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Partials:
        """The rows for which it is true; the same object if it is for all."""
        return self if chosen.all() else self.taken(np.flatnonzero(chosen))

    def by_end(self) -> Partials:
        """In order of the windows' ends."""
        return self.taken(np.argsort(self.ends, kind="stable"))

    def reduced(self, reducers: Reducers) -> Partials:
        """One row for each key and window, in order of their first."""
        distinct, places = np.unique(self.ends, return_inverse=True)
        groups, names = dense(numbered([self.rows]) * max(1, len(distinct)) + places.reshape(-1))
        if len(names) == len(self):
            return self
        first = first_places(groups, len(names))
        counts = np.zeros(len(names), np.int64)
        np.add.at(counts, groups, self.counts)
        kept = reducers.reduced(groups, len(names), self.kept)
        where = of_numbers(first)
        return Partials(self.rows.take(where), self.keys.take(where), self.ends[first], kept, counts)

    def encode(self, size: int | None) -> bytes:
        """As a segment of windows of a size in microseconds, or of the global one: a later program may have others."""
        kept = {f"kept{number}": of_numbers(column) for number, column in enumerate(self.kept)}
        columns = {"row": self.rows, "key": self.keys, "end": of_numbers(self.ends), **kept}
        columns["count"] = of_numbers(self.counts)
        return segment.encode(pa.record_batch(columns, schema=_schema(len(self.kept), size)))

    @classmethod
    def decode(cls, contents: bytes) -> tuple[Partials, int | None]:
        """Those of a segment, and the size of their windows."""
        table = segment.decode(contents)
        numbers = [cast(Numbers, numbers_in(column)) for column in table.columns[2:]]
        told = (table.schema.metadata or {}).get(_SIZE)
        size = None if told is None else int(told)
        return cls(table.column(0), table.column(1), numbers[0], numbers[1:-1], numbers[-1]), size

    @classmethod
    def joined(cls, parts: Sequence[Partials], width: int) -> Partials:
        """All rows of several; `width` is the number of columns that are kept."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.empty(0, np.int64)
            return cls(pa.nulls(0, _ROW), pa.nulls(0, ENCODED), none, [none] * width, none)
        return cls(
            pa.concat_arrays([part.rows for part in parts]),
            pa.concat_arrays([part.keys for part in parts]),
            np.concatenate([part.ends for part in parts]),
            [np.concatenate(columns) for columns in zip(*(part.kept for part in parts), strict=True)],
            np.concatenate([part.counts for part in parts]),
        )


def _schema(width: int, size: int | None) -> pa.Schema:
    numbers = ["end", *(f"kept{number}" for number in range(width)), "count"]
    key = pa.field("key", ENCODED, metadata={b"encoded": b"1"})
    metadata = {} if size is None else {_SIZE: b"%d" % size}
    return pa.schema([pa.field("row", _ROW), key, *(pa.field(name, pa.int64()) for name in numbers)], metadata)
