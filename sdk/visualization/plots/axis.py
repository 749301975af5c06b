"""Time along an axis: which instants get a tick, and how they are written."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_SECOND = 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3600 * _SECOND, 86_400 * _SECOND
_STEPS = (
    *(unit * each for unit in (1, 10, 100, 1000, 10_000, 100_000) for each in (1, 2, 5)),
    *(_SECOND * each for each in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * each for each in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * each for each in (1, 2, 3, 6, 12)),
    *(_DAY * each for each in (1, 2, 7, 14, 30, 91, 365, 1826, 3652, 18_262, 36_525, 182_625, 365_250)),
)
"""Distances between ticks, microseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Axis:
    """From times, microseconds, to places on the canvas, in its units."""

    first: int
    last: int
    at_first: float
    at_last: float

    def place(self, time: int | None, otherwise: float = 0.0) -> float:
        """Where a time is; for None, which is beyond all times, `otherwise`. Times outside are at the end.

        >>> Axis(0, 100, 20, 30).place(50), Axis(0, 100, 20, 30).place(1000)
        (25.0, 30.0)
        """
        if time is None:
            return otherwise
        within = min(max(time, self.first), self.last)
        return self.at_first + (within - self.first) * (self.at_last - self.at_first) / (self.last - self.first)

    def step(self, apart: float) -> int:
        """The least distance of ticks, in microseconds, that leaves them so far apart on the canvas."""
        least = apart * (self.last - self.first) / abs(self.at_last - self.at_first)
        return _STEPS[min(bisect_left(_STEPS, least), len(_STEPS) - 1)]

    def ticks(self, apart: float) -> list[tuple[int, str]]:
        """Times that get a tick, and how they are written: where days change, the first of a day is its date.

        >>> Axis(0, 7_200_000_000, 0, 100).ticks(40)
        [(0, '00:00'), (3600000000, '01:00'), (7200000000, '02:00')]
        """
        step = self.step(apart)
        times = range(-(-self.first // step) * step, self.last + 1, step)
        several = self.first // _DAY != self.last // _DAY and step < _DAY
        return [(time, _date(time) if several and time % _DAY == 0 else text_of(time, step)) for time in times]

    def named(self, what: str) -> str:
        """What the axis shows, with the day that it begins on; without where that is the first of all.

        >>> Axis(0, 60_000_000, 0, 1).named("event time")
        'event time'
        >>> Axis(1_700_000_000_000_000, 1_700_000_060_000_000, 0, 1).named("event time")
        'event time, from 2023-11-14 (UTC)'
        """
        if abs(self.first) < _DAY and abs(self.last) < 2 * _DAY:
            return what
        return f"{what}, from {_date(self.first)} (UTC)"


def _date(time: int) -> str:
    return text_of(time, _DAY)


def text_of(time: int, step: int = _SECOND) -> str:
    """A time as a tick says it, where ticks are `step` microseconds apart.

    >>> text_of(43_350_000_000), text_of(43_350_000_000, 60_000_000), text_of(86_400_000_000, 86_400_000_000)
    ('12:02:30', '12:02', '1970-01-02')
    >>> text_of(1_250_000, 50_000), text_of(1_250_000, 100_000)
    ('00:00:01.25', '00:00:01.2')
    """
    try:
        when = _EPOCH + timedelta(microseconds=time)
    except OverflowError:
        return f"{time // _SECOND} s"
    if step >= _DAY:
        return when.strftime("%Y-%m-%d")
    if step >= _MINUTE:
        return when.strftime("%H:%M")
    if step >= _SECOND:
        return when.strftime("%H:%M:%S")
    # As many digits as tell one tick from the next.
    digits = 6 - (len(str(step)) - len(str(step).rstrip("0")))
    return when.strftime("%H:%M:%S.%f")[: 9 + digits]


def briefly(time: int) -> str:
    """A time without the seconds, where there are none.

    >>> briefly(43_350_000_000), briefly(43_320_000_000)
    ('12:02:30', '12:02')
    """
    if time % _SECOND:
        return text_of(time, 1).rstrip("0")
    return text_of(time, _SECOND if time % _MINUTE else _MINUTE)
