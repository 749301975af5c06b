"""Shows the elements of a collection as a table, in HTML in a notebook and as text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module

from headrace.sdk.model.row import Row
from headrace.sdk.model.short_text import count_text, table, text_of
from headrace.sdk.model.special_outputs import WindowedValue

_MOST = 1_000
"""Greatest number of lines of a table; the title has the number of all elements."""


class Elements:
    """The table of the elements of a collection, which `show` displays.

    Args:
        label: Label of the step that puts the collection out.
        found: The elements of the collection.
        with_windows: Whether the table has columns for timestamp, windows and the timing of the pane.

    >>> Elements("Sum", [WindowedValue(("red", 5), 0, ()), WindowedValue(("blue", 7), 0, ())])
    Sum: 2 elements
    0     1
    red   5
    blue  7
    """

    def __init__(self, label: str, found: Sequence[WindowedValue], with_windows: bool = False) -> None:
        more = f", the first {_MOST:,} of them" if len(found) > _MOST else ""
        self._title = f"{label}: {count_text(len(found), 'element')}{more}"
        self._names, self._rows = _table([element.value for element in found[:_MOST]])
        if with_windows:
            self._names = [*self._names, "event time", "window", "pane"]
            details = [
                [str(each.timestamp), ", ".join(map(str, each.windows)), str(each.pane_info.timing.name)]
                for each in found[:_MOST]
            ]
            self._rows = [[*row, *more] for row, more in zip(self._rows, details, strict=True)]

    def display(self) -> None:
        """Show the table in the notebook if there is one, else print it."""
        ipython = sys.modules.get("IPython")
        if ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None:
            import_module("IPython.display").display(self)
        else:
            print(self)

    def __repr__(self) -> str:
        lines = [self._names, *self._rows] if self._rows else []
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)
        return "\n".join([self._title, *(line.rstrip() for line in padded)])

    def _repr_html_(self) -> str:
        return table(self._title, self._names, self._rows)


def _table(values: Sequence[object]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns, and the rows.

    There is one column for each field if all elements have the same fields, else a single column.
    """
    split = [_fields(value) for value in values]
    first = split[0] if split else None
    if first and all(its is not None and its.keys() == first.keys() for its in split):
        return list(first), [[text_of(value) for value in its.values()] for its in split if its is not None]
    return ["element"], [[text_of(value)] for value in values]


def _fields(value: object) -> Mapping[str, object] | None:
    """Return the fields of an element by name; None for an element without fields."""
    if isinstance(value, Mapping):
        return {str(name): its for name, its in value.items()}
    if isinstance(value, Row):
        return value.as_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or map(str, range(len(value)))
        return dict(zip(names, value, strict=True))
    return None
