"""When: the triggers that fire at every opportunity and at none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@dataclass(frozen=True, slots=True)
class Always(Trigger):
    """Fires whenever it is asked: one pane for each bundle of a window's elements."""

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """Nothing to remember."""
        return None

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Nothing to remember."""
        return None

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Always."""
        return True

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """It never finishes."""
        return None

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """It never does."""
        return False


@dataclass(frozen=True, slots=True)
class Never(Trigger):
    """Never fires: a window's contents come out when it closes, allowed lateness after its end."""

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """Nothing to remember."""
        return None

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Nothing to remember."""
        return None

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Never."""
        return False

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Not called, as it never fires."""
        return FINISHED

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Nothing is lost: closing the window puts everything out."""
        return False

    @property
    def quiet_until_end(self) -> bool:
        """Yes, and after it."""
        return True
