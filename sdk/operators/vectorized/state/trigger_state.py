"""When: the progress of a trigger, reconstructed from the columns of a window's line; see `trigger_conditions`."""

from __future__ import annotations

from headrace.sdk.triggers import AfterAll, AfterAny, AfterCount, AfterWatermark, Progress, Repeatedly, Trigger
from headrace.sdk.triggers.composite import joined
from headrace.sdk.triggers.processing_time import AtWallTime


def progress_of(trigger: Trigger, fresh: int, wake: int | None, ended: bool) -> Progress:
    """The progress of a trigger that counts elements or waits for wall times.

    Args:
        trigger: A trigger that `Firing` supports, with any counts and times.
        fresh: Elements since the last pane.
        wake: The wall time that the next pane waits for, microseconds UTC; None for none.
        ended: Whether the watermark has reached the end of the window.

    >>> progress_of(AfterWatermark(early=AfterCount(5)), 3, None, False)
    (False, 3, None)
    """
    if not isinstance(trigger, AfterWatermark):
        return _waiting(trigger, fresh, wake)
    part = trigger.late if ended else trigger.early
    waiting = None if part is None else _waiting(part, fresh, wake)
    if ended:
        return True, None, waiting
    return None if waiting is None else (False, waiting, None)


def _waiting(trigger: Trigger, fresh: int, wake: int | None) -> Progress:
    """The progress of a trigger that starts again whenever it has fired."""
    if isinstance(trigger, Repeatedly):
        return _waiting(trigger.underlying, fresh, wake)
    if isinstance(trigger, AfterCount):
        return fresh or None
    if isinstance(trigger, AtWallTime):
        return wake
    if isinstance(trigger, (AfterAny, AfterAll)):
        return joined((_waiting(part, fresh, wake) for part in trigger.triggers), finished=False)
    return None
