"""Elements as records with named fields, for formats that have columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from math import isfinite

from headrace.lowlevel.time import Timestamp
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


def json_of(element: object) -> str:
    """An element as JSON: records become objects, instants RFC 3339 text, sets lists.

    Raises `ValueError` for NaN and infinity, `TypeError` for other values that JSON does not have; both name the field.

    >>> json_of(Row(at=Timestamp(0), names={"a"}))
    '{"at": "1970-01-01T00:00:00Z", "names": ["a"]}'
    """
    # JSON would write a named tuple as a list.
    value = as_record(element) if hasattr(element, "_fields") else element
    if (names := _equal_names(value)) is not None:
        raise ValueError(
            f"element {element!r:.200} is no JSON: the fields {names[0]!r} and {names[1]!r} would have one name; "
            "map it to other fields before"
        )
    try:
        return json.dumps(value, default=_for_json, allow_nan=False)
    except (TypeError, ValueError) as error:
        if (found := _no_json(value, "")) is None:
            raise
        field, wrong = found
        kind = ValueError if isinstance(wrong, float) else TypeError
        raise kind(
            f"element {element!r:.200} is no JSON: {field or 'it'} is {wrong!r:.80}, which JSON does not have; map it "
            f"to {'None or to text' if kind is ValueError else 'text, a number, a list or a dict'} before"
        ) from error


def _equal_names(value: object) -> tuple[object, object] | None:
    """Two keys of a dict within a value that JSON writes as the same name."""
    if isinstance(value, dict):
        if {*map(type, value)} != _TEXT and (found := _equal_keys(value)) is not None:
            return found
        items: Iterable[object] = value.values()
    elif isinstance(value, (list, tuple)):
        items = value
    else:
        return None
    # Each record comes here, and most have no records within.
    for each in items if {*map(type, items)} - _PLAIN else ():
        if isinstance(each, (dict, list, tuple)) and (found := _equal_names(each)) is not None:
            return found
    return None


_TEXT = {str}
_PLAIN = {str, int, float, bool, type(None)}


def _equal_keys(value: Mapping[object, object]) -> tuple[object, object] | None:
    names: dict[str, object] = {}
    for key in value:
        text = key if isinstance(key, str) else json.dumps(key, default=str)
        if text in names:
            return names[text], key
        names[text] = key
    return None


def _no_json(value: object, place: str) -> tuple[str, object] | None:
    """The first value within a value that JSON does not have, and where it is: `['lines'][0]['price']`."""
    if isinstance(value, float):
        return None if isfinite(value) else (place, value)
    if isinstance(value, Mapping):
        items: Iterable[tuple[object, object]] = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif value is None or isinstance(value, (str, int)):
        return None
    else:
        # The values of a record have the place of the record's fields.
        try:
            return _no_json(_for_json(value), place)
        except TypeError:
            return place, value
    return next((found for key, each in items if (found := _no_json(each, f"{place}[{key!r}]")) is not None), None)


def _for_json(value: object) -> object:
    """A value that JSON has no form for: records become dicts, instants RFC 3339 text, sets lists.

    >>> json.dumps(Timestamp(0), default=_for_json)
    '"1970-01-01T00:00:00Z"'
    """
    if isinstance(value, Timestamp):
        return value.to_rfc3339()
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return list(value)
    return as_record(value)
