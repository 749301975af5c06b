"""Where: an element that a step has dropped as late (MillWheel paper §4.5; Flink's side output of late data)."""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import Timestamp
from headrace.sdk.windows import BoundedWindow

LATE_DATA: Final = "late data"
"""Tag of the output with what a step drops as late."""


@stored_as("LateElement")
class LateElement(NamedTuple):
    """An element that a step has dropped because one of its windows was closed; see `PTransform.with_late_data`.

    >>> from headrace.sdk.windows import IntervalWindow
    >>> LateElement("red", 7, IntervalWindow(0, 60), Timestamp(20), Timestamp(61)).window
    [0.0, 60.0)
    """

    key: object
    """The key; None if the step has no keys."""
    value: object
    """The value of the pair, or the whole element if the step has no keys."""
    window: BoundedWindow
    """The closed window."""
    timestamp: Timestamp
    """Event time of the element."""
    watermark: Timestamp
    """The step's low watermark when the element arrived."""
