"""When and how for the values of all keys of an interval at once: the vectorized implementation of `GroupByKey`.

A bundle appends the values of open windows to the state. They are read when the watermark reaches the end of their
window, and grouped by sorting. `ColumnGroupByKey` emits the same panes as a `Grouping`; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise, repeat
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_block import ColumnBlock
from headrace.lowlevel.records.late_data import is_closed, is_late
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import IntervalComputation, IntervalContext
from headrace.lowlevel.vectorized.blocks_by_key import key_hashes_of, keys_of, times_of, without_duplicates
from headrace.lowlevel.vectorized.segment_store import SegmentStore
from headrace.sdk.expressions.element_schema import windows_between
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.grouping.window_assignment import payloads_of, sorter
from headrace.sdk.operators.vectorized.pane_output import ONLY_PANE, decoded_keys
from headrace.sdk.operators.vectorized.state.element_table import (
    END,
    ElementTable,
    ValueColumns,
    ValueLists,
    by_kind,
    joined,
)
from headrace.sdk.operators.vectorized.state.segment_formats import ElementFormat
from headrace.sdk.operators.vectorized.state.window_input import drop_late
from headrace.sdk.operators.vectorized.state.window_table import window_groups
from headrace.sdk.operators.vectorized.state_migration import elements_of_records
from headrace.sdk.windows import IntervalWindow
from headrace.sdk.windows.slices import window_bounds
from headrace.sdk.windows.window_fn import OUTSIDE_WINDOWS
from headrace.sdk.windows.windowing import Windowing

_DUE_AT_ONCE = 64 << 20
"""Number of bytes in segments from which on the keys of due windows are processed part by part."""
_LARGEST = 16 << 20
"""Largest number of bytes that values of several lines have in a segment."""
_PORTION = 25_000
"""Number of values from which on panes are emitted as several batches, so that not all values are decoded at once."""


@named("ColumnGroupByKey")
class ColumnGroupByKey(IntervalComputation):
    """Groups the values of each key and window into a list, and emits it when the window ends.

    Args:
        windowing: Fixed, calendar or global windows with one pane, for which `eligibility.obstacle` is None.
        input_forms: Form of the payloads of each input stream: `PLAIN` or `WINDOWED`.
        output_stream: Stream to which panes are sent, in the form FIRED.
    """

    def __init__(self, windowing: Windowing, input_forms: Mapping[str, GroupingInputForm], output_stream: str) -> None:
        self._config = GroupingConfig(windowing, None, GroupingInputForm.PLAIN)
        self._input_forms, self._output_stream = input_forms, output_stream
        self._sort = sorter(windowing, GroupingInputForm.WINDOWED, self._config.namespaces)

    def state_signature(self) -> Mapping[str, str]:
        """See `GroupingConfig`."""
        return self._config.state_signature(None)

    def process_interval(self, blocks: list[Block], context: IntervalContext) -> None:
        """See `IntervalComputation`."""
        before, now, store = context.watermark_before, context.watermark, SegmentStore(context, ElementFormat())
        new = [*elements_of_records(self._config, context), *self._arrived(blocks, context)]
        due = [table.where(table[END] <= now) for table in new]
        later = by_kind([table.where(table[END] > now) for table in new])
        parts = 1 + store.size_between(before, now) // _DUE_AT_ONCE
        for number in range(parts):
            tables = chain(store.between(before, now), due)
            self._emit([table.of_part(number, parts) for table in tables], context)
        store.keep(*(piece for table in later for piece in table.pieces(_LARGEST)), done_until=now)

    # What comes in

    def _arrived(self, blocks: list[Block], context: IntervalContext) -> Iterator[ElementTable]:
        """The values of a bundle in open windows; others are dropped. The blocks are removed from the list."""
        position, before = 0, context.watermark_before
        while blocks:
            block = without_duplicates(blocks.pop(0), context)
            if not len(block):
                continue
            context.count("records", len(block))
            times = times_of(block)
            if late := int(np.count_nonzero(is_late(times, before))):
                context.count("late", late)
            lines = self._lines(block, times, context)
            table, closed = lines.table(block, position, context.epoch), is_closed(lines.ends, before)
            drop_late(context, table.keys, (lines.starts, lines.ends), np.where(closed, lines.lost, 0))
            yield table.where(~closed)
            position += len(lines.owners)

    def _lines(self, block: Block, times: Numbers, context: IntervalContext) -> _Arrived:
        """The values of a block by key and window."""
        if self._input_forms[block.stream] is GroupingInputForm.WINDOWED:
            return self._sorted(block, context)
        owners = np.repeat(np.arange(len(block.counts)), block.counts)
        starts, ends = self._windows(times)
        values = _columns_of(block) if isinstance(block, ColumnBlock) else None
        if values is not None:
            each = np.ones(len(times), np.int64)
            return _Arrived(owners, starts, ends, each, each, values)
        payloads = payloads_of(block.values)
        order = np.lexsort((ends, owners))
        if (np.diff(order) < 0).any():
            payloads = list(map(payloads.__getitem__, order.tolist()))
            starts, ends, owners = starts[order], ends[order], owners[order]
        firsts = np.flatnonzero((np.diff(owners, prepend=-1) != 0) | (np.diff(ends, prepend=ends[0]) != 0))
        counts = np.diff(np.append(firsts, len(owners)))
        lists = ValueLists([payloads[begin:end] for begin, end in pairwise([*firsts.tolist(), len(payloads)])])
        return _Arrived(owners[firsts], starts[firsts], ends[firsts], counts, counts, lists)

    def _sorted(self, block: Block, context: IntervalContext) -> _Arrived:
        """The values of a block whose windows travel with them."""
        numbers: list[tuple[int, int, int, int, int]] = []
        lists: list[list[object] | bytes] = []
        edges = pairwise(accumulate(block.counts, initial=0))
        for owner, (begin, end) in enumerate(edges):
            arrivals = self._sort(block.values[begin:end], block.timestamps[begin:end], context.watermark_before)
            if arrivals.outside:
                context.count(OUTSIDE_WINDOWS, arrivals.outside)
            for each in arrivals.by_window:
                numbers.append((owner, each.namespace.start, each.namespace.end, each.elements, each.lost))
                lists.append(each.items)
        owners, starts, ends, counts, losses = np.array(numbers, np.int64).reshape(-1, 5).T
        return _Arrived(owners, starts, ends, counts, losses, ValueLists(lists))

    def _windows(self, times: Numbers) -> tuple[Numbers, Numbers]:
        """Start and end of the window of each time: int64, microseconds UTC."""
        window_fn = self._config.windowing.window_fn
        bounds = window_bounds(window_fn, times)
        if bounds is None:
            assigned = window_fn.assign_all(times.tolist(), [None] * len(times))
            windows = [cast(IntervalWindow, window) for (window,) in assigned]
            bounds = np.array([window.start_us for window in windows]), np.array([window.end_us for window in windows])
        return bounds

    # What goes out

    def _emit(self, tables: list[ElementTable], context: IntervalContext) -> None:
        """Emit one pane for each key and window; the panes of a key are in the order of the ends of their windows."""
        table = joined(tables)
        if not len(table):
            return
        starts, ends, epochs, positions, counts = table.numbers
        groups, _ = window_groups(table.key_hashes, starts, ends)
        # Values in the order of their arrival, by key and window.
        order = np.lexsort((positions, epochs, groups))
        firsts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        sizes = np.add.reduceat(counts[order], firsts)
        stops = np.append(firsts[1:], len(order))
        cuts = np.flatnonzero(np.diff((np.cumsum(sizes) - 1) // _PORTION)) + 1
        for begin, end in pairwise([0, *cuts.tolist(), len(firsts)]):
            values = table.values.values(order[firsts[begin] : stops[end - 1]])
            until = np.cumsum(sizes[begin:end])
            slices = map(slice, (until - sizes[begin:end]).tolist(), until.tolist())
            panes = order[firsts[begin:end]]
            lists = list(map(values.__getitem__, slices))
            self._emit_panes(table.keys.take(of_numbers(panes)), (starts[panes], ends[panes]), lists, context)

    def _emit_panes(
        self, keys: pa.Array, bounds: tuple[Numbers, Numbers], lists: Sequence[object], context: IntervalContext
    ) -> None:
        """Emit panes of encoded keys and of windows with these starts and ends, each with its values."""
        pairs = zip(decoded_keys(keys, context), lists, strict=True)
        windows = windows_between(*bounds, self._config.namespaces.are_global)
        context.emit(self._output_stream, Batch(list(zip(pairs, windows, repeat(ONLY_PANE))), (bounds[1] - 1).tolist()))


class _Arrived(NamedTuple):
    """The values of a block by key and window; arrays have one entry for each line, int64."""

    owners: Numbers
    """Index of the line's key in the block."""
    starts: Numbers
    ends: Numbers
    counts: Numbers
    """Number of values."""
    lost: Numbers
    """Number of values that are lost if the window is closed; the others are in a later window too."""
    values: ValueColumns | ValueLists

    def table(self, block: Block, position: int, epoch: int) -> ElementTable:
        """The lines as a table; `position` is the `POSITION` of the first one, and `epoch` their `EPOCH`."""
        where, count = of_numbers(self.owners), len(self.owners)
        arrival = np.full(count, epoch), np.arange(position, position + count)
        return ElementTable(
            key_hashes_of(block).take(where),
            keys_of(block).take(where),
            [self.starts, self.ends, *arrival, self.counts],
            self.values,
        )


def _columns_of(block: ColumnBlock) -> ValueColumns | None:
    """The second items of a block's pairs as columns; None if only Python objects give them."""
    shape = block.batch.shape.part(1)
    columns = () if shape is None else tuple(dict.fromkeys(shape.columns()))
    if shape is None or not columns:
        return None
    chosen = [block.batch.table.column(column) for column in columns]
    names = [f"value{number}" for number in range(len(columns))]
    return ValueColumns(
        pa.RecordBatch.from_arrays(chosen, names),
        shape.moved({column: number for number, column in enumerate(columns)}),
    )
