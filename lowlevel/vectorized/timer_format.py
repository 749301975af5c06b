"""How timers that are not due yet are kept in segments, by the time at which they are due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.state.state_store import Mark
from headrace.lowlevel.vectorized.fields import Layout
from headrace.lowlevel.vectorized.segment_store import Format, Name, Naming, SegmentStore
from headrace.lowlevel.vectorized.timer_rows import HOLD_TAG, NO_HOLD, TimerCombination, TimerRows


@dataclass(frozen=True, slots=True)
class TimerFormat(Format[TimerRows]):
    """Format of timers; a segment's name states the least hold of its timers, so that the oldest hold is found."""

    layout: Layout
    combinations: Sequence[TimerCombination] | None
    """For each field, how timers with the same key and timestamp are combined; None if they are not combined."""
    naming = Naming(b"", ">BQII")

    def times(self, table: TimerRows) -> Numbers:
        """See `Format`."""
        return table.timestamps

    def bound(self, table: TimerRows) -> int:
        """See `Format`: the least hold, microseconds UTC; `NO_HOLD` if there is none."""
        return int(table.holds.min())

    def end(self, name: Name) -> int:
        """See `Format`: the timestamp of the last timer."""
        return name.greatest

    def joined(self, tables: Sequence[TimerRows]) -> TimerRows:
        """See `Format`."""
        return TimerRows.concatenated(tables, self.layout)

    def compacted(self, table: TimerRows) -> TimerRows:
        """See `Format`: one timer for each key and timestamp, if timers are combined."""
        return table.merged(self.combinations)

    def encode(self, table: TimerRows) -> pa.RecordBatch:
        """See `Format`."""
        return table.encode(self.layout)

    def decode(self, batch: pa.RecordBatch) -> TimerRows:
        """See `Format`."""
        return TimerRows.decode(batch, self.layout)


def oldest_hold(store: SegmentStore[TimerRows], fired_until: int) -> tuple[Mark, bytes] | None:
    """The oldest hold of the timers after `fired_until`, microseconds UTC, and its encoded key; None if there is none.

    Segments are read in the order of their least holds, until the next one cannot have an older hold.
    """
    oldest: tuple[Mark, bytes] | None = None
    for name, parts in sorted(store.names.items(), key=lambda item: item[1].bound):
        if parts.bound == NO_HOLD or (oldest is not None and oldest[0].timestamp <= parts.bound):
            break
        timers = store.read(name)
        timers = timers.where(timers.timestamps > fired_until)
        if not len(timers):
            continue
        index = int(np.argmin(timers.holds))
        hold = Mark(int(timers.holds[index]), timers.key_hashes[index].as_py(), HOLD_TAG)
        if hold.timestamp != NO_HOLD and (oldest is None or hold < oldest[0]):
            oldest = hold, timers.keys[index].as_py()
    return oldest
