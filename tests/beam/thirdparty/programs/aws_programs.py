"""Programs with the sinks of dynamodb_pyio, sqs_pyio and firehose_pyio; of these three, the ones that are installed."""

from __future__ import annotations

import apache_beam as beam
import pytest
from conftest import Record


def test_sqs(record: Record) -> None:
    sqs = pytest.importorskip("sqs_pyio.io")
    records = [{"Id": str(each), "MessageBody": f"body {each}"} for each in range(9)]
    with beam.Pipeline() as pipeline:
        batches = pipeline | beam.Create(records) | beam.BatchElements(min_batch_size=3, max_batch_size=3)
        sent = batches | sqs.WriteToSqs(queue_name="q", append_error=False, fake_config={"num_success": 0})
        record("failed", sent["write-to-sqs-failed-output"])
        keyed = pipeline | "keys" >> beam.Create([("key", records)])
        record(
            "all",
            (keyed | "keyed" >> sqs.WriteToSqs(queue_name="q", fake_config={"num_success": 9}))[
                "write-to-sqs-failed-output"
            ],
        )


def test_firehose(record: Record) -> None:
    firehose = pytest.importorskip("firehose_pyio.io")
    with beam.Pipeline() as pipeline:
        batches = pipeline | beam.Create([["one", "two", "three"], ["four"]])
        sent = batches | firehose.WriteToFirehose("stream", False, False, fake_config={"num_success": 0})
        record("failed", sent["write-to-firehose-failed-output"])
