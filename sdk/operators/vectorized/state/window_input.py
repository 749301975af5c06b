"""Where: conversion of a bundle's lifted elements into lines by key and window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import Flags, Numbers
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_block import ColumnBlock
from headrace.lowlevel.records.late_data import Dropped, is_closed
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.blocks_by_key import key_hashes_of, keys_of, keys_of_records
from headrace.sdk.operators.combining.aggregates import Reducers
from headrace.sdk.operators.combining.combine_buffer import Lifted
from headrace.sdk.operators.grouping.window_assignment import LiftedNamespaces
from headrace.sdk.operators.vectorized.state.window_table import END, FRESH, START, WindowTable, objects_of
from headrace.sdk.windows import GlobalWindow, IntervalWindow, SlidingWindows, WindowFn
from headrace.sdk.windows.slices import Slices
from headrace.sdk.windows.standard_windows import window_start_array
from headrace.sdk.windows.windowing import Windowing


class Expanded(NamedTuple):
    """Pairs of a row and a window that contains the row; all arrays have one entry for each pair."""

    indices: Numbers
    """Index of the row: int64, ascending."""
    starts: Numbers
    """Start of the window, microseconds UTC: int64."""
    ends: Numbers
    """End of the window, microseconds UTC: int64; the latest window of a row comes first."""
    is_last: Flags
    """Whether the window is the latest of the row's windows: bool."""


def expanded(slices: Slices, starts: Numbers, window_fn: WindowFn) -> Expanded:
    """Repeat each row once for each of its windows.

    Args:
        slices: Those that the rows were combined in.
        starts: Start of each row's slice, microseconds UTC: int64, in any order.
        window_fn: If it is `SlidingWindows`, a slice is a part of several windows, else it is one.
    """
    if not isinstance(window_fn, SlidingWindows):
        is_last = np.ones(len(starts), np.bool_)
        return Expanded(np.arange(len(starts)), np.maximum(starts, MIN_TIMESTAMP), slices.ends(starts), is_last)
    size, period = window_fn.size.micros, window_fn.period.micros
    latest = window_start_array(starts, period, window_fn.offset.micros)
    counts = (latest - starts + size - 1) // period + 1
    indices = np.repeat(np.arange(len(starts)), counts)
    number = np.arange(len(indices)) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = latest[indices] - number * period
    ends = np.minimum(begins + size, MAX_TIMESTAMP)
    return Expanded(indices, np.maximum(begins, MIN_TIMESTAMP), ends, number == 0)


class Arrivals(NamedTuple):
    """A bundle's lifted elements in open windows; the arrays are int64 and have one entry for each line."""

    lines: WindowTable
    """Lines in the order of their arrival."""
    lost: Numbers
    """Number of elements of each line that are dropped if the window is finished: those that are in no later window."""
    blocks: Numbers
    """Index of the block with which each line arrived."""

    def where(self, chosen: Flags) -> Arrivals:
        """The arrivals where `chosen` is True."""
        return Arrivals(self.lines.where(chosen), self.lost[chosen], self.blocks[chosen])

    def order(self, groups: Numbers, before: Numbers, enough: Numbers) -> Numbers:
        """A sort key of groups: the order in which they reached enough elements for a pane.

        Elements of a bundle arrive in blocks, so that a group reaches its number with a whole block.

        Args:
            groups: Group of each line: int64, from 0 to below the number of groups.
            before: Number of elements that each group had before the bundle: int64, one entry for each group.
            enough: Number of elements that each group needs: int64, one entry for each group.

        Returns:
            int64, one entry for each group: the index of a line; the number of lines if a group has not enough
            elements.
        """
        when = np.full(len(before), len(groups), np.int64)
        if not len(groups):
            return when
        if (enough[groups] <= 1).all():
            when[groups[::-1]] = np.arange(len(groups) - 1, -1, -1)
            return when
        by_group = np.argsort(groups, kind="stable")
        group, blocks = groups[by_group], self.blocks[by_group]
        begins = np.flatnonzero((np.diff(group, prepend=-1) != 0) | (np.diff(blocks, prepend=-1) != 0))
        sums = np.cumsum(self.lines[FRESH][by_group])
        stops = np.append(begins[1:], len(group))
        owner = group[begins]
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        base = np.where(begins[first] > 0, sums[begins[first] - 1], 0)
        sizes = np.diff(np.append(first, len(owner)))
        reached = sums[stops - 1] - np.repeat(base, sizes) + before[owner] >= enough[owner]
        chosen = np.flatnonzero(reached)[::-1]
        when[owner[chosen]] = by_group[begins[chosen]]
        return when


