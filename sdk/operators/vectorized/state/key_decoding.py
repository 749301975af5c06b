"""What: decoding of a column of encoded keys into columns of text and whole numbers."""

from __future__ import annotations

from typing import NamedTuple, cast

import pyarrow as pa

from headrace.lowlevel.coders.coder import KeyCoder
from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import TupleKeys, first_indices, numbered, plain_keys
from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Single, Tuple
from headrace.sdk.operators.combining.value_columns import columns_of


class Keys(NamedTuple):
    """Decoded keys as Arrow columns."""

    shape: ValueSchema
    columns: list[pa.Array]


def decoded(encoded: pa.Array, coder: KeyCoder) -> Keys | list[object]:
    """Decode a column of encoded keys: into columns if the keys are text, whole numbers or tuples of these.

    Args:
        encoded: Encoded keys: large binary, without nulls.
        coder: The coder that has encoded the keys. What it raises for malformed bytes is passed on.

    Returns:
        `Keys` whose columns (large string or int64) have one entry for each encoded key, in the same order; or, for
        keys that columns do not express, a list of the keys in this order.

    >>> decoded(pa.array([b"sUA", b"sAA"], pa.large_binary()), KeyCoder()).columns[0].to_pylist()
    ['UA', 'AA']
    """
    if (simple := plain_keys(encoded)) is not None:
        return Keys(Single(0), [simple])
    numbers = numbered([encoded])
    firsts = encoded.take(of_numbers(first_indices(numbers, int(numbers.max(initial=-1)) + 1)))
    if (columns := _alike(firsts, coder)) is not None:
        indices = of_numbers(numbers)
        return Keys(columns.shape, [column.take(indices) for column in columns.columns])
    distinct = list(map(coder.decode, firsts.to_pylist()))
    if (found := columns_of(distinct)) is not None:
        return Keys(found.shape, [column.take(of_numbers(numbers)) for column in found.columns])
    return [distinct[number] for number in numbers.tolist()]


def _alike(encoded: pa.Array, coder: KeyCoder) -> Keys | None:
    """Columns of tuples or named tuples that all have the length and the item types of the first; None for others.

    `encoded` has at least one entry.
    """
    first = coder.decode(encoded[0].as_py())
    alike = TupleKeys.like(first, coder.encode) if _is_plain(type(first)) else None
    columns = None if alike is None else alike.decoded(encoded)
    return None if columns is None else Keys(_shape(type(first), len(columns)), columns)


def _is_plain(kind: type) -> bool:
    """Whether the type is `tuple` or a named tuple that the decoder created, and not a class of the user."""
    return issubclass(kind, tuple) and (kind is tuple or getattr(kind, "_is_dynamic", False))


def _shape(kind: type, width: int) -> ValueSchema:
    shapes = tuple(map(Single, range(width)))
    names = cast("tuple[str, ...] | None", getattr(kind, "_fields", None))
    return Tuple(shapes) if names is None else Fields(names, shapes, FieldsKind.TUPLE, kind.__name__)
