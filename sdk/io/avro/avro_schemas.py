"""Avro schemas of Python types, and the check that elements fit a schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import date, datetime
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

from headrace.lowlevel.time import Timestamp
from headrace.sdk.io.avro.avro_blocks import Schema
from headrace.sdk.io.records import as_record
from headrace.sdk.io.tables import with_datetimes

_INSTANT: Schema = {"type": "long", "logicalType": "timestamp-micros"}
_SIMPLE: Mapping[object, Schema] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    NoneType: "null",
    date: {"type": "int", "logicalType": "date"},
    datetime: _INSTANT,
    Timestamp: _INSTANT,
}


def checked_schema(schema: object) -> Schema:
    """The schema. Raises `TypeError` or `ValueError` for what is no schema of Avro."""
    from fastavro import parse_schema

    if not isinstance(schema, (dict, str, list)):
        raise TypeError(f"schema is {schema!r:.200}; give a dict as json.load makes it of an .avsc file")
    try:
        parse_schema(schema)
    except Exception as error:
        raise ValueError(
            f"schema {schema!r:.200} is no schema of Avro ({type(error).__name__}: {error}); correct it"
        ) from error
    return schema


def schema_of_type(element_type: object) -> Schema:
    """The schema for elements of a named tuple or a dataclass. Raises `ValueError` for another type.

    >>> from typing import NamedTuple
    >>> class Order(NamedTuple):
    ...     product: str
    ...     amount: int | None
    >>> schema_of_type(Order)["fields"]
    [{'name': 'product', 'type': 'string'}, {'name': 'amount', 'type': ['long', 'null']}]
    """
    if _has_fields(element_type):
        return _record(element_type, set())
    raise ValueError(
        f"WriteToAvro has no schema, and elements of type {_name(element_type)} do not give one; give schema=, or let "
        "the step before declare a named tuple or a dataclass with with_output_types"
    )


def _has_fields(kind: object) -> bool:
    return isinstance(kind, type) and (is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")))


def _name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))


def _record(kind: object, known: set[str]) -> Schema:
    name = _name(kind)
    if name in known:
        return name
    known.add(name)
    try:
        hints = get_type_hints(kind)
    except NameError as error:
        raise ValueError(f"a type of the fields of {name} cannot be found ({error}); give schema=") from error
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": _schema(hint, f"{name}.{field}", known)} for field, hint in hints.items()],
    }


def _schema(hint: object, place: str, known: set[str]) -> Schema:
    if (simple := _SIMPLE.get(hint)) is not None:
        return simple
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return [_schema(each, place, known) for each in inner]
    if origin in (list, Sequence) and inner:
        return {"type": "array", "items": _schema(inner[0], place, known)}
    if origin in (dict, Mapping) and inner[:1] == (str,):
        return {"type": "map", "values": _schema(inner[1], place, known)}
    if _has_fields(hint):
        return _record(hint, known)
    raise ValueError(f"field {place} has the type {_name(hint)}, for which Avro has no certain type; give schema=")


def fitting(elements: Sequence[object], schema: Schema) -> Iterator[object]:
    """The elements in the form in which fastavro writes them. Raises `ValueError` for one that does not fit.

    fastavro alone would write 1.5 as the whole number 1, and any value as a boolean.
    """
    from fastavro import parse_schema
    from fastavro.validation import ValidationError, validate

    parsed = parse_schema(schema)
    is_record = isinstance(parsed, dict) and parsed["type"] == "record"
    for element in elements:
        record = with_datetimes(as_record(element)) if is_record else element
        try:
            validate(record, parsed)
        except ValidationError as error:
            raise ValueError(
                f"element {element!r:.200} does not fit the schema: {_reasons(error)}; correct the elements before "
                "this step, or the schema"
            ) from error
        yield record


def _reasons(error: Exception) -> str:
    r"""What fastavro says of each field, in one line.

    >>> _reasons(ValueError('[\n  "Order.amount is <x> of type <class \'str\'> expected long"\n]'))
    "Order.amount is <x> of type <class 'str'> expected long"
    """
    found = re.findall(r'^  "(.*?)",?$', str(error), re.MULTILINE)
    return ", ".join(found)[:500] or str(error)[:500]
