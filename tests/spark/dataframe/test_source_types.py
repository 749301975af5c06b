"""Columns of a DataFrame, or of files, keep their types in all epochs: into DataFrames, and into Parquet files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark import SparkRunner, WriteToSpark

pytestmark = pytest.mark.spark

TYPES = {
    "id": "smallint",
    "tiny": "tinyint",
    "money": "decimal(12,2)",
    "ratio": "float",
    "text": "string",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "day": "date",
    "names": "map<string,smallint>",
    "record": "struct<x:tinyint,y:array<string>>",
}
ROWS = """
    SELECT * FROM VALUES
    (1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (2, 2, 1.25, 0.1, NULL, timestamp'2024-01-02 03:04:05', timestamp_ntz'2024-01-02 03:04:05', date'2024-01-02',
     map('a', 1), named_struct('x', 1, 'y', array('b'))),
    (3, 3, 1234567.80, 0.5, 'late', NULL, NULL, NULL, map(), NULL)
    AS (id, tiny, money, ratio, text, at, local, day, names, record)
"""


def rows_of(spark):
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in TYPES.items())
    return spark.sql(f"SELECT {casts} FROM ({ROWS})")


def run(runner, source, *sinks):
    options = PipelineOptions(max_records_per_epoch=1)
    with beam.Pipeline(runner, options) as pipeline:
        rows = pipeline | source | beam.Filter(lambda row: print(end="") is None) | beam.Select(*TYPES)
        for number, sink in enumerate(sinks):
            _ = rows | f"Sink{number}" >> sink


def test_columns_of_a_frame_keep_their_types(spark, tmp_path):
    frame, frames = rows_of(spark), []
    run(
        SparkRunner(spark),
        beam.io.ReadFromSpark(frame),
        WriteToSpark(lambda rows, epoch: frames.append(rows)),
        beam.io.WriteToParquet(f"{tmp_path}/out/"),
    )
    assert len(frames) > 1
    assert {tuple(each.dtypes) for each in frames} == {tuple(TYPES.items())}
    expected = sorted(map(tuple, frame.collect()))
    assert sorted(tuple(row) for each in frames for row in each.collect()) == expected
    files = sorted((tmp_path / "out").iterdir())
    assert len({str(pq.read_schema(path)) for path in files}) == 1
    again = spark.read.parquet(f"{tmp_path}/out")
    assert tuple(again.dtypes) == tuple(TYPES.items())
    assert sorted(map(tuple, again.collect())) == expected


def test_columns_of_files_become_those_of_frames(spark, tmp_path):
    """Spark has no types for some; those follow from the values of the first epoch, as without a source."""
    table = pa.table(
        {
            **dict.fromkeys(TYPES, pa.array([None, None], pa.int8())),
            "id": pa.array([1, 2], pa.int16()),
            "tiny": pa.array([2**63 - 1, None], pa.uint64()),
            "text": pa.array(["a", None]).dictionary_encode(),
            "at": pa.array([1000, None], pa.timestamp("ns", "UTC")),
        }
    )
    frames = []
    pq.write_table(table, tmp_path / "in.parquet")
    source = beam.io.ReadFromParquet(f"{tmp_path}/in.parquet")
    run(SparkRunner(spark), source, WriteToSpark(lambda rows, epoch: frames.append(rows)))
    kinds = {"id": "smallint", "tiny": "bigint", "text": "string", "at": "timestamp"}
    assert {tuple(each.dtypes) for each in frames} == {tuple((dict.fromkeys(TYPES, "tinyint") | kinds).items())}
    assert sorted((row.id, row.tiny, row.text) for each in frames for row in each.collect()) == [
        (1, 2**63 - 1, "a"),
        (2, None, None),
    ]
