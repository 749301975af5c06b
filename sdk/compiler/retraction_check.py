"""How: where retractions may flow in a pipeline, and which steps cannot take them (Streaming 102, listing 8).

A grouping in the retracting mode puts them out, element-wise steps pass them on, and the next grouping removes the
retracted values. A step that would treat a retraction as an ordinary element is refused when the pipeline is built.
"""

from __future__ import annotations

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.functions.arguments import Given
from headrace.sdk.functions.changelog import FromChanges, ToChanges
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.pvalue import PCollection, Step
from headrace.sdk.operators.fusion.stage_plan import ElementStep
from headrace.sdk.triggers import AccumulationMode
from headrace.sdk.windows.windowing import Windowing

Collection = PCollection[object]
RETRACTING = AccumulationMode.ACCUMULATING_AND_RETRACTING


class Retractions:
    """The collections that may have retractions, and whether a step has read their pane."""

    def __init__(self) -> None:
        self._may: dict[Collection, bool] = {}
        """Collection with retractions -> whether a step before it has read the pane."""

    def __contains__(self, collection: Collection) -> bool:
        return collection in self._may

    def grouped(self, step: Step, source: Collection, output: Collection) -> None:
        """Note a grouping; in the retracting mode it puts out retractions. Raises `TopologyError`."""
        windowing = source.windowing
        if source in self:
            _require_correctable(step, windowing)
        if windowing.accumulation_mode is RETRACTING and not windowing.puts_out_once:
            self._may[output] = False

    def looked_at(self, step: Step, side: Collection) -> None:
        """Note a side input, whose retracted values are removed from its windows. Raises `TopologyError`."""
        if side in self:
            _require_correctable(step, side.windowing)

    def passed_on(self, sources: list[Collection], output: Collection, by: ElementStep | None = None) -> None:
        """Note a step that passes retractions on, makes changes of them, or makes them of changes."""
        if by is not None and isinstance(by.fn, ToChanges):
            return
        if by is not None and isinstance(by.fn, FromChanges):
            self._may[output] = False
            return
        pane_read = [self._may[source] for source in sources if source in self]
        if pane_read:
            reads_pane = by is not None and (Given.PANE in by.arguments or Given.WINDOWED_VALUE in by.arguments)
            self._may[output] = all(pane_read) or reads_pane

    def require_handled(self, step: Step, source: Collection, fn: DoFn) -> None:
        """Refuse a step that would keep retracted values, in state or until its bundle ends. Raises `TopologyError`."""
        if source in self and not fn.handles_retractions:
            what = "has a finish_bundle" if fn.has_finish_bundle() else "keeps state"
            raise TopologyError(
                f"step {step.full_label!r} {what}, and its input may have retractions; let its DoFn look at "
                "pane.is_retraction (DoFn.PaneInfoParam), take back what it keeps of such values, and say "
                "handles_retractions = True; or window with AccumulationMode.ACCUMULATING"
            )

    def require_shown(self, step: Step, source: Collection) -> None:
        """Refuse a step that gets bare values, unless a step before it has read the pane. Raises `TopologyError`."""
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
