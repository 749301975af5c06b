"""What: fields of elements, by name or by function (`apache_beam.transforms.core`, schema transforms)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from headrace.sdk.types.annotations import annotations_of
from headrace.sdk.types.fields import fields_of

Expression: TypeAlias = "str | Callable[[object], object]"
"""Name of a field, or a function of the element."""


class Field:
    """Reads a field of rows, named tuples, dataclasses, or of dicts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, element: object) -> object:
        """The field's value. Raises `AttributeError` naming the field and those that there are."""
        if isinstance(element, Mapping):
            return element[self.name]
        return getattr(element, self.name)

    def default_label(self) -> str:
        """The name."""
        return self.name


def expression(what: Expression, step: str) -> Callable[[object], object]:
    """The function of an expression. Raises `TypeError` for what is none."""
    if isinstance(what, str):
        return Field(what)
    if not callable(what):
        raise TypeError(f"{step} takes names of fields and functions of the element, got {what!r:.80}")
    return what


def expression_type(function: Callable[[object], object], input_type: object) -> object:
    """The type of what an expression gives for elements of a type; `Any` where it is not known."""
    if isinstance(function, Field):
        return (fields_of(input_type) or {}).get(function.name, Any)
    return annotations_of(function)[1]


def missing_field(functions: Mapping[str, Callable[[object], object]], input_type: object) -> str | None:
    """What is wrong with the names of fields, if elements of a type are known not to have one."""
    known = fields_of(input_type)
    if known is None:
        return None
    for function in functions.values():
        if isinstance(function, Field) and function.name not in known and not hasattr(input_type, function.name):
            return f"has no field {function.name!r}; it has {', '.join(known) or 'none'}"
    return None
