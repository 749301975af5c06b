"""The encoding of Avro: schemas, the check that elements fit one, and the blocks of container files.

Schemas are made of Python types and become Arrow types. A file has a header with the schema, then blocks of records,
each ended by a sync marker (Apache Avro specification, "Object Container Files").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    BinaryIO,
    Protocol,
    TypeAlias,
    TypeGuard,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

import pyarrow as pa

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.time import Timestamp
from headrace.sdk.io.columns.column_types import ValueChanges, lasting_type
from headrace.sdk.io.records import as_record
from headrace.sdk.model.row import Row

if TYPE_CHECKING:
    from fastavro import block_reader


Schema: TypeAlias = "str | list[Schema] | dict[str, object]"
"""A schema of Avro as Python has it: the name of a type, a list for a union, or a dict."""
_SYNC_BYTES = 16
_CHUNK = 1 << 20
"""Bytes that are searched at once for a sync marker."""
_HEADER: Schema = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _SYNC_BYTES}},
    ],
}


class AvroBlock(Protocol):
    """A block of records, as fastavro has it."""

    offset: int
    size: int
    """Number of bytes."""
    num_records: int
    writer_schema: dict[str, object]
    """The schema of the file; for a union a list."""

    def __iter__(self) -> Iterator[object]:
        """The records."""


@dataclass(frozen=True, slots=True)
class AvroLayout:
    """Where the records of a file are."""

    header_bytes: int
    """Number of bytes before the first block."""
    block_bytes: int
    """Number of bytes of the first block; 0 if there is none."""
    record_bytes: float
    """About how many bytes a record has, as in the first block."""


def layout_of(file: BinaryIO) -> AvroLayout:
    """The layout of an open file. Raises what fastavro raises for a file that is not Avro, or is cut off."""
    blocks = opened(file)
    header_bytes = file.tell()
    block = next(blocks, None)
    if block is None:
        return AvroLayout(header_bytes, 0, 1.0)
    return AvroLayout(header_bytes, block.size, block.size / max(1, block.num_records))


def opened(file: BinaryIO) -> block_reader:
    """The blocks of an open file, which is left behind its header."""
    import fastavro

    return fastavro.block_reader(file)


def blocks_from(file: BinaryIO, start: int, end: int) -> Iterator[AvroBlock]:
    """The blocks that begin in the bytes from `start` to before `end` of an open file."""
    import fastavro

    header = cast("dict[str, bytes]", fastavro.schemaless_reader(file, _HEADER, None))
    first = file.tell()
    file.seek(0)
    # It reads its header now, and each block from where the file stands then.
    blocks = opened(file)
    position = first if start <= first else _after_marker(file, header["sync"], start - _SYNC_BYTES)
    while position is not None and position < end:
        file.seek(position)
        block = next(blocks, None)
        if block is None:
            raise EOFError("the file ends within a block")
        if block.num_records < 0:
            # fastavro takes it for a block without records.
            raise ValueError(f"a block states {block.num_records} as the number of its records")
        yield block
        position = block.offset + block.size


def _after_marker(file: BinaryIO, marker: bytes, start: int) -> int | None:
    """The offset after the first marker that begins at `start` or later; None if there is none.

    A marker that begins before belongs to a block that another task reads.
    """
    file.seek(start)
    rest = b""
    while chunk := file.read(_CHUNK):
        found = (rest + chunk).find(marker)
        if found >= 0:
            return start + found + len(marker)
        keep = (rest + chunk)[-(len(marker) - 1) :]
        start += len(rest) + len(chunk) - len(keep)
        rest = keep
    return None


_Fields: TypeAlias = "list[dict[str, Schema]]"
_NO_ZONE = timezone(timedelta(0), "UTC")
"""UTC for datetimes that have no zone, which is not the same object as that of others."""
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

    if not isinstance(schema, (dict, str, list)) or (
        isinstance(schema, str) and schema.lstrip()[:1] in ("{", "[", '"')
    ):
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
        return _record(element_type, {})
    raise ValueError(
        f"WriteToAvro has no schema, and elements of type {_name(element_type)} do not give one; give schema=, or let "
        "the step before declare a named tuple or a dataclass with with_output_types"
    )


def _has_fields(kind: object) -> TypeGuard[type]:
    return isinstance(kind, type) and (is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")))


def _name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))


def _record(kind: type, known: dict[str, object]) -> Schema:
    name = _name(kind)
    if name in known:
        if known[name] is not kind:
            raise ValueError(f"{known[name]} and {kind} would have one name in the schema; rename one, or give schema=")
        return name
    known[name] = kind
    try:
        hints = get_type_hints(kind)
    except NameError as error:
        raise ValueError(f"a type of the fields of {name} cannot be found ({error}); give schema=") from error
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else getattr(kind, "_fields", ())
    types = [_schema(hints.get(field), f"{name}.{field}", known) for field in names]
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": schema} for field, schema in zip(names, types, strict=True)],
    }


def _schema(hint: object, place: str, known: dict[str, object]) -> Schema:
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
    kind = "no type" if hint is None else f"the type {_name(hint)}"
    raise ValueError(f"field {place} has {kind}, for which Avro has no certain type; give schema=")


class WriterSchema:
    """A schema that elements are checked against before they are written.

    fastavro's writers alone would write 1.5 as the whole number 1, any value as a boolean, a record without the fields
    that the schema does not have, and times and fractions as far as their type goes.
    """

    def __init__(self, schema: Schema) -> None:
        from fastavro import parse_schema

        self._named: dict[str, dict[str, object]] = {}
        self.parsed: Schema = parse_schema(schema, self._named)
        """The schema as fastavro takes it."""
        # Without a time zone they are in UTC.
        self._changes = ValueChanges(arrow_type(schema, local_zone="UTC"))

    def fitting(self, element: object) -> object:
        """An element in the form in which fastavro writes it. Raises `ValueError` for one that does not fit."""
        from fastavro.validation import validate

        record = plain(element)
        # First, as fastavro says of a decimal neither which one it is nor what does not fit.
        if loss := next(self._losses(record, self.parsed), None):
            raise ValueError(loss)
        validate(record, self.parsed)
        if change := self._changes.of(record):
            raise ValueError(change)
        return record

    def _losses(self, value: object, schema: Schema) -> Iterator[str]:
        """What would be lost: fields that no record of a (union) schema has, zones of times, digits of decimals."""
        if not isinstance(value, (dict, list, tuple, datetime, str, Decimal)):
            return
        union = schema if isinstance(schema, list) else [schema]
        kinds = [self._named.get(each, each) if isinstance(each, str) else each for each in union]
        types = [kind for kind in kinds if isinstance(kind, dict)]
        if isinstance(value, str):
            # Of a union of texts, fastavro takes the first.
            texts = [kind for kind in kinds if (kind["type"] if isinstance(kind, dict) else kind) == "string"]
            first = next(iter(texts), None)
            if isinstance(first, dict) and first.get("logicalType") == "uuid" and not _is_uuid(value):
                yield f"{value!r:.80} is no UUID, so the file could not be read; write a UUID, or the type string"
        elif isinstance(value, Decimal):
            # Of a union, fastavro takes the first.
            decimals = [kind for kind in types if kind.get("logicalType") == "decimal"][:1]
            yield from (loss for kind in decimals if (loss := _decimal_loss(value, kind)))
        elif isinstance(value, datetime):
            times = [name for kind in types if "timestamp" in (name := str(kind.get("logicalType")))]
            # Of a union, fastavro takes the first.
            if times and times[0].startswith("local-") and value.tzinfo is not _NO_ZONE:
                yield f"the time zone of {value!r:.80} would be lost; write .replace(tzinfo=None), or a timestamp type"
        elif not isinstance(value, dict):
            items = [kind["items"] for kind in types if kind["type"] == "array"]
            for each in value:
                yield from self._losses(each, cast("list[Schema]", items))
        elif values := [kind["values"] for kind in types if kind["type"] == "map"]:
            for each in value.values():
                yield from self._losses(each, cast("list[Schema]", values))
        elif records := [kind["fields"] for kind in types if kind["type"] == "record"]:
            fields = {
                field["name"]: field["type"] for each in records for field in cast("list[dict[str, Schema]]", each)
            }
            for name, each in value.items():
                if name in fields:
                    yield from self._losses(each, fields[name])
                else:
                    yield f"the schema has no field {name!r}, whose value would be lost"


def _decimal_loss(value: Decimal, kind: dict[str, object]) -> str | None:
    """Why a decimal does not fit a decimal type; None if it does."""
    precision, scale = cast(int, kind["precision"]), cast(int, kind.get("scale", 0))
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        return f"{value!r} is no number, and a decimal type has numbers only"
    fraction, digits = max(0, -exponent), value.adjusted() + 1 + scale if value else 0
    if fraction > scale:
        return f"{value!r} has {fraction} digits behind the point, and its type has {scale}; round it, or raise scale"
    if digits > precision:
        return f"{value!r} needs {digits} digits with {scale} of them behind the point, and its type has {precision}"
    return None


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


class ReaderSchema:
    """The schema of a file, by which records are told from maps.

    >>> inner = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
    >>> lines = {"name": "lines", "type": ["null", {"type": "array", "items": inner}]}
    >>> ReaderSchema({"type": "record", "name": "Order", "fields": [lines]}).row({"lines": [{"sku": "a"}]})
    Row(lines=[Row(sku='a')])
    """

    def __init__(self, schema: Schema) -> None:
        from fastavro import parse_schema

        self._named: dict[str, dict[str, object]] = {}
        # A schema that says that it was parsed would name no types.
        self._schema: Schema = parse_schema(schema, self._named, _force=True)

    def row(self, value: object) -> object:
        """A `Row` of a record's fields, or of the single field `record`; records within it are `Row`s, too."""
        if isinstance(value, dict) and not any(isinstance(each, (dict, list)) for each in value.values()):
            return Row.of(value)
        made = self._made(value, self._schema)
        if isinstance(made, dict):
            return Row.of(made)
        return made if isinstance(made, Row) else Row(record=made)

    def _made(self, value: object, schema: Schema) -> object:
        if not isinstance(value, (dict, list)):
            return value
        kind = self._kind_of(value, schema)
        if kind is None:
            return value
        if isinstance(value, list):
            return [self._made(each, cast(Schema, kind["items"])) for each in value]
        if kind["type"] == "map":
            return {key: self._made(each, cast(Schema, kind["values"])) for key, each in value.items()}
        fields = {field["name"]: field["type"] for field in cast("list[dict[str, Schema]]", kind["fields"])}
        return Row.of({name: self._made(each, fields[name]) for name, each in value.items()})

    def _kind_of(self, value: dict[str, object] | list[object], schema: Schema) -> dict[str, object] | None:
        """The type of a value that is a record, map or array; of a union, the first one that it fits."""
        for each in schema if isinstance(schema, list) else [schema]:
            kind = self._named.get(each) if isinstance(each, str) else each
            if not isinstance(kind, dict):
                continue
            if isinstance(kind["type"], (dict, list)):
                return self._kind_of(value, kind["type"])
            if isinstance(value, list):
                fits = kind["type"] == "array"
            else:
                fields = cast("list[dict[str, object]]", kind.get("fields", []))
                fits = kind["type"] == "map" or (
                    kind["type"] in ("record", "error") and {field["name"] for field in fields} == value.keys()
                )
            if fits:
                return kind
        return None


