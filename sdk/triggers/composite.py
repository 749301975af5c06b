"""When: what triggers made of several others have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.sdk.triggers.trigger import FINISHED, Progress, Trigger, require_trigger


@dataclass(frozen=True, slots=True, init=False)
class Composite(Trigger):
    """A trigger made of others; its progress is None, `FINISHED`, or a tuple with each one's progress."""

    triggers: tuple[Trigger, ...]

    def __init__(self, *triggers: Trigger) -> None:
        if not triggers:
            raise ValueError(f"{type(self).__name__} has no trigger; give one or more")
        for trigger in triggers:
            require_trigger(type(self).__name__, trigger)
        object.__setattr__(self, "triggers", triggers)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.triggers

    def each(self, progress: Progress) -> Iterator[tuple[Trigger, Progress]]:
        """The triggers with their progress."""
        return zip(self.triggers, self.parts(progress), strict=True)

    def parts(self, progress: Progress) -> Sequence[Progress]:
        """The progress of each trigger."""
        if isinstance(progress, tuple):
            return progress
        return (progress if progress is FINISHED else None,) * len(self.triggers)

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """The earliest of what the triggers want."""
        times = (trigger.wake_at(its, wall_time) for trigger, its in self.each(progress))
        return min((time for time in times if time is not None), default=None)

    def has_ontime_pane(self) -> bool:
        """If one of them does."""
        return any(trigger.has_ontime_pane() for trigger in self.triggers)

    def continuation(self) -> Trigger:
        """The same of their continuations."""
        return type(self)(*(trigger.continuation() for trigger in self.triggers))

    @property
    def needs_values(self) -> bool:
        """If one of them does."""
        return any(trigger.needs_values for trigger in self.triggers)

    @property
    def uses_wall_time(self) -> bool:
        """If one of them does."""
        return any(trigger.uses_wall_time for trigger in self.triggers)


def joined(parts: Iterable[Progress], *, finished: bool) -> Progress:
    """The progress of a composite from those of its triggers, as small as it can be."""
    if finished:
        return FINISHED
    kept = tuple(parts)
    return kept if any(part is not None for part in kept) else None
