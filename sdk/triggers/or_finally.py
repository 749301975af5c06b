"""When: a trigger that another one ends (Streaming 102, listing 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.triggers.composite import joined
from headrace.sdk.triggers.parallel import AfterAny
from headrace.sdk.triggers.repeatedly import Repeatedly
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@dataclass(frozen=True, slots=True, init=False)
class OrFinally(AfterAny):
    """Fires as its first trigger does, until the second fires: then it fires once more and has finished.

    >>> from headrace.sdk.triggers import AfterCount, AfterWatermark, Repeatedly
    >>> until_end = OrFinally(Repeatedly(AfterCount(2)), AfterWatermark())
    >>> progress = until_end.on_elements(None, 2, (), Moment(end=10, watermark=0, wall_time=0))
    >>> until_end.should_fire(progress, Moment(end=10, watermark=0, wall_time=0))
    True
    >>> until_end.on_fire(progress, Moment(end=10, watermark=10, wall_time=0)) is FINISHED
    True
    """

    def __init__(self, main: Trigger, until: Trigger) -> None:
        super(OrFinally, self).__init__(main, until)

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """Finished if the second fired, or the first has finished."""
        (main, its), (until, untils) = self.each(progress)
        if until.should_fire(untils, moment):
            return FINISHED
        fired = main.on_fire(its, moment)
        return joined((fired, untils), finished=fired is FINISHED)

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """If either may."""
        return any(trigger.may_finish(allowed_lateness_us) for trigger in self.triggers)

    def continuation(self) -> Trigger:
        """Either's panes are passed on, also after the second has ended the first."""
        return Repeatedly(OrFinally(*(trigger.continuation() for trigger in self.triggers)))

    def _ends(self, finished: Sequence[bool]) -> bool:
        return any(finished)
