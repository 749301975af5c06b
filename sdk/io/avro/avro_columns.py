"""The Arrow types of the values that fastavro reads by a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO, cast

import pyarrow as pa

from headrace.sdk.io.avro.avro_blocks import Schema, opened

_SIMPLE: Mapping[object, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
}
_LOGICAL: Mapping[object, pa.DataType] = {
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
    schema = cast("Schema", opened(file).writer_schema)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return None
    return pa.schema(_fields(schema))


def _fields(record: dict[str, object]) -> list[pa.Field]:
    fields = cast("list[dict[str, Schema]]", record["fields"])
    return [pa.field(str(field["name"]), arrow_type(field["type"]) or pa.null()) for field in fields]


def arrow_type(schema: Schema) -> pa.DataType | None:
    """The type of the values of a schema; None if there is none, as for unions, or it is not known here.

    >>> arrow_type(["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}])
    Decimal128Type(decimal128(12, 2))
    """
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        return arrow_type(kinds[0]) if len(kinds) == 1 else None
    if isinstance(schema, str):
        return _SIMPLE.get(schema)
    kind = schema["type"]
    if (logical := schema.get("logicalType")) is not None:
        return _decimal(schema) if logical == "decimal" else _LOGICAL.get(logical)
    if kind == "record":
        fields = _fields(schema)
        return None if any(pa.types.is_null(field.type) for field in fields) else pa.struct(fields)
    if kind == "array":
        item = arrow_type(cast(Schema, schema["items"]))
        return None if item is None else pa.list_(item)
    if kind == "map":
        item = arrow_type(cast(Schema, schema["values"]))
        return None if item is None else pa.map_(pa.string(), item)
    if kind == "fixed":
        return pa.binary(cast(int, schema["size"]))
    return arrow_type(cast(Schema, kind)) if isinstance(kind, (dict, list)) else _SIMPLE.get(kind)


def _decimal(schema: dict[str, object]) -> pa.DataType | None:
    precision, scale = cast(int, schema["precision"]), cast(int, schema.get("scale", 0))
    return pa.decimal128(precision, scale) if precision <= 38 else None
