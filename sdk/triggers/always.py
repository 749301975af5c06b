"""When: the triggers `Always`, which fires after every bundle, and `Never`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@named("Always")
@dataclass(frozen=True, slots=True)
class Always(Trigger):
    """Fires at every evaluation: one pane for each bundle of a window's elements.

    >>> Always().should_fire(None, Moment(end=60, watermark=0, wall_time=0))
    True
    """

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """Return None: this trigger has no progress."""
        return None

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Return None: this trigger has no progress."""
        return None

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Return True."""
        return True

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Return None: this trigger never finishes."""
        return None

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Return False: this trigger never finishes."""
        return False


@named("Never")
@dataclass(frozen=True, slots=True)
class Never(Trigger):
    """Never fires: the contents of a window are emitted when it closes, which is the allowed lateness after its end.

    >>> Never().should_fire(None, Moment(end=60, watermark=60, wall_time=0))
    False
    """

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """Return None: this trigger has no progress."""
        return None

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Return None: this trigger has no progress."""
        return None

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Return False."""
        return False

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Return `FINISHED`; not called, because this trigger never fires."""
        return FINISHED

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Return False: no elements are dropped, because a window emits all its contents when it closes."""
        return False

    @property
    def quiet_until_end(self) -> bool:
        """True: this trigger fires neither before the end of a window nor after it."""
        return True
