"""The input of a column computation: records or due timers of many keys, as columns sorted by key."""

from __future__ import annotations

from functools import cached_property
from typing import NoReturn, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.coders.coder import KeyCoder
from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers, plain_keys
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.records.late_data import is_late
from headrace.lowlevel.vectorized.blocks_by_key import Name, Values
from headrace.lowlevel.vectorized.fields import Column, Layout
from headrace.lowlevel.vectorized.timer_rows import TimerRows


class KeyedColumns:
    """Rows of many keys, sorted by key. Keys have numbers from 0; `keys` is the number of each row's key.

    Arrays with one value for each key are in the order of these numbers, as in `ColumnContext.state`.
    """

    def __init__(self, step: str, coder: KeyCoder, encoded: pa.Array, keys: Numbers, timestamps: Numbers) -> None:
        self._step, self._coder, self._encoded = step, coder, encoded
        self.keys = keys
        """The key number of each row, int64, from 0 and ascending."""
        self.timestamps = timestamps
        """The timestamp of each row, int64, microseconds UTC."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.keys)

    @property
    def key_count(self) -> int:
        """Number of keys; each key has at least one row."""
        return len(self._encoded)

    @cached_property
    def counts(self) -> Numbers:
        """Number of rows for each key, int64."""
        return np.bincount(self.keys, minlength=self.key_count)

    @cached_property
    def last(self) -> Numbers:
        """Index of each key's last row, int64."""
        return np.cumsum(self.counts) - 1

    @cached_property
    def first(self) -> Numbers:
        """Index of each key's first row, int64."""
        return self.last - self.counts + 1

    @cached_property
    def distinct_keys(self) -> pa.Array | NDArray[np.object_]:
        """The keys in the order of key numbers: an Arrow array of strings or integers, or an array of objects."""
        plain = plain_keys(self._encoded)
        if plain is not None:
            return plain
        keys = np.empty(len(self._encoded), np.object_)
        for number, encoded in enumerate(self._encoded.to_pylist()):
            keys[number] = self._coder.decode(encoded)
        return keys

    def key_values(self, rows: NDArray[np.bool_] | Numbers | None = None) -> pa.Array | NDArray[np.object_]:
        """The key of each row, for `ColumnContext.produce_columns`; see `distinct_keys` for the type.

        Args:
            rows: The rows to include: a boolean for each row, or the indices of rows. By default all rows are included.
        """
        keys, distinct = self.keys if rows is None else self.keys[rows], self.distinct_keys
        return distinct.take(of_numbers(keys)) if isinstance(distinct, pa.Array) else distinct[keys]

    def key_of(self, row: int) -> object:
        """The decoded key of the row with this index."""
        return self._coder.decode(self._encoded[int(self.keys[row])].as_py())

    # Aggregates for each key

    def sum(self, values: Column) -> Column:
        """The sum of each key's values, in the order of key numbers.

        Integers and booleans are added as int64, and overflow silently; True is 1. Floats keep their type.

        Args:
            values: One value for each row.
        """
        wide = values.astype(np.int64) if values.dtype.kind in "bi" else values
        return cast(Column, np.add.reduceat(wide, self.first)) if len(self) else wide[:0]

    def min(self, values: Column) -> Column:
        """The minimum of each key's values, in the order of key numbers; `values` has one for each row."""
        return cast(Column, np.minimum.reduceat(values, self.first)) if len(self) else values[:0]

    def max(self, values: Column) -> Column:
        """The maximum of each key's values, in the order of key numbers; `values` has one for each row."""
        return cast(Column, np.maximum.reduceat(values, self.first)) if len(self) else values[:0]

    def running_sum(self, values: Column, start: Column | int | float = 0) -> Column:
        """For each row, the sum of its key's values up to and including its own: int64 or float64.

        Args:
            values: One value for each row.
            start: The value to begin with, one for each key or one for all.
        """
        if values.dtype.kind == "f":
            return self._running_floats(values.astype(np.float64), start)
        wide = cast("Numbers", values.astype(np.int64) if values.dtype.kind in "bi" else values)
        sums = np.cumsum(wide)
        before = sums[self.first] - wide[self.first]
        return cast(Column, sums + (np.broadcast_to(start, self.key_count) - before)[self.keys])

    def _running_floats(self, sums: NDArray[np.float64], start: Column | int | float) -> Column:
        """Running sums of floats, added separately for each key, so that rounding does not depend on other keys."""
        if not len(self):
            return sums
        sums[self.first] += np.broadcast_to(np.asarray(start, np.float64), self.key_count)
        for key in np.flatnonzero(self.counts > 1).tolist():
            of_key = sums[self.first[key] : self.last[key] + 1]
            np.cumsum(of_key, out=of_key)
        return sums

    def _fail(self, row: int, value: object, cause: str) -> NoReturn:
        raise StepError(self._step, self.key_of(row), value, cause)


