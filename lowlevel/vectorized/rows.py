"""What a column computation is given: records, or timers that fire, of many keys, as columns sorted by key."""

from __future__ import annotations

from functools import cached_property
from typing import NoReturn, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.arrays import numbers_in, of_numbers
from headrace.lowlevel.coder import KeyCoder
from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.columnwise.fields import Column, Layout
from headrace.lowlevel.columnwise.timerrows import TimerRows
from headrace.lowlevel.columnwise.values import Name, Values
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.tuplekeys import plain_keys


class KeyedColumns:
    """Rows of many keys, sorted by key. Keys are numbered from 0; `keys` is the number of each row's key.

    Arrays of one value for each key are in order of these numbers, as those of `ColumnContext.state` are.
    """

    def __init__(self, step: str, coder: KeyCoder, encoded: pa.Array, keys: Numbers, timestamps: Numbers) -> None:
        self._step, self._coder, self._encoded = step, coder, encoded
        self.keys = keys
        """Number of each row's key, from 0 and in order."""
        self.timestamps = timestamps
        """Of each row, microseconds UTC."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.keys)

    @property
    def key_count(self) -> int:
        """Number of keys; each has a row."""
        return len(self._encoded)

    @cached_property
    def counts(self) -> Numbers:
        """Number of rows of each key."""
        return np.bincount(self.keys, minlength=self.key_count)

    @cached_property
    def last(self) -> Numbers:
        """Place of each key's last row."""
        return np.cumsum(self.counts) - 1

    @cached_property
    def first(self) -> Numbers:
        """Place of each key's first row."""
        return self.last - self.counts + 1

    @cached_property
    def distinct_keys(self) -> pa.Array | NDArray[np.object_]:
        """Each key: text and whole numbers as an Arrow array, others as an array of Python values."""
        plain = plain_keys(self._encoded)
        if plain is not None:
            return plain
        keys = np.empty(len(self._encoded), np.object_)
        for place, encoded in enumerate(self._encoded.to_pylist()):
            keys[place] = self._coder.decode(encoded)
        return keys

    def key_values(self, rows: NDArray[np.bool_] | Numbers | None = None) -> pa.Array | NDArray[np.object_]:
        """The keys of rows, to be produced: an array of Arrow or of Python values, see `distinct_keys`.

        Args:
            rows: True for each row whose key is wanted, or their places; of all rows by default.
        """
        keys, distinct = self.keys if rows is None else self.keys[rows], self.distinct_keys
        return distinct.take(of_numbers(keys)) if isinstance(distinct, pa.Array) else distinct[keys]

    def key_of(self, row: int) -> object:
        """The key of one row."""
        return self._coder.decode(self._encoded[int(self.keys[row])].as_py())

    # What of each key's rows

    def sum(self, values: Column) -> Column:
        """The sum of each key's values, as numpy adds: whole numbers have 64 bits, and True is one.

        Args:
            values: One for each row.
        """
        wide = values.astype(np.int64) if values.dtype.kind in "bi" else values
        return cast(Column, np.add.reduceat(wide, self.first)) if len(self) else wide[:0]

    def min(self, values: Column) -> Column:
        """The least of each key's values; see `sum`."""
        return cast(Column, np.minimum.reduceat(values, self.first)) if len(self) else values[:0]

    def max(self, values: Column) -> Column:
        """The greatest of each key's values; see `sum`."""
        return cast(Column, np.maximum.reduceat(values, self.first)) if len(self) else values[:0]

    def running_sum(self, values: Column, start: Column | int | float = 0) -> Column:
        """For each row the sum of its key's values up to its own.

        Args:
            values: One for each row.
            start: What to begin with, one for each key or one for all.
        """
        if values.dtype.kind == "f":
            return self._running_floats(values.astype(np.float64), start)
        wide = cast("Numbers", values.astype(np.int64) if values.dtype.kind in "bi" else values)
        sums = np.cumsum(wide)
        before = sums[self.first] - wide[self.first]
        return cast(Column, sums + (np.broadcast_to(start, self.key_count) - before)[self.keys])

    def _running_floats(self, sums: NDArray[np.float64], start: Column | int | float) -> Column:
        """Each key by itself: rounding must not differ with the keys that are beside it."""
        if not len(self):
            return sums
        sums[self.first] += np.broadcast_to(np.asarray(start, np.float64), self.key_count)
        active, rank, left = np.flatnonzero(self.counts > 1), 1, len(self) - self.key_count
        # Rank by rank while that takes many rows at once; keys of which there is much more are few, and go one by one.
        while len(active) ** 2 > left:
            rows = self.first[active] + rank
            sums[rows] += sums[rows - 1]
            left -= len(active)
            rank += 1
            active = active[self.counts[active] > rank]
        for key in active.tolist():
            its = sums[self.first[key] + rank - 1 : self.last[key] + 1]
            np.cumsum(its, out=its)
        return sums

    def _fail(self, row: int, value: object, cause: str) -> NoReturn:
        raise StepError(self._step, self.key_of(row), value, cause)


class RecordColumns(KeyedColumns):
    """The records of a bundle that came by one stream; those of a key in the order in which they were delivered."""

    def __init__(
        self,
        step: str,
        coder: KeyCoder,
        encoded: pa.Array,
        keys: Numbers,
        timestamps: Numbers,
        stream: str,
        values: Values,
        watermark: int,
    ) -> None:
        super().__init__(step, coder, encoded, keys, timestamps)
        self.stream = stream
        """Name of the stream."""
        self._values, self._watermark = values, watermark

    @cached_property
    def late(self) -> NDArray[np.bool_]:
        """Whether each record is behind the low watermark (paper §4.5)."""
        return self.timestamps < self._watermark

    def arrow(self, name: Name = None) -> pa.Array:
        """A column of the values as an Arrow array, with nulls where it is None.

        Args:
            name: A field of dicts, rows and named tuples; a place in tuples; None for values that are a column.

        Raises:
            StepError: A record has no such field, or its value does not go together with the others'.
        """
        return self._values.column(name, self._fail)

    def __getitem__(self, name: Name) -> Column:
        """A column of the values as a numpy array; see `arrow`. It must have no nulls."""
        column = self.arrow(name)
        if column.null_count:
            row = int(np.flatnonzero(numbers_in(column.is_null()))[0])
            where = "its value" if name is None else f"{name!r}"
            how = "" if name is None else repr(name)
            self._fail(row, self.value(row), f"{where} is None, of which numpy knows nothing; use batch.arrow({how})")
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
        return cast(Column, numbers_in(column))

    @property
    def values(self) -> Column:
        """The values themselves as a numpy array."""
        return self[None]

    def value(self, row: int) -> object:
        """The value of one record as a Python object."""
        return self._values.value(row)


class TimerColumns(KeyedColumns):
    """Timers that fire; those of a key in order of their timestamps."""

    def __init__(
        self, step: str, coder: KeyCoder, encoded: pa.Array, keys: Numbers, timers: TimerRows, layout: Layout
    ) -> None:
        super().__init__(step, coder, encoded, keys, timers.timestamps)
        self._columns = dict(zip(layout.fields, timers.columns, strict=True))

    def __getitem__(self, name: str) -> Column:
        """What came with the timers, by the name in `ColumnComputation.timer_fields`."""
        try:
            return self._columns[name]
        except KeyError:
            known = ", ".join(map(repr, self._columns)) or "none"
            raise KeyError(f"timers come with no {name!r} (timer_fields: {known}); declare it there") from None
