"""When: triggers on the number of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@dataclass(frozen=True, slots=True)
class AfterCount(Trigger):
    """Fires once, when at least `count` elements are in the pane.

    As triggers are asked once a bundle, the pane may hold more.
    """

    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1:
            raise ValueError(f"AfterCount: count is {self.count!r}; give a whole number of at least 1")

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """Count on."""
        return progress if progress is FINISHED else _counted(progress) + count

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Finished if any was; else all elements count."""
        return FINISHED if any(part is FINISHED for part in parts) else sum(map(_counted, parts))

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """When enough are there."""
        return progress is not FINISHED and _counted(progress) >= self.count

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Finished."""
        return FINISHED

    def continuation(self) -> Trigger:
        """One pane of the grouping before is one element of the next."""
        return AfterCount(1)


def _counted(progress: Progress) -> int:
    return progress if isinstance(progress, int) else 0
