"""Tables of databases and lakes on Spark: data files written by worker processes, and a run that is started again."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import headrace as beam
from headrace.io.delta import ReadFromDelta, WriteToDelta
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark import SparkRunner
from tests.faults.crashes.tableworlds import WORLDS, new_world
from tests.postgresserver import server_or_skip

pytestmark = pytest.mark.spark

ROWS = [("abcde"[i % 5], i) for i in range(40)]


@pytest.fixture(scope="module")
def address():
    yield from server_or_skip()


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_rows_and_totals(name, spark, tmp_path, request, monkeypatch):
    world = new_world(name, tmp_path / "world", request, monkeypatch)
    options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint", "--max_records_per_epoch=16"])
    # The second run finds that all is done, and delivers the newest epoch once more.
    for _ in range(2):
        with beam.Pipeline(SparkRunner(spark), options) as pipeline:
            rows = pipeline | beam.Create(ROWS)
            rows | "Rows" >> world.writing("append")
            rows | beam.CombinePerKey(sum) | "Totals" >> world.writing("upsert")
    assert world.rows("append") == Counter(ROWS)
    assert world.rows("upsert") == Counter((name, sum(range(i, 40, 5))) for i, name in enumerate("abcde"))


def test_from_table_to_table(spark, tmp_path):
    rows = pa.table({"n": range(100), "day": [i % 3 for i in range(100)]})
    write_deltalake(tmp_path / "in", rows, partition_by=["day"])
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        read = pipeline | ReadFromDelta(tmp_path / "in")
        read | WriteToDelta(tmp_path / "out", rows.schema)
    found = ReadFromDelta(tmp_path / "out").injector()
    delivery = found.plan(found.start(), 1000, 1)
    values = [tuple(row.values()) for split in delivery.splits for part in split.read() for row in part.values]
    assert Counter(values) == Counter(zip(range(100), (i % 3 for i in range(100)), strict=True))
