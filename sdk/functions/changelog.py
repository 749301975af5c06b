"""How: the functions between elements and a change log: results and retractions as changes, and back."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import Timestamp
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.windows import BoundedWindow


@stored_as("ChangeKind")
class ChangeKind(StrEnum):
    """What a change does to the table that a change log describes.

    >>> ChangeKind("+") is ChangeKind.INSERT, f"{ChangeKind.DELETE}"
    (True, '-')
    """

    INSERT = "+"
    """The value is put in."""
    DELETE = "-"
    """One value equal to this one is taken out."""


@stored_as("Change")
class Change(NamedTuple):
    """One line of a change log.

    >>> Change(ChangeKind.INSERT, ("oslo", 2)) == ("+", ("oslo", 2))
    True
    """

    kind: ChangeKind
    value: object


class ChangelogFn(DoFn):
    """A `DoFn` whose outputs leave in the order of its inputs: the deletion of a result before its replacement."""


class ToChanges(ChangelogFn):
    """Elements become changes; what comes behind has no retractions."""

    def process(
        self,
        element: object,
        timestamp: Timestamp = DoFn.TimestampParam,
        window: BoundedWindow = DoFn.WindowParam,
        pane: PaneInfo = DoFn.PaneInfoParam,
    ) -> list[object]:
        """The change."""
        kind = ChangeKind.DELETE if pane.is_retraction else ChangeKind.INSERT
        return [WindowedValue(Change(kind, element), timestamp, [window], replace(pane, is_retraction=False))]


class FromChanges(ChangelogFn):
    """Changes become elements and retractions."""

    def process(
        self,
        change: object,
        timestamp: Timestamp = DoFn.TimestampParam,
        window: BoundedWindow = DoFn.WindowParam,
        pane: PaneInfo = DoFn.PaneInfoParam,
    ) -> list[object]:
        """The value, and whether it is taken back."""
        match change:
            case (ChangeKind.INSERT | ChangeKind.DELETE as kind, value):
                pane_of_change = replace(pane, is_retraction=kind == ChangeKind.DELETE)
                return [WindowedValue(value, timestamp, [window], pane_of_change)]
        raise TypeError(
            f"{change!r:.200} is no change; give Change(ChangeKind.INSERT, value) or Change(ChangeKind.DELETE, value), "
            "or a tuple of '+' or '-' and a value"
        )
