"""What a column computation reaches while it runs: state of its keys, timers, productions (paper figure 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.columnwise.fields import Column, Field, Layout, as_array, fitted
from headrace.lowlevel.columnwise.keytable import KeyTable
from headrace.lowlevel.columnwise.produced import Produced, Values
from headrace.lowlevel.columnwise.rows import KeyedColumns
from headrace.lowlevel.columnwise.timerrows import NO_HOLD, TimerRows
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP

_TIME = Field(int)


class StateColumns:
    """The state of the keys at hand: an array for each field, which may be changed in place, or replaced.

    >>> import numpy as np, pyarrow as pa
    >>> from headrace.lowlevel.state import MemoryCopy
    >>> rows, keys = pa.array([b"r" * 16], pa.binary(16)), pa.array([b"sanna"], pa.large_binary())
    >>> table = KeyTable([rows], [keys], Layout.of({"total": int}, "state_fields"), MemoryCopy())
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
        """A field of each key, in order of the keys' numbers."""
        if name not in self._fetched:
            self._field(name)
            self._table.load(self._numbers)
            self._fetched[name] = self._table.state[name][self._numbers]
        return self._fetched[name]

    def __setitem__(self, name: str, values: Values) -> None:
        """Replace a field of all keys at hand; one value stands for all."""
        array = fitted(values, self._field(name), len(self._numbers), f"state {name!r}")
        self._table.load(self._numbers)
        # A copy, so that whoever has the array cannot change the state by it.
        self._fetched[name] = array.copy()

    def _field(self, name: str) -> Field:
        try:
            return self._table.layout.fields[name]
        except KeyError:
            known = ", ".join(map(repr, self._table.layout.fields)) or "none"
            raise KeyError(f"there is no state {name!r} (state_fields: {known}); declare it there") from None

    @property
    def stored(self) -> NDArray[np.bool_]:
        """Whether each key had state before this bundle."""
        return self._table.is_stored(self._numbers)

    def clear(self, keys: Values) -> None:
        """Set all fields of some keys back to their defaults: then nothing is stored of them.

        Args:
            keys: Their numbers, or True for those to clear and False for the others.
        """
        for name in self._table.layout.fields:
            self[name][as_array(keys, "keys")] = self._table.layout.defaults[name][0]

    def keep(self) -> None:
        """Take what was changed into the table."""
        for name, values in self._fetched.items():
            self._table.state[name][self._numbers] = values


