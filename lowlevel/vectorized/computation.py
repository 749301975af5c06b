"""Raw computations by columns: user code for all keys of a bundle at once (MillWheel paper §4.1, the engine's own way).

A `Computation` is called for every record; what it costs is what calling Python costs. A `ColumnComputation` is called
once for a bundle and key interval, with arrays. The guarantees are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.lowlevel.columnwise.fields import Declared, Layout
from headrace.lowlevel.columnwise.timerrows import RESERVED, STATE_ASPECT, TIMER_ASPECT, TIMERS_ASPECT, Way
from headrace.lowlevel.intervalcomputation import IntervalComputation, IntervalContext

if TYPE_CHECKING:
    from headrace.lowlevel.columnwise.context import ColumnContext
    from headrace.lowlevel.columnwise.rows import RecordColumns, TimerColumns
    from headrace.lowlevel.parcel import Parcel


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a computation has declared, looked through."""

    state: Layout
    timers: Layout
    ways: Sequence[Way] | None
    """How timers of a key and timestamp become one, field by field; None if they do not."""

    @classmethod
    def of(cls, name: str, state: Declared, timers: Declared, combine: Mapping[str, str] | None) -> Declaration:
        """Raises `TypeError` and `ValueError` for what cannot be, naming the class and the field."""
        if taken := RESERVED.intersection(timers):
            raise ValueError(f"timer_fields of {name}: {sorted(taken)[0]!r} means something else of a timer; rename it")
        layout = Layout.of(timers, f"timer_fields of {name}")
        return cls(Layout.of(state, f"state_fields of {name}"), layout, _ways(name, layout, combine))


def _ways(name: str, timers: Layout, combine: Mapping[str, str] | None) -> Sequence[Way] | None:
    if combine is None:
        return None
    if combine.keys() != timers.fields.keys():
        named, wanted = (", ".join(map(repr, names)) or "nothing" for names in (combine, timers.fields))
        raise ValueError(f"combine_timers of {name} is about {named}; say it of all of timer_fields: {wanted}")
    known = {way.value: way for way in Way}
    for field, way in combine.items():
        dtype = timers.fields[field].dtype()
        if way not in known or dtype.kind not in ("if" if way == "sum" else "if?"):
            raise ValueError(
                f"combine_timers of {name}: field {field!r} of type {timers.fields[field].of_type()} cannot be "
                f"combined by {way!r}; use sum, min or max, and numbers"
            )
    return [known[combine[field]] for field in timers.fields]


class ColumnComputation(IntervalComputation):
    """Code for all keys of a bundle at once, by columns. Subclass it and override `process_columns`.

    Keys are numbered from 0 in each call, and everything of a key is found by its number. Calls for one key are serial;
    key intervals run in parallel. An instance is shipped to the workers: what must last goes into state and timers.

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
    """Name -> type of what is kept of each key: `int`, `float`, `bool`, an Arrow type of fixed width, or a `Field` with
    another default than zero. A key whose fields are all at their defaults keeps nothing. Fields may be added behind
    the others while a pipeline lives."""
    timer_fields: ClassVar[Declared] = {}
    """The same of what comes with each timer."""
    combine_timers: ClassVar[Mapping[str, str] | None] = None
    """How timers of the same key and timestamp become one: name of each of `timer_fields` -> `sum`, `min` or `max`.
    With None they do not, and come in no promised order."""

    def __init_subclass__(cls, **arguments: object) -> None:
        """Refuse declarations that cannot be, where they are written."""
        super().__init_subclass__(**arguments)
        Declaration.of(cls.__qualname__, cls.state_fields, cls.timer_fields, cls.combine_timers)

    def declared(self) -> Declaration:
        """What the instance has declared."""
        name = type(self).__qualname__
        return Declaration.of(name, self.state_fields, self.timer_fields, self.combine_timers)

    def state_signature(self) -> Mapping[str, str]:
        """See `Computation`: the class, and each field with its type, default and place."""
        declared, combine = self.declared(), self.combine_timers
        timers = declared.timers.signature(TIMER_ASPECT)
        if combine is not None:
            timers = {
                place: f"{said}, by {way}" for (place, said), way in zip(timers.items(), combine.values(), strict=True)
            }
        return {
            "class": type(self).__qualname__,
            "layout": "columns",
            **declared.state.signature(STATE_ASPECT),
            **timers,
            TIMERS_ASPECT: "no" if combine is None else "yes",
        }

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        """Called with all records of a bundle that came by one stream."""
        raise TypeError(f"{type(self).__name__} got records but does not define process_columns(batch, context)")

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        """Called with all timers that fire, sorted by key and timestamp; again for those set meanwhile and due."""
        raise TypeError(f"{type(self).__name__} set timers but does not define process_timers(due, context)")

    def process_interval(self, parcels: list[Parcel], context: IntervalContext) -> None:
        """See `IntervalComputation`."""
        # Only workers need it, and it knows of parcels, which know of topologies.
        from headrace.lowlevel.columnwise.bundle import ColumnBundle

        ColumnBundle(self, context).run(parcels)
