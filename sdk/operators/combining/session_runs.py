"""Where: sessions of many keys at once (Streaming 102, figure 17), stretches of event time that overlap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnkeys import Numbers, numbered

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Runs(NamedTuple):
    """Which rows belong together."""

    order: Numbers
    """Places of the rows, those of a run side by side."""
    groups: Numbers
    """Number of the run, of each row in that order."""
    number: int
    """How many runs there are."""


def runs_of_elements(keys: Numbers, times: Numbers, gap: int, late: Flags) -> Runs:
    """Elements of a key less than a gap apart; those that are late stay apart from those that are not.

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
    """Stretches of a row that overlap, directly or by others between them.

    >>> rows = pa.array([bytes(16)] * 3, pa.binary(16))
    >>> runs_of_stretches(rows, np.array([0, 50, 20]), np.array([30, 80, 40])).groups.tolist()
    [0, 0, 1]
    """
    keys = numbered([rows])
    order = np.lexsort((starts, keys))
    keys = keys[order]
    distinct, ranks = np.unique(ends, return_inverse=True)
    # The greatest end so far, within each key: numbers of a later key are all above those of earlier ones.
    base = keys * max(1, len(distinct))
    reached = distinct[np.maximum.accumulate(base + ranks.reshape(-1)[order]) - base]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (starts[order][1:] >= reached[:-1])
    return _runs(order, begins)


def _runs(order: Numbers, begins: Flags) -> Runs:
    groups = np.cumsum(begins) - 1
    return Runs(order, groups, int(groups[-1]) + 1 if len(groups) else 0)
