"""Event time in whole microseconds UTC, with the limits and types of Beam (`apache_beam.utils.timestamp`).

Inside the engine a time is an `int` of microseconds. Users see `Timestamp` and `Duration`, which interpret plain
numbers as seconds, as in Beam. A float of seconds becomes the nearest microsecond, as 4.1 has no exact float.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from numbers import Number
from typing import Self, TypeAlias, overload

from headrace.lowlevel.stored_names import stored_as

MIN_TIMESTAMP = -9_223_372_036_854_775_000
"""The time before all events; also the watermark of a source that has not reported one."""
MAX_TIMESTAMP = 9_223_372_036_854_775_000
"""The time after all events; also the watermark of input that has ended."""
END_OF_GLOBAL_WINDOW = MAX_TIMESTAMP - 86_400_000_000
"""The exclusive end of the global window: a day before `MAX_TIMESTAMP`, as in Beam."""
SECOND = 1_000_000
"""Microseconds in a second."""

_PLAIN_NUMBERS = frozenset((int, float))
_MICROS, _NANOS = 6, 9
"""Decimal digits of a second that are kept, and the greatest precision that Beam accepts."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _uninterpreted(value: object, kind: type) -> str:
    types = "a Timestamp or an aware datetime" if kind.__name__ == "Timestamp" else "a timedelta or a Duration"
    if isinstance(value, str) and kind.__name__ == "Timestamp":
        types += "; Timestamp.from_rfc3339(text) reads '2024-05-01T12:00:00Z'"
    return f"cannot interpret {value!r:.80} of type {type(value).__name__} as a {kind.__name__}; give seconds, {types}"


def _exact_micros(seconds: float, subseconds: float, precision: int, micros: float | None) -> int:
    """Microseconds of `Timestamp` arguments that include `micros` or a precision other than microseconds."""
    for given in (seconds, subseconds, 0 if micros is None else micros, precision):
        if not isinstance(given, Number):
            raise TypeError(_uninterpreted(given, Timestamp))
    if precision not in range(_NANOS + 1):
        raise ValueError(f"the precision of a Timestamp is {precision!r:.80}; give 0 to {_NANOS} digits")
    if micros is not None:
        if subseconds or precision != _MICROS:
            raise ValueError("a Timestamp takes micros, or subseconds with their precision, not both; leave one out")
        return Timestamp(seconds, micros).micros
    if precision <= _MICROS:
        # A float such as 4.1 is less than its decimal digits say: those that are kept are those of the microsecond.
        units = round(seconds * SECOND) // 10 ** (_MICROS - precision) + int(subseconds)
    else:
        units = round(seconds * 10**precision) + int(subseconds)
    if precision <= _MICROS:
        return int(units * 10 ** (_MICROS - precision))
    whole, lost = divmod(units, 10 ** (precision - _MICROS))
    if lost:
        raise ValueError(
            f"Timestamp({seconds}, {subseconds}, {precision}) has parts of a microsecond, which are not kept; give "
            "whole microseconds"
        )
    return int(whole)


class _Micros:
    """A whole number of microseconds that can be compared with times and with plain numbers of seconds."""

    __slots__ = ("micros",)

    micros: int

    def __init__(self, seconds: float = 0, micros: float = 0) -> None:
        for given in (seconds, micros):
            # The test for an abstract class takes as long as all the rest.
            if type(given) not in _PLAIN_NUMBERS and not isinstance(given, Number):
                raise TypeError(_uninterpreted(given, type(self)))
        try:
            self.micros = round(seconds * SECOND) + int(micros)
        except (OverflowError, ValueError):
            raise ValueError(
                f"a {type(self).__name__} of {seconds!r} s and {micros!r} microseconds is not finite; give one that is"
            ) from None

    @classmethod
    def _read(cls, value: object) -> int:
        """Microseconds of a time or of a number of seconds. Raises TypeError for other types."""
        if isinstance(value, _Micros):
            return value.micros
        if isinstance(value, (int, float)):
            return round(value * SECOND)
        raise TypeError(_uninterpreted(value, cls))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Micros):
            return self.micros == other.micros
        if isinstance(other, (int, float)):
            return self.micros == round(other * SECOND)
        return NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.micros < self._read(other)

    def __le__(self, other: object) -> bool:
        return self.micros <= self._read(other)

    def __gt__(self, other: object) -> bool:
        return self.micros > self._read(other)

    def __ge__(self, other: object) -> bool:
        return self.micros >= self._read(other)

    def __hash__(self) -> int:
        return hash(self.micros)

    def __float__(self) -> float:
        return self.micros / SECOND

    def __int__(self) -> int:
        return self.micros // SECOND

    def __repr__(self) -> str:
        whole, part = divmod(abs(self.micros), SECOND)
        sign = "-" if self.micros < 0 else ""
        fraction = f".{part:06d}" if part else ""
        return f"{type(self).__name__}({sign}{whole}{fraction})"

    def __reduce__(self) -> tuple[type[Self], tuple[int, int]]:
        return type(self), (0, self.micros)

    @classmethod
    def of_micros(cls, micros: int) -> Self:
        """Make an instance from a whole number of microseconds, without checks.

        >>> Timestamp.of_micros(1_500_000), Duration.of_micros(1_500_000)
        (Timestamp(1.500000), Duration(1.500000))
        """
        time = cls.__new__(cls)
        time.micros = micros
        return time


