"""What: windows of many keys as columns, in memory and in segments: what they hold, and which panes they have had."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel import segment
from headrace.lowlevel.arrays import numbers_in, of_numbers
from headrace.lowlevel.columnkeys import Numbers, dense, numbered
from headrace.sdk.columns.keys import ENCODED
from headrace.sdk.columns.parts import objects_of
from headrace.sdk.columns.sessions import Flags

NAMES = ("start", "end", "count", "fresh", "index", "nonspeculative", "flags", "age", "wake")
START, END, COUNT, FRESH, INDEX, NONSPECULATIVE, FLAGS, AGE, WAKE = range(len(NAMES))
"""Columns of numbers: bounds of the window (microseconds UTC), elements in what it holds, elements since its last pane,
panes so far, panes so far that were not early, flags, the epoch that wrote the line, and the wall time from which its
next pane may be due (microseconds UTC). What reducers keep follows."""
KEPT = len(NAMES)
NEVER = int(np.iinfo(np.int64).max)
"""The wall time of windows that wait for none."""
TIMELY, ENDED, FINISHED = 1, 2, 4
"""Flags: a pane at or after the end is on time; the end was reached when this was written; no pane comes any more."""
_ROW = pa.binary(16)
_VALUE = "value"
"""Name of the column with accumulators that are no numbers of 64 bits."""


@dataclass(slots=True)
class Lines:
    """A line for each key and window, or for what came of it; the numbers are changed in place."""

    rows: pa.Array
    """Row of the key."""
    keys: pa.Array
    """Encoded keys."""
    numbers: NDArray[np.int64]
    """A row of the array for each column."""
    values: NDArray[np.object_] | None = None
    """Accumulators as Python values, each in a tuple of one, where numbers do not do; None in the other lines. None if
    there are no such."""

    @classmethod
    def new(cls, rows: pa.Array, keys: pa.Array, width: int, values: NDArray[np.object_] | None = None) -> Lines:
        """Of keys, with no numbers yet; `width` is the number of columns that reducers keep."""
        numbers = np.zeros((KEPT + width, len(rows)), np.int64)
        numbers[WAKE] = NEVER
        return cls(rows, keys, numbers, values)

    def __len__(self) -> int:
        return int(self.numbers.shape[1])

    def __getitem__(self, column: int) -> Numbers:
        return cast(Numbers, self.numbers[column])

    def __setitem__(self, column: int, numbers: Numbers | int) -> None:
        self.numbers[column] = numbers

    @property
    def kept(self) -> list[Numbers]:
        """What the reducers keep."""
        return [cast(Numbers, column) for column in self.numbers[KEPT:]]

    def has(self, flag: int) -> Flags:
        """Whether a flag is set."""
        return cast(Flags, self.numbers[FLAGS] & flag != 0)

    def set_flag(self, flag: int, chosen: Flags, on: bool = True) -> None:
        """Set or clear a flag of some lines."""
        column = self.numbers[FLAGS]
        column[chosen] = column[chosen] | flag if on else column[chosen] & ~flag

    def as_values(self) -> Flags:
        """Which lines hold an accumulator that is no numbers."""
        if self.values is None:
            return np.zeros(len(self), np.bool_)
        return np.fromiter((value is not None for value in self.values.tolist()), np.bool_, len(self))

    def empty(self, chosen: Flags) -> None:
        """Let lines hold nothing."""
        self.numbers[COUNT, chosen] = 0
        self.numbers[KEPT:, chosen] = 0
        if self.values is not None:
            self.values[chosen] = None

    def taken(self, places: Numbers) -> Lines:
        """A copy of the lines at these places."""
        where = of_numbers(places)
        values = None if self.values is None else self.values[places]
        return Lines(self.rows.take(where), self.keys.take(where), self.numbers[:, places], values)

    def where(self, chosen: Flags) -> Lines:
        """The lines for which it is true; the same object if it is for all."""
        return self if chosen.all() else self.taken(np.flatnonzero(chosen))

    def by_key(self) -> Lines:
        """In order of the rows' keys, so that some can be found without a look at the others."""
        return self.taken(np.argsort(segment.places(self.rows), kind="stable"))

    def windows(self) -> Numbers:
        """A number for each line's window."""
        numbers = np.unique(self[END], return_inverse=True)[1].reshape(-1)
        if len(self) and np.ptp(self[END] - self[START]):
            starts, others = np.unique(self[START], return_inverse=True)
            numbers, _ = dense(numbers * len(starts) + others.reshape(-1))
        return cast(Numbers, numbers)

    def groups(self) -> tuple[Numbers, int]:
        """A number for each line's key and window, without gaps, and how many there are."""
        if not len(self):
            return np.empty(0, np.int64), 0
        windows = self.windows()
        groups, names = dense(numbered([self.rows]) * (int(windows.max()) + 1) + windows)
        return groups, len(names)

    def newest(self) -> Lines:
        """The line that was written last of each key and window."""
        groups, count = self.groups()
        return self if count == len(self) else self.taken(self.newest_places(groups, count))

    def newest_places(self, groups: Numbers, count: int) -> Numbers:
        """The place of the line that was written last of each group; -1 if there is none."""
        places = np.full(count, -1, np.int64)
        order = np.argsort(self[AGE], kind="stable")
        # Of several assignments to one place the last one holds.
        places[groups[order]] = order
        return places

    def encode(self, metadata: Mapping[bytes, bytes] | None = None) -> bytes:
        """As a segment; with `metadata` of its schema."""
        fields, columns = [pa.field("row", _ROW), pa.field("key", ENCODED, metadata=segment.ENCODED)], []
        same: dict[str, int] = {}
        for place, column in enumerate(self.numbers):
            name = NAMES[place] if place < KEPT else f"kept{place - KEPT}"
            if place < KEPT and len(column) and not np.ptp(column):
                same[name] = int(column[0])
            else:
                fields.append(pa.field(name, pa.int64()))
                columns.append(of_numbers(column))
        if self.values is not None and self.as_values().any():
            fields.append(pa.field(_VALUE, pa.large_binary()))
            columns.append(pa.array(list(map(_dumped, self.values.tolist())), pa.large_binary()))
        if same.get(NAMES[WAKE]) == NEVER:
            del same[NAMES[WAKE]]
        schema = pa.schema(fields, {segment.SAME: json.dumps(same).encode(), **(metadata or {})})
        return segment.encode(pa.record_batch([self.rows, self.keys, *columns], schema=schema))

    @classmethod
    def decode(cls, contents: bytes, wanted: NDArray[np.uint64] | None = None) -> Lines:
        """Those of a segment; with `wanted`, ordered and distinct, those of keys in these places, if it is `by_key`."""
        table = segment.decode(contents)
        if wanted is not None:
            table = table.take(of_numbers(_within(segment.places(table.column(0)), wanted)))
        # Nearly always nobody waits for wall time.
        same: dict[str, int] = {NAMES[WAKE]: NEVER, **json.loads((table.schema.metadata or {})[segment.SAME])}
        kept = [name for name in table.schema.names if name.startswith("kept")]
        numbers = np.empty((KEPT + len(kept), table.num_rows), np.int64)
        for place, name in enumerate((*NAMES, *kept)):
            numbers[place] = numbers_in(table.column(name)) if name in table.schema.names else same[name]
        values = (
            objects_of(list(map(_loaded, table.column(_VALUE).to_pylist()))) if _VALUE in table.schema.names else None
        )
        return cls(table.column(0), table.column(1), numbers, values)

    @classmethod
    def joined(cls, parts: Sequence[Lines], width: int) -> Lines:
        """All lines of several; `width` is the number of columns that reducers keep."""
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.new(pa.nulls(0, _ROW), pa.nulls(0, ENCODED), width)
        values = None
        if any(part.values is not None for part in parts):
            nothing = (np.full(len(part), None, object) if part.values is None else part.values for part in parts)
            values = np.concatenate(list(nothing))
        return cls(
            pa.concat_arrays([part.rows for part in parts]),
            pa.concat_arrays([part.keys for part in parts]),
            np.concatenate([part.numbers for part in parts], axis=1),
            values,
        )


def _within(places: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> Numbers:
    """Where in ordered places the wanted ones are."""
    begins, stops = (np.searchsorted(places, wanted, side) for side in ("left", "right"))
    sizes = stops - begins
    offsets = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    return cast(Numbers, np.arange(int(sizes.sum())) + offsets)


def _dumped(value: object) -> bytes | None:
    return None if value is None else pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def _loaded(data: bytes | None) -> object:
    return None if data is None else pickle.loads(data)
