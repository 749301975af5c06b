"""The Arrow types of the values that fastavro reads by a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO, cast

import pyarrow as pa

from headrace.sdk.io.avro.avro_blocks import Schema, opened
from headrace.sdk.io.columns.common_types import lasting_type

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
        return _SIMPLE.get(schema, pa.null())
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
    kind = _LOGICAL.get(name, pa.null())
    return pa.timestamp(kind.unit, kind.tz or local_zone) if pa.types.is_timestamp(kind) else kind
