"""When: repetition (Streaming 102, "composite triggers")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger, require_trigger


@dataclass(frozen=True, slots=True)
class Repeatedly(Trigger):
    """Begins its trigger anew whenever that has finished; never finishes itself."""

    underlying: Trigger

    def __post_init__(self) -> None:
        require_trigger("Repeatedly", self.underlying)

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """For the repeated trigger."""
        return self.underlying.on_elements(progress, count, values, moment)

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """For the repeated trigger."""
        return _anew(self.underlying.on_merge(parts, moment))

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """When the repeated trigger does."""
        return self.underlying.should_fire(progress, moment)

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """From the beginning, if that was its last firing."""
        return _anew(self.underlying.on_fire(progress, moment))

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """When the repeated trigger wants."""
        return self.underlying.wake_at(progress, wall_time)

    def has_ontime_pane(self) -> bool:
        """If the repeated trigger does."""
        return self.underlying.has_ontime_pane()

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """It never does."""
        return False

    def continuation(self) -> Trigger:
        """The repeated trigger's, repeated."""
        return Repeatedly(self.underlying.continuation())

    @property
    def quiet_until_end(self) -> bool:
        """If the repeated trigger is."""
        return self.underlying.quiet_until_end

    @property
    def needs_values(self) -> bool:
        """If the repeated trigger does."""
        return self.underlying.needs_values

    @property
    def uses_wall_time(self) -> bool:
        """If the repeated trigger does."""
        return self.underlying.uses_wall_time


def _anew(progress: Progress) -> Progress:
    return None if progress is FINISHED else progress
