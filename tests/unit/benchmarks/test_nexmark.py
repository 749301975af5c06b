"""The Nexmark benchmark: its events, and what its queries give on the local runner."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import headrace as beam
from benchmarks.generator import write
from benchmarks.nexmark.events import AUCTION, BID, PERSON
from benchmarks.nexmark.generator import Plan, generate
from benchmarks.nexmark.implementation import TO_MEMORY, TO_PARQUET
from benchmarks.nexmark.pipelines import by_column
from benchmarks.nexmark.pipelines.logs import log_to_files
from benchmarks.nexmark.query import QUERIES, Query
from benchmarks.nexmark.reference import computed
from benchmarks.nexmark.results import of_logs, of_rows
from benchmarks.result import canonical, difference
from headrace.io import ReadFromParquet, Write
from headrace.lowlevel import CallSink
from headrace.options.pipeline_options import PipelineOptions

_PLAN = Plan(events=6_000)
_EVENTS = generate(_PLAN)
_BUILDS = TO_MEMORY | TO_PARQUET


def test_the_events_follow_the_definition():
    assert Counter(_EVENTS["kind"].to_pylist()) == {PERSON: 120, AUCTION: 360, BID: 5_520}
    bids = _EVENTS.filter(np.asarray(_EVENTS["kind"]) == BID)
    hot = [auction % 100 == 0 for auction in bids["auction"].to_pylist()]
    assert 0.45 < np.mean(hot) < 0.55
    hot = [bidder % 100 == 1 for bidder in bids["bidder"].to_pylist()]
    assert 0.7 < np.mean(hot) < 0.8
    sizes = [len(repr(row)) for row in bids.select(["auction", "bidder", "price", "extra"]).to_pylist()[:100]]
    assert max(sizes) < 200


def test_events_are_out_of_order_but_not_further_than_said():
    times = _EVENTS["time"].to_numpy()
    behind = np.maximum.accumulate(times) - times
    assert 0 < behind.max() < _PLAN.disorder
    assert sorted(times.tolist()) == [_PLAN.start + _PLAN.interval * number for number in range(_PLAN.events)]


def test_the_seed_says_it_all():
    assert generate(_PLAN).equals(_EVENTS)
    assert not generate(Plan(events=6_000, seed=1)).equals(_EVENTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark")
    write([_EVENTS], folder)
    return folder


@pytest.mark.parametrize("per_epoch", [None, 1_000], ids=["bounded", "streamed"])
@pytest.mark.parametrize("name", list(QUERIES))
def test_each_query_gives_what_sql_gives(name: str, per_epoch: int | None, folder: Path, tmp_path: Path):
    query = QUERIES[name]
    rows = _rows(query, folder, tmp_path, per_epoch)
    result = of_logs(query, rows) if name == "q10" else of_rows(query, rows)
    expected = canonical(query, computed(query, f"{folder}/*.parquet"))
    assert expected.num_rows > 0
    assert difference(query, expected, canonical(query, result)) is None


def _rows(query: Query, folder: Path, logs: Path, per_epoch: int | None) -> list[object]:
    rows: list[object] = []
    streaming = {} if per_epoch is None else {"max_records_per_epoch": per_epoch}
    delay = None if per_epoch is None else _PLAN.disorder / 1_000_000
    reading = ReadFromParquet(f"{folder}/*.parquet", columns=query.reads, timestamp="timestamp", max_delay=delay)
    with beam.Pipeline("LocalRunner", options=PipelineOptions([], **streaming)) as pipeline:
        events = pipeline | reading
        if query.name == "q10":
            built = log_to_files(beam, by_column, events, str(logs))
        else:
            built = _BUILDS[query.name](beam, by_column, events) | "Tuple" >> beam.Map(_tuple)
        _ = built | Write(CallSink(lambda epoch, delivered: rows.extend(row for row, _ in delivered)))
    return rows


def _tuple(row: object) -> tuple[object, ...]:
    return tuple(row.values() if isinstance(row, dict) else row)
