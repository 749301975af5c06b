"""How: where retractions may flow in a pipeline, and what cannot take them (Streaming 102, listing 8).

A grouping that retracts puts them out; element-wise steps pass them on; the next grouping takes out what they stand
for. Whoever would take one for an ordinary element is refused when the pipeline is built.
"""

from __future__ import annotations

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.fusion.plan import ElementStep
from headrace.sdk.pipeline import Step
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.changelog import FromChanges, ToChanges
from headrace.sdk.transforms.element import DoFn
from headrace.sdk.transforms.parameters import Given
from headrace.sdk.triggers import AccumulationMode
from headrace.sdk.windowing import Windowing

Collection = PCollection[object]
RETRACTING = AccumulationMode.ACCUMULATING_AND_RETRACTING


class Retractions:
    """The collections that may have retractions, and those whose elements show it: a step has looked at their pane."""

    def __init__(self) -> None:
        self._may: dict[Collection, bool] = {}
        """Collection -> whether its values may show it."""

    def __contains__(self, collection: Collection) -> bool:
        return collection in self._may

    def grouped(self, step: Step, source: Collection, output: Collection) -> None:
        """A grouping: it takes retractions, and puts some out if its windowing says so. Raises `TopologyError`."""
        windowing = source.windowing
        if source in self:
            _require_correctable(step, windowing)
        if windowing.accumulation_mode is RETRACTING and not windowing.puts_out_once:
            self._may[output] = False

    def looked_at(self, step: Step, side: Collection) -> None:
        """A side input of a step: what it retracts is taken out of its windows. Raises `TopologyError`."""
        if side in self:
            _require_correctable(step, side.windowing)

    def passed_on(self, sources: list[Collection], output: Collection, by: ElementStep | None = None) -> None:
        """A step that passes retractions on, unless it makes changes of them; or that makes them of changes."""
        if by is not None and isinstance(by.fn, ToChanges):
            return
        if by is not None and isinstance(by.fn, FromChanges):
            self._may[output] = False
            return
        shown = [self._may[source] for source in sources if source in self]
        if shown:
            looked = by is not None and (Given.PANE in by.arguments or Given.WINDOWED_VALUE in by.arguments)
            self._may[output] = all(shown) or looked

    def require_handled(self, step: Step, source: Collection, fn: DoFn) -> None:
        """Refuse a step that would keep what was taken back, in state or until its bundle ends: `TopologyError`."""
        if source in self and not fn.handles_retractions:
            what = "has a finish_bundle" if fn.has_finish_bundle() else "keeps state"
            raise TopologyError(
                f"step {step.full_label!r} {what}, and its input may have retractions; let its DoFn look at "
                "pane.is_retraction (DoFn.PaneInfoParam), take back what it keeps of such values, and say "
                "handles_retractions = True; or window with AccumulationMode.ACCUMULATING"
            )

    def require_shown(self, step: Step, source: Collection) -> None:
        """Refuse a step that gets bare values, unless a step before it has looked at the pane. `TopologyError`."""
        if not self._may.get(source, True):
            raise TopologyError(
                f"step {step.full_label!r} gets values without their panes, so it would take retractions for results; "
                "put ToChangelog() before it, which makes insertions and deletions of them, or a Map with "
                "pane=DoFn.PaneInfoParam that drops what pane.is_retraction is true for; or window with "
                "AccumulationMode.ACCUMULATING"
            )


def _require_correctable(step: Step, windowing: Windowing) -> None:
    if windowing.accumulation_mode is AccumulationMode.DISCARDING and not windowing.puts_out_once:
        raise TopologyError(
            f"step {step.full_label!r} gets retractions, but its windows are emptied by each pane, so that it cannot "
            "take anything back; window its input with AccumulationMode.ACCUMULATING_AND_RETRACTING (or ACCUMULATING)"
        )
