"""When: the interface of triggers, and how the panes of a window relate (Streaming 102; Beam's `transforms.trigger`).

A `Trigger` is configuration. The state of a trigger for one window, its *progress*, is a small picklable value that is
stored with the window; the progress is None before the first element. The methods are pure: they take a progress and
return the next one. A trigger is evaluated once for each bundle and window, after all elements of the bundle have been
added, and when a timer is due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, Self, TypeAlias

from headrace.lowlevel.stored_names import stored_as

Progress: TypeAlias = object
"""State of a trigger for one window: None, numbers, and tuples of these; any small picklable value for triggers of your
own. A progress must not be changed in place."""

FINISHED: Final = ...
"""Progress of a trigger that never fires again. The value is `...`, because it is the same object after pickling and is
not a progress that a trigger would use otherwise."""


class Moment(NamedTuple):
    """The input of a trigger besides its progress; times are microseconds UTC.

    >>> Moment(end=60_000_000, watermark=59_999_999, wall_time=0).past_end
    False
    """

    end: int
    """End of the window."""
    watermark: int
    """Watermark of the input."""
    wall_time: int
    """Time of the wall clock."""
    merging: bool = False
    """Whether windows may merge, so that a window may grow and its trigger may have to start again."""

    @property
    def past_end(self) -> bool:
        """Whether the watermark has reached the end of the window."""
        return self.watermark >= self.end


class Trigger(ABC):
    """Decides when the contents of a window are emitted as a pane.

    Subclass `Trigger` for a trigger of your own: a frozen dataclass with `on_elements`, `on_merge`, `should_fire` and
    `on_fire`, and with those of the other methods that differ. The trigger then composes with all other triggers. The
    trigger of this example fires when the values since the last pane add up to `enough`:

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class AfterTotal(Trigger):
    ...     enough: int
    ...     needs_values = True
    ...
    ...     def on_elements(self, progress, count, values, moment):
    ...         return progress if progress is FINISHED else (progress or 0) + sum(values)
    ...
    ...     def on_merge(self, parts, moment):
    ...         return FINISHED if FINISHED in parts else sum(part or 0 for part in parts)
    ...
    ...     def should_fire(self, progress, moment):
    ...         return progress not in (None, FINISHED) and progress >= self.enough
    ...
    ...     def on_fire(self, progress, moment):
    ...         return FINISHED
    >>> now = Moment(end=60, watermark=0, wall_time=0)
    >>> trigger = AfterTotal(10)
    >>> trigger.should_fire(trigger.on_elements(trigger.on_elements(None, 1, [7], now), 1, [4], now), now)
    True

    Raises:
        TypeError: The class lacks one of the four methods.
    """

    __slots__ = ()

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Create the trigger; raise TypeError if the class lacks an abstract method."""
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            raise TypeError(
                f"trigger {cls.__name__} does not define {', '.join(missing)}; "
                "a subclass of Trigger defines on_elements, on_merge, should_fire and on_fire"
            )
        return super().__new__(cls)

    @abstractmethod
    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The progress after elements have been added to the window.

        Args:
            progress: The progress before.
            count: Number of elements.
            values: Values of the elements; may be empty unless `needs_values` is True.
            moment: End of the window, watermark and wall time.
        """

    @abstractmethod
    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """The progress of a merged window from the progress of each of its windows, of which there is at least one.

        The end in `moment` is that of the merged window.
        """

    @abstractmethod
    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether the trigger is ready to fire a pane."""

    @abstractmethod
    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """The progress after a pane for which `should_fire` was True; `FINISHED` if the trigger never fires again."""

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """The next wall time after `wall_time` at which to evaluate the trigger (microseconds UTC); None for none."""
        return None

    def has_ontime_pane(self) -> bool:
        """Whether the trigger fires when the watermark reaches the end of the window, with or without new elements."""
        return False

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Whether the trigger may finish while elements still arrive, which are then dropped.

        `allowed_lateness_us` is the allowed lateness of the windowing, microseconds.
        """
        return True

    def continuation(self) -> Trigger:
        """The trigger of the next grouping, whose elements are the panes of this one."""
        return self

    @property
    def quiet_until_end(self) -> bool:
        """Whether the trigger neither fires nor has progress before the watermark reaches the end of a window."""
        return False

    @property
    def needs_values(self) -> bool:
        """Whether `on_elements` reads the values; if not, they may be combined before the shuffle."""
        return any(trigger.needs_values for trigger in self._subtriggers)

    @property
    def uses_wall_time(self) -> bool:
        """Whether `wake_at` may return a time."""
        return any(trigger.uses_wall_time for trigger in self._subtriggers)

    @property
    def _subtriggers(self) -> tuple[Trigger, ...]:
        """The triggers that this one is made of."""
        return ()


class Stateless(Trigger):
    """Base class of triggers that remember nothing of a window."""

    __slots__ = ()

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """None: elements do not matter."""
        return None

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """None: there is nothing to merge."""
        return None

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """None: the trigger may fire again."""
        return None


def require_trigger(owner: str, given: object) -> None:
    """Raise TypeError, with `owner` in its message, if a part of a composite trigger is not a trigger."""
    if not isinstance(given, Trigger):
        raise TypeError(f"{owner} is made of triggers, got {given!r:.200}; write AfterCount(2), say")


@stored_as("AccumulationMode")
class AccumulationMode(Enum):
    """How the panes of one window relate to each other.

    >>> [mode.name for mode in AccumulationMode]
    ['DISCARDING', 'ACCUMULATING', 'ACCUMULATING_AND_RETRACTING']
    """

    DISCARDING = "discarding"
    """Each pane contains only the elements since the previous pane."""
    ACCUMULATING = "accumulating"
    """Each pane contains all elements of the window so far."""
    ACCUMULATING_AND_RETRACTING = "accumulating and retracting"
    """Each pane contains all elements of the window so far, and follows a retraction of the previous pane: an element
    whose `PaneInfo` has `is_retraction`. Later groupings remove the retracted pane from their contents."""
