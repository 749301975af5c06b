"""Where: the start of the period that a timestamp is in, which is the start of a fixed window and of a sliding one.

All times are integer microseconds. Period number n is the half-open interval [n·period + offset, (n + 1)·period +
offset), also for negative n.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

INT64_LIMIT = 1 << 62
"""Sums and differences of two numbers below this limit fit into 64 bits."""


def window_start(timestamp: int, period: int, offset: int) -> int:
    """The start of the period that a timestamp is in; exact for integers of any size.

    >>> window_start(12, 10, 0), window_start(-1, 10, 0), window_start(12, 10, 5)
    (10, -10, 5)
    """
    return timestamp - (timestamp - offset) % period


def window_start_list(timestamps: Sequence[int], period: int, offset: int) -> list[int]:
    """`window_start` of each timestamp, without the cost of a call for each.

    >>> window_start_list([12, -1], 10, 0)
    [10, -10]
    """
    return [timestamp - (timestamp - offset) % period for timestamp in timestamps]


def window_start_array(timestamps: NDArray[np.int64], period: int, offset: int) -> NDArray[np.int64]:
    """`window_start` of each timestamp of an array for which `fits_int64` holds; `offset` is from 0 up to the period.

    >>> window_start_array(np.array([12, -1]), 10, 0).tolist()
    [10, -10]
    """
    return timestamps - (timestamps - offset) % period


def fits_int64(timestamps: NDArray[np.int64], period: int = 0) -> bool:
    """Whether starts and ends of windows of these timestamps (at least one) can be computed in 64 bits.

    >>> fits_int64(np.array([12, -1]), 10), fits_int64(np.array([-INT64_LIMIT]), 10), fits_int64(np.array([0]), 1 << 62)
    (True, False, False)
    """
    return period < INT64_LIMIT and -INT64_LIMIT < int(timestamps.min()) <= int(timestamps.max()) < INT64_LIMIT
