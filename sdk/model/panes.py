"""How: the pane of an element (Beam's `PaneInfo`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from headrace.lowlevel.stored_names import stored_as


@stored_as("PaneInfoTiming")
class PaneInfoTiming(IntEnum):
    """When a pane was fired, relative to the watermark and the end of its window.

    >>> PaneInfoTiming.ON_TIME.name, PaneInfoTiming.from_string("EARLY") == PaneInfoTiming.EARLY
    ('ON_TIME', True)
    """

    EARLY = 0
    """The pane fired before the watermark passed the end of the window; more panes may follow."""
    ON_TIME = 1
    """The pane fired when the watermark passed the end of the window."""
    LATE = 2
    """The pane fired after the on-time pane, for late elements."""
    UNKNOWN = 3
    """No trigger fired the pane."""

    @classmethod
    def to_string(cls, value: int) -> str:
        """The name of a timing.

        >>> PaneInfoTiming.to_string(PaneInfoTiming.ON_TIME)
        'ON_TIME'
        """
        return cls(value).name

    @classmethod
    def from_string(cls, value: str) -> PaneInfoTiming:
        """The timing with a name. Raises `KeyError` for an unknown name."""
        return cls[value]


@dataclass(frozen=True, slots=True)
class PaneInfo:
    """The pane of an element: which firing of the window emitted it. A window's timings are EARLY* ON_TIME? LATE*.

    >>> import headrace as beam
    >>> def show(element, pane=beam.DoFn.PaneInfoParam):
    ...     print(element, pane.timing.name, pane.index, pane.is_last)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("red", 5)]) | beam.CombinePerKey(sum) | beam.Map(show)
    ('red', 5) ON_TIME 0 True
    """

    is_first: bool
    """Whether the window had no earlier pane."""
    is_last: bool
    """Whether the window has no later pane, as its trigger has finished or the window closes with this pane."""
    timing: PaneInfoTiming
    index: int
    """Number of earlier panes of the window."""
    nonspeculative_index: int
    """Number of earlier panes of the window that were not EARLY; -1 if this pane is EARLY."""
    is_retraction: bool = False
    """Whether the element retracts the earlier pane with the same index."""
    caused_by_drain: bool = field(default=False, init=False)
    """Whether a drain has fired the pane, or the timer that the element comes from, before its time (Beam's
    `CausedByDrain`). As a part of a key, a pane has no mark, so that its bytes are those of earlier releases."""


UNMATCHED_RETRACTIONS = "unmatched_retractions"
"""Counter of a grouping: retractions of values that the grouping does not hold, as they were dropped or never came."""
_REMEMBERED = 1_000
_known: dict[tuple[object, ...], PaneInfo] = {}


def pane_info(
    is_first: bool,
    is_last: bool,
    timing: int,
    index: int,
    nonspeculative_index: int,
    is_retraction: bool = False,
    caused_by_drain: bool = False,
) -> PaneInfo:
    """A `PaneInfo`; the first 1,000 different ones are cached, so equal arguments give the same object.

    >>> pane_info(True, True, PaneInfoTiming.ON_TIME, 0, 0) is pane_info(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    True
    """
    key = (is_first, is_last, timing, index, nonspeculative_index, is_retraction, caused_by_drain)
    found = _known.get(key)
    if found is None:
        found = PaneInfo(is_first, is_last, PaneInfoTiming(timing), index, nonspeculative_index, is_retraction)
        object.__setattr__(found, "caused_by_drain", caused_by_drain)
        if len(_known) < _REMEMBERED:
            _known[key] = found
    return found


def _numbers_of(pane: PaneInfo) -> tuple[object, ...]:
    numbers = pane.is_first, pane.is_last, int(pane.timing), pane.index, pane.nonspeculative_index, pane.is_retraction
    # Earlier releases read what has six numbers.
    return (*numbers, True) if pane.caused_by_drain else numbers


stored_as("PaneInfo", pane_info, _numbers_of)(PaneInfo)


def pane_of_window(index: int, nonspeculative: int, timing: int, is_last: bool) -> PaneInfo:
    """The pane that a window emits after `index` panes, of which `nonspeculative` were not EARLY.

    >>> pane_of_window(1, 0, PaneInfoTiming.EARLY, False)
    PaneInfo(is_first=False, is_last=False, timing=<PaneInfoTiming.EARLY: 0>, index=1, nonspeculative_index=-1, ...)
    """
    return pane_info(index == 0, is_last, timing, index, -1 if timing == PaneInfoTiming.EARLY else nonspeculative)


def retraction_of(pane: PaneInfo) -> PaneInfo:
    """The pane of the element that retracts an element of `pane`.

    >>> retraction_of(PANE_INFO_UNKNOWN).is_retraction
    True
    """
    return pane_info(pane.is_first, pane.is_last, pane.timing, pane.index, pane.nonspeculative_index, True)


def is_retraction(pane: object) -> bool:
    """Whether a pane is a retraction; None, the pane of an element that no trigger fired, is not."""
    return isinstance(pane, PaneInfo) and pane.is_retraction


PANE_INFO_UNKNOWN = pane_info(True, True, PaneInfoTiming.UNKNOWN, 0, 0)
"""The pane of a value that no trigger fired."""


def drained(pane: PaneInfo | None) -> PaneInfo:
    """The pane of an element that a drain has caused; None is the pane of an element that no trigger fired.

    >>> drained(None).caused_by_drain, drained(drained(None)) is drained(None)
    (True, True)
    """
    own = PANE_INFO_UNKNOWN if pane is None else pane
    numbers = own.is_first, own.is_last, own.timing, own.index, own.nonspeculative_index
    return pane_info(*numbers, own.is_retraction, caused_by_drain=True)
