"""Keys as columns: which rows have the same key, and where their records go (paper §4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.arrays import numbers_in

Numbers = NDArray[np.int64]
_SPARSE = 4
"""Group numbers per row beyond which they are made dense by sorting."""


def is_key_column(column: pa.Array) -> bool:
    """Whether equal values of the column are the same key, and others are not: text and whole numbers, all there.

    >>> is_key_column(pa.array(["a"])), is_key_column(pa.array([1, None])), is_key_column(pa.array([0.0]))
    (True, False, False)
    """
    kind = column.type
    exact = is_text(column) or pa.types.is_integer(kind)
    return bool((exact or pa.types.is_boolean(kind)) and not column.null_count)


def is_text(column: pa.Array) -> bool:
    """Whether its values are text."""
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def is_direct(column: pa.Array) -> bool:
    """Whether its values are of a type of which equal ones always have equal encodings."""
    return not pa.types.is_boolean(column.type)


def numbered(columns: Sequence[pa.Array]) -> Numbers:
    """Number of each row's combination of values; rows with equal ones have the same, numbers have no gaps.

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
    """Groups numbered from 0 without gaps, and what each number stood for; `groups` are 0 or more."""
    limit = int(groups.max(initial=-1)) + 1
    if limit > _SPARSE * len(groups):
        names, numbers = np.unique(groups, return_inverse=True)
        return numbers.reshape(-1), names
    names = np.flatnonzero(np.bincount(groups, minlength=limit))
    table = np.empty(limit, np.int64)
    table[names] = np.arange(len(names))
    return table[groups], names


def first_places(numbers: Numbers, count: int) -> Numbers:
    """The first row of each number from 0 to below `count`."""
    places = np.empty(count, np.int64)
    places[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return places
