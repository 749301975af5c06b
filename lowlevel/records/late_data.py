"""Late data: the rule by which records and windows are late, and the dropping of late records (MillWheel paper §4.5).

A record is late for a step if its timestamp is behind the step's low watermark. A window is late, which is to say
closed, if its last instant and the allowed lateness are behind the low watermark. A late record is counted as `late`
and processed; it is dropped, and counted as `dropped_late`, only if all its windows are closed or user code says so.
Times are microseconds UTC.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.time import MIN_TIMESTAMP, Timestamp

DROPPED_LATE: Final = "dropped_late"
"""The counter of dropped records."""
_log = logging.getLogger("headrace.late_data")
_MESSAGE = "step %r dropped late records: %d of key %.200r in window %s at watermark %s"


@overload
def is_late(timestamp: int, watermark: int) -> bool: ...
@overload
def is_late(timestamp: NDArray[np.int64], watermark: int) -> NDArray[np.bool_]: ...
def is_late(timestamp: int | NDArray[np.int64], watermark: int) -> bool | NDArray[np.bool_]:
    """Whether a record with this timestamp is late; for an array, which of the records are.

    >>> is_late(3, watermark=4), is_late(4, watermark=4)
    (True, False)
    """
    return timestamp < watermark


@overload
def is_closed(closes: int, watermark: int) -> bool: ...
@overload
def is_closed(closes: NDArray[np.int64], watermark: int) -> NDArray[np.bool_]: ...
def is_closed(closes: int | NDArray[np.int64], watermark: int) -> bool | NDArray[np.bool_]:
    """Whether a window is closed; for an array, which of the windows are.

    `closes` is the end of the window plus the allowed lateness. As a window does not contain its end, the result is
    that of `is_late(closes - 1, watermark)`.

    >>> [is_closed(4, watermark) for watermark in (3, 4)], [is_late(4 - 1, watermark) for watermark in (3, 4)]
    ([False, True], [False, True])
    """
    return closes <= watermark


def count_late(timestamps: Sequence[int], watermark: int) -> int:
    """How many records are late.

    >>> count_late([1, 5, 3], watermark=4)
    2
    """
    # `is_late`, without a call of a Python function for each record.
    return sum(map(watermark.__gt__, timestamps)) if watermark > MIN_TIMESTAMP else 0


class Dropped(NamedTuple):
    """Late records of one key and window that a step drops."""

    key: object
    window: object | None
    """None if the step does not know the window."""
    number: int


def drop_late(
    counters: dict[str, int], step: str, watermark: int, number: int, dropped: Callable[[], Iterable[Dropped]]
) -> None:
    """Count late records that a step drops, and log them by key and window at level DEBUG.

    Args:
        counters: The counters of the step.
        step: Name of the step.
        watermark: The low watermark at which the records are late.
        number: Number of dropped records.
        dropped: Gives the same records by key and window. It is called only if they are logged.
    """
    counters[DROPPED_LATE] = counters.get(DROPPED_LATE, 0) + number
    if number and _log.isEnabledFor(logging.DEBUG):
        for each in dropped():
            window = "(unknown)" if each.window is None else each.window
            at = Timestamp(micros=watermark)
            _log.debug(_MESSAGE, step, each.number, each.key, window, at)
