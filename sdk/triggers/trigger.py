"""When: what a trigger is (Streaming 102, "When: triggers"; Beam's `transforms.trigger`).

A `Trigger` is configuration. What it remembers of one window, its *progress*, is a small picklable value that is
stored with the window; None before anything happened. The methods are pure: they take a progress and give the next.
A trigger is asked once a bundle and window, after all elements of the bundle were added, and when a timer is due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

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

    Subclass it for a trigger of your own: a frozen dataclass with the methods below.
    """

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

    def wake_at(self, progress: Progress) -> int | None:
        """The wall time, microseconds UTC, at which to ask again; None for never."""
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
