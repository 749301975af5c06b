"""What: formats of the tables that vectorized groupings keep in segments: encoding, lookup times and compaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.state import segment
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.segment_store import Format, Naming
from headrace.sdk.operators.combining.aggregates import Reducers
from headrace.sdk.operators.vectorized.state import element_table
from headrace.sdk.operators.vectorized.state.element_table import ElementTable
from headrace.sdk.operators.vectorized.state.session_table import SessionTable
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import END, ONE_PANE, WAKE, WindowTable


class Kind(IntEnum):
    """Kinds of lines in a segment, as its name has them."""

    PARTS = 0
    """Parts of windows that have one pane: the parts of a key and window are combined."""
    WINDOWS = 1
    """Windows that have several panes: of the lines of a key and window, the one of the latest epoch is valid."""
    WAKES = 2
    """Windows whose triggers must be evaluated when the wall clock reaches a time."""
    SESSIONS = 3
    """Parts of sessions: the parts of a key that overlap are combined."""
    ELEMENTS = 4
    """Values that windows with one pane hold."""

    @property
    def naming(self) -> Naming:
        """The encoding of the names of segments of this kind."""
        return Naming(bytes([self]), ">BQIH")


class _WindowFormat(Format[WindowTable]):
    """Base class of the formats of `WindowTable`."""

    def times(self, table: WindowTable) -> Numbers:
        """See `Format`: the windows' ends."""
        return table[END]

    def joined(self, tables: Sequence[WindowTable]) -> WindowTable:
        """See `Format`. All tables have the same number of columns that reducers keep; an empty `tables` gives 0."""
        return WindowTable.joined(tables, 0)

    def encode(self, table: WindowTable) -> pa.RecordBatch:
        """See `Format`."""
        return table.encode()

    def decode(self, batch: pa.RecordBatch) -> WindowTable:
        """See `Format`."""
        return WindowTable.decode(batch)


@dataclass(frozen=True, slots=True)
class PartFormat(_WindowFormat):
    """Format of parts of windows that have one pane: looked up by the windows' ends, and combined at compaction."""

    accumulated: Accumulated
    context: IntervalContext
    naming = Kind.PARTS.naming

    def compacted(self, table: WindowTable) -> WindowTable:
        """See `Format`: one line for each key and window."""
        return self.accumulated.reduced(table, self.context)

    def decode(self, batch: pa.RecordBatch) -> WindowTable:
        """See `Format`. The lines have the columns of `ONE_PANE`."""
        return WindowTable.decode(batch, ONE_PANE)


@dataclass(frozen=True, slots=True)
class WindowFormat(_WindowFormat):
    """Format of windows that have several panes: looked up by their ends; the newest line of a window is valid."""

    naming = Kind.WINDOWS.naming
    by_key = True

    def compacted(self, table: WindowTable) -> WindowTable:
        """See `Format`: the latest line of each key and window."""
        return table.newest()


@dataclass(frozen=True, slots=True)
class WakeFormat(_WindowFormat):
    """Format of wakes: windows, looked up by the wall time at which their triggers must be evaluated.

    A wake has no contents: whether a window still waits is in the window's own line, so that a wake need not be deleted
    when the window fires earlier.
    """

    naming = Kind.WAKES.naming

    def times(self, table: WindowTable) -> Numbers:
        """See `Format`: wall times, microseconds UTC."""
        return table[WAKE]

    def ends(self, table: WindowTable) -> Numbers:
        """See `Format`: the windows' ends."""
        return table[END]

    def encode(self, table: WindowTable) -> pa.RecordBatch:
        """See `Format`. The table is one `without_contents`."""
        return table.encode(("start", "end", "wake"), {segment.POINTS: b"1"})


@dataclass(frozen=True, slots=True)
class SessionFormat(Format[SessionTable]):
    """Format of parts of sessions: looked up by the end of their session as far as it is known.

    A part is done at this end.
    """

    reducers: Reducers
    naming = Kind.SESSIONS.naming
    by_key = True

    def times(self, table: SessionTable) -> Numbers:
        """See `Format`."""
        return table.due

    def joined(self, tables: Sequence[SessionTable]) -> SessionTable:
        """See `Format`."""
        return SessionTable.joined(tables, len(self.reducers.kept))

    def compacted(self, table: SessionTable) -> SessionTable:
        """See `Format`: one part for each session."""
        return table.reduced(self.reducers)

    def encode(self, table: SessionTable) -> pa.RecordBatch:
        """See `Format`."""
        return table.encode()

    def decode(self, batch: pa.RecordBatch) -> SessionTable:
        """See `Format`."""
        return SessionTable.decode(batch)


@dataclass(frozen=True, slots=True)
class ElementFormat(Format[ElementTable]):
    """Format of the values that windows with one pane hold: looked up by the windows' ends.

    Compaction makes fewer segments, but not fewer lines of them, so that only small segments are compacted.
    """

    naming = Kind.ELEMENTS.naming
    largest_tier = 1

    def times(self, table: ElementTable) -> Numbers:
        """See `Format`."""
        return table[element_table.END]

    def joined(self, tables: Sequence[ElementTable]) -> ElementTable:
        """See `Format`."""
        return element_table.joined(tables)

    def encode(self, table: ElementTable) -> pa.RecordBatch:
        """See `Format`."""
        return table.encode()

    def decode(self, batch: pa.RecordBatch) -> ElementTable:
        """See `Format`."""
        return ElementTable.decode(batch)
