"""Keys as columns: finds rows with equal keys (MillWheel paper §4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.columnar.arrow_arrays import numbers_in

Numbers = NDArray[np.int64]
_SPARSE = 4
"""If group numbers exceed this many times the number of rows, they are made dense by sorting, else by a table."""


def is_key_column(column: pa.Array) -> bool:
    """Whether equal values of the column are the same key: true for text, integers and booleans without nulls.

    >>> is_key_column(pa.array(["a"])), is_key_column(pa.array([1, None])), is_key_column(pa.array([0.0]))
    (True, False, False)
    """
    kind = column.type
    exact = is_text(column) or pa.types.is_integer(kind)
    return bool((exact or pa.types.is_boolean(kind)) and not column.null_count)


def is_text(column: pa.Array) -> bool:
    """Whether a column is of Arrow's type `string` or `large_string`."""
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def is_direct(column: pa.Array) -> bool:
    """Whether equal keys have equal encodings in this column: false for booleans, as True equals 1."""
    return not pa.types.is_boolean(column.type)


def numbered(columns: Sequence[pa.Array]) -> Numbers:
    """Number the distinct rows of some columns from 0 without gaps: one int64 for each row.

    Args:
        columns: One or more columns of the same length.

    >>> numbered([pa.array(["a", "b", "a"]), pa.array([1, 1, 1])]).tolist()
    [0, 1, 0]
    >>> numbered([pa.nulls(2)]).tolist()
    [0, 0]
    """
    first, *others = columns
    numbers = _codes(first)
    for column in others:
        codes = _codes(column)
        numbers, _ = dense(numbers * (int(codes.max(initial=0)) + 1) + codes)
    return numbers


def _codes(column: pa.Array) -> Numbers:
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    encoded = column.dictionary_encode()
    return numbers_in(encoded.indices).astype(np.int64)


def dense(groups: Numbers) -> tuple[Numbers, Numbers]:
    """Renumber groups from 0 without gaps, in ascending order.

    Args:
        groups: The group of each row, 0 or more.

    Returns:
        The new number of each row, and the group of each new number.

    >>> dense(np.array([7, 3, 7]))
    (array([1, 0, 1]), array([3, 7]))
    """
    limit = int(groups.max(initial=-1)) + 1
    if limit > _SPARSE * len(groups):
        distinct, numbers = np.unique(groups, return_inverse=True)
        return numbers.reshape(-1), distinct
    distinct = np.flatnonzero(np.bincount(groups, minlength=limit))
    table = np.empty(limit, np.int64)
    table[distinct] = np.arange(len(distinct))
    return table[groups], distinct


def first_indices(numbers: Numbers, count: int) -> Numbers:
    """The index of the first row with each number from 0 to `count - 1`; each number must occur."""
    indices = np.empty(count, np.int64)
    indices[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return indices
