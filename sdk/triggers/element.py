"""When: triggers on the data themselves: punctuations and flush events (Streaming 102, "When: triggers")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.count import AfterCount
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@named("AfterElement")
@dataclass(frozen=True, slots=True)
class AfterElement(Trigger):
    """Fires once, when the pane has an element for which `predicate` holds: a punctuation, a flush event.

    A trigger is evaluated once a bundle, so that the pane may contain elements that arrived later in the same bundle.
    Values are not combined before the shuffle under this trigger, because the predicate is called with them.

    Args:
        predicate: Takes the value of an element's pair (what a `GroupByKey` collects, or the input of a `CombineFn`),
            and returns whether the element fires the pane. It may be called again for the same element if a task is
            retried.

    Raises:
        TypeError: `predicate` is not callable.

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
        """Return True once the predicate holds for an element, None before that."""
        return progress if progress is not None else any(map(self.predicate, values)) or None

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """`FINISHED` if one of the triggers has finished; else True if the predicate holds for any of the elements."""
        return FINISHED if any(part is FINISHED for part in parts) else any(parts) or None

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether the predicate holds for an element of the pane."""
        return progress is True

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Return `FINISHED`."""
        return FINISHED

    def continuation(self) -> Trigger:
        """`AfterCount(1)`: the next grouping emits each pane of this grouping."""
        return AfterCount(1)

    @property
    def needs_values(self) -> bool:
        """True: the predicate is called with the values."""
        return True