class ColumnContext:
    """What `ColumnComputation.process_columns` and `process_timers` reach."""

    state: StateColumns
    """The state of the keys of the rows at hand."""
    watermark: int
    """The input low watermark, microseconds UTC: for records the one before the bundle."""

    def __init__(
        self, engine: IntervalContext, table: KeyTable, layout: Layout, keep: Callable[[TimerRows], None]
    ) -> None:
        self._engine, self._table, self._layout, self._keep = engine, table, layout, keep
        self.wall_time = engine.wall_time
        """The epoch's reading of the wall clock, microseconds UTC."""

    def turn_to(self, rows: KeyedColumns, numbers: Numbers, watermark: int) -> None:
        """Have other rows at hand; `numbers` are those of their keys in the table."""
        self._rows, self._numbers, self.watermark = rows, numbers, watermark
        self.state = StateColumns(self._table, numbers)

    def turn_away(self) -> None:
        """Let go of the rows at hand."""
        del self._rows, self._numbers, self.state

    def set_timers(
        self, timestamps: Values, keys: Values | None = None, hold: Values | None = None, **columns: Values
    ) -> None:
        """Let rows come back to `process_timers`, once, when the low watermark reaches their timestamps.

        Rows of a key and timestamp that has some are added to them (see `ColumnComputation.combine_timers`); they
        cannot be taken back. A timestamp already reached fires in this bundle.

        Args:
            timestamps: When each is due, microseconds UTC.
            keys: Numbers of their keys; by default there is a timer for each row at hand, of that row's key.
            hold: Until they have fired, the output watermark stays at or below these event times.
            **columns: What comes with them: all fields of `ColumnComputation.timer_fields`.

        Raises:
            TypeError, ValueError: What is given does not fit; nothing is set.
        """
        owners = self._rows.keys if keys is None else self._owners(keys)
        due = self._times(timestamps, len(owners), "timestamps")
        held = np.full(len(owners), NO_HOLD, np.int64) if hold is None else self._times(hold, len(owners), "hold")
        if self._layout.fields.keys() != columns.keys():
            given, wanted = (", ".join(map(repr, names)) or "nothing" for names in (columns, self._layout.fields))
            raise ValueError(f"set_timers was given {given} with the timers; it takes all of timer_fields: {wanted}")
        come = [
            fitted(columns[name], field, len(owners), f"timer column {name!r}").copy()
            for name, field in self._layout.fields.items()
        ]
        places = of_numbers(self._numbers[owners])
        self._keep(TimerRows(self._table.rows.take(places), self._table.keys.take(places), due, held, come))

    def _owners(self, keys: Values) -> Numbers:
        owners = as_array(keys, "keys")
        if owners.dtype.kind not in "iu" or owners.ndim != 1:
            raise TypeError(f"keys are numbers of keys at hand, not {owners.dtype} of shape {owners.shape}")
        found = owners.astype(np.int64)
        if len(found) and not 0 <= found.min() <= found.max() < self._rows.key_count:
            raise ValueError(
                f"keys are numbers from 0 to {self._rows.key_count - 1}, not {found.min()} to {found.max()}"
            )
        return found

    def _times(self, values: Values, size: int, what: str) -> Numbers:
        times = cast(Numbers, fitted(values, _TIME, size, what).copy())
        wrong = (times < MIN_TIMESTAMP) | (times > MAX_TIMESTAMP)
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"{what} has {times[place]} at place {place}, beyond the year 294000, where time ends; timestamps are "
                "microseconds since 1970"
            )
        return times

    def produce_columns(
        self, stream: str, columns: Mapping[str, Values] | Sequence[Values] | Values, timestamps: Values | None = None
    ) -> None:
        """Send values to a stream.

        Args:
            stream: One of the computation's outputs.
            columns: Names and columns for values that are dicts; a list or tuple of columns for tuples; a column for
                values that are single.
            timestamps: Of each value, microseconds UTC; by default there is one for each row at hand, at its timestamp.

        Raises:
            TypeError, ValueError: Columns are not equally long, or the stream is no output.
        """
        if stream not in self._engine.place.outputs:
            declared = ", ".join(sorted(self._engine.place.outputs)) or "none"
            raise ValueError(
                f"computation {self._engine.place.name!r} produces to stream {stream!r}, which it does not declare "
                f"(outputs: {declared}); add the stream to its outputs in the topology"
            )
        made = Produced.of(columns)
        times = self._rows.timestamps.copy() if timestamps is None else self._times(timestamps, len(made), "timestamps")
        if len(times) != len(made):
            raise ValueError(
                f"{len(made)} values for {stream!r} are not one for each of the {len(times)} rows at hand; give "
                "timestamps"
            )
        batch = made.batch(times)
        wanted = self._engine.place.formats.get(stream)
        if wanted is not None and len(batch) and not isinstance(batch.values[0], wanted):
            raise TypeError(
                f"stream {stream!r} takes records of type {wanted.__name__}, not {type(batch.values[0]).__name__}; "
                "produce that type or change the format in the topology"
            )
        self._engine.emit(stream, batch)

    def count(self, counter: str, n: int = 1) -> None:
        """Add to a counter of this computation; exact under retries, as it is part of the commit."""
        self._engine.count(counter, n)

    def drop_late(self, n: int) -> None:
        """Say that `n` late records were dropped: they appear in the counter `dropped_late`."""
        if n:
            self.count("dropped_late", int(n))