@contextmanager
def naming(element: Callable[[], object]) -> Iterator[None]:
    """Raise `ValueError` with the element if it cannot be written."""
    try:
        yield
    except (OSError, HeadraceError):
        raise
    except Exception as error:
        raise ValueError(
            f"element {element()!r:.200} does not fit the schema: {_reasons(error)}; correct the elements before this "
            "step, or the schema"
        ) from error


def plain(value: object) -> object:
    """A value with dicts for what has named fields, and datetimes for instants. Without time zone they are in UTC.

    >>> plain([Row(at=Timestamp(0))])
    [{'at': datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)}]
    """
    if isinstance(value, (str, int, float, bytes)) or value is None:
        return value
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, Timestamp):
        return value.to_utc_datetime(has_tz=True)
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=_NO_ZONE)
    if isinstance(value, (Mapping, Row)) or _has_fields(type(value)):
        return {name: plain(each) for name, each in as_record(value).items()}
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def _reasons(error: Exception) -> str:
    r"""What fastavro says of each field, in one line.

    >>> _reasons(ValueError('[\n  "Order.amount is <x> of type <class \'str\'> expected long"\n]'))
    "Order.amount is <x> of type <class 'str'> expected long"
    """
    found = re.findall(r'^  "(.*?)",?$', str(error), re.MULTILINE)
    return (", ".join(found) or str(error) or type(error).__name__)[:500]


