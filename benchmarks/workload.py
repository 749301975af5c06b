"""The workloads: what each computes, to the last row, so that every peer's result can be held against every other's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from benchmarks.generator import MINUTE, SECOND
from benchmarks.panes import PANE_COLUMNS, last_panes

WINDOW = MINUTE
"""W1's fixed windows and W3's reports, microseconds."""
GAP = 30 * SECOND
"""W2's session gap, microseconds."""
PERIOD = 15 * SECOND
"""How far apart W5's sliding windows begin, microseconds; they are a minute long."""
LATENESS = 5 * MINUTE
"""For how long W4's windows take late events, microseconds."""
SENTINEL = "end"
"""Key of the event, far in the future, by which an unbounded query learns that the input is over. In no result."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload; a result has one row for each thing emitted, in any order, times as int64 microseconds."""

    name: str
    title: str
    columns: tuple[str, ...]
    settle: Callable[[pa.Table], pa.Table] | None = None
    """What is the same for all systems in a result, if that is not all of it; raises `ValueError` for one that cannot
    be right whatever else may differ."""

    @property
    def schema(self) -> pa.Schema:
        """Of a result: the key, then integers."""
        return pa.schema([(column, pa.string() if column == "key" else pa.int64()) for column in self.columns])


W1 = Workload("W1", "sum per key in fixed windows of one minute", ("key", "start", "sum"))
"""For each key and minute with events: the sum of the values in [start, start + 1 min)."""

W2 = Workload("W2", "count per key in sessions of 30 s", ("key", "start", "end", "count"))
"""For each key: maximal runs of events less than 30 s apart; start is the first event, end the last plus 30 s."""

W3 = Workload("W3", "running state per key, reported by an event-time timer every minute", ("key", "minute", "total"))
"""For each key and minute with events, when the watermark reaches the minute's end `minute`: the sum of all the key's
values with event times before `minute`. State: the total so far, and sums of minutes that are not over."""

W4 = Workload("W4", "early, on-time and late panes of a sum per key and minute", PANE_COLUMNS, last_panes)
"""For each key and minute: the sum so far whenever something came before the watermark reached the minute's end, when
that happened, and whenever something came after it. What a bundle brings makes one pane, so how many panes there are
follows from a system's bundles; compared is each window's last one, and that the others are such as they must be."""

W5 = Workload("W5", "sum per key in windows of one minute that begin every 15 s", ("key", "start", "sum"))
"""For each key and sliding window with events: the sum of the values in [start, start + 1 min)."""

W7 = Workload("W7", "ten element-wise steps in a row", ("key", "total"))
"""What the steps in `benchmarks.steps` make of the lines, summed up by region."""

W8 = Workload("W8", "a bag per key and minute, and an event-time timer", ("key", "end", "count", "sum", "most"))
"""For each key and minute with events, when the watermark reaches the minute's end: how many values there were, their
sum and the greatest, of the values themselves, which are kept until then."""

W9 = Workload(
    "W9", "advertisements shown, and clicked in the same minute", ("key", "value", "start", "shown", "clicked")
)
"""For each event and each click with its key and value in the same minute: the minute's start and their two times."""

WORKLOADS = {workload.name: workload for workload in (W1, W2, W3, W4, W5, W7, W8, W9)}
