"""What: columns of 64-bit numbers in a segment; a column with one number in all lines is stored as that number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers, dense, numbered


class EncodedNumbers(NamedTuple):
    """Columns of numbers as a segment has them."""

    fields: list[pa.Field]
    columns: list[pa.Array]
    """As many as `fields`."""
    same: dict[str, int]
    """Name -> number of each column that has one number in all lines."""


def encoded(columns: Mapping[str, Numbers]) -> EncodedNumbers:
    """Encode columns, of which each has at least one line.

    >>> encoded({"start": np.array([5, 7]), "count": np.array([1, 1])}).same
    {'count': 1}
    """
    varying = {name: column for name, column in columns.items() if np.ptp(column)}
    same = {name: int(column[0]) for name, column in columns.items() if name not in varying}
    return EncodedNumbers(
        [pa.field(name, pa.int64()) for name in varying], list(map(of_numbers, varying.values())), same
    )


def decoded(table: pa.RecordBatch, names: Sequence[str], same: Mapping[str, int]) -> list[Numbers]:
    """Decode the columns of these names, as read-only arrays or not; columns in neither `table` nor `same` are 0."""
    stored = table.schema.names
    return [
        cast(Numbers, numbers_in(table.column(name)))
        if name in stored
        else np.full(table.num_rows, same.get(name, 0), np.int64)
        for name in names
    ]


def window_numbers(starts: Numbers, ends: Numbers) -> Numbers:
    """A number for each line's window: int64, from 0 without gaps, ordered by the windows' ends, then starts.

    >>> window_numbers(np.array([5, 0, 5]), np.array([9, 5, 9])).tolist()
    [1, 0, 1]
    """
    numbers = np.unique(ends, return_inverse=True)[1].reshape(-1)
    if len(ends) and np.ptp(ends - starts):
        distinct, others = np.unique(starts, return_inverse=True)
        numbers, _ = dense(numbers * len(distinct) + others.reshape(-1))
    return cast(Numbers, numbers)


def window_groups(key_hashes: pa.Array, starts: Numbers, ends: Numbers) -> tuple[Numbers, int]:
    """A number for each line's key and window, and how many of these there are.

    Numbers are int64, from 0 without gaps; those of one key are in the order of `window_numbers`.
    """
    if not len(ends):
        return np.empty(0, np.int64), 0
    windows = window_numbers(starts, ends)
    groups, names = dense(numbered([key_hashes]) * (int(windows.max()) + 1) + windows)
    return groups, len(names)
