"""When: triggers on the number of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@named("AfterCount")
@dataclass(frozen=True, slots=True)
class AfterCount(Trigger):
    """Fires once, when at least `count` elements are in the pane.

    A trigger is evaluated once a bundle, so that the pane may contain more elements. Raises ValueError if `count` is
    not an int of at least 1.

    >>> now = Moment(end=60, watermark=0, wall_time=0)
    >>> [AfterCount(2).should_fire(AfterCount(2).on_elements(None, count, [], now), now) for count in (1, 2)]
    [False, True]
    """

    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1:
            raise ValueError(f"AfterCount: count is {self.count!r}; give a whole number of at least 1")

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """Add the number of new elements to the progress, which is the number of elements since the last pane."""
        return progress if progress is FINISHED else _counted(progress) + count

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """`FINISHED` if one of the triggers has finished; else the sum of the numbers of elements."""
        return FINISHED if any(part is FINISHED for part in parts) else sum(map(_counted, parts))

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether at least `count` elements are in the pane."""
        return progress is not FINISHED and _counted(progress) >= self.count

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Return `FINISHED`."""
        return FINISHED

    def continuation(self) -> Trigger:
        """`AfterCount(1)`: one pane of this grouping is one element of the next grouping."""
        return AfterCount(1)


def _counted(progress: Progress) -> int:
    return progress if isinstance(progress, int) else 0
