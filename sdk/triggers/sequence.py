"""When: a sequence of triggers, one after the other (Streaming 102, listing 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.composite import Composite
from headrace.sdk.triggers.parallel import AfterAny
from headrace.sdk.triggers.repeatedly import Repeatedly
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@named("AfterEach")
@dataclass(frozen=True, slots=True, init=False)
class AfterEach(Composite):
    """Runs its triggers in turn, each until it has finished; finishes with the last trigger (Beam's `AfterEach`).

    The progress is a tuple: the index of the current trigger, and the progress of that trigger.

    >>> from headrace.transforms.trigger import AfterCount
    >>> now = Moment(end=60, watermark=0, wall_time=0)
    >>> trigger = AfterEach(AfterCount(1), Repeatedly(AfterCount(3)))
    >>> fired = trigger.on_fire(trigger.on_elements(None, 1, [], now), now)
    >>> [trigger.should_fire(trigger.on_elements(fired, count, [], now), now) for count in (1, 3)]
    [False, True]
    """

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The progress after new elements, for the current trigger."""
        if progress is FINISHED or not self.triggers:
            return progress
        turn, part = _turn(progress)
        return _at(turn, self.triggers[turn].on_elements(part, count, values, moment))

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Continue with the first trigger that has not finished after the merge; the triggers after it start again."""
        for turn, trigger in enumerate(self.triggers):
            merged = trigger.on_merge([self.parts(part)[turn] for part in parts], moment)
            if merged is not FINISHED:
                return _at(turn, merged)
        return FINISHED if self.triggers else None

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether the current trigger is ready to fire."""
        if progress is FINISHED or not self.triggers:
            return False
        turn, part = _turn(progress)
        return self.triggers[turn].should_fire(part, moment)

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """The progress after the firing; the next trigger starts if the current one has finished."""
        turn, part = _turn(progress)
        fired = self.triggers[turn].on_fire(part, moment)
        if fired is not FINISHED:
            return _at(turn, fired)
        return FINISHED if turn + 1 == len(self.triggers) else (turn + 1, None)

    def parts(self, progress: Progress) -> Sequence[Progress]:
        """The progress of each trigger: `FINISHED` before the current trigger, None after it."""
        if progress is FINISHED:
            return (FINISHED,) * len(self.triggers)
        turn, part = _turn(progress)
        return (*(FINISHED,) * turn, part, *(None,) * (len(self.triggers) - turn - 1))

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Whether all triggers may finish."""
        return bool(self.triggers) and all(trigger.may_finish(allowed_lateness_us) for trigger in self.triggers)

    def continuation(self) -> Trigger:
        """`Repeatedly` of `AfterAny` of the continuations: the next grouping emits each pane."""
        return Repeatedly(AfterAny(*(trigger.continuation() for trigger in self.triggers)))


def _turn(progress: Progress) -> tuple[int, Progress]:
    return progress if isinstance(progress, tuple) else (0, None)


def _at(turn: int, part: Progress) -> Progress:
    return (turn, part) if turn or part is not None else None
