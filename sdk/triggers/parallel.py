"""When: disjunction and conjunction, triggers that run side by side (Streaming 102, "composite triggers")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.triggers.composite import Composite, joined
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress


@dataclass(frozen=True, slots=True, init=False)
class Parallel(Composite):
    """Triggers that all see every element."""

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """For each that has not finished."""
        if progress is FINISHED:
            return progress
        return joined(
            (
                its if its is FINISHED else trigger.on_elements(its, count, values, moment)
                for trigger, its in self.each(progress)
            ),
            finished=False,
        )

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Each by itself."""
        columns = zip(*(self.parts(part) for part in parts), strict=True)
        merged = [trigger.on_merge(column, moment) for trigger, column in zip(self.triggers, columns, strict=True)]
        return joined(merged, finished=self._ends([part is FINISHED for part in merged]))

    def _ends(self, finished: Sequence[bool]) -> bool:
        """Whether this has finished when these have."""
        raise TypeError(f"{type(self).__name__} does not say when it has finished")


@dataclass(frozen=True, slots=True, init=False)
class AfterAny(Parallel):
    """Fires when any of its triggers does; finishes with the first that finishes (Beam's `AfterAny`)."""

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """When one does."""
        return progress is not FINISHED and any(
            trigger.should_fire(its, moment) for trigger, its in self.each(progress)
        )

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Those that fired move on."""
        parts = [
            trigger.on_fire(its, moment) if trigger.should_fire(its, moment) else its
            for trigger, its in self.each(progress)
        ]
        return joined(parts, finished=self._ends([part is FINISHED for part in parts]))

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """If one may."""
        return any(trigger.may_finish(allowed_lateness_us) for trigger in self.triggers)

    def _ends(self, finished: Sequence[bool]) -> bool:
        return any(finished)


@dataclass(frozen=True, slots=True, init=False)
class AfterAll(Parallel):
    """Fires when all of its triggers are ready to, or have finished; finishes when all have (Beam's `AfterAll`)."""

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """When all are ready."""
        return progress is not FINISHED and all(
            its is FINISHED or trigger.should_fire(its, moment) for trigger, its in self.each(progress)
        )

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """All move on."""
        parts = [its if its is FINISHED else trigger.on_fire(its, moment) for trigger, its in self.each(progress)]
        return joined(parts, finished=self._ends([part is FINISHED for part in parts]))

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """If all may."""
        return all(trigger.may_finish(allowed_lateness_us) for trigger in self.triggers)

    def _ends(self, finished: Sequence[bool]) -> bool:
        return all(finished)
