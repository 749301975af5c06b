"""When: base class of triggers that are made of other triggers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.sdk.triggers.trigger import FINISHED, Progress, Trigger, require_trigger


@dataclass(frozen=True, slots=True, init=False)
class Composite(Trigger):
    """A trigger made of other triggers; its progress is None, `FINISHED`, or a tuple with the progress of each trigger.

    Without triggers, `AfterAll` fires at once and finishes, `AfterAny` and `AfterEach` never fire, as in Beam.

    Raises:
        TypeError: An argument is not a trigger.
    """

    triggers: tuple[Trigger, ...]

    def __init__(self, *triggers: Trigger) -> None:
        for trigger in triggers:
            require_trigger(type(self).__name__, trigger)
        object.__setattr__(self, "triggers", triggers)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.triggers

    def each(self, progress: Progress) -> Iterator[tuple[Trigger, Progress]]:
        """Pairs of each trigger and its progress."""
        return zip(self.triggers, self.parts(progress), strict=True)

    def parts(self, progress: Progress) -> Sequence[Progress]:
        """The progress of each trigger, in the order of `triggers`."""
        if isinstance(progress, tuple):
            return progress
        return (progress if progress is FINISHED else None,) * len(self.triggers)

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """The earliest wall time at which one of the triggers must be evaluated; None if there is none."""
        times = (trigger.wake_at(part, wall_time) for trigger, part in self.each(progress))
        return min((time for time in times if time is not None), default=None)

    def has_ontime_pane(self) -> bool:
        """Whether one of the triggers has an on-time pane."""
        return any(trigger.has_ontime_pane() for trigger in self.triggers)

    def continuation(self) -> Trigger:
        """The same composite of the triggers' continuations."""
        return type(self)(*(trigger.continuation() for trigger in self.triggers))

    @property
    def needs_values(self) -> bool:
        """Whether one of the triggers needs values."""
        return any(trigger.needs_values for trigger in self.triggers)

    @property
    def uses_wall_time(self) -> bool:
        """Whether one of the triggers uses wall time."""
        return any(trigger.uses_wall_time for trigger in self.triggers)


def joined(parts: Iterable[Progress], *, finished: bool) -> Progress:
    """The progress of a composite trigger from that of its triggers, in the smallest form.

    The result is `FINISHED` if `finished` is True, None if all `parts` are None, and else a tuple of the parts.
    """
    if finished:
        return FINISHED
    progress = tuple(parts)
    return progress if any(part is not None for part in progress) else None
