"""What: Debezium's records on Kafka as rows and retractions: JSON with and without schemas, Avro, every operation."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import headrace as beam
from headrace.io import kafka_values
from headrace.io.kafka import FromDebezium, KafkaRecord, debezium_commit_time
from headrace.lowlevel import StepError
from headrace.lowlevel.time import Timestamp
from tests.schemaregistry import running
from tests.unit.collected import collect


def envelope(op, before=None, after=None, at=1, **source):
    return {"op": op, "before": before, "after": after, "source": {"ts_ms": 1000 * at, **source}, "ts_ms": 9}


def row(key, city, **more):
    return {"id": key, "city": city, **more}


RECORDS = [
    ({"id": 1}, envelope("r", None, row(1, "oslo"), 1, snapshot="true")),
    ({"id": 2}, envelope("r", None, row(2, "rome"), 1, snapshot="last")),
    ({"id": 1}, envelope("u", None, row(1, "bern"), 2)),
    ({"id": 1}, envelope("u", None, row(1, "bern"), 2)),
    ({"id": 3}, envelope("c", None, row(3, "kyiv", note="new column"), 3)),
    ({"id": 2}, envelope("d", {"id": 2, "city": None}, None, 4)),
    ({"id": 2}, None),
    ({"id": 3}, envelope("u", None, row(3, "lviv", note="__debezium_unavailable_value"), 5)),
    (None, {"op": "m", "source": {}, "message": {"prefix": "p"}}),
]
EXPECTED = [
    ("+", row(1, "oslo"), 1),
    ("+", row(2, "rome"), 1),
    ("-", row(1, "oslo"), 1),
    ("+", row(1, "bern"), 2),
    ("+", row(3, "kyiv", note="new column"), 3),
    ("-", row(2, "rome"), 1),
    ("-", row(3, "kyiv", note="new column"), 3),
    ("+", row(3, "lviv", note="new column"), 5),
]


def with_schema(value):
    return None if value is None else {"schema": {"type": "struct"}, "payload": value}


def changes(read, **arguments):
    found = collect(lambda p: p | read | FromDebezium(**{"key": "id", **arguments}) | beam.ToChangelog())
    return sorted(((str(each.kind), each.value, micros // 1_000_000) for each, micros in found), key=str)


@pytest.mark.parametrize("wrapped", [dict, with_schema])
@pytest.mark.parametrize("with_metadata", [False, True])
def test_records_of_json(kafka, topic, wrapped, with_metadata):
    def encoded(value):
        return None if value is None else json.dumps(wrapped(value))

    kafka.send(topic, [(0, encoded(key), encoded(value), 1) for key, value in RECORDS])
    formats = {"key_deserializer": kafka_values.json(), "value_deserializer": kafka_values.json()}
    told = {"timestamp_policy": debezium_commit_time, "with_metadata": with_metadata}
    assert changes(kafka.reading(topic, **formats, **told)) == sorted(EXPECTED, key=str)


def test_records_of_avro_with_a_registry_whose_schema_changes(kafka, topic):
    def schema(name, columns):
        table = {
            "type": "record",
            "name": "Value",
            "fields": [{"name": "id", "type": "long"}]
            + [{"name": column, "type": ["null", "string"], "default": None} for column in columns],
        }
        source = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}
        fields = [
            {"name": "before", "type": ["null", table], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
        ]
        return json.dumps({"type": "record", "name": name, "fields": fields})

    key_schema = json.dumps({"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]})
    with running() as registry:
        client = SchemaRegistryClient(registry.config)

        def encoded(value, schema, role):
            return AvroSerializer(client, schema)(value, SerializationContext(topic, role)) if value else None

        sent = []
        for key, value in RECORDS[:-1]:
            has_note = "note" in ((value or {}).get("after") or {})
            value_schema = schema("Envelope", ["city", "note"] if has_note else ["city"])
            sent.append(
                (
                    0,
                    encoded(key, key_schema, MessageField.KEY),
                    encoded(value, value_schema, MessageField.VALUE),
                    1,
                )
            )
        kafka.send(topic, sent)
        avro = kafka_values.avro(registry.config)
        read = kafka.reading(
            topic, key_deserializer=avro, value_deserializer=avro, timestamp_policy=debezium_commit_time
        )
        assert changes(read) == sorted(EXPECTED, key=str)


def test_truncation_and_positions_in_the_log():
    records = [
        ({"id": 1}, envelope("c", None, row(1, "oslo"), lsn=4)),
        ({"id": 1}, envelope("u", None, row(1, "late"), lsn=3)),
        (None, envelope("t", lsn=6)),
        ({"id": 2}, envelope("c", None, row(2, "rome"), lsn=5)),
        ({"id": 3}, envelope("c", None, row(3, "bern"), lsn=7)),
    ]
    found = changes(beam.Create(records), sequence="lsn")
    assert [(kind, each["city"]) for kind, each, _ in found] == [("+", "oslo"), ("+", "bern"), ("-", "oslo")]


def test_a_deletion_without_a_row_and_a_tombstone_alone_take_the_key_of_the_record():
    for last in (envelope("d"), None):
        records = [({"id": 1}, envelope("c", None, row(1, "oslo"))), ({"id": 1}, last)]
        assert [kind for kind, _, _ in changes(beam.Create(records))] == ["+", "-"]
    without_keys = [(b"\0", envelope("c", None, row(1, "oslo"))), (b"\0", None)]
    assert [kind for kind, _, _ in changes(beam.Create(without_keys))] == ["+"]


def test_the_time_of_a_commit_or_of_the_record():
    def record(value):
        return KafkaRecord("orders", 0, 7, None, value, (), Timestamp(9))

    assert debezium_commit_time(record(with_schema(envelope("c", at=3)))) == 3
    for without in (None, envelope("r", at=0), {"op": "m"}, b"bytes"):
        assert debezium_commit_time(record(without)) == Timestamp(9)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (({"id": 1}, row(1, "oslo")), "is no envelope of Debezium, which has the fields op, before and after"),
        (({"id": 1}, b"{}"), "is no envelope of Debezium"),
        (({"id": 1}, envelope("x")), "the operation 'x' of .* is none of c, u, d, r, t, m"),
        (({"id": 1}, envelope("c", None, '{"_id": 1}')), "is no row with named columns"),
        (7, "7 is no record; give pairs of key and value"),
    ],
)
def test_what_is_no_record_of_debezium_is_refused(record, said):
    with pytest.raises(StepError, match=said):
        changes(beam.Create([record]))
