"""What: outputs of user functions that say more than a value, among them those of other SDKs' classes."""

from __future__ import annotations

from collections.abc import Callable

from headrace.lowlevel.time import Timestamp
from headrace.sdk.model.tagged_output import TaggedOutput
from headrace.sdk.model.windowed_value import WindowedValue
from headrace.sdk.windows import TimestampedValue

Convert = Callable[[object], object]
SPECIAL: set[type] = {TaggedOutput, TimestampedValue, WindowedValue}
"""Classes of outputs that carry a tag, a timestamp or windows."""
STAMPED: set[type] = {TimestampedValue}
"""Those of them that are a `value` with a `timestamp.micros`, made of a value and an instant or seconds."""
INSTANTS: set[type] = {Timestamp}
"""Classes of instants, which are made of whole seconds, or of whole microseconds by the argument `micros`."""
_CONVERSIONS: dict[type, Convert] = {}


def register_output(kind: type, convert: Convert, *, stamped: bool = False) -> None:
    """Treat instances of another SDK's class as the output that `convert` makes of them.

    Args:
        kind: The class.
        convert: From an instance to one of a class of this package.
        stamped: Whether instances are a `value` with a `timestamp.micros`, and nothing else.
    """
    _CONVERSIONS[kind] = convert
    if stamped:
        STAMPED.add(kind)
    SPECIAL.add(kind)


def register_instant(kind: type) -> None:
    """Treat instances of another SDK's class as the instants of this one."""
    INSTANTS.add(kind)


def converted(output: object) -> object:
    """The output as an instance of a class of this package, or as it is."""
    convert = _CONVERSIONS.get(output.__class__)
    return output if convert is None else convert(output)
