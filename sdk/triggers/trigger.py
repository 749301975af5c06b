"""When: what a trigger is (Streaming 102, "When: triggers"; Beam's `transforms.trigger`).

A `Trigger` is configuration. What it remembers of one window, its *progress*, is a small picklable value that is
stored with the window; None before anything happened. The methods are pure: they take a progress and give the next.
A trigger is asked once a bundle and window, after all elements of the bundle were added, and when a timer is due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple, Self, TypeAlias

Progress: TypeAlias = object
"""What a trigger remembers of a window: None, numbers, and tuples of them; any small picklable value for triggers of
your own. It must not be changed in place."""

FINISHED: Final = ...
"""The progress of a trigger that never fires again; `...`, as that is the same object after storing, and nothing that a
trigger would remember."""


class Moment(NamedTuple):
    """What a trigger can see besides its progress; times in microseconds UTC."""

    end: int
    """End of the window."""
    watermark: int
    """Input low watermark."""
    wall_time: int
    """The wall clock."""
    merging: bool = False
    """Whether windows may merge, so that a window may grow and a trigger have to begin anew."""

    @property
    def past_end(self) -> bool:
        """Whether the watermark has reached the end of the window."""
        return self.watermark >= self.end


class Trigger(ABC):
    """Says when a window's contents so far are put out as a pane.

    Subclass it for a trigger of your own: a frozen dataclass with `on_elements`, `on_merge`, `should_fire` and
    `on_fire`, and whichever of the others differ. It then composes with all others. This one fires when the values
    since the last pane add up to enough:

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
        """Refuse what could not be asked."""
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            raise TypeError(
                f"trigger {cls.__name__} does not define {', '.join(missing)}; "
                "a subclass of Trigger defines on_elements, on_merge, should_fire and on_fire"
            )
        return super().__new__(cls)

    @abstractmethod
    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """Elements were added to the window: how many, and which if `needs_values`."""

    @abstractmethod
    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Windows with these progresses became one, whose end `moment` has. There is at least one."""

    @abstractmethod
    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether it is time for a pane."""

    @abstractmethod
    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """A pane was fired because `should_fire` said so; `FINISHED` if it was the last."""

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """The next wall time after `wall_time` at which to ask again, both microseconds UTC; None for never."""
        return None

    def has_ontime_pane(self) -> bool:
        """Whether it fires because the watermark reaches the end of the window, with or without new elements."""
        return False

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Whether it may finish while elements still come, which are then dropped."""
        return True

    def continuation(self) -> Trigger:
        """The trigger for the next grouping, which gets this one's panes as its elements."""
        return self

    @property
    def quiet_until_end(self) -> bool:
        """Whether nothing happens before the watermark reaches the end of a window: no progress, no firing."""
        return False

    @property
    def needs_values(self) -> bool:
        """Whether `on_elements` looks at the values; else they may be combined before they come."""
        return False

    @property
    def uses_wall_time(self) -> bool:
        """Whether `wake_at` ever names a time."""
        return False


def require_trigger(owner: str, given: object) -> None:
    """Refuse what is no trigger as a part of another one."""
    if not isinstance(given, Trigger):
        raise TypeError(f"{owner} is made of triggers, got {given!r:.200}; write AfterCount(2), say")
