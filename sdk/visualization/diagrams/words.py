"""Window functions and triggers in short form."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass

from headrace.lowlevel.time import Duration, Timestamp


def short(value: object) -> str:
    """A value as a program would write it, without default arguments; times are seconds.

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
    parts, positional = [], True
    for argument in (argument for argument in fields(value) if not argument.name.startswith("_")):
        content = getattr(value, argument.name)
        if _is_default(argument, content):
            # The arguments after one that is left out need names.
            positional = False
        else:
            parts.append(short(content) if positional else f"{argument.name}={short(content)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def _is_default(argument: Field[object], value: object) -> bool:
    if argument.default_factory is not MISSING:
        return value == argument.default_factory()
    # None and a time of zero always count as defaults.
    default = None if argument.default is MISSING else argument.default
    return value is None or value == default or (isinstance(value, Duration | Timestamp) and value.micros == 0)
