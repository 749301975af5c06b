"""When and how for the sessions of all keys of an interval at once: vectorized `CombinePerKey` in sessions.

A bundle stores its elements of open sessions as parts. When the watermark reaches the end of a part, parts of the same
key that overlap it are looked up: parts of the bundle, and stored parts that end later. If there are none, the session
has ended and is emitted; otherwise the part is stored again, and is due when the latest of these parts is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, cast

import numpy as np

from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_block import ColumnBlock
from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.blocks_by_key import keys_of_records
from headrace.lowlevel.vectorized.segment_store import SegmentStore
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining.aggregates import Reducers
from headrace.sdk.operators.combining.session_lifting import SessionParts
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.vectorized.column_grouping import ColumnCombining
from headrace.sdk.operators.vectorized.pane_output import PaneOutput
from headrace.sdk.operators.vectorized.state.segment_formats import SessionFormat
from headrace.sdk.operators.vectorized.state.session_table import DUE, runs_of, sessions_of, valued_parts
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_input import drop_late
from headrace.sdk.operators.vectorized.state.window_table import COUNT, END, NEVER, START, WindowTable
from headrace.sdk.operators.vectorized.state_migration import lines_of
from headrace.sdk.windows.windowing import Windowing

_Part: TypeAlias = tuple[int, int, int, tuple[object, ...]]
"""A part of a session: start and end (microseconds UTC), number of elements, and the values that reducers keep."""


@named("ColumnSessions")
class ColumnSessions(ColumnCombining):
    """Merges the parts of sessions that `SessionLifting` has made, and emits the result of each session at its end.

    Args:
        windowing: A windowing for which `gap_of` gives a gap.
        combine: A CombineFn for which `reducers_of` gives reducers.
        reducers: The reducers of `combine`.
        output_stream: Stream to which panes are sent, in the form FIRED.
    """

    def __init__(self, windowing: Windowing, combine: AnyCombineFn, reducers: Reducers, output_stream: str) -> None:
        super().__init__(GroupingConfig(windowing, combine, GroupingInputForm.PLAIN), combine, reducers, output_stream)
        self._accumulated = Accumulated(reducers, combine)
        self._output = PaneOutput(self._accumulated, output_stream, in_global=False)

    def process_interval(self, blocks: Sequence[Block], context: IntervalContext) -> None:
        """See `IntervalComputation`."""
        store, now = SegmentStore(context, SessionFormat(self._accumulated, context)), context.watermark
        arrived = self._joined([*self._arrived(blocks, context), self._taken_over(context)])
        due = self._joined([*store.between(context.watermark_before, now), arrived.where(arrived[DUE] <= now)])
        new = arrived.where(arrived[DUE] > now)
        if len(due):
            others = self._joined([new, *store.of_keys_after(due.key_hashes, now)])
            over, waiting = self._parted(due, others)
            self._output.emit(sessions_of(over, self._accumulated, context).by_end(), None, context)
            new = self._joined([new, waiting])
        store.keep(sessions_of(new, self._accumulated, context), done_until=now)

    def _joined(self, parts: Sequence[WindowTable]) -> WindowTable:
        return WindowTable.joined(parts, self._reducers)

    def _parted(self, due: WindowTable, others: WindowTable) -> tuple[WindowTable, WindowTable]:
        """Split due parts into those of sessions that have ended and those whose session continues.

        Args:
            due: Parts whose end the watermark has reached.
            others: Parts that end later.

        Returns:
            The parts of sessions that have ended; and the parts of `due` that are connected with parts of `others`,
            with the latest due time of these.
        """
        if not len(others):
            return due, others
        both = self._joined([due, others])
        runs = runs_of(both)
        first = np.flatnonzero(np.diff(runs.groups, prepend=-1))
        latest = np.maximum.reduceat(both[DUE][runs.order], first)
        goes_on = np.zeros(runs.number, np.bool_)
        goes_on[runs.groups[runs.order >= len(due)]] = True
        stays = np.empty(len(both), np.bool_)
        until = np.empty(len(both), np.int64)
        stays[runs.order], until[runs.order] = goes_on[runs.groups], latest[runs.groups]
        continuing = np.flatnonzero(stays[: len(due)])
        waiting = due.taken(continuing)
        waiting[DUE] = until[continuing]
        return due.where(~stays[: len(due)]), waiting

    # What comes in

    def _arrived(self, blocks: Sequence[Block], context: IntervalContext) -> Iterator[WindowTable]:
        for block in blocks:
            key_hashes, keys = keys_of_records(block)
            if isinstance(block, ColumnBlock) and isinstance(block.batch.shape, SessionParts):
                columns = block.batch.table.columns[block.batch.shape.first :]
                starts, ends, counts = map(numbers_in, columns[:3])
                parts = WindowTable(key_hashes, keys, [starts, ends, counts, ends], columns[3:])
            else:
                found = [part for _, part in cast("Sequence[tuple[object, _Part]]", block.values)]
                starts, ends, counts = (np.array([part[index] for part in found], np.int64) for index in range(3))
                accumulators = [self._reducers.accumulator(kept, count) for _, _, count, kept in found]
                numbers = [starts, ends, counts, ends]
                parts = valued_parts(WindowTable(key_hashes, keys, numbers, []), accumulators, self._reducers)
            context.count("records", int(counts.sum()))
            late = is_closed(ends, context.watermark_before)
            drop_late(context, keys, (starts, ends), np.where(late, counts, 0))
            yield parts.where(~late)

    def _taken_over(self, context: IntervalContext) -> WindowTable:
        """The sessions that a `Grouping` has stored, as parts; their records are deleted."""
        lines = lines_of(self._config, len(self._reducers.kept), lambda _: NEVER, context).windows
        numbers = [lines[START], lines[END], lines[COUNT], lines[END]]
        return WindowTable(lines.key_hashes, lines.keys, numbers, lines.kept, lines.values)
