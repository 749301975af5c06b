"""Avro files on Spark: written and read by worker processes, and by a run that is started again."""

from __future__ import annotations

import fastavro
import pytest

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark import SparkRunner

pytestmark = pytest.mark.spark

NUMBER = {"type": "record", "name": "Number", "fields": [{"name": "n", "type": "long"}]}


def test_from_files_to_files(spark, tmp_path):
    for part in range(3):
        with (tmp_path / f"{part}.avro").open("wb") as file:
            records = [{"n": number} for number in range(100 * part, 100 * part + 100)]
            fastavro.writer(file, NUMBER, records, sync_interval=50)
    options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint", "--max_records_per_epoch=64"])
    # The second run finds that all is done.
    for _ in range(2):
        with beam.Pipeline(SparkRunner(spark), options) as pipeline:
            records = pipeline | beam.io.ReadFromAvro(f"{tmp_path}/*.avro")
            doubled = records | beam.Map(lambda record: {"n": 2 * record["n"]})
            doubled | beam.io.WriteToAvro(f"{tmp_path}/out/", NUMBER)
    found = []
    for path in (tmp_path / "out").glob("part-*"):
        with path.open("rb") as file:
            found += [record["n"] for record in fastavro.reader(file)]
    assert sorted(found) == [2 * number for number in range(300)]
