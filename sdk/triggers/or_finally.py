"""When: a trigger that another one ends (Streaming 102, listing 4)."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.parallel import AfterAny
from headrace.sdk.triggers.repeatedly import Repeatedly
from headrace.sdk.triggers.trigger import Trigger


@named("OrFinally")
@dataclass(frozen=True, slots=True, init=False)
class OrFinally(AfterAny):
    """Fires when one of its two triggers fires; finishes when one of them finishes (Beam's `OrFinally`).

    A second trigger that fires once (`AfterWatermark()`, `AfterCount`) fires the last pane. One that goes on after its
    first pane (`AfterWatermark(late=...)`) ends nothing, and late elements are emitted.

    >>> from headrace.sdk.triggers import FINISHED, AfterCount, AfterWatermark, Moment, Repeatedly
    >>> until_end = OrFinally(Repeatedly(AfterCount(2)), AfterWatermark())
    >>> progress = until_end.on_elements(None, 2, (), Moment(end=10, watermark=0, wall_time=0))
    >>> until_end.should_fire(progress, Moment(end=10, watermark=0, wall_time=0))
    True
    >>> until_end.on_fire(progress, Moment(end=10, watermark=10, wall_time=0)) is FINISHED
    True
    """

    def __init__(self, main: Trigger, until: Trigger) -> None:
        super(OrFinally, self).__init__(main, until)

    def continuation(self) -> Trigger:
        """`Repeatedly` of the two continuations, so that the next grouping emits all panes, the last one included."""
        return Repeatedly(OrFinally(*(trigger.continuation() for trigger in self.triggers)))
