"""How: retractions of the panes of many windows (Streaming 102, "accumulating and retracting").

A pane retracts the one that its window emitted before it. What a window emitted last is stored when a pane fires, as a
line with the contents that the pane had: the same result follows from them again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.segment_store import SegmentStore
from headrace.sdk.expressions.element_schema import retraction_codes
from headrace.sdk.operators.vectorized.state.segment_formats import ShownFormat
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import AGE, END, INDEX, PANE, WindowTable
from headrace.sdk.operators.vectorized.trigger_kernel import Panes


@dataclass(frozen=True, slots=True)
class ShownPanes:
    """Puts the retraction of the pane before it in front of each pane; `accumulated` merges what windows hold."""

    accumulated: Accumulated

    def with_retractions(
        self, panes: Panes, taken_over: WindowTable, closed: int, context: IntervalContext
    ) -> tuple[WindowTable, Numbers]:
        """The lines of the panes and of what they retract, in the order of emission, and the number of each pane.

        The last pane of each window is stored for the one that follows it.

        Args:
            panes: Panes of this bundle in their order; `INDEX` of their lines is that of the pane.
            taken_over: Lines of panes that a `Grouping` has emitted.
            closed: The latest end of a window that is closed after this bundle, microseconds UTC.
            context: State of the interval.
        """
        store, reducers = SegmentStore(context, ShownFormat(self.accumulated)), self.accumulated.reducers
        fired, count = panes.lines, len(panes.codes)
        again = fired.where(fired[INDEX] > 0)
        stored = WindowTable.joined([*store.of_keys(again.key_hashes, again[END]), taken_over], reducers).newest()
        # The lines are copies, so their numbers can be changed.
        fired[PANE], fired[AGE] = panes.codes, context.epoch
        lines = WindowTable.joined([stored, fired], reducers)
        groups, _ = lines.groups()
        order = np.lexsort((lines[INDEX], groups))
        follows = (np.diff(groups[order]) == 0) & (np.diff(lines[INDEX][order]) == 1)
        before = np.full(len(lines), -1, np.int64)
        before[order[1:][follows]] = order[:-1][follows]
        own = np.arange(len(lines) - count, len(lines))
        self._keep(store, lines, taken_over, own[~np.isin(own, before)], closed)
        places = np.stack([before[own], own], axis=1).reshape(-1)
        codes = np.stack([retraction_codes(lines[PANE][before[own]]), panes.codes], axis=1).reshape(-1)
        return lines.taken(places[places >= 0]), codes[places >= 0]

    @staticmethod
    def _keep(
        store: SegmentStore[WindowTable], lines: WindowTable, taken_over: WindowTable, newest: Numbers, closed: int
    ) -> None:
        """Store the panes that may still be retracted: those of windows that stay open and have not had their last."""
        newest = newest[(lines[END][newest] > closed) & (lines[PANE][newest] & 1 == 0)]
        store.keep(taken_over.where(taken_over[END] > closed), lines.taken(newest), done_until=closed)
