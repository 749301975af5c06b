"""Column computations: user code that processes all keys of a bundle at once. MillWheel has no such computations.

A `Computation` (MillWheel paper §4.1) is called for every record, so its cost is that of Python calls. A
`ColumnComputation` is called with arrays, once for each stream in a bundle of a key interval: first with the records,
then with the due timers (§6.1.1). The guarantees are the same. Declared state and timer fields are checked when the
computation is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.stored_names import named, public_name
from headrace.lowlevel.topology.computation import IntervalComputation, IntervalContext
from headrace.lowlevel.vectorized.blocks_by_key import by_key, key_hashes_of, keys_of, without_duplicates
from headrace.lowlevel.vectorized.context import ColumnContext, KeyTable
from headrace.lowlevel.vectorized.fields import Declared, Layout
from headrace.lowlevel.vectorized.rows import RecordColumns, TimerColumns
from headrace.lowlevel.vectorized.segment_store import SegmentStore
from headrace.lowlevel.vectorized.timer_rows import (
    RESERVED,
    STATE_ASPECT,
    TIMER_ASPECT,
    TIMERS_ASPECT,
    TimerCombination,
    TimerFormat,
    TimerRows,
    oldest_hold,
)

ENDLESS = 10_000
"""Rounds of due timers in one bundle after which the bundle fails, as in an endless loop."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The checked declaration of a `ColumnComputation`."""

    state: Layout
    timers: Layout
    combinations: Sequence[TimerCombination] | None
    """For each timer field, how timers with the same key and timestamp are combined; None if they are not combined."""

    @classmethod
    def of(cls, name: str, state: Declared, timers: Declared, combine: Mapping[str, str] | None) -> Declaration:
        """Check the declared fields of the class called `name`.

        Args:
            name: Name of the class, for messages.
            state: Its `state_fields`.
            timers: Its `timer_fields`.
            combine: Its `combine_timers`.

        Raises:
            TypeError: A field has an invalid name or type.
            ValueError: A timer field has a reserved name, `combine` does not fit the fields, or a default has a wrong
                shape.
        """
        if reserved := RESERVED.intersection(timers):
            raise ValueError(f"timer_fields of {name}: {min(reserved)!r} is a reserved name; rename the field")
        layout = Layout.of(timers, f"timer_fields of {name}")
        return cls(Layout.of(state, f"state_fields of {name}"), layout, _combinations(name, layout, combine))


def _combinations(name: str, timers: Layout, combine: Mapping[str, str] | None) -> Sequence[TimerCombination] | None:
    if combine is None:
        return None
    if combine.keys() != timers.fields.keys():
        named, declared = (", ".join(map(repr, names)) or "nothing" for names in (combine, timers.fields))
        raise ValueError(f"combine_timers of {name} names {named}; name all of timer_fields: {declared}")
    known = {combination.value: combination for combination in TimerCombination}
    for field, by in combine.items():
        dtype = timers.fields[field].dtype()
        if by not in known or dtype.kind not in ("if" if by == "sum" else "if?"):
            raise ValueError(
                f"combine_timers of {name}: field {field!r} of type {timers.fields[field].of_type()} cannot be "
                f"combined by {by!r}; use sum, min or max, and numbers"
            )
    return [known[combine[field]] for field in timers.fields]


@named("ColumnComputation")
class ColumnComputation(IntervalComputation):
    """Base class for user code that processes all keys of a bundle at once. Override `process_columns`.

    In each call keys have numbers from 0, which are indices into arrays of keys and state. Calls for one key are
    serial; key intervals run in parallel. An instance is sent to the workers: only state and timers are durable.

    >>> class MinuteTotals(ColumnComputation):
    ...     state_fields = {"total": int}
    ...     timer_fields = {"sum": int}
    ...     combine_timers = {"sum": "sum"}
    ...     def process_columns(self, batch, context):
    ...         minutes = batch.timestamps - batch.timestamps % 60_000_000 + 60_000_000
    ...         context.set_timers(minutes, sum=batch["value"])
    ...     def process_timers(self, due, context):
    ...         totals = due.running_sum(due["sum"], context.state["total"])
    ...         context.state["total"] = totals[due.last]
    ...         context.produce_columns("totals", {"key": due.key_values(), "total": totals})
    """

    state_fields: ClassVar[Declared] = {}
    """Name -> type of each field of a key's state: `int`, `float`, `bool`, an Arrow type of fixed width, or a `Field`
    with a default other than zero. A key with all fields at their defaults has no stored state. A changed program may
    add fields behind the others."""
    timer_fields: ClassVar[Declared] = {}
    """Name -> type of each field of a timer, as in `state_fields`."""
    combine_timers: ClassVar[Mapping[str, str] | None] = None
    """Name of each of `timer_fields` -> `sum`, `min` or `max`: how timers with the same key and timestamp are combined
    into one. With None they are not combined, and their order is undefined."""

    def __init_subclass__(cls, **arguments: object) -> None:
        """Check the declared fields when the class is defined. Raises TypeError or ValueError."""
        super().__init_subclass__(**arguments)
        Declaration.of(cls.__qualname__, cls.state_fields, cls.timer_fields, cls.combine_timers)

    def declared(self) -> Declaration:
        """The checked declaration of this instance's fields. Raises TypeError or ValueError."""
        name = type(self).__qualname__
        return Declaration.of(name, self.state_fields, self.timer_fields, self.combine_timers)

    def state_signature(self) -> Mapping[str, str]:
        """See `Computation`; the aspects are the class, and each field's index, name, type, default and combination."""
        declared, combine = self.declared(), self.combine_timers
        timers = declared.timers.signature(TIMER_ASPECT)
        if combine is not None:
            timers = {
                aspect: f"{field}, by {by}"
                for (aspect, field), by in zip(timers.items(), combine.values(), strict=True)
            }
        return {
            "class": public_name(type(self)),
            "layout": "columns",
            **declared.state.signature(STATE_ASPECT),
            **timers,
            TIMERS_ASPECT: "no" if combine is None else "yes",
        }

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        """Process all records of a bundle from one stream; override it. Raises TypeError by default."""
        raise TypeError(f"{type(self).__name__} got records but does not define process_columns(batch, context)")

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        """Process all due timers of a bundle, sorted by key and timestamp; override it. Raises TypeError by default.

        It is called again if due timers are set meanwhile.
        """
        raise TypeError(f"{type(self).__name__} set timers but does not define process_timers(due, context)")

    def process_interval(self, blocks: list[Block], context: IntervalContext) -> None:
        """See `IntervalComputation`."""
        ColumnBundle(self, context, self.declared()).run(blocks)


class ColumnBundle:
    """The run of one computation over one key interval in one epoch.

    Args:
        computation: The user's code.
        engine: The interval's state, watermarks, counters and outputs.
        declared: The computation's state and timer fields.
    """

    def __init__(self, computation: ColumnComputation, engine: IntervalContext, declared: Declaration) -> None:
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
