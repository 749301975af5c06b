"""Where: sessions of many keys at once (Streaming 102, figure 17), found as runs of overlapping intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.key_columns import Flags, Numbers, numbered


class Runs(NamedTuple):
    """A partition of rows into runs."""

    order: Numbers
    """Indices of the rows, with the rows of a run next to each other: int64."""
    groups: Numbers
    """Number of each row's run, in the order of `order`: int64, ascending, from 0 without gaps."""
    number: int
    """Number of runs."""


def runs_of_elements(keys: Numbers, times: Numbers, gap: int, late: Flags) -> Runs:
    """Runs of elements of one key less than a gap apart; late elements are not in runs with other elements.

    `keys`, `times` and `late` have one entry for each element, in any order. Times and `gap` have the same unit.

    >>> never = np.zeros(3, np.bool_)
    >>> runs_of_elements(np.array([0, 0, 0]), np.array([9, 1, 3]), 5, never).groups.tolist()
    [0, 0, 1]
    """
    order = np.lexsort((times, keys))
    keys, times, late = keys[order], times[order], late[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (times[1:] - times[:-1] >= gap) | (late[1:] != late[:-1])
    return _runs(order, begins)


def runs_of_stretches(rows: pa.Array, starts: Numbers, ends: Numbers) -> Runs:
    """Runs of intervals of one key that overlap, directly or through other intervals.

    `rows` (binary(16), hashes of keys), `starts` and `ends` (int64) have one entry for each interval, in any order.

    >>> rows = pa.array([bytes(16)] * 3, pa.binary(16))
    >>> runs_of_stretches(rows, np.array([0, 50, 20]), np.array([30, 80, 40])).groups.tolist()
    [0, 0, 1]
    """
    keys = numbered([rows])
    order = np.lexsort((starts, keys))
    keys = keys[order]
    distinct, ranks = np.unique(ends, return_inverse=True)
    # The greatest end so far within each key: the numbers of a key are all above those of the keys before it.
    base = keys * max(1, len(distinct))
    reached = distinct[np.maximum.accumulate(base + ranks.reshape(-1)[order]) - base]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (starts[order][1:] >= reached[:-1])
    return _runs(order, begins)


def _runs(order: Numbers, begins: Flags) -> Runs:
    groups = np.cumsum(begins) - 1
    return Runs(order, groups, int(groups[-1]) + 1 if len(groups) else 0)
