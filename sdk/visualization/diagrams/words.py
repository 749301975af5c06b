"""Window functions and triggers in as few words as it takes to tell them apart."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass

from headrace.lowlevel.time import Duration, Timestamp


def short(value: object) -> str:
    """A value as a program would write it: what is not given is left out, times are seconds.

    >>> from headrace.sdk.triggers import AfterCount, AfterWatermark
    >>> from headrace.sdk.windows import FixedWindows, SlidingWindows
    >>> short(FixedWindows(60)), short(SlidingWindows(60, 15)), short(AfterWatermark(late=AfterCount(1)))
    ('FixedWindows(60)', 'SlidingWindows(60, 15)', 'AfterWatermark(late=Repeatedly(AfterCount(1)))')
    """
    if isinstance(value, Duration | Timestamp):
        return f"{value.micros / 1e6:g}"
    if isinstance(value, tuple | list):
        return ", ".join(map(short, value))
    if isinstance(value, type) or not is_dataclass(value):
        return str(value)
    parts, whole = [], True
    for each in (each for each in fields(value) if not each.name.startswith("_")):
        own = getattr(value, each.name)
        if _is_default(each, own):
            whole = False
        else:
            # Behind one that is left out, names are needed.
            parts.append(short(own) if whole else f"{each.name}={short(own)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def _is_default(given: Field[object], value: object) -> bool:
    if given.default_factory is not MISSING:
        return value == given.default_factory()
    # Where there is none, nothing or zero is what is not said.
    default = None if given.default is MISSING else given.default
    return value is None or value == default or (isinstance(value, Duration | Timestamp) and value.micros == 0)
