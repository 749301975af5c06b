"""When and how for the sessions of all keys of an interval at once: the quick way of `CombinePerKey` in sessions.

What a bundle brings of sessions that are not over is written down as parts. When the watermark reaches the end of a
part, it is looked whether others join on: of the bundle, or stored ones that end later, which are found by their keys.
If none does, the session is over and is put out; else the part is written again, to be looked at when those are due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import numbers_in, of_numbers
from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.columnparcel import ColumnParcel
from headrace.lowlevel.columns import ColumnBatch
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.parcel import Parcel
from headrace.lowlevel.record import Batch
from headrace.sdk.arrivals import InputForm
from headrace.sdk.columns.combining import ColumnCombining
from headrace.sdk.columns.fired import Fired
from headrace.sdk.columns.grouping import PANE
from headrace.sdk.columns.keys import ENCODED, Keys, decoded
from headrace.sdk.columns.objects import Held
from headrace.sdk.columns.parts import Kept, Parts, accumulators_of, objects_of
from headrace.sdk.columns.reducers import Reducers, whole_numbers
from headrace.sdk.columns.sessionlifting import SessionParts, kept_of
from headrace.sdk.columns.sessionshelf import SessionShelf
from headrace.sdk.columns.shape import Single, Tuple, pair
from headrace.sdk.columns.takeover import take_over
from headrace.sdk.contents import Combiner
from headrace.sdk.rules import Rules
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import IntervalWindow, Sessions, TimestampCombiner

_LONGEST = 1 << 61
"""Microseconds of a gap from which on arithmetic with 64 bits might not do."""


def gap_of(windowing: Windowing) -> int | None:
    """The gap of sessions whose panes are those that a `ColumnSessions` puts out, microseconds; else None."""
    window_fn = windowing.window_fn
    if type(window_fn) is not Sessions or window_fn.gap_size.micros >= _LONGEST:
        return None
    at_end = windowing.timestamp_combiner is TimestampCombiner.OUTPUT_AT_EOW
    return window_fn.gap_size.micros if windowing.puts_out_once and at_end else None


class ColumnSessions(ColumnCombining):
    """Joins the parts of sessions that `SessionLifting` has made, and puts the results out.

    Args:
        windowing: One that has a `gap_of`.
        combine: A CombineFn that reducers stand for.
        reducers: These.
        output_stream: Where the panes go, in the form FIRED.
    """

    def __init__(self, windowing: Windowing, combine: Combiner, reducers: Reducers, output_stream: str) -> None:
        super().__init__(Rules.of(windowing, combine, InputForm.PLAIN), combine, reducers, output_stream)

    def process_interval(self, parcels: Sequence[Parcel], context: IntervalContext) -> None:
        """See `IntervalComputation`."""
        shelf = SessionShelf(context, self._reducers)
        came = self._joined([*self._arrived(parcels, context), *self._taken_over(context)])
        now = context.watermark
        stored = list(shelf.due())
        due = self._joined([*stored, came.where(came.due <= now)])
        new = came.where(came.due > now)
        if len(due):
            others = [new, *(part.of_rows(due.rows) for part in shelf.waiting())]
            over, waiting = self._parted(due, self._joined([part.where(part.due > now) for part in others]))
            self._put_out(over, context)
            new = self._joined([new, waiting])
        shelf.add(new.reduced(self._reducers))

    def _joined(self, parts: Sequence[Parts]) -> Parts:
        return Parts.joined([part for part in parts if len(part)], len(self._reducers.kept))

    def _parted(self, due: Parts, others: Parts) -> tuple[Parts, Parts]:
        """The sessions that are over, and parts of those that others make longer, with when that is to be looked at."""
        both = self._joined([due, others])
        runs = both.runs()
        first = np.flatnonzero(np.diff(runs.groups, prepend=-1))
        latest = np.maximum.reduceat(both.due[runs.order], first)
        is_due = runs.order < len(due)
        goes_on = np.zeros(runs.number, np.bool_)
        goes_on[runs.groups[~is_due]] = True
        stays = np.empty(len(both), np.bool_)
        until = np.empty(len(both), np.int64)
        stays[runs.order], until[runs.order] = goes_on[runs.groups], latest[runs.groups]
        waiting = replace(due, due=until[: len(due)]).where(stays[: len(due)])
        return due.where(~stays[: len(due)]).reduced(self._reducers), waiting

    # What comes in

    def _arrived(self, parcels: Sequence[Parcel], context: IntervalContext) -> Iterator[Parts]:
        for parcel in parcels:
            if isinstance(parcel, ColumnParcel) and isinstance(parcel.batch.shape, SessionParts):
                parts = _of_columns(parcel, parcel.batch.shape)
            else:
                parts = self._of_values(parcel)
            context.count("records", int(parts.counts.sum()))
            late = parts.ends <= context.watermark_before
            if late.any():
                context.count("dropped_late", int(parts.counts[late].sum()))
            yield parts.where(~late)

    def _of_values(self, parcel: Parcel) -> Parts:
        values = cast("Sequence[tuple[object, tuple[int, int, int, tuple[object, ...]]]]", parcel.values)
        places = np.repeat(np.arange(len(parcel.rows)), parcel.counts).tolist()
        rows, keys = [parcel.rows[place] for place in places], [parcel.keys[place] for place in places]
        return self._parts(rows, keys, [value[1] for value in values])

    def _parts(
        self, rows: list[bytes], keys: list[bytes], values: Sequence[tuple[int, int, int, tuple[object, ...]]]
    ) -> Parts:
        starts, ends, counts = (np.array([value[place] for value in values], np.int64) for place in range(3))
        kept = [_column(column) for column in zip(*(value[3] for value in values), strict=True)]
        return Parts(pa.array(rows, pa.binary(16)), pa.array(keys, ENCODED), starts, ends, ends, kept, counts)

    def _taken_over(self, context: IntervalContext) -> Iterator[Parts]:
        """What a `Grouping` has stored."""
        if held := list(take_over(self._rules, context)):
            values = [(one.start, one.end, one.elements, self._kept(one)) for one in held]
            yield self._parts([one.row for one in held], [one.key for one in held], values)

    def _kept(self, held: Held) -> tuple[object, ...]:
        parts = cast("tuple[object, ...]", held.accumulator) if self._reducers.of_tuples else (held.accumulator,)
        return kept_of(self._reducers, parts)

    # What goes out

    def _put_out(self, parts: Parts, context: IntervalContext) -> None:
        if not len(parts):
            return
        parts = parts.taken(np.argsort(parts.ends, kind="stable"))
        keys = decoded(parts.keys, context.key_coder)
        if not isinstance(keys, Keys) or any(column.dtype != np.int64 for column in parts.kept):
            context.emit(self._output_stream, self._values(parts, context))
            return
        results = self._reducers.results(cast("list[Numbers]", parts.kept), parts.counts)
        singles = tuple(Single(len(keys.columns) + number) for number in range(len(results)))
        result = Tuple(singles) if self._reducers.of_tuples else singles[0]
        columns = [*keys.columns, *results, of_numbers(parts.starts), of_numbers(parts.ends)]
        table = pa.RecordBatch.from_arrays(columns, [f"f{number}" for number in range(len(columns))])
        shape = Fired(pair(keys.shape, result), len(columns) - 2, len(columns) - 1, PANE)
        context.emit(self._output_stream, ColumnBatch(table, parts.ends - 1, shape))

    def _values(self, parts: Parts, context: IntervalContext) -> Batch:
        """Results that are no columns."""
        items = accumulators_of(parts, self._reducers)
        decode, extract = context.key_coder.decode, self._combine.extract_output
        rows = zip(parts.keys.to_pylist(), items, parts.starts.tolist(), parts.ends.tolist(), strict=True)
        values = [
            ((decode(k), extract(item)), IntervalWindow.of_micros(start, end), PANE) for k, item, start, end in rows
        ]
        return Batch(values, (parts.ends - 1).tolist())


def _of_columns(parcel: ColumnParcel, shape: SessionParts) -> Parts:
    rows, keys = parcel.of_each_record()
    starts, ends, counts, *kept = (numbers_in(column) for column in parcel.batch.table.columns[shape.first :])
    return Parts(rows, keys, starts, ends, ends, kept, counts)


def _column(values: Sequence[object]) -> Kept:
    numbers = whole_numbers(values)
    return objects_of(values) if numbers is None else numbers
