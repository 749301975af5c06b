"""One bundle of a column computation: its records, then its due timers (MillWheel paper §6.1.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.record import Emit
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.blocks_by_key import by_key, key_hashes_of, keys_of, without_duplicates
from headrace.lowlevel.vectorized.context import ColumnContext
from headrace.lowlevel.vectorized.declaration import Declaration
from headrace.lowlevel.vectorized.key_table import KeyTable
from headrace.lowlevel.vectorized.rows import RecordColumns, TimerColumns
from headrace.lowlevel.vectorized.segment_store import SegmentStore
from headrace.lowlevel.vectorized.timer_rows import TimerFormat, TimerRows, oldest_hold

ENDLESS = 10_000
"""Rounds of due timers in one bundle after which the bundle fails, as in an endless loop."""


class ColumnFunctions(Protocol):
    """The methods of `ColumnComputation` that a bundle calls."""

    exactly_once: bool

    def start_bundle(self) -> None:
        """See `Computation`."""

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        """See `ColumnComputation`."""

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        """See `ColumnComputation`."""

    def finish_bundle(self, emit: Emit) -> None:
        """See `Computation`."""


class ColumnBundle:
    """The run of one computation over one key interval in one epoch.

    Args:
        computation: The user's code.
        engine: The interval's state, watermarks, counters and outputs.
        declared: The computation's state and timer fields.
    """

    def __init__(self, computation: ColumnFunctions, engine: IntervalContext, declared: Declaration) -> None:
        self._computation, self._engine, self._declared = computation, engine, declared
        self._format = TimerFormat(declared.timers, declared.combinations)
        self._later: list[TimerRows] = []
        """Timers set in this bundle that are not due."""
        self._set: list[TimerRows] = []
        """Timers set in this bundle that are not yet divided into due ones and others."""
        self._due: list[TimerRows] = []
        """Timers that are due and have not fired yet."""

    def run(self, blocks: list[Block]) -> None:
        """Run the bundle. The list of blocks is emptied, so that the records' memory is free before timers fire.

        Raises RuntimeError if timers set due timers endlessly.
        """
        fresh = self._fresh(blocks)
        blocks.clear()
        store, now = SegmentStore(self._engine, self._format), self._engine.watermark
        self._due.append(self._format.joined(list(store.between(self._engine.watermark_before, now))))
        if fresh or len(self._due[0]):
            self._computation.start_bundle()
            self._work(fresh)
            self._computation.finish_bundle(self._engine.emit)
        store.keep(self._format.compacted(self._format.joined(self._later)), done_until=now)
        if (hold := oldest_hold(store, now)) is not None:
            self._engine.hold, self._engine.holder = hold

    def _fresh(self, blocks: Sequence[Block]) -> list[Block]:
        if self._computation.exactly_once:
            blocks = [without_duplicates(block, self._engine) for block in blocks]
        return [block for block in blocks if len(block)]

    def _work(self, blocks: list[Block]) -> None:
        key_hashes, keys = list(map(key_hashes_of, blocks)), list(map(keys_of, blocks))
        [due] = self._due
        table = KeyTable([*key_hashes, due.key_hashes], [*keys, due.keys], self._declared.state, self._engine.store)
        del due
        context = ColumnContext(self._engine, table, self._declared.timers, self._set.append)
        for stream in dict.fromkeys(block.stream for block in blocks):
            own = [index for index, block in enumerate(blocks) if block.stream == stream]
            self._records(context, table, [blocks[index] for index in own], [table.pieces[index] for index in own])
        if blocks:
            blocks.clear()
            context.turn_away()
        self._fire(context, table)
        table.save(self._engine.delta)

    def _records(
        self, context: ColumnContext, table: KeyTable, blocks: Sequence[Block], pieces: Sequence[Numbers]
    ) -> None:
        engine = self._engine
        numbers, keys, times, values = by_key(blocks, pieces)
        encoded, stream = table.encoded_of(numbers), blocks[0].stream
        name, coder = engine.name, engine.key_coder
        batch = RecordColumns(name, coder, encoded, keys, times, stream, values, engine.watermark_before)
        self._count(batch)
        context.turn_to(batch, numbers, engine.watermark_before)
        self._computation.process_columns(batch, context)
        context.state.keep()

    def _count(self, batch: RecordColumns) -> None:
        if batch.stream in self._engine.aside:
            self._engine.count("aside", len(batch))
            return
        self._engine.count("records", len(batch))
        if late := int(np.count_nonzero(batch.late)):
            self._engine.count("late", late)

    def _fire(self, context: ColumnContext, table: KeyTable) -> None:
        """Fire all due timers, including those that timers set."""
        for _ in range(ENDLESS):
            self._sort_new()
            due = self._take_due(table)
            if due is None:
                break
            self._fire_once(context, table, *due)
        else:
            raise RuntimeError(
                f"timers of step {self._engine.name!r} have set timers that were due {ENDLESS} times in one "
                "bundle; set the next ones later than the watermark"
            )

    def _sort_new(self) -> None:
        """Move newly set timers that are due to `_due`, and the others to `_later`."""
        new = TimerRows.concatenated(self._set, self._declared.timers)
        self._set.clear()
        is_due = new.timestamps <= self._engine.watermark
        self._due.append(new.where(is_due))
        self._later.append(new.where(~is_due))

    def _take_due(self, table: KeyTable) -> tuple[TimerRows, Numbers] | None:
        """Take the due timers, sorted by key and timestamp, and each timer's key number; None if there are none."""
        due = self._format.joined(self._due)
        self._due.clear()
        if not len(due):
            return None
        combinations, numbers = self._declared.combinations, table.numbers_of(due.key_hashes)
        return due.ordered(numbers) if combinations is None else due.combined(numbers, combinations)

    def _fire_once(self, context: ColumnContext, table: KeyTable, timers: TimerRows, numbers: Numbers) -> None:
        self._engine.count("timers", len(timers))
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        distinct = numbers[starts]
        keys = np.repeat(np.arange(len(distinct)), np.diff(starts, append=len(numbers)))
        name, coder, encoded = self._engine.name, self._engine.key_coder, table.encoded_of(distinct)
        rows = TimerColumns(name, coder, encoded, keys, timers, self._declared.timers)
        context.turn_to(rows, distinct, self._engine.watermark)
        self._computation.process_timers(rows, context)
        context.state.keep()
