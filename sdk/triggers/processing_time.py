"""When: triggers on the progress of wall time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.time import SECOND
from headrace.sdk.triggers.always import Always
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@dataclass(frozen=True, slots=True)
class AfterProcessingTime(Trigger):
    """Fires once, `delay` seconds of wall time after the first element of the pane came."""

    delay: float = 0

    def __post_init__(self) -> None:
        if self.delay < 0:
            raise ValueError(f"AfterProcessingTime: delay is {self.delay!r} s; give 0 or more seconds")

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The first element sets the time."""
        return moment.wall_time + int(self.delay * SECOND) if progress is None else progress

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """The earliest time of all; finished only if all were."""
        going = [part for part in parts if part is not FINISHED]
        return min((part for part in going if isinstance(part, int)), default=None) if going else FINISHED

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Once the time has come."""
        return isinstance(progress, int) and moment.wall_time >= progress

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Finished."""
        return FINISHED

    def wake_at(self, progress: Progress) -> int | None:
        """The time."""
        return progress if isinstance(progress, int) else None

    def continuation(self) -> Trigger:
        """The delay was waited for already: what comes is passed on."""
        return Always()

    @property
    def uses_wall_time(self) -> bool:
        """Yes."""
        return True
