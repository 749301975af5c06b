"""Row types: the fields of rows, named tuples and dataclasses (`apache_beam.typehints.row_type`)."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import cast

from headrace.sdk.model.row import Row
from headrace.sdk.typehints.type_names import type_name


@dataclasses.dataclass(frozen=True, slots=True)
class RowTypeConstraint:
    """The type of rows with these fields, in this order.

    >>> flight = RowTypeConstraint.from_fields([("carrier", str), ("delay", int)])
    >>> flight
    Row(carrier=str, delay=int)
    >>> dict(flight.fields)["delay"]
    <class 'int'>
    """

    fields: tuple[tuple[str, object], ...]

    @classmethod
    def from_fields(cls, fields: Iterable[tuple[str, object]], **options: object) -> RowTypeConstraint:
        """The type of rows with fields of these names and types; Beam's further options are accepted and ignored."""
        return cls(tuple((name, kind) for name, kind in fields))

    @classmethod
    def from_user_type(cls, kind: type) -> RowTypeConstraint | None:
        """The row type of a NamedTuple or dataclass; None for another class."""
        fields = fields_of(kind)
        return None if fields is None else cls(tuple(fields.items()))

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={type_name(kind)}' for name, kind in self.fields)})"

    # Called for unions such as `Row(...) | None`.
    def __or__(self, other: object) -> object:
        return typing.Union[self, other]  # noqa: UP007 - this is what `|` calls

    def __call__(self) -> None:
        """Raise TypeError; the method exists because `typing` accepts only callables as types."""
        raise TypeError(f"{self} is a type hint; make rows with Row(...)")


_field_names = cast("Callable[[type], tuple[str, ...]]", attrgetter("_fields"))


def fields_of(hint: object) -> dict[str, object] | None:
    """The fields of a type, as name -> type; None if the type declares no fields."""
    if isinstance(hint, RowTypeConstraint):
        return dict(hint.fields)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        types = _types(hint)
        return {each.name: types.get(each.name, typing.Any) for each in dataclasses.fields(hint)}
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        types = _types(hint)
        return {name: types.get(name, typing.Any) for name in _field_names(hint)}
    return None


def _types(kind: type) -> Mapping[str, object]:
    try:
        return typing.get_type_hints(kind)
    except Exception:
        # An annotation names something that only type checkers import, so the types are not known.
        return {}


def made_of(kind: type, values: dict[str, object]) -> object:
    """An instance of `kind` (`Row`, a NamedTuple or a dataclass) with these field values."""
    return Row.of(values) if kind is Row else kind(**values)


def field_values(value: object) -> dict[str, object]:
    """The fields of a row, named tuple, dataclass or dict, as name -> value.

    Raises:
        TypeError: The value is none of these.
    """
    if isinstance(value, Row):
        return value.as_dict()
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    raise TypeError(f"{value!r:.200} of type {type(value).__name__} has no fields; use Row(...)")
