"""Where: parts of sessions as columns, in memory and in segments."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel import segment
from headrace.lowlevel.arrays import numbers_in, of_numbers
from headrace.lowlevel.columnkeys import Numbers
from headrace.sdk.columns.keys import ENCODED
from headrace.sdk.columns.reducers import LARGEST_SUM, Reducer, Reducers
from headrace.sdk.columns.sessions import Flags, Runs, runs_of_stretches

Kept = NDArray[np.int64] | NDArray[np.object_]
"""What a reducer keeps: 64-bit numbers, or Python's own where these would not do."""
_ROW = pa.binary(16)


@dataclass(frozen=True, slots=True)
class Parts:
    """Rows that each stand for some elements of a session; times in microseconds UTC."""

    rows: pa.Array
    """Row of the key."""
    keys: pa.Array
    """Encoded keys."""
    starts: Numbers
    ends: Numbers
    """Of the stretch from the first element to the last and the gap after it."""
    due: Numbers
    """When the session ends, as far as was known when this was written: later than `ends` if others join on."""
    kept: list[Kept]
    counts: Numbers
    """Number of elements."""

    def __len__(self) -> int:
        return len(self.ends)

    def taken(self, places: Numbers) -> Parts:
        """The rows at these places."""
        where = of_numbers(places)
        return Parts(
            self.rows.take(where),
            self.keys.take(where),
            self.starts[places],
            self.ends[places],
            self.due[places],
            [column[places] for column in self.kept],
            self.counts[places],
        )

    def where(self, chosen: Flags) -> Parts:
        """The rows for which it is true; the same object if it is for all."""
        return self if chosen.all() else self.taken(np.flatnonzero(chosen))

    def by_key(self) -> Parts:
        """In order of the rows' keys, so that some can be found without a look at the others."""
        return self.taken(np.argsort(segment.places(self.rows), kind="stable"))

    def of_rows(self, rows: pa.Array) -> Parts:
        """Those of some rows' keys, and perhaps a few others; for parts that are `by_key`."""
        wanted = np.unique(segment.places(rows))
        places = segment.places(self.rows)
        begins, stops = (np.searchsorted(places, wanted, side) for side in ("left", "right"))
        sizes = stops - begins
        offsets = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
        return self.taken(np.arange(int(sizes.sum())) + offsets)

    def runs(self) -> Runs:
        """Which of them are of one session."""
        return runs_of_stretches(self.rows, self.starts, self.ends)

    def reduced(self, reducers: Reducers, runs: Runs | None = None) -> Parts:
        """One row for each session."""
        runs = runs or self.runs()
        if runs.number == len(self):
            return self
        rows = self.taken(runs.order)
        first = np.flatnonzero(np.diff(runs.groups, prepend=-1))
        joined = rows.taken(first)
        return Parts(
            joined.rows,
            joined.keys,
            np.minimum.reduceat(rows.starts, first),
            np.maximum.reduceat(rows.ends, first),
            np.maximum.reduceat(rows.due, first),
            reduced(reducers, runs.groups, runs.number, rows.kept),
            np.add.reduceat(rows.counts, first),
        )

    def encode(self) -> bytes:
        """As a segment."""
        columns = {"row": self.rows, "key": self.keys}
        numbers = {"start": self.starts, "end": self.ends, "due": self.due, "count": self.counts}
        columns |= {name: of_numbers(column) for name, column in numbers.items()}
        columns |= {f"kept{number}": _stored(column) for number, column in enumerate(self.kept)}
        fields = [pa.field(name, column.type) for name, column in columns.items()]
        fields[1] = fields[1].with_metadata(segment.ENCODED)
        return segment.encode(pa.record_batch(list(columns.values()), schema=pa.schema(fields)))

    @classmethod
    def decode(cls, contents: bytes) -> Parts:
        """Those of a segment."""
        rows, keys, *columns = segment.decode(contents).columns
        starts, ends, due, counts = (cast(Numbers, numbers_in(column)) for column in columns[:4])
        return cls(rows, keys, starts, ends, due, list(map(_loaded, columns[4:])), counts)

    @classmethod
    def joined(cls, parts: Sequence[Parts], width: int) -> Parts:
        """All rows of several; `width` is the number of columns that are kept."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.empty(0, np.int64)
            return cls(pa.nulls(0, _ROW), pa.nulls(0, ENCODED), none, none, none, [none] * width, none)
        return cls(
            pa.concat_arrays([part.rows for part in parts]),
            pa.concat_arrays([part.keys for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.due for part in parts]),
            [np.concatenate(columns) for columns in zip(*(part.kept for part in parts), strict=True)],
            np.concatenate([part.counts for part in parts]),
        )


def accumulators_of(parts: Parts, reducers: Reducers) -> Sequence[object]:
    """What parts hold as the CombineFn has it."""
    counts = parts.counts.tolist()
    kept = dict(zip(reducers.kept, (column.tolist() for column in parts.kept), strict=True))
    accumulators = [
        list(zip(kept[place], counts, strict=True)) if part is Reducer.MEAN else kept.get(place, counts)
        for place, part in enumerate(reducers.parts)
    ]
    return list(zip(*accumulators, strict=True)) if reducers.of_tuples else accumulators[0]


def reduced(reducers: Reducers, groups: Numbers, count: int, columns: Sequence[Kept]) -> list[Kept]:
    """What is kept of each group. Sums that might not fit into 64 bits become Python's numbers."""
    found: list[Kept] = []
    for place, column in zip(reducers.kept, columns, strict=True):
        part = reducers.parts[place]
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
    return objects_of([combine.merge_accumulators(its) for its in values])


def objects_of(values: Sequence[object]) -> NDArray[np.object_]:
    """A column of Python values, whatever they are."""
    column = np.empty(len(values), object)
    for place, value in enumerate(values):
        column[place] = value
    return column


def _stored(column: Kept) -> pa.Array:
    if column.dtype == np.int64:
        return of_numbers(column)
    return pa.array([pickle.dumps(value, pickle.HIGHEST_PROTOCOL) for value in column.tolist()], pa.large_binary())


def _loaded(column: pa.Array) -> Kept:
    if pa.types.is_int64(column.type):
        return cast(Kept, numbers_in(column))
    return objects_of([pickle.loads(data) for data in column.to_pylist()])
