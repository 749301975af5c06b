"""When and how for the sessions of all keys of an interval at once: vectorized `CombinePerKey` in sessions.

A bundle stores its elements of open sessions as parts. When the watermark reaches the end of a part, parts of the same
key that overlap it are looked up: parts of the bundle, and stored parts that end later. If there are none, the session
has ended and is emitted; otherwise the part is stored again, and is due when the latest of these parts is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_bytes, of_equal_bytes, of_numbers
from headrace.lowlevel.columnar.key_columns import ENCODED
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_block import ColumnBlock
from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.segment_store import SegmentStore
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining.aggregates import Reducers, whole_numbers
from headrace.sdk.operators.combining.session_lifting import SessionParts, kept_of
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.vectorized.column_grouping import ColumnCombining
from headrace.sdk.operators.vectorized.pane_output import PaneOutput
from headrace.sdk.operators.vectorized.state.segment_formats import SessionFormat
from headrace.sdk.operators.vectorized.state.session_table import Kept, SessionTable
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_input import drop_late
from headrace.sdk.operators.vectorized.state.window_table import COUNT, END, NEVER, START, objects_of
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
        super().__init__(
            GroupingConfig.of(windowing, combine, GroupingInputForm.PLAIN), combine, reducers, output_stream
        )
        self._output = PaneOutput(Accumulated(reducers, combine), output_stream, in_global=False)

    def process_interval(self, blocks: Sequence[Block], context: IntervalContext) -> None:
        """See `IntervalComputation`."""
        store, now = SegmentStore(context, SessionFormat(self._reducers)), context.watermark
        arrived = self._joined([*self._arrived(blocks, context), *self._taken_over(context)])
        due = self._joined([*store.between(context.watermark_before, now), arrived.where(arrived.due <= now)])
        new = arrived.where(arrived.due > now)
        if len(due):
            others = self._joined([new, *store.of_keys_after(due.key_hashes, now)])
            over, waiting = self._parted(due, others)
            lines = over.taken(np.argsort(over.ends, kind="stable")).windows(self._reducers)
            self._output.emit(lines, None, context)
            new = self._joined([new, waiting])
        store.keep(new.reduced(self._reducers), done_until=now)

    def _joined(self, parts: Sequence[SessionTable]) -> SessionTable:
        return SessionTable.joined(parts, len(self._reducers.kept))

    def _parted(self, due: SessionTable, others: SessionTable) -> tuple[SessionTable, SessionTable]:
        """Split due parts into sessions that have ended and parts whose session continues.

        Args:
            due: Parts whose end the watermark has reached.
            others: Parts that end later.

        Returns:
            One part for each session that has ended; and the parts of `due` that are connected with parts of `others`,
            with the latest due time of these.
        """
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

    def _arrived(self, blocks: Sequence[Block], context: IntervalContext) -> Iterator[SessionTable]:
        for block in blocks:
            if isinstance(block, ColumnBlock) and isinstance(block.batch.shape, SessionParts):
                parts = _of_columns(block, block.batch.shape)
            else:
                parts = self._of_values(block)
            context.count("records", int(parts.counts.sum()))
            late = is_closed(parts.ends, context.watermark_before)
            drop_late(context, parts.keys, (parts.starts, parts.ends), np.where(late, parts.counts, 0))
            yield parts.where(~late)

    def _of_values(self, block: Block) -> SessionTable:
        values = cast("Sequence[tuple[object, _Part]]", block.values)
        indices = of_numbers(np.repeat(np.arange(len(block.key_hashes)), block.counts))
        key_hashes, keys = (
            of_equal_bytes(block.key_hashes, 16).take(indices),
            of_bytes(block.keys, ENCODED).take(indices),
        )
        return _of_parts(key_hashes, keys, [part for _, part in values])

    def _taken_over(self, context: IntervalContext) -> Iterator[SessionTable]:
        """The sessions that a `Grouping` has stored, as parts; their records are deleted."""
        lines = lines_of(self._config, len(self._reducers.kept), lambda _: NEVER, context)
        if len(lines) and lines.values is not None:
            kept = [self._kept(accumulator) for (accumulator,) in lines.values.tolist()]
            numbers = lines[START].tolist(), lines[END].tolist(), lines[COUNT].tolist()
            yield _of_parts(lines.key_hashes, lines.keys, list(zip(*numbers, kept, strict=True)))

    def _kept(self, accumulator: object) -> tuple[object, ...]:
        parts = cast("tuple[object, ...]", accumulator) if self._reducers.of_tuples else (accumulator,)
        return kept_of(self._reducers, parts)


def _of_columns(block: ColumnBlock, shape: SessionParts) -> SessionTable:
    key_hashes, keys = block.of_each_record()
    starts, ends, counts, *kept = (numbers_in(column) for column in block.batch.table.columns[shape.first :])
    return SessionTable(key_hashes, keys, starts, ends, ends, kept, counts)


def _of_parts(key_hashes: pa.Array, keys: pa.Array, parts: Sequence[_Part]) -> SessionTable:
    starts, ends, counts = (np.array([part[index] for part in parts], np.int64) for index in range(3))
    kept = [_column(column) for column in zip(*(part[3] for part in parts), strict=True)]
    return SessionTable(key_hashes, keys, starts, ends, ends, kept, counts)


def _column(values: Sequence[object]) -> Kept:
    numbers = whole_numbers(values)
    return objects_of(values) if numbers is None else numbers
