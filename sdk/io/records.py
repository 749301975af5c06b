"""Elements as records with named fields, for formats that have columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from headrace.sdk.model.row import Row


def as_record(element: object) -> dict[str, object]:
    """The named fields of an element as a dict. Raises `TypeError` for an element without named fields.

    >>> as_record({"a": 1}), as_record(Row(a=1))
    ({'a': 1}, {'a': 1})
    """
    if isinstance(element, dict):
        return element
    if isinstance(element, Row):
        return element.as_dict()
    if isinstance(element, Mapping):
        return dict(element)
    if isinstance(element, tuple) and (names := getattr(element, "_fields", None)):
        return dict(zip(names, element, strict=True))
    if is_dataclass(element):
        return {field.name: getattr(element, field.name) for field in fields(element)}
    raise TypeError(
        f"element {element!r:.200} of type {type(element).__name__} has no named fields; "
        "map it to a dict, a Row, a named tuple or a dataclass before it is written"
    )
