"""When: triggers on the elements of a pane (Streaming 102, "When: triggers")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Stateless, Trigger


@named("Always")
@dataclass(frozen=True, slots=True)
class Always(Stateless):
    """Fires at every evaluation: one pane for each bundle of a window's elements.

    >>> Always().should_fire(None, Moment(end=60, watermark=0, wall_time=0))
    True
    """

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Return True."""
        return True

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Return False: this trigger never finishes."""
        return False


@named("Never")
@dataclass(frozen=True, slots=True)
class Never(Stateless):
    """Never fires: the contents of a window are emitted when it closes, which is the allowed lateness after its end.

    >>> Never().should_fire(None, Moment(end=60, watermark=60, wall_time=0))
    False
    """

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Return False."""
        return False

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Return False: no elements are dropped, because a window emits all its contents when it closes."""
        return False

    @property
    def quiet_until_end(self) -> bool:
        """True: this trigger fires neither before the end of a window nor after it."""
        return True


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
