"""How: the functions between elements and a change log: results and retractions as changes, and back.

A change log tells what is put in and taken out (`Change`), or what happened to the rows of a table (`RowChange`).
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple, Self, cast

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


@stored_as("RowOperation")
class RowOperation(StrEnum):
    """What happened to a row of a table.

    >>> RowOperation("update") is RowOperation.UPDATE, f"{RowOperation.READ}"
    (True, 'read')
    """

    READ = "read"
    """The row was there when the table was read as a whole: a snapshot."""
    INSERT = "insert"
    """The row was put in."""
    UPDATE = "update"
    """The row was changed, or put in if there was none with its key (an upsert)."""
    DELETE = "delete"
    """The row was taken out."""
    TRUNCATE = "truncate"
    """All rows of the table were taken out."""


@stored_as("RowChange")
class RowChange(NamedTuple):
    """A change of a row, as a database or a table format tells it.

    >>> RowChange(RowOperation.UPDATE, None, {"id": 7, "city": "oslo"}).after
    {'id': 7, 'city': 'oslo'}
    """

    operation: RowOperation
    before: object = None
    """The row before the change, or the fields of it that the source tells, such as those of the key; or None."""
    after: object = None
    """The row after the change; None for a deletion or truncation."""
    sequence: object = None
    """Orders the changes of a key: of two changes the greater is the later one; equal ones are one change. None if the
    changes of a key arrive in their order."""
    unchanged: tuple[str, ...] = ()
    """Fields of `after` that the source left out because they have not changed; the rows are dicts."""

    @classmethod
    def of(cls, value: object) -> Self:
        """A `RowChange`, also from a tuple of its fields. Raises `TypeError` for any other value.

        >>> RowChange.of(("insert", None, {"id": 7})).operation
        <RowOperation.INSERT: 'insert'>
        """
        if isinstance(value, cls):
            return value
        try:
            change = cls(*cast("tuple[object, ...]", value))  # type: ignore[arg-type]  # it is looked at next
            return change._replace(operation=RowOperation(change.operation))
        except (TypeError, ValueError):
            raise TypeError(
                f"{value!r:.200} is no change of a row; give RowChange(operation, before, after), or a tuple of "
                f"{', '.join(RowOperation)}, the row before and the row after"
            ) from None


class ChangelogFn(DoFn):
    """A `DoFn` between elements and changes: what comes out has no retractions, unless it is a `RetractingFn`."""

    keeps_order = True


class RetractingFn(ChangelogFn):
    """A `DoFn` that makes retractions of ordinary elements."""


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


class FromChanges(RetractingFn):
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


def retracts(retraction: object, value: object) -> bool:
    """Whether the retraction of a value is one of a value that is kept.

    >>> retracts(("oslo", 2.0), ("oslo", 2))
    True
    """
    try:
        return bool(retraction == value)
    except ValueError:
        # Comparing NumPy arrays gives an array.
        return pickle.dumps(retraction) == pickle.dumps(value)
