"""When: the mark of what a drain fires before its time (Beam's `CausedByDrain`)."""

from __future__ import annotations

from typing import cast

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.sdk.model.panes import PaneInfo, drained


@named("DrainMark")
class DrainMark:
    """Marks the panes of a batch in the form FIRED; see `Topology.computation`."""

    def __call__(self, batch: Batch) -> Batch:
        """The same elements; columns become values."""
        values = cast("list[tuple[object, object, PaneInfo | None]]", batch.values)
        marked = [(value, window, drained(pane)) for value, window, pane in values]
        return Batch(marked, batch.timestamps, batch.ids)
