"""Event times of elements that a source reads: a field of the element, or the result of a function of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeAlias, cast

from headrace.lowlevel.stored_names import addressed
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MIN_TIMESTAMP, SECOND, Duration, DurationTypes, Timestamp
from headrace.sdk.model.row import Row

TimestampOf: TypeAlias = str | Callable[[object], object] | None
"""Name of a field or function of the element that gives its event time: a `Timestamp`, seconds since 1970 UTC, a
datetime with a time zone or RFC 3339 text. None for no event time."""


@addressed("BadTimestamp")
class BadTimestamp(ValueError):
    """An element without a valid event time; `index` is its index among the elements given."""

    def __init__(self, index: int, element: object, reason: object) -> None:
        super().__init__(f"timestamp of {element!r:.200}: {reason}")
        self.index = index


def micros_of(value: object) -> int:
    """An instant in microseconds UTC. Raises `ValueError` for a value that is none.

    >>> micros_of(1.5), micros_of("1970-01-01T00:00:02Z")
    (1500000, 2000000)
    """
    if isinstance(value, Timestamp):
        return value.micros
    if isinstance(value, str):
        return Timestamp.from_rfc3339(value).micros
    if isinstance(value, (int, float, datetime)) and value is not True and value is not False:
        return Timestamp.of(value).micros
    raise ValueError(f"{value!r:.80} is no timestamp; give seconds, a Timestamp, a datetime or RFC 3339 text")


def timestamps_of(elements: Sequence[object], timestamp: TimestampOf, otherwise: int = MIN_TIMESTAMP) -> list[int]:
    """The event time of each element, microseconds UTC, in a list of equal length; `otherwise` if `timestamp` is None.

    Raises `BadTimestamp` for the first element without an event time, or for an event time outside all windows.
    """
    if timestamp is None:
        return [otherwise] * len(elements)
    stamps: list[int] = []
    try:
        if callable(timestamp):
            stamps.extend(micros_of(timestamp(element)) for element in elements)
        elif (seconds := _whole_seconds(elements, timestamp)) is not None:
            stamps.extend(second * SECOND for second in seconds)
        else:
            stamps.extend(micros_of(_field(element, timestamp)) for element in elements)
    except Exception as error:
        raise BadTimestamp(len(stamps), elements[len(stamps)], error) from error
    check_range(stamps, elements)
    return stamps


def _whole_seconds(elements: Sequence[object], name: str) -> list[int] | None:
    """A field that is a whole number in all elements; else None. Making an instant of each takes half a microsecond."""
    kinds = set(map(type, elements))
    if kinds not in ({dict}, {Row}):
        return None
    records = cast("Iterable[dict[str, object]]", elements if kinds == {dict} else map(vars, elements))
    found = [record.get(name) for record in records]
    return cast("list[int]", found) if set(map(type, found)) == {int} else None


def check_range(stamps: Sequence[int], elements: Sequence[object]) -> None:
    """Raise `BadTimestamp` for an event time outside all windows, as its window would never end.

    >>> try:
    ...     check_range([0, 10**30], ["a", "b"])
    ... except BadTimestamp as error:
    ...     print(error.index, error)
    1 timestamp of 'b': 1e+24 seconds since 1970 are beyond the year 294000, where time ends; give seconds, ...
    """
    if stamps and (min(stamps) < MIN_TIMESTAMP or max(stamps) >= END_OF_GLOBAL_WINDOW):
        index = next(i for i, stamp in enumerate(stamps) if not MIN_TIMESTAMP <= stamp < END_OF_GLOBAL_WINDOW)
        reason = f"{stamps[index] / 1e6:g} seconds since 1970 are beyond the year 294000, where time ends; "
        raise BadTimestamp(index, elements[index], reason + "give seconds, or a function that makes seconds of it")


def _field(element: object, name: str) -> object:
    if isinstance(element, dict):
        if name not in element:
            raise ValueError(f"row has no field {name!r}; it has {', '.join(map(str, element))}")
        return element[name]
    return getattr(element, name)


def now_micros() -> int:
    """The current time in microseconds UTC."""
    return time.time_ns() // 1000


def check_timestamp(timestamp: TimestampOf, max_delay: DurationTypes | None) -> int | None:
    """`max_delay` in microseconds, or None. Raises `TypeError` or `ValueError` if the arguments do not fit."""
    if timestamp is not None and not isinstance(timestamp, str) and not callable(timestamp):
        raise TypeError(f"timestamp must be the name of a field or a function, got {timestamp!r}")
    if max_delay is None:
        return None
    if timestamp is None:
        raise ValueError("max_delay is given without timestamp; name the field or function that gives the event time")
    return delay_micros(max_delay)


def delay_micros(max_delay: DurationTypes) -> int:
    """`max_delay` in microseconds. Raises `ValueError` for a negative or infinite delay."""
    micros = Duration.of(max_delay).micros
    if micros < 0:
        raise ValueError(f"max_delay is {max_delay!r:.80} s; give 0 or more seconds")
    return micros


def ahead_micros(max_ahead: DurationTypes | None) -> int | None:
    """`max_ahead` in microseconds; None for no bound.

    >>> ahead_micros(60), ahead_micros(None)
    (60000000, None)
    """
    return None if max_ahead is None else Duration.of(max_ahead).micros