_ARROW: Mapping[object, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
}
_ARROW_LOGICAL: Mapping[object, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def columns_of(file: BinaryIO) -> pa.Schema | None:
    """The columns of an open file of records; None if it has no records. Raises what fastavro raises."""
    # Declared for blocks; the reader has it, too.
    kind = arrow_type(cast("Schema", opened(file).writer_schema))
    return pa.schema(list(kind)) if pa.types.is_struct(kind) else None


def arrow_type(schema: Schema, local_zone: str | None = None) -> pa.DataType:
    """The type of the values of a schema; `null` if there is none, as for unions, or it is not known here.

    Args:
        schema: The schema.
        local_zone: Time zone that times without one have.

    >>> arrow_type(["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}])
    Decimal128Type(decimal128(12, 2))
    """
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        return arrow_type(kinds[0], local_zone) if len(kinds) == 1 else pa.null()
    if isinstance(schema, str):
        return _ARROW.get(schema, pa.null())
    kind = schema["type"]
    if (logical := schema.get("logicalType")) is not None:
        return _logical(schema, logical, local_zone)
    if kind == "record":
        fields = cast("list[dict[str, Schema]]", schema["fields"])
        return pa.struct([pa.field(str(each["name"]), arrow_type(each["type"], local_zone)) for each in fields])
    if kind == "array":
        return pa.list_(arrow_type(cast(Schema, schema["items"]), local_zone))
    if kind == "map":
        item = arrow_type(cast(Schema, schema["values"]), local_zone)
        # Of dicts Arrow would infer records for the rest.
        return pa.map_(pa.string(), item) if lasting_type(item) == item else pa.null()
    if kind == "fixed":
        return pa.binary(cast(int, schema["size"]))
    return arrow_type(cast(Schema, kind), local_zone)


def _logical(schema: dict[str, object], name: object, local_zone: str | None) -> pa.DataType:
    if name == "decimal":
        precision, scale = cast(int, schema["precision"]), cast(int, schema.get("scale", 0))
        return pa.decimal128(precision, scale) if precision <= 38 else pa.null()
    kind = _ARROW_LOGICAL.get(name, pa.null())
    return pa.timestamp(kind.unit, kind.tz or local_zone) if pa.types.is_timestamp(kind) else kind
