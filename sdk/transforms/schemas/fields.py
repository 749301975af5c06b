"""What: expressions, a field's name or a function (`apache_beam.transforms.core`, schema transforms)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.lowlevel.user_errors import users_line
from headrace.sdk.expressions.batch_view import BatchView
from headrace.sdk.expressions.expression import Expression as ColumnExpression
from headrace.sdk.expressions.expression import col
from headrace.sdk.expressions.expression_tree import FieldOf, Names, OneLine, source_of
from headrace.sdk.typehints.hints import fields_of
from headrace.sdk.typehints.io_type_hints import annotations_of

Expression: TypeAlias = "str | Callable[[object], object]"
"""Name of a field, or a function of the element."""


class Field(OneLine):
    """Function that reads a field of a row, named tuple, dataclass or dict."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._line = users_line()

    def __call__(self, element: object) -> object:
        """The value of the field.

        Raises:
            AttributeError: The element has no such field.
            KeyError: The element is a dict without such a key.
        """
        if isinstance(element, Mapping):
            return element[self.name]
        return getattr(element, self.name)

    def default_label(self) -> str:
        """The name of the field."""
        return self.name

    def written(self, names: Names) -> str:
        """See `OneLine`."""
        return source_of(FieldOf(self.name), names)

    def shape_in(self, shape: ValueSchema) -> ValueSchema | None:
        """See `ColumnExtractor`."""
        return col(self.name).shape_in(shape)

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return col(self.name).on_columns(view)

    def column_parts(self) -> tuple[()]:
        """See `ColumnFunction`."""
        return ()


def expression(what: Expression, step: str) -> Callable[[object], object]:
    """The function of an expression. Raises `TypeError` for a value that is not an expression."""
    if isinstance(what, str):
        return Field(what)
    if not callable(what):
        raise TypeError(f"{step} takes names of fields and functions of the element, got {what!r:.80}")
    return what


def expression_type(function: Callable[[object], object], input_type: object) -> object:
    """The type of an expression's value for elements of a type; `Any` if not known."""
    if isinstance(function, Field):
        return (fields_of(input_type) or {}).get(function.name, Any)
    if isinstance(function, ColumnExpression):
        node = function.node
        return expression_type(Field(node.name), input_type) if isinstance(node, FieldOf) else function.output_hints[0]
    return annotations_of(function)[1]


def missing_field(functions: Mapping[str, Callable[[object], object]], input_type: object) -> str | None:
    """The phrase for an error that names an unknown field; None if no field is known to be missing."""
    known = fields_of(input_type)
    if known is None:
        return None
    for function in functions.values():
        for name in _names(function):
            if name not in known and not hasattr(input_type, name):
                return f"has no field {name!r}; it has {', '.join(known) or 'none'}"
    return None


def _names(function: Callable[[object], object]) -> list[str]:
    """The fields that a function is known to read."""
    if isinstance(function, Field):
        return [function.name]
    return function.fields() if isinstance(function, ColumnExpression) else []
