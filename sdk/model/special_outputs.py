"""What: outputs of user functions that have a tag, a timestamp or windows, among them those of other SDKs' classes.

The sources are `apache_beam.pvalue.TaggedOutput`, `apache_beam.transforms.window.TimestampedValue` and
`apache_beam.utils.windowed_value`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import GenericAlias
from typing import Generic, Literal, TypeVar, get_args, get_origin

from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp, TimestampTypes
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN, PaneInfo
from headrace.sdk.windows import BoundedWindow

V = TypeVar("V")


@stored_as("TaggedOutput")
class TaggedOutput:
    """A value that a step emits to the output with a tag instead of the main output.

    Raises:
        TypeError: The tag is not a str.

    >>> TaggedOutput("odd", 3)
    TaggedOutput('odd', 3)
    """

    __slots__ = ("tag", "value")

    def __class_getitem__(cls, parameters: object) -> GenericAlias:
        """The type of values with a tag, for annotations: `TaggedOutput[Literal["odd"], int]`."""
        tag, *types = parameters if isinstance(parameters, tuple) else (parameters,)
        kind: object = get_origin(tag)
        names = get_args(tag)
        if len(types) != 1 or kind is not Literal or len(names) != 1 or not isinstance(names[0], str):
            raise TypeError(
                f"TaggedOutput takes the Literal of one tag and a type, got {parameters!r:.200}; write "
                'TaggedOutput[Literal["odd"], int], say'
            )
        return GenericAlias(cls, (tag, *types))

    def __init__(self, tag: str, value: object) -> None:
        if not isinstance(tag, str):
            raise TypeError(f"the tag of a TaggedOutput must be a str, got {tag!r}")
        self.tag = tag
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaggedOutput) and (self.tag, self.value) == (other.tag, other.value)

    def __hash__(self) -> int:
        return hash((self.tag, self.value))

    def __repr__(self) -> str:
        return f"TaggedOutput({self.tag!r}, {self.value!r})"


@stored_as("TimestampedValue")
@dataclass(frozen=True, order=True, init=False)
class TimestampedValue(Generic[V]):
    """An output of a function with its own timestamp (seconds since 1970 UTC, or a `Timestamp`).

    >>> TimestampedValue("britney", 12)
    TimestampedValue(value='britney', timestamp=Timestamp(12))
    """

    # Not by `slots=True`: such a frozen class does not bear what `TimestampedValue[str](...)` sets on its instances.
    __slots__ = ("timestamp", "value")

    value: V
    timestamp: Timestamp

    def __init__(self, value: V, timestamp: TimestampTypes) -> None:
        at = Timestamp.of(timestamp)
        if not MIN_TIMESTAMP <= at.micros <= MAX_TIMESTAMP:
            raise ValueError(
                f"{value!r:.200} is given the timestamp {at.micros / 1e6:g} s, beyond the year 294000, where time "
                "ends; timestamps are seconds, or Timestamp(micros=...)"
            )
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "timestamp", at)

    def __getstate__(self) -> list[object]:
        return [self.value, self.timestamp]

    def __setstate__(self, state: tuple[V, Timestamp]) -> None:
        for name, value in zip(("value", "timestamp"), state, strict=True):
            object.__setattr__(self, name, value)


@stored_as("WindowedValue")
@dataclass(frozen=True, slots=True, init=False)
class WindowedValue:
    """A value with its timestamp (in seconds since 1970 UTC, or a `Timestamp`), its windows and its pane.

    A function emits a `WindowedValue` to choose the windows itself.

    >>> from headrace.sdk.windows import GlobalWindow
    >>> WindowedValue("britney", 12, [GlobalWindow()]).timestamp
    Timestamp(12)
    """

    value: object
    timestamp: Timestamp
    windows: tuple[BoundedWindow, ...]
    pane_info: PaneInfo

    def __init__(
        self,
        value: object,
        timestamp: TimestampTypes,
        windows: Iterable[BoundedWindow],
        pane_info: PaneInfo = PANE_INFO_UNKNOWN,
    ) -> None:
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "timestamp", Timestamp.of(timestamp))
        object.__setattr__(self, "windows", tuple(windows))
        object.__setattr__(self, "pane_info", pane_info)

    def with_value(self, new_value: object) -> WindowedValue:
        """The same element with another value."""
        return WindowedValue(new_value, self.timestamp, self.windows, self.pane_info)


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


NO_OUTPUTS = frozenset({str, bytes, dict})
"""Iterables that are no outputs of a function for an element, but most likely one output that was to be yielded."""


def require_outputs(results: object) -> None:
    """Raise TypeError if results of a function are no iterable of outputs."""
    if not hasattr(results, "__iter__") or results.__class__ in NO_OUTPUTS:
        raise TypeError(
            f"the function returned the {type(results).__name__} {results!r:.80}, which is no iterable of outputs; "
            "yield it, or return a list with it"
        )
