"""When and how for all keys of an interval at once: the quick way of `CombinePerKey` where windows have one pane.

It takes what `LiftedCombine` has combined, and puts out what a `Grouping` would (tests hold the two against each
other). It is chosen where a window is put out once, when the watermark reaches its end, and where numbers are added up,
counted or compared. Of windows that are still open the bundle's part is written down and not looked at again until the
window is due: what an epoch costs does not depend on what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.columnparcel import ColumnParcel
from headrace.lowlevel.columns import ColumnBatch
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.parcel import Parcel
from headrace.lowlevel.record import Batch
from headrace.sdk.arrivals import InputForm, LiftedFrames
from headrace.sdk.columns import objects
from headrace.sdk.columns.combining import ColumnCombining
from headrace.sdk.columns.fired import Fired
from headrace.sdk.columns.keys import Keys, decoded
from headrace.sdk.columns.lifted import Lifted
from headrace.sdk.columns.objects import Held
from headrace.sdk.columns.partials import Partials
from headrace.sdk.columns.reducers import LARGEST_SUM, Reducers
from headrace.sdk.columns.shape import Single, Tuple, pair
from headrace.sdk.columns.shelf import Shelf
from headrace.sdk.columns.stretches import expanded
from headrace.sdk.columns.takeover import take_over
from headrace.sdk.contents import Combiner
from headrace.sdk.panes import PaneInfoTiming, pane_info
from headrace.sdk.rules import Rules
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import (
    BoundedWindow,
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    SlidingWindows,
    TimestampCombiner,
)

PANE = pane_info(True, True, PaneInfoTiming.ON_TIME, 0, 0)
"""Of every result: the first, last and only one of its window."""
_LONGEST = 1 << 61
"""Microseconds of a window from which on arithmetic with 64 bits might not do."""


def has_windows(windowing: Windowing) -> bool:
    """Whether the windows are those that come as columns, and their panes' times those of the windows."""
    window_fn = windowing.window_fn
    if windowing.timestamp_combiner is not TimestampCombiner.OUTPUT_AT_EOW:
        return False
    if type(window_fn) is SlidingWindows:
        return window_fn.period < window_fn.size and window_fn.size.micros < _LONGEST
    if type(window_fn) is FixedWindows:
        return window_fn.size.micros < _LONGEST
    return type(window_fn) is GlobalWindows


def has_columns(windowing: Windowing) -> bool:
    """Whether the panes of a windowing are those that a `ColumnGrouping` puts out."""
    return windowing.puts_out_once and has_windows(windowing)


def size_of(windowing: Windowing) -> int | None:
    """The length of windows that come as columns, microseconds; None for the global one."""
    window_fn = windowing.window_fn
    return window_fn.size.micros if isinstance(window_fn, (FixedWindows, SlidingWindows)) else None


class _Arrived(NamedTuple):
    """What a bundle brings, by window; what is late is gone."""

    partials: list[Partials]
    held: list[Held]


