"""Validation of the state and timer fields that a column computation declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.lowlevel.vectorized.fields import Declared, Layout
from headrace.lowlevel.vectorized.timer_rows import RESERVED, TimerCombination


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