@dataclass(frozen=True, slots=True)
class ArrivalTables:
    """Converts lifted elements into lines of windows."""

    windowing: Windowing
    namespaces: LiftedNamespaces
    reducers: Reducers
    one_pane: bool
    """Whether windows have one pane; lines then have only the columns of `ONE_PANE`."""

    def of(self, blocks: Sequence[Block], context: IntervalContext, closed_until: int) -> Arrivals:
        """The arrivals in windows that end after `closed_until`, microseconds UTC; others are dropped."""
        made = [self._of_block(block) for block in blocks]
        none = WindowTable.empty(len(self.reducers.kept)).without_panes()
        lines = WindowTable.joined([none, *(table for table, _ in made)], self.reducers)
        lost = np.concatenate([np.empty(0, np.int64), *(lost for _, lost in made)])
        number = np.repeat(np.arange(len(made)), [len(table) for table, _ in made])
        late = is_closed(lines[END], closed_until)
        drop_late(context, lines.keys, (lines[START], lines[END]), np.where(late, lost, 0))
        if records := sum(map(_elements, blocks)):
            context.count("records", records)
        return Arrivals(lines if self.one_pane else lines.with_panes(), lost, number).where(~late)

    def _of_block(self, block: Block) -> tuple[WindowTable, Numbers]:
        if isinstance(block, ColumnBlock) and isinstance(block.batch.shape, Lifted):
            return self._of_columns(block, block.batch.shape)
        return self._of_values(block)

    def _of_columns(self, block: ColumnBlock, shape: Lifted) -> tuple[WindowTable, Numbers]:
        table = block.batch.table
        key_hashes, keys = keys_of_records(block)
        indices, starts, ends, is_last = expanded(shape.slices, shape.starts(table), self.windowing.window_fn)
        counts = shape.counts(table)[indices]
        columns = [key_hashes, keys, *shape.kept(table)]
        if len(indices) > table.num_rows:
            columns = [column.take(of_numbers(indices)) for column in columns]
        key_hashes, keys, *kept = columns
        return WindowTable(key_hashes, keys, [starts, ends, counts], kept), np.where(is_last, counts, 0)

    def _of_values(self, block: Block) -> tuple[WindowTable, Numbers]:
        values = cast("Sequence[tuple[object, tuple[bytes, object, int, int]]]", block.values)
        owners = np.repeat(np.arange(len(block.counts)), block.counts).tolist()
        found: list[tuple[int, int, int, int, int]] = []
        accumulators: list[object] = []
        for owner, (_, (code, accumulator, count, lost)) in zip(owners, values, strict=True):
            for namespace in self.namespaces.of(code):
                found.append((owner, namespace.start, namespace.end, count, lost))
                accumulators.append((accumulator,))
                lost = 0
        columns = np.array(found, np.int64).reshape(-1, 5).T
        where = of_numbers(columns[0])
        key_hashes, keys = key_hashes_of(block).take(where), keys_of(block).take(where)
        kept = [pa.nulls(len(found)) for _ in self.reducers.kept]
        return WindowTable(key_hashes, keys, list(columns[1:4]), kept, objects_of(accumulators)), columns[4]


def drop_late(context: IntervalContext, keys: pa.Array, bounds: tuple[Numbers, Numbers], numbers: Numbers) -> None:
    """Count late elements of an interval that are dropped, and log them.

    Args:
        context: The context of the interval.
        keys: The encoded key of each line.
        bounds: Start and end of each line's window, microseconds UTC.
        numbers: Number of dropped elements of each line; most are 0.
    """
    if not (number := int(numbers.sum())):
        return

    def dropped() -> Iterator[Dropped]:
        chosen = np.flatnonzero(numbers)
        by_window: Counter[tuple[bytes, int, int]] = Counter()
        columns = keys.take(of_numbers(chosen)).to_pylist(), *(bound[chosen].tolist() for bound in bounds)
        for key, start, end, of_line in zip(*columns, numbers[chosen].tolist(), strict=True):
            by_window[key, start, end] += of_line
        for (key, start, end), of_window in by_window.items():
            is_global = start == MIN_TIMESTAMP and end == GlobalWindow().end_us
            window = GlobalWindow() if is_global else IntervalWindow.of_micros(start, end)
            yield Dropped(context.decoded(key), window, of_window)

    context.drop_late(number, dropped)


def _elements(block: Block) -> int:
    if isinstance(block, ColumnBlock) and isinstance(block.batch.shape, Lifted):
        return int(block.batch.shape.counts(block.batch.table).sum())
    values = cast("Sequence[tuple[object, tuple[bytes, object, int, int]]]", block.values)
    return sum(count for _, (_, _, count, _) in values)
