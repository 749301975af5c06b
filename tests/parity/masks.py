"""Where Beam's direct runners are known to depart from Beam's own model, so that results differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.parity.canonical import Element


@dataclass(frozen=True, slots=True)
class Mask:
    """One departure and what of a program's results it touches; everything else is still compared."""

    why: str
    """The fact about Beam's runner."""
    blank: tuple[str, ...] = ()
    """Fields of elements and their panes that are not compared."""
    of: tuple[str, ...] = ()
    """Canonical values of the elements to which `blank` applies; all if there are none."""
    only_beam: tuple[str, ...] = ()
    """Canonical values that only Beam's runner puts out."""
    only_ours: tuple[str, ...] = ()
    """Canonical values that only Headrace puts out."""

    def over(self, elements: Iterable[Element], own: tuple[str, ...]) -> list[Element]:
        """The elements of one side, without what is not compared; values of its own must be there."""
        elements = list(elements)
        missing = {*own, *self.of} - {element.value for element in elements}
        assert not missing, f"{missing} should be there, as {self.why}"
        compared = (element for element in elements if element.value not in own)
        return [self._blanked(each) if not self.of or each.value in self.of else each for each in compared]

    def _blanked(self, element: Element) -> Element:
        for field in self.blank:
            if field == "timestamp":
                element = element._replace(timestamp_us=0)
            elif field == "window":
                element = element._replace(window="")
            else:
                element = element._replace(pane=element.pane._replace(**{field: None}))
        return element


FACT_1 = "fact 1: a real-time timer's timestamp is used as the watermark, so a late pane is called EARLY"
FACT_2 = "fact 2: what is still buffered when the watermark reaches infinity is not flushed"
BORDER = "at a watermark of just the end of a window and its lateness the runner still takes elements"
HELD = "a pane is EARLY as long as the output watermark is held before the end of its window"
CLOSED = "a session that is closed is not forgotten: what touches it later joins it"
DEFAULTS = "CombineGlobally with defaults makes its result anew: at the least timestamp, of no pane"
KEPT_HOLD = "the timestamp of a discarded early pane goes on to count for the panes after it"
DUE_TIMERS = "timers that are due do not hold the watermark, so that what they put out is late for the next grouping"
CLOCK_AS_TIME = "what a timer on real time puts out has the clock's time as its event time"
SHUFFLED_LATE = "what is late does not come out of Reshuffle"
LAST_BATCHES = Mask(
    "the last batch of a window has the end of the window as its time, which is the first instant outside of it",
    blank=("timestamp",),
    of=("('a', 1)", "('b', 1)"),
)
