"""Column computations: user code that processes all keys of a bundle at once. MillWheel has no such computations.

A `Computation` (MillWheel paper §4.1) is called for every record, so its cost is that of Python calls. A
`ColumnComputation` is called with arrays, once for each stream in a bundle of a key interval. The guarantees are the
same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headrace.lowlevel.records.block import Block
from headrace.lowlevel.stored_names import named, public_name
from headrace.lowlevel.topology.computation import IntervalComputation, IntervalContext
from headrace.lowlevel.vectorized.bundle import ColumnBundle
from headrace.lowlevel.vectorized.context import ColumnContext
from headrace.lowlevel.vectorized.declaration import Declaration
from headrace.lowlevel.vectorized.fields import Declared
from headrace.lowlevel.vectorized.rows import RecordColumns, TimerColumns
from headrace.lowlevel.vectorized.timer_rows import STATE_ASPECT, TIMER_ASPECT, TIMERS_ASPECT


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
