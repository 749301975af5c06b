"""Time axes: positions of instants, ticks and their labels."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_SECOND = 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3600 * _SECOND, 86_400 * _SECOND
_STEPS = (
    *(unit * count for unit in (1, 10, 100, 1000, 10_000, 100_000) for count in (1, 2, 5)),
    *(_SECOND * count for count in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * count for count in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * count for count in (1, 2, 3, 6, 12)),
    *(_DAY * count for count in (1, 2, 7, 14, 30, 91, 365, 1826, 3652, 18_262, 36_525, 182_625, 365_250)),
)
"""Possible distances between ticks, microseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps times, microseconds UTC, from `first` to `last` to positions on the canvas, in its units."""

    first: int
    last: int
    at_first: float
    at_last: float

    def position(self, time: int | None, otherwise: float = 0.0) -> float:
        """The position of a time: at the nearer end for a time outside the axis, `otherwise` for None.

        >>> Axis(0, 100, 20, 30).position(50), Axis(0, 100, 20, 30).position(1000)
        (25.0, 30.0)
        """
        if time is None:
            return otherwise
        within = min(max(time, self.first), self.last)
        return self.at_first + (within - self.first) * (self.at_last - self.at_first) / (self.last - self.first)

    def step(self, distance: float) -> int:
        """The least distance of ticks in microseconds that is at least `distance` on the canvas."""
        least = distance * (self.last - self.first) / abs(self.at_last - self.at_first)
        return _STEPS[min(bisect_left(_STEPS, least), len(_STEPS) - 1)]

    def ticks(self, distance: float) -> list[tuple[int, str]]:
        """Times of the ticks and their labels; if the axis spans several days, midnight is labelled with the date.

        >>> Axis(0, 7_200_000_000, 0, 100).ticks(40)
        [(0, '00:00'), (3600000000, '01:00'), (7200000000, '02:00')]
        """
        step = self.step(distance)
        times = range(-(-self.first // step) * step, self.last + 1, step)
        several_days = self.first // _DAY != self.last // _DAY and step < _DAY
        return [(time, _date(time) if several_days and time % _DAY == 0 else text_of(time, step)) for time in times]

    def title(self, title: str) -> str:
        """A title with the day on which the axis begins; without it for times near 1970-01-01.

        >>> Axis(0, 60_000_000, 0, 1).title("event time")
        'event time'
        >>> Axis(1_700_000_000_000_000, 1_700_000_060_000_000, 0, 1).title("event time")
        'event time, from 2023-11-14 (UTC)'
        """
        if abs(self.first) < _DAY and abs(self.last) < 2 * _DAY:
            return title
        return f"{title}, from {_date(self.first)} (UTC)"


def _date(time: int) -> str:
    return text_of(time, _DAY)


def text_of(time: int, step: int = _SECOND) -> str:
    """The label of a time, microseconds UTC, on an axis with ticks every `step` microseconds.

    >>> text_of(43_350_000_000), text_of(43_350_000_000, 60_000_000), text_of(86_400_000_000, 86_400_000_000)
    ('12:02:30', '12:02', '1970-01-02')
    >>> text_of(1_250_000, 50_000), text_of(1_250_000, 100_000)
    ('00:00:01.25', '00:00:01.2')
    """
    try:
        instant = _EPOCH + timedelta(microseconds=time)
    except OverflowError:
        return f"{time // _SECOND} s"
    if step >= _DAY:
        return instant.strftime("%Y-%m-%d")
    if step >= _MINUTE:
        return instant.strftime("%H:%M")
    if step >= _SECOND:
        return instant.strftime("%H:%M:%S")
    # Enough digits to tell neighbouring ticks apart.
    digits = 6 - (len(str(step)) - len(str(step).rstrip("0")))
    return instant.strftime("%H:%M:%S.%f")[: 9 + digits]


def brief_time(time: int) -> str:
    """A time, microseconds UTC, as text; seconds and fractions are left out where they are zero.

    >>> brief_time(43_350_000_000), brief_time(43_320_000_000)
    ('12:02:30', '12:02')
    """
    if time % _SECOND:
        return text_of(time, 1).rstrip("0")
    return text_of(time, _SECOND if time % _MINUTE else _MINUTE)
