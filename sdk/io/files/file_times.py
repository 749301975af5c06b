"""Which event times the records of a file have, as far as that is known before it is read (MillWheel paper §5.2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.io.files import Found
from headrace.sdk.io.timestamps import micros_of

FileTimeOf = str | Callable[[str], object]
"""A pattern for names, see `NamePattern`, or a function from a file's path to a time, or to two."""
_PARTS = "YmdHMS"
_DIGITS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_DAY = timedelta(days=1)
_UNITS = {"d": _DAY, "H": _DAY / 24, "M": _DAY / 1440, "S": _DAY / 86_400}


class Span(NamedTuple):
    """The event times of a file's records, microseconds UTC."""

    earliest: int
    """A time before which there is none."""
    latest: int | None = None
    """A time from which on there is none; None where that is not known."""

    @property
    def end(self) -> int:
        """What the watermark reaches with the file's end."""
        return self.earliest if self.latest is None else self.latest


class NamePattern:
    """Times in names of files, UTC: `%Y`, `%m`, `%d`, `%H`, `%M` and `%S` as `strptime` has them.

    One time stands for all of its last part, be it a day or a second; of two, the second is the end.

    Args:
        pattern: What some part of a file's name (not its folder) is like.

    >>> [str(time) for time in NamePattern("%Y-%m")("log-2024-12.gz")]
    ['2024-12-01 00:00:00+00:00', '2025-01-01 00:00:00+00:00']
    >>> NamePattern("%H")
    Traceback (most recent call last):
      ...
    ValueError: file_time '%H' has no time; write one like '%Y-%m-%d-%H', or two for beginning and end
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._times: list[str] = []
        """The letters of each time."""
        parts = re.split("%(.)", pattern)
        for letter in parts[1::2]:
            if letter not in _DIGITS:
                raise ValueError(f"file_time {pattern!r} has %{letter}; use {', '.join(f'%{one}' for one in _DIGITS)}")
            if not self._times or letter in self._times[-1]:
                self._times.append("")
            self._times[-1] += letter
        if len(self._times) not in (1, 2) or any(set(one) != set(_PARTS[: len(one)]) for one in self._times):
            raise ValueError(
                f"file_time {pattern!r} has no time; write one like '%Y-%m-%d-%H', or two for beginning and end"
            )
        digits = [f"([0-9]{{{_DIGITS[letter]}}})" for letter in parts[1::2]]
        texts = [re.escape(text) for text in parts[::2]]
        self._wanted = re.compile("".join(text + digit for text, digit in zip(texts, [*digits, ""], strict=True)))

    def __call__(self, path: str) -> tuple[datetime, datetime]:
        """Beginning and end. Raises `ValueError` for a name that has none."""
        found = self._wanted.search(path.rpartition("/")[2])
        if found is None:
            raise ValueError(f"the name is not like file_time {self._pattern!r}")
        numbers = [int(digits) for digits in found.groups()]
        times = []
        for letters in self._times:
            given = dict(zip(letters, numbers, strict=False))
            numbers = numbers[len(letters) :]
            year, month, day, hour, minute, second = [given.get(one, int(one in "md")) for one in _PARTS]
            times.append(datetime(year, month, day, hour, minute, second, tzinfo=UTC))
        end = times[1] if len(times) == 2 else _after(times[0], _PARTS[len(self._times[0]) - 1])
        return times[0], end


def _after(time: datetime, unit: str) -> datetime:
    """The beginning of the next year, month, day, hour, minute or second."""
    if unit == "Y":
        return time.replace(year=time.year + 1)
    if unit == "m":
        return (time + 31 * _DAY).replace(day=1)
    return time + _UNITS[unit]


@dataclass(frozen=True, slots=True)
class FileTimes:
    """What is known of the records of a file before it is read; shipped to the tasks that read."""

    continuous: bool
    function: Callable[[str], object] | None = None
    """From a file's name to a time before which none of its records is, or to that and their end."""

    def of(self, file: Found) -> Span:
        """The times of a file's records. Raises `ValueError` that names the file."""
        return Span(file.modified_us) if self.function is None else self.of_name(file.path)

    def of_name(self, path: str) -> Span:
        """The same of a file that may not be there yet."""
        assert self.function is not None, "only a function knows"
        try:
            given = self.function(path)
            span = Span(*map(micros_of, given)) if isinstance(given, tuple) else Span(micros_of(given))
        except Exception as error:
            raise ValueError(f"{path}: which event times it has cannot be told: {error}; correct file_time") from error
        if span.latest is not None and span.latest < span.earliest:
            raise ValueError(f"{path}: file_time gives an end before the beginning ({given!r:.200}); correct it")
        return span

    def default(self, file: Found) -> int:
        """The event time of records that have none of their own."""
        return self.of(file).earliest if self.continuous else MIN_TIMESTAMP
