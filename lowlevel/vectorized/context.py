"""The context of a column computation: state of keys, timers, productions, counters (MillWheel paper figure 7).

The keys of a bundle are one table, whose state is read in bulk on demand, as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers, first_indices, numbered
from headrace.lowlevel.records.late_data import Dropped
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.fields import Column, Field, Layout, as_array, fitted
from headrace.lowlevel.vectorized.output import Produced, Values
from headrace.lowlevel.vectorized.rows import KeyedColumns, RecordColumns
from headrace.lowlevel.vectorized.timer_rows import NO_HOLD, TimerRows

_STATE = b""
"""Name of the cell with the fields of a key."""


class KeyTable:
    """The keys of a bundle, with numbers from 0, and their state.

    Args:
        key_hashes: Arrays of the keys' hashes, of type `binary(16)`; a key may be in several arrays.
        keys: Arrays of the encoded keys, of type `large_binary`, with the same lengths.
        layout: The fields of a key's state.
        store: The store of the committed state.
    """

    def __init__(
        self, key_hashes: Sequence[pa.Array], keys: Sequence[pa.Array], layout: Layout, store: StateStore
    ) -> None:
        self.layout, self._store = layout, store
        key_hash, key = pa.chunked_array(key_hashes, pa.binary(16)), pa.chunked_array(keys, pa.large_binary())
        key_hash, key = key_hash.combine_chunks(), key.combine_chunks()
        numbers = numbered([key_hash])
        count = int(numbers.max(initial=-1)) + 1
        firsts = of_numbers(first_indices(numbers, count))
        self.key_hashes, self.keys = key_hash.take(firsts), key.take(firsts)
        ends = np.cumsum([len(piece) for piece in key_hashes])
        self.pieces: list[Numbers] = np.split(numbers, ends[:-1]) if len(key_hashes) else []
        """For each of the `key_hashes`, the number of each key, int64."""
        self._loaded, self._stored = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        self.state = np.repeat(layout.defaults, count)
        """The fields of each key, a structured array; defaults until `load` has read the key."""
        self._before = self.state.copy()

    def __len__(self) -> int:
        return len(self.key_hashes)

    def numbers_of(self, key_hashes: pa.Array) -> Numbers:
        """The numbers of the keys with these hashes; all of them must be in the table."""
        # Numbers are given in order of appearance, and the keys of the table are distinct.
        return numbered([pa.concat_arrays([self.key_hashes, key_hashes])])[len(self) :]

    def encoded_of(self, numbers: Numbers) -> pa.Array:
        """The encoded keys of these numbers."""
        return self.keys.take(of_numbers(numbers))

    def load(self, numbers: Numbers) -> None:
        """Read the state of these keys, except those that were read before."""
        missing = numbers[~self._loaded[numbers]]
        if not len(missing):
            return
        self._loaded[missing] = True
        key_hashes = cast("list[bytes]", self.key_hashes.take(of_numbers(missing)).to_pylist())
        found = self._store.states_of(key_hashes)
        if found:
            stored = list(map(found.get, key_hashes))
            self._stored[missing] = list(map(found.__contains__, key_hashes))
            self.state[missing] = self._before[missing] = self.layout.decode(stored)

    def is_stored(self, numbers: Numbers) -> NDArray[np.bool_]:
        """For each of these keys, whether it has stored state."""
        self.load(numbers)
        return cast("NDArray[np.bool_]", self._stored[numbers])

    def save(self, delta: Delta) -> None:
        """Add the changed states to the delta; the state of a key with all fields at their defaults is removed."""
        changed = np.flatnonzero(self._loaded & _differ(self.state, self._before))
        if not len(changed):
            return
        empty = ~_differ(self.state[changed], np.repeat(self.layout.defaults, len(changed)))
        size, data = self.layout.dtype.itemsize, self.state[changed].tobytes()
        where = of_numbers(changed)
        key_hashes = cast("list[bytes]", self.key_hashes.take(where).to_pylist())
        contents = [data[start : start + size] for start in range(0, len(data), size)]
        cells = delta.cells
        for key_hash, content, is_empty in zip(key_hashes, contents, empty.tolist(), strict=True):
            cells[key_hash, _STATE] = None if is_empty else content
        new = changed[~self._stored[changed] & ~empty]
        where = of_numbers(new)
        delta.keys.update(zip(self.key_hashes.take(where).to_pylist(), self.keys.take(where).to_pylist(), strict=True))


def _differ(left: NDArray[np.void], right: NDArray[np.void]) -> NDArray[np.bool_]:
    """For each row, whether the bytes differ; a NaN is equal to itself."""
    width = left.dtype.itemsize
    if not width:
        return np.zeros(len(left), np.bool_)
    left_bytes, right_bytes = (array.view(np.uint8).reshape(-1, width) for array in (left, right))
    return cast("NDArray[np.bool_]", (left_bytes != right_bytes).any(axis=1))


_TIME = Field(int)
_UNKNOWN_KEY = "(unknown)"


class StateColumns:
    """The state of the current rows' keys: one array for each field, which can be changed in place or replaced.

    >>> import numpy as np, pyarrow as pa
    >>> from headrace.lowlevel.state.memory_store import MemoryStateStore
    >>> key_hashes, keys = pa.array([b"r" * 16], pa.binary(16)), pa.array([b"sanna"], pa.large_binary())
    >>> table = KeyTable([key_hashes], [keys], Layout.of({"total": int}, "state_fields"), MemoryStateStore())
    >>> state = StateColumns(table, np.array([0]))
    >>> state["total"] += 7
    >>> state.keep()
    >>> table.state["total"].tolist()
    [7]
    """

    def __init__(self, table: KeyTable, numbers: Numbers) -> None:
        self._table, self._numbers = table, numbers
        self._fetched: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        """A field's values: an array with one value for each key, in the order of key numbers.

        Raises KeyError for a field that is not declared.
        """
        if name not in self._fetched:
            self._field(name)
            self._table.load(self._numbers)
            self._fetched[name] = self._table.state[name][self._numbers]
        return self._fetched[name]

    def __setitem__(self, name: str, values: Values) -> None:
        """Replace a field's values.

        Args:
            name: The field.
            values: One value for each key, in the order of key numbers, or one value for all keys.

        Raises:
            KeyError: The field is not declared.
            TypeError, ValueError: The values have another type or length, or nulls.
        """
        array = fitted(values, self._field(name), len(self._numbers), f"state {name!r}")
        self._table.load(self._numbers)
        # A copy, so that later changes of the caller's array do not change the state.
        self._fetched[name] = array.copy()

    def _field(self, name: str) -> Field:
        try:
            return self._table.layout.fields[name]
        except KeyError:
            known = ", ".join(map(repr, self._table.layout.fields)) or "none"
            raise KeyError(f"there is no state {name!r} (state_fields: {known}); declare it there") from None

    @property
    def stored(self) -> NDArray[np.bool_]:
        """For each key, in the order of key numbers, whether it had stored state before this bundle."""
        return self._table.is_stored(self._numbers)

    def clear(self, keys: Values) -> None:
        """Reset all fields of some keys to their defaults, which removes the keys' stored state.

        Args:
            keys: The numbers of these keys, or a boolean for each key that is True for these keys.
        """
        for name in self._table.layout.fields:
            self[name][as_array(keys, "keys")] = self._table.layout.defaults[name][0]

    def keep(self) -> None:
        """Write the changes to the key table."""
        for name, values in self._fetched.items():
            self._table.state[name][self._numbers] = values


class ColumnContext:
    """Access to state, timers and outputs for `ColumnComputation.process_columns` and `process_timers`.

    >>> from headrace.lowlevel import BoundedInjector, CallSink, ColumnComputation, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> class Total(ColumnComputation):
    ...     state_fields = {"total": int}
    ...     def process_columns(self, batch, context):
    ...         context.state["total"] += batch.sum(batch["points"])
    ...         totals = {"team": batch.distinct_keys, "total": context.state["total"]}
    ...         context.produce_columns("totals", totals, batch.timestamps[batch.last])
    >>> topology = Topology()
    >>> rows = [({"team": "red", "points": 5}, 10), ({"team": "red", "points": 7}, 20)]
    >>> topology.injector("scores", BoundedInjector(rows))
    >>> topology.computation("total", Total(), {"scores": lambda score: score["team"]}, ["totals"])
    >>> topology.sink("print", "totals", CallSink(lambda epoch, rows: print([total for total, _ in rows])))
    >>> result = LocalRunner().run_topology(topology)
    [{'team': 'red', 'total': 12}]
    """

    state: StateColumns
    """The state of the current rows' keys."""
    watermark: int
    """The input low watermark, microseconds UTC; during `process_columns` it is that before the bundle."""

    def __init__(
        self, engine: IntervalContext, table: KeyTable, layout: Layout, keep: Callable[[TimerRows], None]
    ) -> None:
        self._engine, self._table, self._layout, self._keep = engine, table, layout, keep
        self.wall_time = engine.wall_time
        """The wall-clock time of the epoch, microseconds UTC."""

    def turn_to(self, rows: KeyedColumns, numbers: Numbers, watermark: int) -> None:
        """Set the current rows; `numbers` are the numbers of their keys in the key table."""
        self._rows, self._numbers, self.watermark = rows, numbers, watermark
        self.state = StateColumns(self._table, numbers)

    def turn_away(self) -> None:
        """Release the current rows and their state."""
        del self._rows, self._numbers, self.state

    def set_timers(
        self, timestamps: Values, keys: Values | None = None, hold: Values | None = None, **columns: Values
    ) -> None:
        """Set timers, which fire once in `process_timers` when the low watermark reaches their timestamps.

        Timers with the same key and timestamp are combined, see `ColumnComputation.combine_timers`. Timers cannot be
        cancelled. A timer whose timestamp is already reached fires in this bundle.

        Args:
            timestamps: The time at which each timer is due, microseconds UTC, or one time for all.
            keys: The key number of each timer; by default there is one timer for each current row, with its key.
            hold: Event times, microseconds UTC, one for each timer or one for all. The output watermark does not pass
                them until the timers have fired. By default there is no hold.
            **columns: The values of all `ColumnComputation.timer_fields`, one for each timer or one for all.

        Raises:
            TypeError, ValueError: An array has a wrong type, length, range or name; no timer is set.
        """
        owners = self._rows.keys if keys is None else self._owners(keys)
        due = self._times(timestamps, len(owners), "timestamps")
        holds = np.full(len(owners), NO_HOLD, np.int64) if hold is None else self._times(hold, len(owners), "hold")
        if self._layout.fields.keys() != columns.keys():
            given, declared = (", ".join(map(repr, names)) or "nothing" for names in (columns, self._layout.fields))
            raise ValueError(f"set_timers was given {given} with the timers; it takes all of timer_fields: {declared}")
        arrays = [
            fitted(columns[name], field, len(owners), f"timer column {name!r}").copy()
            for name, field in self._layout.fields.items()
        ]
        where = of_numbers(self._numbers[owners])
        self._keep(TimerRows(self._table.key_hashes.take(where), self._table.keys.take(where), due, holds, arrays))

    def _owners(self, keys: Values) -> Numbers:
        owners = as_array(keys, "keys")
        if owners.dtype.kind not in "iu" or owners.ndim != 1:
            raise TypeError(f"keys must be key numbers of current rows, not {owners.dtype} of shape {owners.shape}")
        numbers = owners.astype(np.int64)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self._rows.key_count:
            raise ValueError(
                f"keys are numbers from 0 to {self._rows.key_count - 1}, not {numbers.min()} to {numbers.max()}"
            )
        return numbers

    def _times(self, values: Values, size: int, label: str) -> Numbers:
        times = cast(Numbers, fitted(values, _TIME, size, label).copy())
        wrong = (times < MIN_TIMESTAMP) | (times > MAX_TIMESTAMP)
        if wrong.any():
            index = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"{label} has {times[index]} at index {index}, beyond the year 294000, where time ends; timestamps are "
                "microseconds since 1970"
            )
        return times

    def produce_columns(
        self, stream: str, columns: Mapping[str, Values] | Sequence[Values] | Values, timestamps: Values | None = None
    ) -> None:
        """Produce values to a stream.

        Args:
            stream: One of the computation's outputs.
            columns: For dicts a mapping of names to columns; for tuples a list or tuple of columns; for other values
                one column. Columns have equal lengths.
            timestamps: The timestamp of each value, microseconds UTC, or one for all. By default there is one value for
                each current row, with its timestamp.

        Raises:
            TypeError: Something is not a column, or the stream takes records of another type.
            ValueError: Lengths differ, a timestamp is out of range, or the stream is not declared as an output.
        """
        if stream not in self._engine.outputs:
            declared = ", ".join(sorted(self._engine.outputs)) or "none"
            raise ValueError(
                f"computation {self._engine.name!r} produces to stream {stream!r}, which it does not declare "
                f"(outputs: {declared}); add the stream to its outputs in the topology"
            )
        produced = Produced.of(columns)
        times = (
            self._rows.timestamps.copy() if timestamps is None else self._times(timestamps, len(produced), "timestamps")
        )
        if len(times) != len(produced):
            raise ValueError(
                f"{len(produced)} values for {stream!r} are not one for each of the {len(times)} current rows; give "
                "timestamps"
            )
        batch = produced.batch(times)
        record_type = self._engine.formats.get(stream)
        if record_type is not None and len(batch) and not isinstance(batch.values[0], record_type):
            raise TypeError(
                f"stream {stream!r} takes records of type {record_type.__name__}, not "
                f"{type(batch.values[0]).__name__}; produce that type or change the format in the topology"
            )
        self._engine.emit(stream, batch)

    def count(self, counter: str, n: int = 1) -> None:
        """Add to a counter of this computation. It is exact under retries, because it is part of the commit."""
        self._engine.count(counter, n)

    def drop_late(self, n: int) -> None:
        """Add the number of late records that were dropped to the counter `dropped_late`.

        The logger `headrace.late_data` has it at level DEBUG, by key if all late records of the batch were dropped.
        """
        if n:
            number = int(n)
            self._engine.drop_late(number, lambda: self._dropped(number))

    def _dropped(self, number: int) -> list[Dropped]:
        """Dropped records by key, if there are as many as late records in the batch; else their keys are unknown."""
        rows = self._rows
        late = np.bincount(rows.keys[rows.late]) if isinstance(rows, RecordColumns) else np.zeros(0, np.int64)
        if late.sum() != number:
            return [Dropped(_UNKNOWN_KEY, None, number)]
        return [Dropped(rows.key_of(rows.first[index]), None, int(late[index])) for index in np.flatnonzero(late)]
