"""Bounds of the event times of a file's records, known before the file is read (MillWheel paper §5.2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.io.files.filesystem import MatchedFile
from headrace.sdk.io.timestamps import micros_of

FileTimeOf = str | Callable[[str], object]
"""A pattern for `NamePattern`, or a function from a file's path to a lower bound, or a pair of bounds."""
_PARTS = "YmdHMS"
_DIGITS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_DAY = timedelta(days=1)
_UNITS = {"d": _DAY, "H": _DAY / 24, "M": _DAY / 1440, "S": _DAY / 86_400}


class Span(NamedTuple):
    """Bounds of the event times of a file's records, microseconds UTC."""

    earliest: int
    """Lower bound."""
    latest: int | None = None
    """Exclusive upper bound; None if it is not known."""

    @property
    def end(self) -> int:
        """The watermark after the file is read."""
        return self.earliest if self.latest is None else self.latest


class NamePattern:
    """Reads bounds of event times (UTC) from file names: `%Y`, `%m`, `%d`, `%H`, `%M` and `%S` as in `strptime`.

    If a pattern has one time, that time is the lower bound, and the upper bound is later by its last part: a year, a
    day, a second. If it has two times, these are the bounds.

    Args:
        pattern: Pattern that some part of the file name (without its folder) matches.

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
                raise ValueError(
                    f"file_time {pattern!r} has %{letter}; use {', '.join(f'%{each}' for each in _DIGITS)}"
                )
            if not self._times or letter in self._times[-1]:
                self._times.append("")
            self._times[-1] += letter
        if len(self._times) not in (1, 2) or any(
            set(letters) != set(_PARTS[: len(letters)]) for letters in self._times
        ):
            raise ValueError(
                f"file_time {pattern!r} has no time; write one like '%Y-%m-%d-%H', or two for beginning and end"
            )
        digits = [f"([0-9]{{{_DIGITS[letter]}}})" for letter in parts[1::2]]
        texts = [re.escape(text) for text in parts[::2]]
        self._expression = re.compile("".join(text + digit for text, digit in zip(texts, [*digits, ""], strict=True)))

    def __call__(self, path: str) -> tuple[datetime, datetime]:
        """Lower and upper bound. Raises `ValueError` for a name that does not match."""
        matched = self._expression.search(path.rpartition("/")[2])
        if matched is None:
            raise ValueError(f"the name does not match file_time {self._pattern!r}")
        numbers = [int(digits) for digits in matched.groups()]
        times = []
        for letters in self._times:
            parts = dict(zip(letters, numbers, strict=False))
            numbers = numbers[len(letters) :]
            year, month, day, hour, minute, second = [parts.get(letter, int(letter in "md")) for letter in _PARTS]
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
    """Bounds of the event times of files before they are read; shipped to the tasks."""

    continuous: bool
    """Whether files are read as they appear."""
    function: Callable[[str], object] | None = None
    """Function from a file's path to a lower bound, or a pair of bounds; None for the time of its last change."""

    def of(self, file: MatchedFile) -> Span:
        """The bounds for a file. Raises `ValueError` that names the file."""
        return Span(file.modified_us) if self.function is None else self.of_name(file.path)

    def of_name(self, path: str) -> Span:
        """The bounds for a file that may not exist yet; needs `function`. Raises `ValueError` that names the file."""
        assert self.function is not None, "bounds by name need a function"
        try:
            bounds = self.function(path)
            span = Span(*map(micros_of, bounds)) if isinstance(bounds, tuple) else Span(micros_of(bounds))
        except Exception as error:
            raise ValueError(f"{path}: file_time gives no event time: {error}; correct it") from error
        if span.latest is not None and span.latest < span.earliest:
            raise ValueError(f"{path}: file_time gives an end before the beginning ({bounds!r:.200}); correct it")
        return span

    def default(self, file: MatchedFile) -> int:
        """Event time of records without a timestamp of their own, microseconds UTC."""
        return self.of(file).earliest if self.continuous else MIN_TIMESTAMP
