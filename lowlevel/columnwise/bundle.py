"""One bundle of a column computation: records, then timers that are due, then what is left is kept (paper §6.1.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.columnwise.arrived import by_key, keys_of, rows_of, unseen
from headrace.lowlevel.columnwise.context import ColumnContext
from headrace.lowlevel.columnwise.keytable import KeyTable
from headrace.lowlevel.columnwise.rows import RecordColumns, TimerColumns
from headrace.lowlevel.columnwise.timerrows import TimerRows
from headrace.lowlevel.columnwise.timershelf import TimerShelf
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.parcel import Parcel

if TYPE_CHECKING:
    from headrace.lowlevel.columnwise.computation import ColumnComputation

ENDLESS = 10_000
"""Times that timers may fire timers in one bundle before it counts as an endless loop."""


class ColumnBundle:
    """What a computation does in one epoch with one interval."""

    def __init__(self, computation: ColumnComputation, engine: IntervalContext) -> None:
        self._computation, self._engine = computation, engine
        self._declared = computation.declared()
        self._shelf = TimerShelf(engine, self._declared.timers, self._declared.ways)
        self._set: list[TimerRows] = []
        """Timers that were set and looked at by nobody yet."""
        self._due: list[TimerRows] = []
        """Stored timers that are due, until they fire."""

    def run(self, parcels: list[Parcel]) -> None:
        """Everything. The parcels are taken out: their records go before timers fire, which need the room."""
        its = self._unseen(parcels)
        parcels.clear()
        self._due.append(self._shelf.due())
        if its or len(self._due[0]):
            self._computation.start_bundle()
            self._work(its)
            self._computation.finish_bundle(self._engine.emit)
        held = self._shelf.hold()
        if held is not None:
            self._engine.hold, self._engine.holder = held

    def _unseen(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        if self._computation.exactly_once:
            parcels = [unseen(parcel, self._engine.journal_of(parcel.stream)) for parcel in parcels]
        return [parcel for parcel in parcels if len(parcel)]

    def _work(self, parcels: list[Parcel]) -> None:
        rows, keys = ([of(parcel) for parcel in parcels] for of in (rows_of, keys_of))
        [due] = self._due
        table = KeyTable([*rows, due.rows], [*keys, due.keys], self._declared.state, self._engine.copy)
        del due
        context = ColumnContext(self._engine, table, self._declared.timers, self._set.append)
        for stream in dict.fromkeys(parcel.stream for parcel in parcels):
            its = [place for place, parcel in enumerate(parcels) if parcel.stream == stream]
            self._records(context, table, [parcels[place] for place in its], [table.pieces[place] for place in its])
        if parcels:
            parcels.clear()
            context.turn_away()
        self._fire(context, table)
        table.save(self._engine.delta)

    def _records(
        self, context: ColumnContext, table: KeyTable, parcels: Sequence[Parcel], pieces: Sequence[Numbers]
    ) -> None:
        engine = self._engine
        numbers, keys, times, values = by_key(parcels, pieces)
        encoded, stream = table.encoded_of(numbers), parcels[0].stream
        name, coder = engine.place.name, engine.key_coder
        batch = RecordColumns(name, coder, encoded, keys, times, stream, values, engine.watermark_before)
        self._count(batch)
        context.turn_to(batch, numbers, engine.watermark_before)
        self._computation.process_columns(batch, context)
        context.state.keep()

    def _count(self, batch: RecordColumns) -> None:
        if batch.stream in self._engine.place.aside:
            self._engine.count("aside", len(batch))
            return
        self._engine.count("records", len(batch))
        if late := int(np.count_nonzero(batch.late)):
            self._engine.count("late", late)

    def _fire(self, context: ColumnContext, table: KeyTable) -> None:
        """What is due, and what becomes due by that; the rest goes to the shelf."""
        layout = self._declared.timers
        left: list[TimerRows] = []
        for _ in range(ENDLESS):
            left.append(self._take_new())
            found = self._in_order(table)
            if found is None:
                break
            self._fire_once(context, table, *found)
        else:
            raise RuntimeError(
                f"timers of step {self._engine.place.name!r} have set timers that were due {ENDLESS} times in one "
                "bundle; set the next ones later than the watermark"
            )
        self._shelf.add(TimerRows.joined([part for part in left if len(part)], layout))

    def _take_new(self) -> TimerRows:
        """Those of the timers set meanwhile that are not due; the others wait with what is."""
        new = TimerRows.joined(self._set, self._declared.timers)
        self._set.clear()
        is_due = new.timestamps <= self._engine.watermark
        self._due.append(new.where(is_due))
        return new.where(~is_due)

    def _in_order(self, table: KeyTable) -> tuple[TimerRows, Numbers] | None:
        """What is due by key and timestamp, and the number of each one's key; None if nothing is."""
        due = TimerRows.joined([part for part in self._due if len(part)], self._declared.timers)
        self._due.clear()
        if not len(due):
            return None
        ways, numbers = self._declared.ways, table.numbers_of(due.rows)
        return due.ordered(numbers) if ways is None else due.combined(numbers, ways)

    def _fire_once(self, context: ColumnContext, table: KeyTable, timers: TimerRows, numbers: Numbers) -> None:
        self._engine.count("timers", len(timers))
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        found = numbers[starts]
        keys = np.repeat(np.arange(len(found)), np.diff(starts, append=len(numbers)))
        name, coder, encoded = self._engine.place.name, self._engine.key_coder, table.encoded_of(found)
        rows = TimerColumns(name, coder, encoded, keys, timers, self._declared.timers)
        context.turn_to(rows, found, self._engine.watermark)
        self._computation.process_timers(rows, context)
        context.state.keep()
