"""Programs with the sinks of dynamodb_pyio, sqs_pyio and firehose_pyio; of these three, the ones that are installed."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
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


def test_dynamodb(record_property: Any) -> None:
    dynamodb = pytest.importorskip("dynamodb_pyio.io")
    boto3, server = pytest.importorskip("boto3"), pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        region, address = "us-east-1", f"http://{host}:{port}"
        names = {"aws_access_key_id": "id", "aws_secret_access_key": "key"}
        service = boto3.resource("dynamodb", region_name=region, endpoint_url=address, **names)
        key = {"AttributeName": "num", "KeyType": "HASH"}
        kind = {"AttributeName": "num", "AttributeType": "N"}
        table = service.create_table(
            TableName="months", KeySchema=[key], AttributeDefinitions=[kind], BillingMode="PAY_PER_REQUEST"
        )
        options = [f"--endpoint_url={address}", f"--region_name={region}", *(f"--{a}={b}" for a, b in names.items())]
        with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
            rows = pipeline | beam.Create([{"num": each % 40, "name": f"m{each % 40}"} for each in range(60)])
            batches = rows | beam.BatchElements(min_batch_size=20, max_batch_size=20)
            batches | dynamodb.WriteToDynamoDB("months", dedup_pkeys=["num"])
        items = table.scan()["Items"]
    finally:
        server.stop()
    record_property("items", sorted(map(str, items)))
    assert len(items) == 40
