"""When: a trigger that another one ends (Streaming 102, listing 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.composite import joined
from headrace.sdk.triggers.parallel import AfterAny
from headrace.sdk.triggers.repeatedly import Repeatedly
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger


@named("OrFinally")
@dataclass(frozen=True, slots=True, init=False)
class OrFinally(AfterAny):
    """Fires when its first trigger fires, until the second trigger fires: that is the last firing (Beam's `OrFinally`).

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
        """`FINISHED` if the second trigger fires or the first trigger has finished."""
        (main, main_progress), (until, until_progress) = self.each(progress)
        if until.should_fire(until_progress, moment):
            return FINISHED
        fired = main.on_fire(main_progress, moment)
        return joined((fired, until_progress), finished=fired is FINISHED)

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Whether one of the two triggers may finish."""
        return any(trigger.may_finish(allowed_lateness_us) for trigger in self.triggers)

    def continuation(self) -> Trigger:
        """`Repeatedly` of the two continuations, so that the next grouping emits all panes, the last one included."""
        return Repeatedly(OrFinally(*(trigger.continuation() for trigger in self.triggers)))

    def _ends(self, finished: Sequence[bool]) -> bool:
        return any(finished)