class ColumnGrouping(ColumnCombining):
    """Adds up the lifted elements of each key and window, and puts the results out.

    Args:
        windowing: One for which `has_columns`.
        combine: A CombineFn that reducers stand for.
        reducers: These.
        output_stream: Where the panes go, in the form FIRED.
    """

    def __init__(self, windowing: Windowing, combine: Combiner, reducers: Reducers, output_stream: str) -> None:
        super().__init__(Rules.of(windowing, combine, InputForm.LIFTED), combine, reducers, output_stream)
        self._frames = LiftedFrames(windowing, self._rules.frames)
        self._size = size_of(windowing)

    def process_interval(self, parcels: Sequence[Parcel], context: IntervalContext) -> None:
        """See `IntervalComputation`."""
        shelf = Shelf(context, self._reducers, self._combine, self._size)
        new = self._arrived(parcels, context)
        new.held.extend(take_over(self._rules, context))
        now = context.watermark
        partials, held = shelf.due()
        partials += [part.where(part.ends <= now) for part in new.partials]
        held += [one for one in new.held if one.end <= now]
        self._put_out(partials, held, context)
        still_open = self._reduced([part.where(part.ends > now) for part in new.partials])
        shelf.add(still_open, [one for one in new.held if one.end > now])

    # What comes in

    def _arrived(self, parcels: Sequence[Parcel], context: IntervalContext) -> _Arrived:
        arrived = _Arrived([], [])
        for parcel in parcels:
            if isinstance(parcel, ColumnParcel) and isinstance(parcel.batch.shape, Lifted):
                arrived.partials.append(self._columns(parcel, parcel.batch.shape, context))
            else:
                arrived.held.extend(self._values(parcel, context))
        return arrived

    def _columns(self, parcel: ColumnParcel, shape: Lifted, context: IntervalContext) -> Partials:
        """The elements of a parcel of columns by window, without those whose window is closed."""
        table = parcel.batch.table
        counts = shape.counts(table)
        context.count("records", int(counts.sum()))
        rows, keys = parcel.of_each_record()
        places, ends, is_last = expanded(shape.starts(table), lambda start: self._frames.of(shape.buckets.code(start)))
        kept = [column[places] for column in shape.kept(table)]
        where = of_numbers(places)
        partials = Partials(rows.take(where), keys.take(where), ends, kept, counts[places])
        late = ends <= context.watermark_before
        if late.any():
            if lost := int(partials.counts[late & is_last].sum()):
                context.count("dropped_late", lost)
            partials = partials.where(~late)
        return partials

    def _values(self, parcel: Parcel, context: IntervalContext) -> Iterator[Held]:
        """The same of a parcel of values."""
        start = 0
        for row, key, count in zip(parcel.rows, parcel.keys, parcel.counts, strict=True):
            stop = start + count
            for value in parcel.values[start:stop]:
                yield from self._windows_of(row, key, value, context)
            start = stop

    def _windows_of(self, row: bytes, key: bytes, value: object, context: IntervalContext) -> Iterator[Held]:
        _, (code, accumulator, count, lost) = cast("tuple[object, tuple[bytes, object, int, int]]", value)
        context.count("records", count)
        for frame in self._frames.of(code):
            if frame.end > context.watermark_before:
                yield Held(row, key, frame.start, frame.end, accumulator, count)
            elif lost:
                context.count("dropped_late", lost)
            lost = 0

    # What goes out

    def _reduced(self, parts: list[Partials]) -> Partials:
        """One row for each key and window, unless sums might be too large for that."""
        partials = Partials.joined([part for part in parts if len(part)], len(self._reducers.kept))
        return partials.reduced(self._reducers) if self._reducers.bound(partials.kept) < LARGEST_SUM else partials

    def _put_out(self, parts: list[Partials], held: list[Held], context: IntervalContext) -> None:
        partials = Partials.joined([part for part in parts if len(part)], len(self._reducers.kept))
        if self._reducers.bound(partials.kept) >= LARGEST_SUM:
            held = [*held, *self._as_values(partials)]
        else:
            partials = partials.reduced(self._reducers).by_end()
            if not held:
                self._emit(partials, context)
                return
            # A key that has some of its results as values has them all so, as they come in order of their windows.
            also = {one.row for one in held}
            chosen = np.fromiter((row in also for row in partials.rows.to_pylist()), np.bool_, len(partials))
            self._emit(partials.where(~chosen), context)
            held = [*self._as_values(partials.where(chosen)), *held]
        self._emit_values(objects.merged(held, self._combine, context), context)

    def _as_values(self, partials: Partials) -> Iterator[Held]:
        return objects.of_partials(partials, self._reducers, self._size)

    def _emit(self, partials: Partials, context: IntervalContext) -> None:
        """Put results out as columns, if keys can be such."""
        if not len(partials):
            return
        keys = decoded(partials.keys, context.key_coder)
        if not isinstance(keys, Keys):
            self._emit_values(list(self._as_values(partials)), context)
            return
        results = self._reducers.results(partials.kept, partials.counts)
        singles = tuple(Single(len(keys.columns) + number) for number in range(len(results)))
        result = Tuple(singles) if self._reducers.of_tuples else singles[0]
        ends = of_numbers(partials.ends)
        starts = ends if self._size is None else of_numbers(partials.ends - self._size)
        columns = [*keys.columns, *results, starts, ends]
        table = pa.RecordBatch.from_arrays(columns, [f"f{number}" for number in range(len(columns))])
        shape = Fired(pair(keys.shape, result), len(columns) - 2, len(columns) - 1, PANE, in_global=self._size is None)
        context.emit(self._output_stream, ColumnBatch(table, partials.ends - 1, shape))

    def _emit_values(self, held: list[Held], context: IntervalContext) -> None:
        # At the end of time several windows of a key end together.
        held = sorted(held, key=lambda one: (one.end, one.start))
        values = [(self._output(one, context), self._window(one), PANE) for one in held]
        context.emit(self._output_stream, Batch(values, [one.end - 1 for one in held]))

    def _output(self, one: Held, context: IntervalContext) -> tuple[object, object]:
        try:
            return context.key_coder.decode(one.key), self._combine.extract_output(one.accumulator)
        except Exception as error:
            raise context.failed(error, one.key) from error

    def _window(self, one: Held) -> BoundedWindow:
        return GlobalWindow() if self._size is None else IntervalWindow.of_micros(one.start, one.end)
