"""What: formats of the tables that vectorized groupings keep in segments: encoding, lookup times and compaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.state import segment
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.sdk.operators.combining.aggregates import Reducers
from headrace.sdk.operators.vectorized.state import element_table
from headrace.sdk.operators.vectorized.state.element_table import ElementTable
from headrace.sdk.operators.vectorized.state.segment_store import ANY_TIER, KeyPositions, Kind
from headrace.sdk.operators.vectorized.state.session_table import SessionTable
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import END, ONE_PANE, WAKE, WindowTable


class _Windows:
    """Base class of the formats of `WindowTable`."""

    def ends(self, table: WindowTable) -> Numbers:
        """See `Format`."""
        return table[END]

    def times(self, table: WindowTable) -> Numbers:
        """See `Format`: the windows' ends."""
        return table[END]

    def joined(self, tables: Sequence[WindowTable]) -> WindowTable:
        """See `Format`. All tables have the same number of columns that reducers keep; an empty `tables` gives 0."""
        return WindowTable.joined(tables, 0)


@dataclass(frozen=True, slots=True)
class PartFormat(_Windows):
    """Format of parts of windows that have one pane: looked up by the windows' ends, and combined at compaction."""

    accumulated: Accumulated
    context: IntervalContext
    kind = Kind.PARTS
    largest_tier = ANY_TIER

    def compacted(self, table: WindowTable) -> WindowTable:
        """See `Format`: one line for each key and window."""
        return self.accumulated.reduced(table, self.context)

    def encode(self, table: WindowTable) -> bytes:
        """See `Format`. The lines have the columns of `ONE_PANE`."""
        return table.encode()

    def decode(self, contents: bytes, wanted: KeyPositions | None) -> WindowTable:
        """See `Format`. `wanted` is None, because parts are not looked up by their keys."""
        assert wanted is None, "the lines are not in order of their rows"
        return WindowTable.decode(contents, names=ONE_PANE)


@dataclass(frozen=True, slots=True)
class WindowFormat(_Windows):
    """Format of windows that have several panes: looked up by their ends; the newest line of a window is valid."""

    kind = Kind.WINDOWS
    largest_tier = ANY_TIER

    def compacted(self, table: WindowTable) -> WindowTable:
        """See `Format`: the latest line of each key and window."""
        return table.newest()

    def encode(self, table: WindowTable) -> bytes:
        """See `Format`. Lines are in order of their key hashes."""
        return table.by_key_hash().encode()

    def decode(self, contents: bytes, wanted: KeyPositions | None) -> WindowTable:
        """See `Format`."""
        return WindowTable.decode(contents, wanted)


@dataclass(frozen=True, slots=True)
class WakeFormat(_Windows):
    """Format of wakes: windows, looked up by the wall time at which their triggers must be evaluated.

    A wake has no contents: whether a window still waits is in the window's own line, so that a wake need not be deleted
    when the window fires earlier.
    """

    kind = Kind.WAKES
    largest_tier = ANY_TIER

    def times(self, table: WindowTable) -> Numbers:
        """See `Format`: wall times, microseconds UTC."""
        return table[WAKE]

    def compacted(self, table: WindowTable) -> WindowTable:
        """See `Format`: the same lines."""
        return table

    def encode(self, table: WindowTable) -> bytes:
        """See `Format`. The table is one `without_contents`."""
        return table.encode(("start", "end", "wake"), {segment.POINTS: b"1"})

    def decode(self, contents: bytes, wanted: KeyPositions | None) -> WindowTable:
        """See `Format`. `wanted` is None, because wakes are not looked up by their keys."""
        assert wanted is None, "the lines are not in order of their rows"
        return WindowTable.decode(contents)


@dataclass(frozen=True, slots=True)
class SessionFormat:
    """Format of parts of sessions: looked up by the end of their session as far as it is known."""

    reducers: Reducers
    kind = Kind.SESSIONS
    largest_tier = ANY_TIER

    def times(self, table: SessionTable) -> Numbers:
        """See `Format`."""
        return table.due

    def ends(self, table: SessionTable) -> Numbers:
        """See `Format`: a part waits for the end of its session."""
        return table.due

    def joined(self, tables: Sequence[SessionTable]) -> SessionTable:
        """See `Format`."""
        return SessionTable.joined(tables, len(self.reducers.kept))

    def compacted(self, table: SessionTable) -> SessionTable:
        """See `Format`: one part for each session."""
        return table.reduced(self.reducers)

    def encode(self, table: SessionTable) -> bytes:
        """See `Format`. Lines are in order of their key hashes."""
        return table.by_key_hash().encode()

    def decode(self, contents: bytes, wanted: KeyPositions | None) -> SessionTable:
        """See `Format`."""
        return SessionTable.decode(contents, wanted)


@dataclass(frozen=True, slots=True)
class ElementFormat:
    """Format of the values that windows with one pane hold: looked up by the windows' ends.

    Compaction makes fewer segments, but not fewer lines of them, so that only small segments are compacted.
    """

    kind = Kind.ELEMENTS
    largest_tier = 1

    def times(self, table: ElementTable) -> Numbers:
        """See `Format`."""
        return table[element_table.END]

    def ends(self, table: ElementTable) -> Numbers:
        """See `Format`."""
        return table[element_table.END]

    def joined(self, tables: Sequence[ElementTable]) -> ElementTable:
        """See `Format`."""
        return element_table.joined(tables)

    def compacted(self, table: ElementTable) -> ElementTable:
        """See `Format`: the same lines."""
        return table

    def encode(self, table: ElementTable) -> bytes:
        """See `Format`."""
        return table.encode()

    def decode(self, contents: bytes, wanted: KeyPositions | None) -> ElementTable:
        """See `Format`. `wanted` is None, because values are not looked up by their keys."""
        assert wanted is None, "the lines are not in order of their key hashes"
        return ElementTable.decode(contents)
