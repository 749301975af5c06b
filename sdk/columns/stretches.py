"""Where: the windows of lifted elements, which come by bucket, as columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headrace.lowlevel.columnkeys import Numbers
from headrace.sdk.frames import Frame


class Expanded(NamedTuple):
    """Rows and the windows that they are in."""

    places: Numbers
    """Place of the row."""
    ends: Numbers
    """End of the window, microseconds UTC."""
    is_last: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """Whether it is the last of the row's windows."""


def expanded(starts: Numbers, frames_of: Callable[[int], list[Frame]]) -> Expanded:
    """Each row once for each of its windows; `frames_of` gives those of a bucket, the latest first."""
    distinct, bucket = np.unique(starts, return_inverse=True)
    bucket = bucket.reshape(-1)
    frames = [frames_of(start) for start in distinct.tolist()]
    if all(len(its) == 1 for its in frames):
        ends = np.array([its[0].end for its in frames], np.int64)
        return Expanded(np.arange(len(starts)), ends[bucket], np.ones(len(starts), np.bool_))
    sizes = np.array(list(map(len, frames)), np.int64)
    ends = np.array([frame.end for its in frames for frame in its], np.int64)
    offsets = np.cumsum(sizes) - sizes
    repeats = sizes[bucket]
    places = np.repeat(np.arange(len(starts)), repeats)
    number = np.arange(len(places)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return Expanded(places, ends[offsets[bucket][places] + number], number == 0)
