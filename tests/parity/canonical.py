"""One form for what either package makes, so that results can be compared without knowing whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Pane(NamedTuple):
    """A `PaneInfo`, whoever's."""

    is_first: bool
    is_last: bool
    timing: str
    index: int
    nonspeculative_index: int

    @classmethod
    def of(cls, info) -> Pane:
        timing = _TIMINGS[int(info.timing)]
        return cls(info.is_first, info.is_last, timing, info.index, info.nonspeculative_index)


_TIMINGS = ("EARLY", "ON_TIME", "LATE", "UNKNOWN")


class Element(NamedTuple):
    """An element of a result, with all that the model says of it; value and window are in canonical form."""

    value: str
    timestamp_us: int
    window: str
    pane: Pane

    @classmethod
    def of(cls, value, timestamp, window, info) -> Element:
        return cls(canonical(value), timestamp.micros, canonical(window), Pane.of(info))


def canonical(value: object) -> str:
    """The same text for what is the same thing in both packages, another for what differs in value or type.

    A list, or any other iterable that is no tuple, is a bag: the model promises no order of grouped values. A program
    for which order matters makes a tuple of it.

    >>> canonical([2, 1]) == canonical(iter([1, 2])), canonical((2, 1)) == canonical((1, 2)), canonical(1.0)
    (True, False, '1.0')
    """
    name = type(value).__name__
    if isinstance(value, (str, bytes, bool, int, float, type(None))):
        return repr(value)
    if name in _BY_NAME:
        return _BY_NAME[name](value)
    if isinstance(value, tuple):
        return f"({', '.join(map(canonical, value))})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{canonical(key)}: {canonical(item)}' for key, item in value.items()))}}}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(canonical, value)))}}}"
    if isinstance(value, Iterable):
        return f"[{', '.join(sorted(map(canonical, value)))}]"
    raise TypeError(f"a program put out {value!r} of type {name}, which has no canonical form; map it to plain values")


def _interval(window) -> str:
    return f"[{window.start.micros}, {window.end.micros})"


def _timestamped(value) -> str:
    return f"{canonical(value.value)} at {value.timestamp.micros}"


_BY_NAME = {
    "Timestamp": lambda value: f"Timestamp {value.micros}",
    "Duration": lambda value: f"Duration {value.micros}",
    "IntervalWindow": _interval,
    "GlobalWindow": lambda window: "global",
    "PaneInfo": lambda info: repr(Pane.of(info)),
    "TimestampedValue": _timestamped,
}
