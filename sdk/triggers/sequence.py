"""When: sequence, triggers one after the other (Streaming 102, listing 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.triggers.composite import Composite
from headrace.sdk.triggers.parallel import AfterAny
from headrace.sdk.triggers.repeatedly import Repeatedly
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@dataclass(frozen=True, slots=True, init=False)
class AfterEach(Composite):
    """Runs its triggers in turn, each until it has finished; finishes with the last.

    Its progress is the number of the current trigger and that one's progress.
    """

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """For the current trigger."""
        if progress is FINISHED:
            return progress
        turn, its = _turn(progress)
        return _at(turn, self.triggers[turn].on_elements(its, count, values, moment))

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """On from the first trigger that is not finished once it is merged; those after it begin anew."""
        for turn, trigger in enumerate(self.triggers):
            merged = trigger.on_merge([self.parts(part)[turn] for part in parts], moment)
            if merged is not FINISHED:
                return _at(turn, merged)
        return FINISHED

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """When the current trigger does."""
        if progress is FINISHED:
            return False
        turn, its = _turn(progress)
        return self.triggers[turn].should_fire(its, moment)

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """On to the next trigger if the current one has finished."""
        turn, its = _turn(progress)
        fired = self.triggers[turn].on_fire(its, moment)
        if fired is not FINISHED:
            return _at(turn, fired)
        return FINISHED if turn + 1 == len(self.triggers) else (turn + 1, None)

    def parts(self, progress: Progress) -> Sequence[Progress]:
        """Finished before the current trigger, not begun after it."""
        if progress is FINISHED:
            return (FINISHED,) * len(self.triggers)
        turn, its = _turn(progress)
        return (*(FINISHED,) * turn, its, *(None,) * (len(self.triggers) - turn - 1))

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """If all may."""
        return all(trigger.may_finish(allowed_lateness_us) for trigger in self.triggers)

    def continuation(self) -> Trigger:
        """Whichever of the panes comes is passed on."""
        return Repeatedly(AfterAny(*(trigger.continuation() for trigger in self.triggers)))


def _turn(progress: Progress) -> tuple[int, Progress]:
    return progress if isinstance(progress, tuple) else (0, None)


def _at(turn: int, its: Progress) -> Progress:
    return (turn, its) if turn or its is not None else None
