"""The benchmarks' events are the same for a seed, and have the skew and the disorder that they are said to have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.generator import GRID, SCHEMA, SECOND, Plan, generate, split, write

PLAN = Plan(events=50_000)


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return generate(PLAN)


def times(events: pa.Table) -> npt.NDArray[np.int64]:
    return np.asarray(events["timestamp"].cast(pa.int64()).to_numpy())


def test_a_seed_fixes_everything(events: pa.Table) -> None:
    assert events.equals(generate(PLAN))
    assert not events.equals(generate(Plan(events=50_000, seed=1)))
    assert events.schema.equals(SCHEMA)
    assert events.num_rows == 50_000
    assert events.slice(0, 2).to_pydict() != events.slice(2, 2).to_pydict()


def test_event_time_spans_the_hour_on_its_grid(events: pa.Table) -> None:
    offsets = times(events) - PLAN.start
    assert offsets.min() >= 0
    assert offsets.max() < PLAN.span
    assert np.ptp(offsets) > 0.999 * PLAN.span
    assert not (offsets % GRID).any()
    assert (30 * SECOND) % GRID, "two events would be exactly a session gap apart"


def test_keys_follow_zipf(events: pa.Table) -> None:
    counts = sorted(pc.value_counts(events["key"]).field("counts").to_pylist(), reverse=True)
    harmonic = sum(1 / rank for rank in range(1, PLAN.keys + 1))
    assert counts[0] == pytest.approx(PLAN.events / harmonic, rel=0.05)
    assert counts[9] == pytest.approx(counts[0] / 10, rel=0.25)
    assert PLAN.keys / 2 < len(counts) <= PLAN.keys


def test_disorder_is_bounded(events: pa.Table) -> None:
    """How far an event is behind the greatest event time before it: what a watermark must allow for."""
    behind = np.maximum.accumulate(times(events)) - times(events)
    assert behind.max() < PLAN.greatest_delay
    assert behind.max() > 4 * PLAN.disorder, "nothing is later than the usual disorder"
    late = (behind > PLAN.disorder).mean()
    assert late == pytest.approx(PLAN.late_share, abs=0.002)
    assert (behind > PLAN.disorder / 2).mean() > 0.3, "the usual events are in order"


@pytest.mark.parametrize("files", [1, 7, 20])
def test_files_hold_the_events_in_order_of_age(events: pa.Table, files: int, tmp_path: Path) -> None:
    paths = write(split(events, files), tmp_path)
    assert len(paths) == files
    by_age = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime)
    assert by_age == paths == sorted(paths)
    assert pa.concat_tables(map(pq.read_table, paths)).equals(events)
    assert all(pq.ParquetFile(path).num_row_groups >= 2 for path in paths)
