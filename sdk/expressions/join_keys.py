"""What: the keys of a `Join` as columns: the values of its fields, and the encoding of the keys.

A key is a pair: None, or the number of the side if a field is None, so that the key has no partner; and the tuple of
the fields' values. The encodings are those of `KeyCoder`, made for whole columns; only distinct keys are encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnar.arrow_arrays import without_dictionary
from headrace.lowlevel.columnar.key_columns import is_text
from headrace.lowlevel.records.column_batch import Single, ValueSchema
from headrace.lowlevel.stored_names import stored_as

_TEXT = pa.large_string()


@stored_as("JoinKeyShape")
@dataclass(frozen=True, slots=True)
class JoinKey:
    """The key of a join.

    >>> JoinKey((Single(0),), 1).values(pa.RecordBatch.from_pydict({"user": [7, None]}))
    [(None, (7,)), (1, (None,))]
    """

    fields: tuple[ValueSchema, ...]
    """Schema of each field's values."""
    side: int
    """The first item of keys that have no partner."""
    identity: int | None = None
    """The column that has the same value in rows with the same key, text or a whole number, without nulls; None if
    there is no such column. Then the fields are text and whole numbers."""

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
        return fields if self.identity is None else (*fields, self.identity)

    def moved(self, indices: Mapping[int, int]) -> JoinKey:
        """See `ValueSchema`."""
        identity = None if self.identity is None else indices[self.identity]
        return replace(self, fields=tuple(shape.moved(indices) for shape in self.fields), identity=identity)


class JoinKeyOf:
    """Takes the key of a pair; the keys of pairs in columns come encoded."""

    def __call__(self, both: tuple[object, object]) -> object:
        """The key."""
        return both[0]

    def shape_in(self, shape: ValueSchema) -> ValueSchema | None:
        """See `ColumnExtractor`."""
        key = shape.part(0)
        return _Encoded(key.identity, key) if isinstance(key, JoinKey) and key.identity is not None else key


@dataclass(frozen=True, slots=True)
class _Encoded(Single):
    """The encodings of keys, each of which has an identity of its own."""

    key: JoinKey

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        return cast("list[object]", self.encoded(table).to_pylist())

    def encoded(self, table: pa.RecordBatch) -> pa.Array:
        """See `EncodedKeys`."""
        columns = [without_dictionary(table.column(column)) for shape in self.key.fields for column in shape.columns()]
        return _encoded(columns, self.key.side).cast(pa.large_binary())


def key_in(fields: Sequence[tuple[ValueSchema, pa.Array]], side: int, add: Callable[[pa.Array], int]) -> JoinKey:
    """The key of a join of some fields.

    Args:
        fields: The schema and the column of each field; there is at least one.
        side: See `JoinKey`.
        add: Adds a column for the identity of keys; returns its index.
    """
    key = JoinKey(tuple(shape for shape, _ in fields), side)
    columns = [without_dictionary(column) for _, column in fields]
    if not all(isinstance(shape, Single) for shape, _ in fields):
        return key
    if not all(is_text(column) or pa.types.is_integer(column.type) for column in columns):
        return key
    if len(fields) == 1 and columns[0] is fields[0][1] and not columns[0].null_count:
        return replace(key, identity=key.fields[0].columns()[0])
    return replace(key, identity=add(_identity(columns, side)))


def _identity(columns: Sequence[pa.Array], side: int) -> pa.Array:
    """Text that differs for different keys: whole numbers, then lengths and contents of texts; or the encoding.

    It is shorter than the encoding. Rows with a null have the encoding, which begins with a letter.

    >>> _identity([pa.array(["UA", None]), pa.array([7, 8])], 1).to_pylist()
    ['7:2:UA', 't2:2:i110:t2:1:n2:i8']
    """
    numbers = [column.cast(_TEXT) for column in columns if not is_text(column)]
    texts = [column.cast(_TEXT) for column in columns if is_text(column)]
    parts = [*numbers, *(part for text in texts for part in (_length(text), text))]
    short = pc.binary_join_element_wise(*parts, _constant(":"))
    return pc.coalesce(short, _encoded(columns, side)) if short.null_count else short


def _encoded(columns: Sequence[pa.Array], side: int) -> pa.Array:
    """The encodings of keys of text and whole numbers, which are text.

    >>> _encoded([pa.array(["UA", None])], 1).to_pylist()
    ['t2:1:n8:t1:3:sUA', 't2:2:i16:t1:1:n']
    """
    inner = _joined([_constant(f"t{len(columns)}:"), *(part for column in columns for part in _item(column))])
    return _joined([_constant("t2:"), _side(columns, side), _length(inner), _constant(":"), inner])


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