class Timestamp(_Micros):
    """An instant, in microseconds since 1970 UTC. A plain number means seconds.

    It can be compared with timestamps, durations and numbers. Adding or subtracting a duration (or seconds) gives an
    instant; subtracting an instant gives a duration. The model is Beam's `apache_beam.utils.timestamp.Timestamp`,
    without nanoseconds.

    Args:
        seconds: Seconds since 1970 UTC, of which `precision` decimal digits are kept.
        subseconds: A number of units of 10 ** -`precision` seconds, added to `seconds`.
        precision: Number of decimal digits, 0 to 9.
        micros: Microseconds, added to `seconds`. They exclude `subseconds`.

    Raises:
        TypeError: An argument is not a number.
        ValueError: Arguments exclude each other, are not finite, or include a fraction of a microsecond.

    >>> Timestamp.of(90) + Duration(0.5)
    Timestamp(90.500000)
    >>> Timestamp(90) - Timestamp(60), Timestamp(90) % 60, Timestamp(90) == 90
    (Duration(30), Duration(30), True)
    """

    __slots__ = ()

    def __init__(
        self, seconds: float = 0, subseconds: float = 0, precision: int = _MICROS, *, micros: float | None = None
    ) -> None:
        if micros is None and precision == _MICROS:
            super().__init__(seconds, subseconds)
        else:
            super().__init__(0, _exact_micros(seconds, subseconds, precision, micros))

    @staticmethod
    def of(seconds: TimestampTypes | datetime) -> Timestamp:
        """Convert a number of seconds since 1970 UTC, an aware datetime or a timestamp to an instant.

        Raises TypeError for other types, which include durations, and ValueError for a naive datetime.
        """
        if isinstance(seconds, Timestamp):
            return seconds
        if isinstance(seconds, datetime):
            return Timestamp.from_utc_datetime(seconds)
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise TypeError(_uninterpreted(seconds, Timestamp))
        return Timestamp(seconds)

    @staticmethod
    def now() -> Timestamp:
        """The current time by this machine's clock, for users. The engine itself does not call it."""
        return Timestamp.from_utc_datetime(datetime.now(UTC))

    @classmethod
    def from_utc_datetime(cls, dt: datetime) -> Timestamp:
        """Convert an aware datetime to an instant. Raises ValueError for a naive one.

        >>> Timestamp.from_utc_datetime(datetime(1970, 1, 1, 0, 1, tzinfo=UTC))
        Timestamp(60)
        """
        if dt.tzinfo is None:
            raise ValueError(f"datetime {dt} has no time zone; give one, for instance tzinfo=datetime.UTC")
        return cls.of_micros((dt - _EPOCH) // _MICROSECOND)

    @classmethod
    def from_rfc3339(cls, rfc3339: str) -> Timestamp:
        """Parse a string such as `2015-10-21T16:29:00.5Z`. Other offsets are converted to UTC.

        Lower-case `t` and `z` are taken, too. Raises ValueError.

        >>> Timestamp.from_rfc3339("1970-01-01T01:00:01.5+01:00")
        Timestamp(1.500000)
        """
        try:
            # Python takes any letter for T, and only the capital Z.
            taken = f"{rfc3339[:-1]}Z" if rfc3339.endswith("z") else rfc3339
            return cls.from_utc_datetime(datetime.fromisoformat(taken))
        except ValueError as error:
            raise ValueError(f"could not parse RFC 3339 string {rfc3339!r}: {error}") from error

    def to_utc_datetime(self, has_tz: bool = False) -> datetime:
        """Convert the instant to a datetime in UTC, which is naive unless `has_tz` is set.

        Raises OverflowError for an instant that is not within the years 1 to 9999 of UTC.
        """
        try:
            moment = _EPOCH + timedelta(microseconds=self.micros)
        except OverflowError:
            raise OverflowError(
                f"{self!r} is not within the years 1 to 9999 of UTC, so no datetime can express it; use its `micros`"
            ) from None
        return moment if has_tz else moment.replace(tzinfo=None)

    def to_rfc3339(self) -> str:
        """Format the instant as an RFC 3339 string in UTC. Raises as `to_utc_datetime`.

        >>> Timestamp(1.5).to_rfc3339()
        '1970-01-01T00:00:01.500000Z'
        """
        return self.to_utc_datetime().isoformat() + "Z"

    def seconds(self) -> int:
        """Whole seconds since 1970, rounded down."""
        return self.micros // SECOND

    def subseconds(self) -> int:
        """The fraction of a second beyond `seconds()`, in microseconds."""
        return self.micros % SECOND

    def predecessor(self) -> Timestamp:
        """The instant one microsecond earlier."""
        return Timestamp.of_micros(self.micros - 1)

    def successor(self) -> Timestamp:
        """The instant one microsecond later."""
        return Timestamp.of_micros(self.micros + 1)

    def __add__(self, other: DurationTypes) -> Timestamp:
        return Timestamp.of_micros(self.micros + Duration.of(other).micros)

    __radd__ = __add__

    @overload
    def __sub__(self, other: Timestamp) -> Duration: ...
    @overload
    def __sub__(self, other: DurationTypes) -> Timestamp: ...
    def __sub__(self, other: DurationTypes | Timestamp) -> Timestamp | Duration:
        if isinstance(other, Timestamp):
            return Duration.of_micros(self.micros - other.micros)
        return Timestamp.of_micros(self.micros - Duration.of(other).micros)

    def __mod__(self, other: DurationTypes) -> Duration:
        return Duration.of_micros(self.micros % Duration.of(other).micros)


class Duration(_Micros):
    """A length of time in microseconds, as Beam's `Duration`. A plain number means seconds.

    >>> Duration(1.5) + 1, Duration(5) % 3, -Duration(2) * 3
    (Duration(2.500000), Duration(2), Duration(-6))
    """

    __slots__ = ()

    @staticmethod
    def of(seconds: DurationTypes) -> Duration:
        """Convert seconds, a `timedelta` or a duration to a duration. Raises TypeError for other types."""
        if isinstance(seconds, Duration):
            return seconds
        if isinstance(seconds, (int, float)):
            return Duration(seconds)
        if isinstance(seconds, timedelta):
            return Duration.of_micros(seconds // _MICROSECOND)
        raise TypeError(_uninterpreted(seconds, Duration))

    def __neg__(self) -> Duration:
        return Duration.of_micros(-self.micros)

    @overload
    def __add__(self, other: Timestamp) -> Timestamp: ...
    @overload
    def __add__(self, other: DurationTypes) -> Duration: ...
    def __add__(self, other: DurationTypes | Timestamp) -> Duration | Timestamp:
        if isinstance(other, Timestamp):
            return other + self
        return Duration.of_micros(self.micros + Duration.of(other).micros)

    __radd__ = __add__

    def __sub__(self, other: DurationTypes) -> Duration:
        return Duration.of_micros(self.micros - Duration.of(other).micros)

    def __rsub__(self, other: DurationTypes) -> Duration:
        return -(self - other)

    def __mul__(self, other: DurationTypes) -> Duration:
        return Duration.of_micros(self.micros * Duration.of(other).micros // SECOND)

    __rmul__ = __mul__

    def __mod__(self, other: DurationTypes) -> Duration:
        return Duration.of_micros(self.micros % Duration.of(other).micros)


DurationTypes: TypeAlias = float | Duration | timedelta
"""Types that are accepted as a length of time: a `Duration`, a `timedelta`, or a number of seconds."""
TimestampTypes: TypeAlias = float | Timestamp
"""Types that are accepted as an instant: a `Timestamp`, or a number of seconds since 1970 UTC."""


def _micros_of(time: _Micros) -> tuple[int]:
    return (time.micros,)


stored_as("Timestamp", Timestamp.of_micros, _micros_of)(Timestamp)
stored_as("Duration", Duration.of_micros, _micros_of)(Duration)
