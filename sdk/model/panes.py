"""How: which pane of its window an element is (Beam's `PaneInfo`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class PaneInfoTiming(IntEnum):
    """When a pane was fired, in relation to the watermark and the end of its window."""

    EARLY = 0
    """Before the watermark reached the end: more is expected."""
    ON_TIME = 1
    """The one for which the watermark said that everything was there."""
    LATE = 2
    """After that, with what the watermark had not foreseen."""
    UNKNOWN = 3
    """Not the result of a firing."""

    @classmethod
    def to_string(cls, value: int) -> str:
        """The name of a timing.

        >>> PaneInfoTiming.to_string(PaneInfoTiming.ON_TIME)
        'ON_TIME'
        """
        return cls(value).name

    @classmethod
    def from_string(cls, value: str) -> PaneInfoTiming:
        """The timing of a name."""
        return cls[value]


@dataclass(frozen=True, slots=True)
class PaneInfo:
    """Which firing of its window a value comes from. The timings of a window's panes are EARLY* ON_TIME? LATE*."""

    is_first: bool
    """Whether the window had no pane before."""
    is_last: bool
    """Whether the window has no pane after it: its trigger has finished, or the window closes with it."""
    timing: PaneInfoTiming
    index: int
    """Number of panes that the window had before."""
    nonspeculative_index: int
    """Number of panes not EARLY that the window had before; -1 for an EARLY one."""
    is_retraction: bool = False
    """Whether it takes the pane of these numbers back."""

    def __reduce__(self) -> tuple[object, ...]:
        return pane_info, (
            self.is_first,
            self.is_last,
            int(self.timing),
            self.index,
            self.nonspeculative_index,
            self.is_retraction,
        )


UNMATCHED_RETRACTIONS = "unmatched_retractions"
"""Counter of a grouping: retractions of what was not there, because it came too late or never."""
_REMEMBERED = 1_000
_known: dict[tuple[object, ...], PaneInfo] = {}


def pane_info(
    is_first: bool,
    is_last: bool,
    timing: int,
    index: int,
    nonspeculative_index: int,
    is_retraction: bool = False,
) -> PaneInfo:
    """A `PaneInfo`, the same object for the same numbers where that is likely to save something.

    >>> pane_info(True, True, PaneInfoTiming.ON_TIME, 0, 0) is pane_info(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    True
    """
    key = (is_first, is_last, timing, index, nonspeculative_index, is_retraction)
    found = _known.get(key)
    if found is None:
        found = PaneInfo(is_first, is_last, PaneInfoTiming(timing), index, nonspeculative_index, is_retraction)
        if len(_known) < _REMEMBERED:
            _known[key] = found
    return found


def is_retraction(pane: object) -> bool:
    """Whether a pane, or None for that of no trigger, takes another back."""
    return isinstance(pane, PaneInfo) and pane.is_retraction


PANE_INFO_UNKNOWN = pane_info(True, True, PaneInfoTiming.UNKNOWN, 0, 0)
"""Of a value that no trigger fired."""
