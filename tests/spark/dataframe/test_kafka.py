"""Kafka on Spark: read by worker processes, whose findings move the watermark, and written by epochs."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.io import kafka_values
from headrace.io.kafka import WriteToKafka
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark import SparkRunner
from headrace.sdk.io.kafka.sink import EPOCH_HEADER
from headrace.testing.util import assert_that, equal_to
from headrace.transforms import window
from tests.kafkacluster import numbered
from tests.schemaregistry import running

pytestmark = pytest.mark.spark


def test_from_topic_to_topic_with_a_watermark_for_each_partition(kafka, topic, tmp_path, spark):
    out = f"{topic}-out"
    kafka.send(topic, [row for partition in range(4) for row in numbered(partition, range(20))])
    kafka.send(out, [(0, b"before", b"", 1)])
    options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint", "--max_records_per_epoch=20"])
    with beam.Pipeline(SparkRunner(spark), options) as pipeline:
        pairs = pipeline | kafka.reading(topic, max_delay=1)
        counts = pairs | beam.WindowInto(window.FixedWindows(5)) | beam.combiners.Count.PerKey()
        texts = counts | beam.Map(lambda pair: (pair[0], str(pair[1])))
        texts | WriteToKafka({**kafka.config, "transactional.id": out}, out)
    got = [row for row in kafka.rows(out) if row[0] != b"before"]
    assert sorted(got) == sorted((b"k%d" % partition, b"5") for partition in range(4) for _ in range(4))
    epochs = [one for one in kafka.messages(out) if EPOCH_HEADER in dict(one.headers() or ())]
    assert len(epochs) == 2, "the first window comes out by the watermark, the others at the end of the input"


def test_values_with_a_schema_registry(kafka, topic, spark):
    out = f"{topic}-out"
    kafka.send(topic, [row for partition in range(4) for row in numbered(partition, range(20))])
    kafka.send(topic, [(0, b"bad", b"x", 1)])
    kafka.send(out, [(0, b"before", None, 1)])
    schema = {"type": "record", "name": "Number", "fields": [{"name": "n", "type": "long"}]}
    with running() as registry:
        with beam.Pipeline(SparkRunner(spark)) as pipeline:
            good, bad = pipeline | kafka.reading(topic, value_deserializer=int).with_exception_handling()
            records = good | beam.MapTuple(lambda key, number: (key, {"n": number}))
            config = {**kafka.config, "transactional.id": out}
            records | WriteToKafka(config, out, value_serializer=kafka_values.avro(registry.config, schema))
            assert_that(bad | beam.Map(lambda pair: pair[0].value), equal_to([b"x"]))
        found = []
        with beam.Pipeline(SparkRunner(spark)) as pipeline:
            read = pipeline | kafka.reading(out, value_deserializer=kafka_values.avro(registry.config))
            read | beam.io.ForeachEpoch(lambda epoch, pairs: found.extend(pairs))
    numbers = sorted(value["n"] for key, value in found if key != b"before")
    assert numbers == sorted(number for _ in range(4) for number in range(20))
