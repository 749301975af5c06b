"""What: combining of elements of one session before the shuffle; sessions are runs of overlapping intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import Flags, Numbers, distinct_numbers, numbered, order_in_groups
from headrace.lowlevel.records.column_batch import ColumnBatch, ValueSchema
from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named, stored_as
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import InlineComputation
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, RunsCombiner
from headrace.sdk.metrics.metric import ColumnCounts
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining.aggregates import LARGEST_SUM, Reducer, Reducers, values_of_kept
from headrace.sdk.operators.combining.combine_buffer import Addends, CombineBuffer, addends_of
from headrace.sdk.windows import IntervalWindow
from headrace.sdk.windows.standard_windows import fits_int64


class Runs(NamedTuple):
    """A partition of rows into runs."""

    order: Numbers
    """Indices of the rows, with the rows of a run next to each other: int64."""
    groups: Numbers
    """Number of each row's run, in the order of `order`: int64, ascending, from 0 without gaps."""
    number: int
    """Number of runs."""


def runs_of_elements(keys: Numbers, times: Numbers, gap: int, late: Flags) -> Runs:
    """Runs of elements of one key less than a gap apart; late elements are not in runs with other elements.

    `keys`, `times` and `late` have one entry for each element, in any order. Times and `gap` have the same unit.

    >>> never = np.zeros(3, np.bool_)
    >>> runs_of_elements(np.array([0, 0, 0]), np.array([9, 1, 3]), 5, never).groups.tolist()
    [0, 0, 1]
    """
    order = order_in_groups(keys, times)
    keys, times, late = keys[order], times[order], late[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (times[1:] - times[:-1] >= gap) | (late[1:] != late[:-1])
    return _runs(order, begins)


def runs_of_stretches(rows: pa.Array, starts: Numbers, ends: Numbers) -> Runs:
    """Runs of intervals of one key that overlap, directly or through other intervals.

    `rows` (binary(16), hashes of keys), `starts` and `ends` (int64) have one entry for each interval, in any order.

    >>> rows = pa.array([bytes(16)] * 3, pa.binary(16))
    >>> runs_of_stretches(rows, np.array([0, 50, 20]), np.array([30, 80, 40])).groups.tolist()
    [0, 0, 1]
    """
    keys = numbered([rows])
    order = order_in_groups(keys, starts)
    keys = keys[order]
    reached = _greatest_so_far(keys, ends[order])
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (starts[order][1:] >= reached[:-1])
    return _runs(order, begins)


def _greatest_so_far(keys: Numbers, numbers: Numbers) -> Numbers:
    """The greatest number among each row and the rows of its key before it; keys are ascending, from 0."""
    if not len(keys):
        return numbers
    least = int(numbers.min())
    span = int(numbers.max()) - least + 1
    # Those of a key are all above those of the keys before it.
    if span * (int(keys[-1]) + 1) < 1 << 63:
        base = keys * span - least
        return np.maximum.accumulate(base + numbers) - base
    distinct, ranks = distinct_numbers(numbers)
    base = keys * len(distinct)
    return distinct[np.maximum.accumulate(base + ranks) - base]


def _runs(order: Numbers, begins: Flags) -> Runs:
    groups = np.cumsum(begins) - 1
    return Runs(order, groups, int(groups[-1]) + 1 if len(groups) else 0)


@stored_as("SessionPartsShape")
@dataclass(frozen=True, slots=True)
class SessionParts:
    """Shape of parts of sessions: (key, (start, end, number of elements, kept values)), with columns in this order.

    Start and end are microseconds UTC, as the number int64; the others are what reducers keep.
    """

    key: ValueSchema
    width: int
    """Number of columns that the reducers keep."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        starts, ends, counts, *kept = map(values_of_kept, table.columns[self.first :])
        items = zip(*kept, strict=True) if kept else [()] * table.num_rows
        return list(zip(self.key.values(table), zip(starts, ends, counts, items, strict=True), strict=True))

    @property
    def first(self) -> int:
        """Index of the first column behind those of the key, which may have one of them several times."""
        return len({*self.key.columns()})

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return self.key if index == 0 else None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return (*self.key.columns(), *range(self.first, self.first + 3 + self.width))

    def moved(self, places: Mapping[int, int]) -> SessionParts:
        """See `ValueSchema`. Raises TypeError, because parts of sessions always have a table of their own."""
        raise TypeError("parts of sessions stand in a table of their own")


@named("SessionLifting")
class SessionLifting(RunsCombiner, InlineComputation):
    """Combines the elements of a bundle that have one key and are less than a gap apart, for a `ColumnSessions`.

    Args:
        combine: A CombineFn for which `reducers_of` gives reducers.
        reducers: The reducers of `combine`.
        gap: Gap between sessions, microseconds.
        input_form: Form of the input: PLAIN or WINDOWED.
        output_stream: Stream to which parts are sent.
    """

    _combine: AnyCombineFn

    def __init__(
        self, combine: AnyCombineFn, reducers: Reducers, gap: int, input_form: GroupingInputForm, output_stream: str
    ) -> None:
        self._combine, self._reducers, self._gap = combine, reducers, gap
        self._form, self._output_stream = input_form, output_stream
        self._watermark = MIN_TIMESTAMP
        self._buffer = CombineBuffer()
        self._taken = ColumnCounts()

    @property
    def sends_sums(self) -> bool:
        """See `InlineComputation`."""
        return self._reducers.keep_numbers

    @property
    def is_pure(self) -> bool:
        """See `InlineComputation`: the engine combines in place of the CombineFn."""
        return True

    def begin_bundle(self, watermark: int) -> None:
        """Remove the elements of an aborted bundle; elements whose own window has ended at `watermark` are late."""
        self._watermark = watermark
        self._buffer.clear()
        self._taken.clear()

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Buffer the elements of a batch; send parts if there are many elements or sums might overflow."""
        if not len(batch):
            return
        addends = self._columns(batch)
        self._taken.add(len(batch), addends is not None)
        if addends is None:
            emit(self._output_stream, self._one_by_one(batch))
            return
        if not self._buffer.takes(addends):
            self.finish_bundle(emit)
        self._buffer.add(addends)
        if self._buffer.is_full():
            self.finish_bundle(emit)

    def _columns(self, batch: Batch) -> Addends | None:
        if self._form is not GroupingInputForm.PLAIN:
            return None
        addends = addends_of(batch, self._reducers)
        if addends is None or addends.bound >= LARGEST_SUM:
            return None
        return addends if fits_int64(addends.times) else None

    def _one_by_one(self, batch: Batch) -> Batch:
        """Parts of one element each, for elements that columns do not express."""
        values: list[object] = []
        timestamps: list[int] = []
        for value, timestamp in batch.rows():
            key, payload = cast("tuple[object, object]", value)
            windows: Sequence[IntervalWindow] = [IntervalWindow.of_micros(timestamp, timestamp + self._gap)]
            if self._form is not GroupingInputForm.PLAIN:
                payload, windows, _ = cast("tuple[object, Sequence[IntervalWindow], object]", payload)
            for window in windows:
                accumulator = self._combine.add_input(self._combine.create_accumulator(), payload)
                values.append((key, (window.start_us, window.end_us, 1, kept_of(self._reducers, accumulator))))
                timestamps.append(timestamp)
        return Batch(values, timestamps)

    def finish_bundle(self, emit: Emit) -> None:
        """Send the parts of all buffered elements."""
        self._taken.report()
        if (addends := self._buffer.drain()) is not None:
            emit(self._output_stream, self._parts(addends))

    def _parts(self, addends: Addends) -> ColumnBatch:
        key, keys, values, times, _ = addends
        runs = runs_of_elements(numbered(keys), times, self._gap, is_closed(times + self._gap, self._watermark))
        first = np.flatnonzero(np.diff(runs.groups, prepend=-1))
        last = np.append(first[1:], len(times)) - 1
        sorted_times = times[runs.order]
        order = of_numbers(runs.order)
        kept = self._reducers.reduced(runs.groups, runs.number, [column.take(order) for column in values])
        places = of_numbers(runs.order[first])
        columns = [column.take(places) for column in keys]
        numbers = (sorted_times[first], sorted_times[last] + self._gap, last - first + 1)
        columns += [*map(of_numbers, numbers), *kept]
        table = pa.RecordBatch.from_arrays(columns, [f"f{number}" for number in range(len(columns))])
        return ColumnBatch(table, sorted_times[first], SessionParts(key, len(kept)))


def kept_of(reducers: Reducers, accumulator: object) -> tuple[object, ...]:
    """The values of an accumulator of the CombineFn that the reducers keep."""
    accumulators = cast("tuple[object, ...]", accumulator) if reducers.of_tuples else (accumulator,)
    parts = [(reducers.parts[place], accumulators[place]) for place in reducers.kept]
    return tuple(cast("tuple[object, int]", one)[0] if part is Reducer.MEAN else one for part, one in parts)
