"""The workloads: what each computes, to the last row, so that every peer's result can be held against every other's."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from benchmarks.generator import MINUTE, SECOND

WINDOW = MINUTE
"""W1's fixed windows and W3's reports, microseconds."""
GAP = 30 * SECOND
"""W2's session gap, microseconds."""
SENTINEL = "end"
"""Key of the event, far in the future, by which an unbounded query learns that the input is over. In no result."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload; a result has one row for each thing emitted, in any order, times as int64 microseconds."""

    name: str
    title: str
    columns: tuple[str, ...]

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

WORKLOADS = {workload.name: workload for workload in (W1, W2, W3)}
