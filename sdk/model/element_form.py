"""Forms of stream records: how a record carries an element's value, windows and pane."""

from __future__ import annotations

from enum import Enum

from headrace.sdk.windows import DaysWindows, FixedWindows, GlobalWindows, MonthsWindows, Sessions, SlidingWindows
from headrace.sdk.windows.windowing import Windowing

_ALWAYS_ONE = (GlobalWindows, FixedWindows, Sessions, DaysWindows, MonthsWindows)
_BY_TIMESTAMP = (*_ALWAYS_ONE, SlidingWindows)


class ElementForm(Enum):
    """How an element of a stream carries its windows and its pane."""

    PLAIN = "plain"
    """The value alone: the windows follow from the timestamp, and no trigger fired the element."""
    FIRED = "fired"
    """(value, window, pane): the output of a grouping."""
    WINDOWED = "windowed"
    """(value, tuple of windows, pane or None)."""
    SIDED = "sided"
    """(value, window, pane or None, side values): the output of a gate, for the step that takes the side values."""


class GroupingInputForm(Enum):
    """Form of a record's payload on a stream into a grouping; the record's value is the pair (key, payload)."""

    PLAIN = "plain"
    """The payload is the value; its windows follow from the timestamp."""
    WINDOWED = "windowed"
    """The payload is a triple: the value, its windows, and its pane or None."""
    LIFTED = "lifted"
    """The payload is a quadruple made by `LiftedCombine`: code of the window (or of an interval whose elements are
    all in the same windows), accumulator, number of elements in the accumulator, and number of elements that are lost
    if the (last) window is closed."""
    SHARDED = "sharded"
    """The payload is a sextuple made by `Shards`: code of the window, accumulator, number of elements in the
    accumulator, number of elements that are lost if the window is closed, event times of the elements or None, and
    number of records that the payload stands for. Code and accumulator are None for elements in no window. A payload of
    0 elements in a window has late ones, which are lost whether or not the window is closed now."""


def plain_form(windowing: Windowing) -> ElementForm:
    """The form of elements that are in exactly the windows that the windowing assigns.

    The form is PLAIN if the windows follow from the timestamp alone, and WINDOWED otherwise.
    """
    return ElementForm.PLAIN if type(windowing.window_fn) in _BY_TIMESTAMP else ElementForm.WINDOWED


def always_one_window(windowing: Windowing) -> bool:
    """Whether the windowing is known to assign exactly one window to each element."""
    return type(windowing.window_fn) in _ALWAYS_ONE
