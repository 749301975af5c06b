"""Where: expansion of lifted elements, which are grouped by slice of time, into one row for each of their windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.sdk.windows.window_namespace import WindowNamespace


class Expanded(NamedTuple):
    """Pairs of a row and a window that contains the row; the three arrays have one entry for each pair."""

    indices: Numbers
    """Index of the row: int64, ascending."""
    ends: Numbers
    """End of the window, microseconds UTC: int64; the windows of a row are in the order that `namespaces_of` gives."""
    is_last: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """Whether the window is the latest of the row's windows: bool."""


def expanded(starts: Numbers, namespaces_of: Callable[[int], list[WindowNamespace]]) -> Expanded:
    """Repeat each row once for each of its windows.

    Args:
        starts: Start of each row's slice, microseconds UTC: int64, in any order.
        namespaces_of: Gives the windows that contain the slice with this start, the latest window first. The function
            is called once for each distinct start; what it raises is passed on.
    """
    distinct, bucket = np.unique(starts, return_inverse=True)
    bucket = bucket.reshape(-1)
    namespaces = [namespaces_of(start) for start in distinct.tolist()]
    if all(len(windows) == 1 for windows in namespaces):
        ends = np.array([windows[0].end for windows in namespaces], np.int64)
        return Expanded(np.arange(len(starts)), ends[bucket], np.ones(len(starts), np.bool_))
    sizes = np.array(list(map(len, namespaces)), np.int64)
    ends = np.array([namespace.end for windows in namespaces for namespace in windows], np.int64)
    offsets = np.cumsum(sizes) - sizes
    repeats = sizes[bucket]
    indices = np.repeat(np.arange(len(starts)), repeats)
    number = np.arange(len(indices)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return Expanded(indices, ends[offsets[bucket][indices] + number], number == 0)
