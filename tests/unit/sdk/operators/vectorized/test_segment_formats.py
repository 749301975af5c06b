"""Segments that 0.1.0 has left in checkpoints, through the formats of this release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pyarrow as pa

from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.state import segment
from headrace.lowlevel.state.state_store import StateStore
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.vectorized.fields import Layout
from headrace.lowlevel.vectorized.segment_store import Format, tier_of
from headrace.lowlevel.vectorized.timer_rows import TIMERS_ASPECT, TimerFormat
from headrace.sdk.combinefns.numeric import SumFn
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.vectorized.state.segment_formats import (
    ElementFormat,
    PartFormat,
    SessionFormat,
    WakeFormat,
    WindowFormat,
)
from headrace.sdk.operators.vectorized.state.session_table import DUE
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import COUNT, END, START
from tests.golden import later, make

GOLDEN = sorted(path.parent for path in make.HERE.glob(f"*/{make.EXPECTED}"))
SUMS = reducers_of(SumFn())
assert SUMS is not None
GROUPINGS: dict[str, Format[Any]] = {
    "parts": PartFormat(Accumulated(SUMS, SumFn()), Mock()),
    "windows": WindowFormat(Accumulated(SUMS, SumFn())),
    "wakes": WakeFormat(Accumulated(SUMS, SumFn())),
    "sessions": SessionFormat(Accumulated(SUMS, SumFn()), Mock()),
    "elements": ElementFormat(),
}
TIMERS: dict[str, Format[Any]] = {"timers": TimerFormat(Layout.of(later.Totals.timer_fields, "timer_fields"), None)}


def formats_of_stores() -> Iterator[tuple[StateStore, dict[str, Format[Any]]]]:
    """The state of each computation of each golden checkpoint, and the formats that its segments may have."""
    for folder in GOLDEN:
        view = Checkpoint.read(ObjectStore(str(folder / make.PLACE)))
        assert view.manifest is not None
        for member in view.manifest.topology.members:
            if member.kind == "computation":
                is_raw = any(aspect == TIMERS_ASPECT for aspect, _ in member.signature)
                yield view.load(member.name), TIMERS if is_raw else GROUPINGS


def zeros_for_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """0.1.0 had zeros beside values that are not numbers."""
    columns = [
        column.fill_null(0) if name.startswith("kept") else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, schema=batch.schema)


def test_what_0_1_0_has_stored_is_read() -> None:
    """Its name is decoded and encoded again, and says what is in it."""
    seen: Counter[str] = Counter()
    for store, formats in formats_of_stores():
        for encoded in store.segment_names():
            named = {kind: each.naming.decode(encoded) for kind, each in formats.items()}
            [(kind, name)] = ((kind, name) for kind, name in named.items() if name is not None)
            format_ = formats[kind]
            seen[kind] += 1
            # When the state of several intervals is put together, a suffix tells their names apart.
            assert encoded.rpartition(b"/")[0] == format_.naming.encode(name)
            batch = segment.decode(store.segment(encoded) or b"")
            table = format_.decode(batch)
            times = format_.times(table)
            assert (name.least, name.greatest) == (times.min(), times.max())
            assert (name.bound, format_.end(name)) == (format_.bound(table), format_.ends(table).max())
            assert (name.tier, name.interval < 2, name.epoch <= make.STOP) == (tier_of(len(table)), True, True)
            if kind == "sessions":
                # Later releases store these as all other windows.
                table = format_.decode(format_.encode(table))
                columns = [*map(of_numbers, (table[START], table[END], table[DUE], table[COUNT])), *table.kept]
                assert pa.record_batch([table.key_hashes, table.keys, *columns], schema=batch.schema).equals(batch)
            else:
                assert zeros_for_nulls(format_.encode(table)).equals(batch)
            if format_.by_key:
                positions = segment.key_positions(batch.column(0)).tolist()
                assert positions == sorted(positions)
    assert seen.keys() == {*GROUPINGS, *TIMERS}
