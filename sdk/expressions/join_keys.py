"""What: the keys of a `Join` as columns: the values of its fields, and the encoding of the keys.

A key is a pair: None, or the number of the side if a field is None, so that the key has no partner; and the tuple of
the fields' values. The encodings are those of `KeyCoder`, made for whole columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnar.key_columns import is_text
from headrace.lowlevel.records.column_batch import Single, ValueSchema
from headrace.lowlevel.stored_names import stored_as

_TEXT = pa.large_string()


@stored_as("JoinKeyShape")
@dataclass(frozen=True, slots=True)
class JoinKey:
    """The key of a join.

    >>> JoinKey((Single(0),), 1).values(pa.record_batch({"user": [7, None]}))
    [(None, (7,)), (1, (None,))]
    """

    fields: tuple[ValueSchema, ...]
    """Schema of each field's values."""
    side: int
    """The first item of keys that have no partner."""
    encoded: int | None = None
    """The column with the keys' encodings, which are text; None if there is none."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        rows = zip(*(shape.values(table) for shape in self.fields), strict=True)
        return [(self.side if None in row else None, row) for row in rows]

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        fields = tuple(column for shape in self.fields for column in shape.columns())
        return fields if self.encoded is None else (*fields, self.encoded)

    def moved(self, indices: Mapping[int, int]) -> JoinKey:
        """See `ValueSchema`."""
        encoded = None if self.encoded is None else indices[self.encoded]
        return replace(self, fields=tuple(shape.moved(indices) for shape in self.fields), encoded=encoded)


class JoinKeyOf:
    """Takes the key of a pair; the keys of pairs in columns come encoded."""

    def __call__(self, both: tuple[object, object]) -> object:
        """The key."""
        return both[0]

    def shape_in(self, shape: ValueSchema) -> ValueSchema | None:
        """See `ColumnExtractor`."""
        key = shape.part(0)
        return _Encoded(key.encoded) if isinstance(key, JoinKey) and key.encoded is not None else key


@dataclass(frozen=True, slots=True)
class _Encoded(Single):
    """The encodings of keys, from a column that has them as text."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        return cast("list[object]", table.column(self.column).cast(pa.large_binary()).to_pylist())


def encoded_keys(fields: Sequence[tuple[ValueSchema, pa.Array]], side: int) -> pa.Array | None:
    """The encodings of the keys of a join, which are text; None unless all fields are text and whole numbers.

    Args:
        fields: The schema and the column of each field; there is at least one.
        side: See `JoinKey`.

    >>> encoded_keys([(Single(0), pa.array(["UA", None]))], 1).to_pylist()
    ['t2:1:n8:t1:3:sUA', 't2:2:i16:t1:1:n']
    """
    if not all(isinstance(shape, Single) for shape, _ in fields):
        return None
    columns = [column.dictionary_decode() if _is_coded(column) else column for _, column in fields]
    if not all(is_text(column) or pa.types.is_integer(column.type) for column in columns):
        return None
    inner = _joined([_constant(f"t{len(columns)}:"), *(part for column in columns for part in _item(column))])
    return _joined([_constant("t2:"), _side(columns, side), _length(inner), _constant(":"), inner])


def _is_coded(column: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(column.type))


def _item(column: pa.Array) -> list[pa.Array | pa.Scalar]:
    """What stands for the items of a tuple; together they are text without nulls."""
    text = column.cast(_TEXT)
    parts = [_length(text, 1), _constant(":s" if is_text(column) else ":i"), text]
    return [pc.fill_null(_joined(parts), "1:n")] if column.null_count else parts


def _side(columns: Sequence[pa.Array], side: int) -> pa.Array | pa.Scalar:
    """What stands for the first item of the key."""
    with_nulls = [column for column in columns if column.null_count]
    if not with_nulls:
        return _constant("1:n")
    has_null = reduce(pc.or_, [column.is_null() for column in with_nulls])
    return pc.if_else(has_null, _constant(f"{len(str(side)) + 1}:i{side}"), _constant("1:n"))


def _length(text: pa.Array, extra: int = 0) -> pa.Array:
    """The number of bytes of each text plus `extra`, in decimal digits; null for nulls."""
    sizes = pc.binary_length(text)
    return (pc.add(sizes, extra) if extra else sizes).cast(_TEXT)


def _constant(text: str) -> pa.Scalar:
    return pa.scalar(text, _TEXT)


def _joined(parts: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _constant(""))
