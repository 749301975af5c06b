"""Timestamps of the far future, which do not move a watermark that follows the records.

One record whose milliseconds were taken for seconds has a time tens of thousands of years ahead. If the watermark
followed it, all other records would be late.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from headrace.lowlevel.time import MIN_TIMESTAMP, SECOND

DAY = 86_400 * SECOND
"""How far ahead of the clock a timestamp may be by default, microseconds."""
_UNITS = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_NEAR = 20 * 365 * DAY
"""Microseconds: a time in another unit is believed to be within these of the clock."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def believable(times: Sequence[int] | npt.NDArray[np.int64], latest: int) -> tuple[int, int]:
    """The greatest of the times that are not after `latest`, and how many are after it; all in microseconds UTC.

    >>> believable([3, 9, 5, 700], latest=9), believable([700], latest=9) == (MIN_TIMESTAMP, 1)
    ((9, 1), True)
    """
    if isinstance(times, np.ndarray):
        within = times[times <= latest]
        return int(within.max()) if len(within) else MIN_TIMESTAMP, len(times) - len(within)
    # A time may be beyond 64 bits; the step that gets it refuses it.
    believed = [time for time in times if time <= latest]
    return max(believed, default=MIN_TIMESTAMP), len(times) - len(believed)


def likely_unit(timestamp: int, now: int) -> str | None:
    """The unit whose numbers were most likely taken for seconds; None if there is none. Times are microseconds UTC.

    >>> likely_unit(1_700_000_000_123 * SECOND, now=1_700_000_000 * SECOND)
    'milliseconds'
    """
    return next((unit for unit, scale in _UNITS.items() if abs(timestamp // scale - now) < _NEAR), None)


def far_future_message(stream: str, timestamp: int, latest: int) -> str:
    """What is said of the first such record of a stream; times are microseconds UTC."""
    unit = likely_unit(timestamp, latest)
    seconds = timestamp / SECOND
    try:
        text = f"{_EPOCH + timedelta(microseconds=timestamp):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        text = f"the year {1970 + round(seconds / 31_556_952)}"
    looks = f"it looks like {unit} taken for seconds: convert them to seconds" if unit else "correct the event times"
    return (
        f"step {stream!r} has read a record with the event time {text} ({seconds:.15g} seconds since 1970), which is "
        f"too far ahead of the clock to be true; {looks}, or raise max_ahead. Such records do not move the watermark, "
        "their windows wait, and the counter 'ahead' has their number"
    )
