"""What: formats of the tables that vectorized groupings keep in segments: encoding, lookup times and compaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import pyarrow as pa

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.state import segment
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.segment_store import Format, Naming
from headrace.sdk.operators.vectorized.state import element_table
from headrace.sdk.operators.vectorized.state.element_table import ElementTable
from headrace.sdk.operators.vectorized.state.session_table import DUE, SESSION_COLUMNS, decoded_parts, sessions_of
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import (
    AGE,
    COUNT,
    END,
    INDEX,
    NAMES,
    ONE_PANE,
    PANE,
    START,
    WAKE,
    WindowTable,
)


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
    SHOWN = 5
    """Panes that have been emitted and may be retracted: of those of a key and window, that of the latest epoch."""

    @property
    def naming(self) -> Naming:
        """The encoding of the names of segments of this kind."""
        return Naming(bytes([self]), ">BQIH")


@dataclass(frozen=True, slots=True)
class _WindowFormat(Format[WindowTable]):
    """Base class of the formats of `WindowTable`."""

    accumulated: Accumulated
    names: ClassVar[Sequence[str]] = NAMES
    """Names of the columns."""

    def times(self, table: WindowTable) -> Numbers:
        """See `Format`: the windows' ends."""
        return table[END]

    def joined(self, tables: Sequence[WindowTable]) -> WindowTable:
        """See `Format`."""
        return WindowTable.joined(tables, self.accumulated.reducers)

    def encode(self, table: WindowTable) -> pa.RecordBatch:
        """See `Format`."""
        return table.encode({name: index for index, name in enumerate(self.names)})

    def decode(self, batch: pa.RecordBatch) -> WindowTable:
        """See `Format`."""
        return WindowTable.decode(batch, self.names)


@dataclass(frozen=True, slots=True)
class PartFormat(_WindowFormat):
    """Format of parts of windows that have one pane: looked up by the windows' ends, and combined at compaction."""

    context: IntervalContext
    naming = Kind.PARTS.naming
    names = ONE_PANE

    def compacted(self, table: WindowTable) -> WindowTable:
        """See `Format`: one line for each key and window."""
        return self.accumulated.reduced(table, self.context)


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

    def joined(self, tables: Sequence[WindowTable]) -> WindowTable:
        """See `Format`. Wakes have no contents."""
        return WindowTable.joined(tables, None)

    def encode(self, table: WindowTable) -> pa.RecordBatch:
        """See `Format`. The table is one `without_contents`."""
        return table.encode({"start": START, "end": END, "wake": WAKE}, {segment.POINTS: b"1"})


@dataclass(frozen=True, slots=True)
class ShownFormat(WindowFormat):
    """Format of emitted panes: lines of windows as they were then, with the pane's number as `PANE`."""

    naming = Kind.SHOWN.naming

    def encode(self, table: WindowTable) -> pa.RecordBatch:
        """See `Format`."""
        return table.encode({NAMES[column]: column for column in (START, END, COUNT, PANE, INDEX, AGE)})


@dataclass(frozen=True, slots=True)
class SessionFormat(_WindowFormat):
    """Format of parts of sessions: looked up by the end of their session as far as it is known.

    A part is done at this end.
    """

    context: IntervalContext
    naming = Kind.SESSIONS.naming
    by_key = True

    def times(self, table: WindowTable) -> Numbers:
        """See `Format`."""
        return table[DUE]

    def compacted(self, table: WindowTable) -> WindowTable:
        """See `Format`: one part for each session."""
        return sessions_of(table, self.accumulated, self.context)

    def encode(self, table: WindowTable) -> pa.RecordBatch:
        """See `Format`."""
        return table.encode(SESSION_COLUMNS)

    def decode(self, batch: pa.RecordBatch) -> WindowTable:
        """See `Format`."""
        return decoded_parts(batch, self.accumulated.reducers)


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
