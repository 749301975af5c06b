"""When: output of the panes of many windows, as columns if columns express keys and results, else as values."""

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
from headrace.sdk.expressions.element_schema import Fired, Single, Tuple, pair, panes_of, windows_between
from headrace.sdk.model.panes import PaneInfo, PaneInfoTiming, pane_info
from headrace.sdk.operators.vectorized.state.key_decoding import Keys, decoded
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import COUNT, END, START, WindowTable

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
