"""Arrow arrays that are made without a look for pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_bytes, of_equal_bytes, of_integers, of_numbers

_PARTS = """
import sys
import numpy as np
import pyarrow as pa
from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_integers
from headrace.lowlevel.checkpoint import DeltaHeader
from headrace.lowlevel.checkpoint.files.delta_file import decode_deltas, encode_deltas
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.state.state_store import Delta
from headrace.runners.spark.jobs.stage_function import batches_of, messages_of
from headrace.lowlevel.records.column_batch import Single

delta = Delta(cells={(bytes(16), b""): b"state"}, marks={(bytes(16), 0, "tag"): None}, ids={b"id": 1})
assert decode_deltas(encode_deltas(DeltaHeader(1, 1, 0, "token"), {"step": delta}), "file")[1] == {"step": delta}
table = pa.RecordBatch.from_arrays([pa.nulls(2, pa.int64())], ["value"])
assert len(ColumnBatch(table, np.array([1, 2]), Single(0)).taken(np.array([1]))) == 1
assert list(messages_of(batches_of([(0, 1, 2, b"blob")]))) == [(0, 1, 2, b"blob")]
assert [numbers_in(of_integers([1, 2], pa.int32())[:count]).sum() for count in range(3)] == [0, 1, 3]
assert "pandas" not in sys.modules
"""

_SUMS = """
import sys
import headrace as beam
from headrace.transforms.window import FixedWindows, Sessions

found = {}
with beam.Pipeline("LocalRunner") as pipeline:
    rows = pipeline | beam.io.ReadFromParquet(sys.argv[1], timestamp="time", as_rows=True)
    for windows in (FixedWindows(60), Sessions(60)):
        for key in ("text", "price"):
            label = f"{windows} by {key}"
            sums = beam.GroupBy(key).aggregate_field("count", sum, "total").aggregate_field("count", max, "most")
            grouped = rows | f"{label}: windows" >> beam.WindowInto(windows) | f"{label}: sums" >> (
                sums.aggregate_field("price", beam.combiners.MeanCombineFn(), "mean")
            )
            grouped | f"{label}: kept" >> beam.io.ForeachEpoch(
                lambda epoch, elements, label=label: found.setdefault(label, []).extend(elements)
            )
assert [len(elements) for elements in found.values()] == [3] * 4, found
assert "pandas" not in sys.modules
"""


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20))))
def test_bytes(values: list[bytes | None]) -> None:
    """As Arrow makes them itself."""
    for kind in (pa.binary(), pa.large_binary()):
        made = of_bytes(values, kind)
        made.validate(full=True)
        assert made.equals(pa.array(values, kind))
        assert made.null_count == values.count(None)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1))))
def test_integers(values: list[int | None]) -> None:
    """As Arrow makes them itself, of 32 bits and of 64."""
    for kind in (pa.int32(), pa.int64()):
        made = of_integers(values, kind)
        made.validate(full=True)
        assert made.equals(pa.array(values, kind))


@given(st.lists(st.booleans()), st.integers(1, 3))
def test_numbers(flags: list[bool], step: int) -> None:
    """Truth values, whole numbers and floats, also where they do not lie side by side."""
    for values in (np.array(flags, bool), np.arange(len(flags)), np.arange(len(flags)) / 7):
        made = of_numbers(values[::step])
        made.validate(full=True)
        assert made.equals(pa.array(values[::step]))


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 20), st.integers(0, 20))
def test_numbers_again(flags: list[bool], start: int, count: int) -> None:
    """Of whole arrays and of slices, and as read-only as Arrow gives them."""
    instants = pa.array(range(len(flags)), pa.timestamp("us"))
    for whole in (pa.array(flags, pa.bool_()), pa.array(range(len(flags)), pa.int32()), instants, pa.nulls(len(flags))):
        column = whole.slice(start, count)
        expected = column.to_numpy(zero_copy_only=False)
        found = numbers_in(column)
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()
        assert not len(found) or found.flags.writeable == expected.flags.writeable


def test_bytes_of_a_length() -> None:
    """Others are refused, be it that they come to the same together."""
    assert of_equal_bytes([], 16).equals(pa.array([], pa.binary(16)))
    with pytest.raises(ValueError, match="2 values have 3 bytes, not 2 each"):
        of_equal_bytes([b"ab", b"c"], 2)


def test_too_large() -> None:
    """What has no place is an error, not something else: numbers, and bytes that 32 bits cannot address."""
    with pytest.raises(OverflowError, match="2147483648 bytes in one array of type binary"):
        of_bytes([bytes(1 << 30)] * 2, pa.binary())
    with pytest.raises(OverflowError):
        of_integers([2**63], pa.int64())


def test_what_every_worker_does_loads_no_pandas() -> None:
    """Delta files, columns on their way and rows between tasks."""
    subprocess.run([sys.executable, "-c", _PARTS], check=True)


def test_sums_of_columns_load_no_pandas(tmp_path: Path) -> None:
    """Keys of text and of floats, in windows and in sessions."""
    times = pa.array([10, 20, 200], pa.timestamp("s", "UTC"))
    rows = {"time": times, "text": ["a", None, "b"], "price": [1.5, -0.0, 2.5], "count": [1, 2, 3]}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    subprocess.run([sys.executable, "-c", _SUMS, str(tmp_path / "rows.parquet")], check=True)
