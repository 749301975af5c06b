"""When and how: output of the panes of many windows, as columns if columns express keys and results, else as values.

In the retracting mode (Streaming 102) a pane retracts the one that its window emitted before it. What a window emitted
last is stored when a pane fires, as a line with the contents that the pane had: its result follows from them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import Flags, Numbers
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.segment_store import SegmentStore
from headrace.sdk.expressions.element_schema import (
    Fired,
    Single,
    Tuple,
    pair,
    panes_of,
    retraction_codes,
    windows_between,
)
from headrace.sdk.model.panes import PaneInfo, PaneInfoTiming, pane_info
from headrace.sdk.operators.vectorized.state.key_decoding import Keys, decoded
from headrace.sdk.operators.vectorized.state.segment_formats import ShownFormat
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import AGE, COUNT, END, INDEX, PANE, START, WindowTable
from headrace.sdk.operators.vectorized.trigger_kernel import Panes

ONLY_PANE = pane_info(True, True, PaneInfoTiming.ON_TIME, 0, 0)
"""Pane of a window that has one pane: it is the first, the last and on time."""


@dataclass(frozen=True, slots=True)
class PaneOutput:
    """Sends panes to a stream, in the form FIRED; the timestamp of a pane is the last one in its window."""

    accumulated: Accumulated
    stream: str
    in_global: bool
    """Whether all windows are the global window."""

    def emit(self, lines: WindowTable, codes: Numbers | None, context: IntervalContext) -> None:
        """Send a pane for each line; the panes of one key are sent in the order of the lines.

        Args:
            lines: Contents of the panes; several lines may be of one window.
            codes: One `PaneInfo` for each line as a number (see `pane_codes`): int64; None if each is `ONLY_PANE`.
            context: Takes the output.

        Raises:
            StepError: The CombineFn or the decoder of a key has raised an error.
        """
        by_value = self._by_value(lines)
        if by_value.any():
            self._emit_values(lines.where(by_value), _of(codes, by_value), context)
            lines, codes = lines.where(~by_value), _of(codes, ~by_value)
        if not len(lines):
            return
        keys = decoded(lines.keys, context.key_coder)
        if isinstance(keys, Keys):
            self._emit_columns(lines, codes, keys, context)
        else:
            self._emit_values(lines, codes, context)

    def _by_value(self, lines: WindowTable) -> Flags:
        """Which lines are sent as values: all lines of a key if one line needs it, to keep the order of the key."""
        found = self.accumulated.only_values(lines)
        if found.any():
            key_hashes = set(lines.key_hashes.filter(of_numbers(found)).to_pylist())
            found = np.fromiter(
                (key_hash in key_hashes for key_hash in lines.key_hashes.to_pylist()), np.bool_, len(found)
            )
        return found

    def _emit_columns(self, lines: WindowTable, codes: Numbers | None, keys: Keys, context: IntervalContext) -> None:
        reducers = self.accumulated.reducers
        results = reducers.results(lines.kept, lines[COUNT])
        singles = tuple(Single(len(keys.columns) + number) for number in range(len(results)))
        result = Tuple(singles) if reducers.of_tuples else singles[0]
        columns = [*keys.columns, *results, of_numbers(lines[START]), of_numbers(lines[END])]
        start, end, pane = len(columns) - 2, len(columns) - 1, len(columns)
        if codes is not None:
            columns.append(of_numbers(codes))
        table = pa.RecordBatch.from_arrays(columns, [f"f{number}" for number in range(len(columns))])
        shape = Fired(pair(keys.shape, result), start, end, ONLY_PANE if codes is None else pane, self.in_global)
        context.emit(self.stream, ColumnBatch(table, lines[END] - 1, shape))

    def _emit_values(self, lines: WindowTable, codes: Numbers | None, context: IntervalContext) -> None:
        pairs = zip(decoded_keys(lines.keys, context), self.accumulated.results(lines, context), strict=True)
        windows = windows_between(lines[START], lines[END], self.in_global)
        panes: Iterable[PaneInfo] = [ONLY_PANE] * len(lines) if codes is None else panes_of(codes)
        values = list(zip(pairs, windows, panes, strict=True))
        context.emit(self.stream, Batch(values, (lines[END] - 1).tolist()))


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


def _of(codes: Numbers | None, chosen: Flags) -> Numbers | None:
    return None if codes is None else codes[chosen]


def decoded_keys(encoded: pa.Array, context: IntervalContext) -> list[object]:
    """The keys as Python objects. Raises StepError for a key that cannot be decoded."""
    try:
        keys = decoded(encoded, context.key_coder)
    except Exception:
        # One of the keys is the reason, which the error names.
        return [_decoded_key(key, context) for key in encoded.to_pylist()]
    if not isinstance(keys, Keys):
        return keys
    names = [f"f{number}" for number in range(len(keys.columns))]
    return keys.shape.values(pa.RecordBatch.from_arrays(keys.columns, names))


def _decoded_key(key: bytes, context: IntervalContext) -> object:
    try:
        return context.key_coder.decode(key)
    except Exception as error:
        raise context.failed(error, key) from error
