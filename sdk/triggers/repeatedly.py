"""When: repetition of a trigger (Streaming 102, "composite triggers")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger, require_trigger


@named("Repeatedly")
@dataclass(frozen=True, slots=True)
class Repeatedly(Trigger):
    """Starts its trigger again whenever that trigger has finished; never finishes.

    Raises TypeError if `underlying` is not a trigger.

    >>> from headrace.transforms.trigger import AfterCount
    >>> now, fires = Moment(end=60, watermark=0, wall_time=0), []
    >>> trigger, progress = Repeatedly(AfterCount(2)), None
    >>> for _ in range(4):
    ...     progress = trigger.on_elements(progress, 1, [], now)
    ...     fires.append(trigger.should_fire(progress, now))
    ...     progress = trigger.on_fire(progress, now) if fires[-1] else progress
    >>> fires
    [False, True, False, True]
    """

    underlying: Trigger

    def __post_init__(self) -> None:
        require_trigger("Repeatedly", self.underlying)

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The progress of the repeated trigger after new elements."""
        return self.underlying.on_elements(progress, count, values, moment)

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """The merged progress of the repeated trigger; None if that trigger has finished."""
        return _anew(self.underlying.on_merge(parts, moment))

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether the repeated trigger is ready to fire."""
        return self.underlying.should_fire(progress, moment)

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """The progress of the repeated trigger after the firing; None if that trigger has finished."""
        return _anew(self.underlying.on_fire(progress, moment))

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """The next wall time at which the repeated trigger must be evaluated."""
        return self.underlying.wake_at(progress, wall_time)

    def has_ontime_pane(self) -> bool:
        """Whether the repeated trigger has an on-time pane."""
        return self.underlying.has_ontime_pane()

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Return False: this trigger never finishes."""
        return False

    def continuation(self) -> Trigger:
        """`Repeatedly` of the continuation of the repeated trigger."""
        return Repeatedly(self.underlying.continuation())

    @property
    def quiet_until_end(self) -> bool:
        """Whether the repeated trigger is quiet until the end of the window."""
        return self.underlying.quiet_until_end

    @property
    def needs_values(self) -> bool:
        """Whether the repeated trigger needs values."""
        return self.underlying.needs_values

    @property
    def uses_wall_time(self) -> bool:
        """Whether the repeated trigger uses wall time."""
        return self.underlying.uses_wall_time


def _anew(progress: Progress) -> Progress:
    return None if progress is FINISHED else progress
