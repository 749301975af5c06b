"""When: triggers on the data themselves: punctuations and flush events (Streaming 102, "When: triggers")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.sdk.triggers.count import AfterCount
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@dataclass(frozen=True, slots=True)
class AfterElement(Trigger):
    """Fires once, when the pane has an element for which `predicate` holds: a punctuation, a flush event.

    As triggers are asked once a bundle, the pane may hold elements that came after it in the same bundle. Values are
    not combined before the shuffle under such a trigger, as the predicate has to see them.

    Args:
        predicate: Takes the value of an element's pair (what a `GroupByKey` collects, what a `CombineFn` gets), and
            returns whether it is one of these. It may be called once more for the same element if a task is retried.

    >>> from headrace.sdk.triggers import Repeatedly
    >>> trigger = Repeatedly(AfterElement(lambda value: value == "flush"))
    >>> now = Moment(end=60, watermark=0, wall_time=0)
    >>> trigger.should_fire(trigger.on_elements(None, 1, ["a"], now), now)
    False
    >>> trigger.should_fire(trigger.on_elements(None, 2, ["b", "flush"], now), now)
    True
    """

    predicate: Callable[[object], object]

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise TypeError(f"AfterElement: predicate is {self.predicate!r:.200}; give a function of a value")

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """True once there was one."""
        return progress if progress is not None else any(map(self.predicate, values)) or None

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Finished if any was; else ready if any is."""
        return FINISHED if any(part is FINISHED for part in parts) else any(parts) or None

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """When there was one."""
        return progress is True

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Finished."""
        return FINISHED

    def continuation(self) -> Trigger:
        """The element was waited for already: each pane that comes is passed on."""
        return AfterCount(1)

    @property
    def needs_values(self) -> bool:
        """Yes."""
        return True
