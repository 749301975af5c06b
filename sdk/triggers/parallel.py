"""When: disjunction and conjunction, triggers that run side by side (Streaming 102, "composite triggers")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.composite import Composite, joined
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress


@dataclass(frozen=True, slots=True, init=False)
class Parallel(Composite):
    """Base class of composite triggers whose triggers all receive every element."""

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The progress after new elements, for each trigger that has not finished."""
        if progress is FINISHED:
            return progress
        return joined(
            (
                part if part is FINISHED else trigger.on_elements(part, count, values, moment)
                for trigger, part in self.each(progress)
            ),
            finished=False,
        )

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Merge the progress of each trigger separately."""
        columns = zip(*(self.parts(part) for part in parts), strict=True)
        merged = [trigger.on_merge(column, moment) for trigger, column in zip(self.triggers, columns, strict=True)]
        return joined(merged, finished=self._ends([part is FINISHED for part in merged]))

    def _ends(self, finished: Sequence[bool]) -> bool:
        """Whether this trigger has finished, from whether each of its triggers has."""
        raise TypeError(f"{type(self).__name__} does not say when it has finished")


@named("AfterAny")
@dataclass(frozen=True, slots=True, init=False)
class AfterAny(Parallel):
    """Fires when one of its triggers fires; finishes with the first trigger that finishes (Beam's `AfterAny`).

    >>> from headrace.transforms.trigger import AfterCount, AfterWatermark
    >>> now = Moment(end=60, watermark=0, wall_time=0)
    >>> trigger = AfterAny(AfterCount(2), AfterWatermark())
    >>> trigger.should_fire(trigger.on_elements(None, 2, [], now), now)
    True
    """

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether one of the triggers is ready to fire."""
        return progress is not FINISHED and any(
            trigger.should_fire(part, moment) for trigger, part in self.each(progress)
        )

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """The progress after the firing of the triggers that are ready; the other triggers keep their progress."""
        parts = [
            trigger.on_fire(part, moment) if trigger.should_fire(part, moment) else part
            for trigger, part in self.each(progress)
        ]
        return joined(parts, finished=self._ends([part is FINISHED for part in parts]))

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Whether one of the triggers may finish."""
        return any(trigger.may_finish(allowed_lateness_us) for trigger in self.triggers)

    def _ends(self, finished: Sequence[bool]) -> bool:
        return any(finished)


@named("AfterAll")
@dataclass(frozen=True, slots=True, init=False)
class AfterAll(Parallel):
    """Fires when each of its triggers is ready to fire or has finished; finishes when all have (Beam's `AfterAll`).

    >>> from headrace.transforms.trigger import AfterCount, AfterWatermark
    >>> trigger = AfterAll(AfterCount(2), AfterWatermark())
    >>> now, at_end = (Moment(end=60, watermark=watermark, wall_time=0) for watermark in (0, 60))
    >>> two = trigger.on_elements(None, 2, [], now)
    >>> trigger.should_fire(two, now), trigger.should_fire(two, at_end)
    (False, True)
    """

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether each trigger is ready to fire or has finished."""
        return progress is not FINISHED and all(
            part is FINISHED or trigger.should_fire(part, moment) for trigger, part in self.each(progress)
        )

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """The progress after the firing of all triggers that have not finished."""
        parts = [part if part is FINISHED else trigger.on_fire(part, moment) for trigger, part in self.each(progress)]
        return joined(parts, finished=self._ends([part is FINISHED for part in parts]))

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Whether all triggers may finish."""
        return all(trigger.may_finish(allowed_lateness_us) for trigger in self.triggers)

    def _ends(self, finished: Sequence[bool]) -> bool:
        return all(finished)