class RecordColumns(KeyedColumns):
    """The records of a bundle from one stream. The records of a key are in the order of delivery.

    >>> from headrace.lowlevel import BoundedInjector, ColumnComputation, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> class Show(ColumnComputation):
    ...     def process_columns(self, batch, context):
    ...         print(len(batch), batch.key_count, batch["points"].tolist(), batch.timestamps.tolist())
    >>> topology = Topology()
    >>> rows = [({"team": "red", "points": 5}, 10), ({"team": "red", "points": 7}, 20)]
    >>> topology.injector("scores", BoundedInjector(rows))
    >>> topology.computation("show", Show(), {"scores": lambda score: score["team"]})
    >>> result = LocalRunner().run_topology(topology)
    2 1 [5, 7] [10, 20]
    """

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
        """Name of the input stream."""
        self._values, self._watermark = values, watermark

    @cached_property
    def late(self) -> NDArray[np.bool_]:
        """For each record, whether its timestamp is before the low watermark (MillWheel paper §4.5)."""
        return is_late(self.timestamps, self._watermark)

    def arrow(self, name: Name = None) -> pa.Array:
        """A column of the values as an Arrow array, one for each record; None becomes null.

        Args:
            name: A field of dicts, rows and named tuples; an index in tuples; None for the values themselves.

        Raises:
            StepError: A record has no such field, or its type cannot be in a column with the others.
        """
        return self._values.column(name, self._fail)

    def __getitem__(self, name: Name) -> Column:
        """A column of the values as a numpy array; see `arrow`. Timestamps are int64, microseconds UTC.

        Raises `StepError` also for a value of None.
        """
        column = self.arrow(name)
        if column.null_count:
            row = int(np.flatnonzero(numbers_in(column.is_null()))[0])
            column_name, argument = ("its value", "") if name is None else (repr(name), repr(name))
            problem = f"{column_name} is None, which a numpy array of this type cannot hold"
            self._fail(row, self.value(row), f"{problem}; use batch.arrow({argument})")
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
        return cast(Column, numbers_in(column))

    @property
    def values(self) -> Column:
        """The values themselves as a numpy array, one for each record. Raises `StepError`."""
        return self[None]

    def value(self, row: int) -> object:
        """The value of the record with this index, as a Python object."""
        return self._values.value(row)


class TimerColumns(KeyedColumns):
    """Timers that fire. The timers of a key are in the order of their timestamps.

    >>> from headrace.lowlevel import BoundedInjector, ColumnComputation, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> class Minutes(ColumnComputation):
    ...     timer_fields = {"points": int}
    ...     def process_columns(self, batch, context):
    ...         context.set_timers(60_000_000, points=batch["points"])
    ...     def process_timers(self, due, context):
    ...         print(due.distinct_keys.tolist(), due["points"].tolist(), due.timestamps.tolist())
    >>> topology = Topology()
    >>> topology.injector("scores", BoundedInjector([({"team": "red", "points": 5}, 10)]))
    >>> topology.computation("minutes", Minutes(), {"scores": lambda score: score["team"]})
    >>> result = LocalRunner().run_topology(topology)
    ['red'] [5] [60000000]
    """

    def __init__(
        self, step: str, coder: KeyCoder, encoded: pa.Array, keys: Numbers, timers: TimerRows, layout: Layout
    ) -> None:
        super().__init__(step, coder, encoded, keys, timers.timestamps)
        self._columns = dict(zip(layout.fields, timers.columns, strict=True))

    def __getitem__(self, name: str) -> Column:
        """The values of a field in `ColumnComputation.timer_fields`, one for each timer. Raises KeyError."""
        try:
            return self._columns[name]
        except KeyError:
            known = ", ".join(map(repr, self._columns)) or "none"
            raise KeyError(f"timers have no field {name!r} (timer_fields: {known}); declare it there") from None
