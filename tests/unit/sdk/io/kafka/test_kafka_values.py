"""Keys and values of Kafka as JSON and Avro, alone and with a schema registry: what fits, and what does not."""

from __future__ import annotations

import builtins
import json
import socket
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

import cloudpickle
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import headrace as beam
from headrace.io import kafka_values
from headrace.io.kafka import KafkaReadError, ReadFromKafka, WriteToKafka
from headrace.io.kafka_values import RegistryError
from headrace.lowlevel import CallSink, StepError
from headrace.runners.local import LocalRunner
from headrace.sdk.io.kafka import value_formats
from headrace.sdk.io.kafka.value_formats import Place
from headrace.utils.timestamp import Timestamp
from tests.schemaregistry import HANGS_UP, running
from tests.unit.collected import collect, values

CLICK = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
PRICE = {
    "type": "record",
    "name": "Price",
    "fields": [{"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}}],
}
RULES = {
    "title": "Click",
    "type": "object",
    "properties": {"page": {"type": "string"}, "at": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
    "required": ["page"],
}
NOON = datetime(2024, 1, 2, 12, tzinfo=UTC)
CLICKS = [{"page": "home", "at": NOON}, {"page": "cart", "at": NOON}]


class Click(NamedTuple):
    page: str
    at: datetime


@pytest.fixture
def registry():
    with running() as registry:
        yield registry


def write(kafka, topic, elements, **serializers):
    kafka.send(topic, [(0, b"before", None, 1)])
    with beam.Pipeline(LocalRunner()) as pipeline:
        pairs = pipeline | beam.Create(elements) | beam.Map(_with_key)
        pairs | "Write" >> WriteToKafka({**kafka.config, "transactional.id": topic}, topic, **serializers)


def _with_key(element):
    return "k", element


def read(kafka, topic, **deserializers):
    found = values(lambda p: p | kafka.reading(topic, **deserializers))
    return sorted((value for key, value in found if key != b"before"), key=str)


class TestThereAndBack:
    @pytest.mark.parametrize("kind", ["mock", "http"])
    def test_avro_with_a_registry(self, kafka, topic, registry, kind):
        config = {"url": f"mock://{topic}"} if kind == "mock" else registry.config
        write(kafka, topic, CLICKS, value_serializer=kafka_values.avro(config, CLICK))
        assert read(kafka, topic, value_deserializer=kafka_values.avro(config)) == CLICKS[::-1]
        framed = [value for key, value in kafka.rows(topic) if key == b"k"]
        assert [value[:5] for value in framed] == [b"\0\0\0\0\1"] * 2

    def test_what_other_programs_write_and_read(self, kafka, topic, registry):
        client = SchemaRegistryClient(registry.config)
        context = SerializationContext(topic, MessageField.VALUE)
        theirs = AvroSerializer(client, json.dumps(CLICK))(CLICKS[0], context)
        write(kafka, topic, CLICKS[1:], value_serializer=kafka_values.avro(registry.config, CLICK))
        [ours] = [value for key, value in kafka.rows(topic) if key == b"k"]
        assert AvroDeserializer(client)(ours, context) == CLICKS[1]
        kafka.send(topic, [(0, b"k", theirs, 2)])
        assert read(kafka, topic, value_deserializer=kafka_values.avro(registry.config)) == CLICKS[::-1]
        assert [request for request in registry.requests if f"/subjects/{topic}-value/versions" in request]

    def test_a_registry_is_asked_once_for_a_schema(self, kafka, topic, registry):
        write(kafka, topic, CLICKS * 50, value_serializer=kafka_values.avro(registry.config, CLICK))
        # Other settings are another client, which knows nothing yet.
        reading = kafka_values.avro({**registry.config, "timeout": 9})
        assert len(read(kafka, topic, value_deserializer=reading)) == 100
        assert len([request for request in registry.requests if request.startswith("POST")]) == 1
        assert len([request for request in registry.requests if "/schemas/ids/1" in request]) == 1

    def test_keys_have_subjects_of_their_own(self, kafka, topic, registry):
        plain = kafka_values.avro(schema="string")
        key = kafka_values.avro(registry.config, "string")
        write(kafka, topic, ["a"], key_serializer=key, value_serializer=plain)
        assert any(f"/subjects/{topic}-key/versions" in request for request in registry.requests)
        good, _ = read_apart(kafka, topic, key_deserializer=key, value_deserializer=plain)
        assert good == [("k", "a")]

    def test_a_schema_that_values_are_read_as(self, kafka, topic, registry):
        write(kafka, topic, CLICKS[:1], value_serializer=kafka_values.avro(registry.config, CLICK))
        shop = {"name": "shop", "type": "int", "default": 7}
        newer = {**CLICK, "fields": [*CLICK["fields"], shop]}
        found = read(kafka, topic, value_deserializer=kafka_values.avro(registry.config, newer))
        assert found == [{**CLICKS[0], "shop": 7}]

    @pytest.mark.parametrize(
        "element", [beam.Row(**CLICKS[0]), Click(**CLICKS[0]), {"page": "home", "at": Timestamp.of(NOON)}]
    )
    def test_what_has_named_fields(self, kafka, topic, registry, element):
        write(kafka, topic, [element], value_serializer=kafka_values.avro(registry.config, CLICK))
        assert read(kafka, topic, value_deserializer=kafka_values.avro(registry.config)) == CLICKS[:1]

    @pytest.mark.parametrize("element", [beam.Row(page="a", count=2), {"page": "a", "count": 2}])
    def test_json_with_a_registry(self, kafka, topic, registry, element):
        write(kafka, topic, [element], value_serializer=kafka_values.json(registry.config, RULES))
        assert read(kafka, topic, value_deserializer=kafka_values.json(registry.config)) == [{"page": "a", "count": 2}]

    def test_elements_for_the_newest_schema_that_the_registry_has(self, kafka, topic, registry):
        place = Place(topic, "value")
        kafka_values.avro(registry.config, CLICK).write(CLICKS[0], place)
        settings = {"auto.register.schemas": False, "use.latest.version": True}
        newest = kafka_values.avro({**registry.config, "timeout": 8}, settings=settings)
        write(kafka, topic, [Click("home", Timestamp.of(NOON))], value_serializer=newest)
        assert read(kafka, topic, value_deserializer=kafka_values.avro(registry.config)) == CLICKS[:1]

    def test_a_schema_that_refers_to_another(self, kafka, topic, registry):
        client = SchemaRegistryClient(registry.config)
        client.register_schema("click", Schema(json.dumps(CLICK), "AVRO"))
        page = {"type": "record", "name": "Visit", "fields": [{"name": "click", "type": "Click"}]}
        referring = Schema(json.dumps(page), "AVRO", [SchemaReference("Click", "click", 1)])
        theirs = AvroSerializer(client, referring)({"click": CLICKS[0]}, SerializationContext(topic, "value"))
        kafka.send(topic, [(0, b"k", theirs, 2)])
        found = read(kafka, topic, value_deserializer=kafka_values.avro(registry.config))
        assert found == [{"click": CLICKS[0]}]

    def test_without_a_registry(self, kafka, topic):
        plain = kafka_values.avro(schema=CLICK)
        write(kafka, topic, CLICKS, value_serializer=plain)
        assert read(kafka, topic, value_deserializer=plain) == CLICKS[::-1]
        write(kafka, f"{topic}-json", [Click("home", NOON)], value_serializer=kafka_values.json())
        found = read(kafka, f"{topic}-json", value_deserializer=kafka_values.json())
        assert found == [{"page": "home", "at": "2024-01-02T12:00:00+00:00"}]

    def test_a_format_is_shipped_without_its_client(self, registry):
        place = Place("t", "value")
        writing = kafka_values.avro(registry.config, CLICK)
        data = writing.write(CLICKS[0], place)
        shipped = cloudpickle.loads(cloudpickle.dumps(writing))
        assert shipped._writer is None
        assert shipped.write(CLICKS[0], place) == data

    def test_what_is_known_of_a_schema_stays_over_the_tasks_of_a_process(self, registry):
        place, config = Place("t", "value"), {**registry.config, "timeout": 7}
        writing, reading = kafka_values.avro(config, CLICK), kafka_values.avro(config)
        data = writing.write(CLICKS[0], place)
        reading.read(data, place)
        before = list(registry.requests)
        for _ in range(3):
            writing, reading = cloudpickle.loads(cloudpickle.dumps((writing, reading)))
            assert reading.read(writing.write(CLICKS[0], place), place) == CLICKS[0]
        assert registry.requests == before


def read_apart(kafka, topic, **deserializers):
    bad = []

    def build(p):
        good, apart = p | kafka.reading(topic, **deserializers).with_exception_handling()
        apart | "bad" >> beam.io.Write(CallSink(lambda epoch, rows: bad.extend(rows)))
        return good

    good = [pair for pair, _ in collect(build) if pair[0] != b"before"]
    return good, [record for record, _ in bad if record[0].key != b"before"]


FRAME = b"\0\0\0\0\1"


class TestWhatDoesNotFit:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"", "Expecting data framing of length 6"),
            (b'{"page": "home"}', "(?:Invalid|Unexpected) magic byte"),  # as newer and older clients say
            (b"\0\0\0\0\x63abc", "Schema not found .*404"),
            (FRAME + b"\x08ho", "EOFError: Expected 4 bytes, read 2"),
        ],
    )
    def test_avro_of_a_registry(self, kafka, topic, registry, data, message):
        reading = kafka_values.avro(registry.config)
        write(kafka, topic, CLICKS, value_serializer=kafka_values.avro(registry.config, CLICK))
        kafka.send(topic, [(3, b"k", data, 2)])
        expected = (
            rf"topic '{topic}', partition 3, offset 0: .*{message}.*; correct the deserializers .*set such records"
        )
        with pytest.raises(KafkaReadError, match=expected):
            read(kafka, topic, value_deserializer=reading)
        good, bad = read_apart(kafka, topic, value_deserializer=reading)
        assert sorted((value for _, value in good), key=str) == CLICKS[::-1]
        [(record, failure)] = bad
        assert (record.value, record.partition, record.offset) == (data, 3, 0)
        assert failure[1]

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (FRAME + b'{"page": "a", "count": 0}', r"\$\.count: 0 is less than the minimum of 1"),
            (FRAME + b"{}", r"\$: 'page' is a required property"),
            (FRAME + b'{"page": ', "JSONDecodeError"),
        ],
    )
    def test_json_of_a_registry_names_the_rule(self, kafka, topic, registry, data, message):
        write(kafka, topic, [{"page": "a"}], value_serializer=kafka_values.json(registry.config, RULES))
        kafka.send(topic, [(3, b"k", data, 2)])
        reading = kafka_values.json(registry.config)
        with pytest.raises(KafkaReadError, match=rf"topic '{topic}', partition 3, offset 0: .*{message}.*; correct"):
            read(kafka, topic, value_deserializer=reading)
        good, bad = read_apart(kafka, topic, value_deserializer=reading)
        assert [value for _, value in good] == [{"page": "a"}]
        assert [record.value for record, _ in bad] == [data]

    @pytest.mark.parametrize(
        ("reading", "data", "message"),
        [
            (kafka_values.json(), b"{", "JSONDecodeError"),
            (kafka_values.avro(schema="long"), b"\x02\x02", "1 bytes are left behind the value"),
            (kafka_values.avro(schema="string"), b"\x08ab", "EOFError"),
        ],
    )
    def test_without_a_registry(self, kafka, topic, reading, data, message):
        kafka.send(topic, [(1, b"k", data, 2)])
        with pytest.raises(KafkaReadError, match=rf"topic '{topic}', partition 1, offset 0: .*{message}"):
            read(kafka, topic, value_deserializer=reading)
        assert [record.value for record, _ in read_apart(kafka, topic, value_deserializer=reading)[1]] == [data]

    @pytest.mark.parametrize(
        ("writing", "element", "message"),
        [
            (lambda config: kafka_values.avro(config, CLICK), {"page": 5, "at": NOON}, r"Click\.page is <5> of type"),
            (lambda config: kafka_values.avro(schema=CLICK), {"page": 5, "at": NOON}, r"Click\.page is <5> of type"),
            (
                lambda config: kafka_values.json(config, RULES),
                {"page": 5},
                r"element \{'page': 5\} .*\$\.page: 5 is not",
            ),
            (
                lambda config: kafka_values.json(config, RULES),
                {"count": float("nan")},
                r"is no JSON: .*map it to None",
            ),
            (lambda config: kafka_values.json(), {"n": float("inf")}, r"\{'n': inf\} is no JSON: .*map it to None"),
            (
                lambda config: kafka_values.avro(config, CLICK),
                {"page": "a", "at": NOON, "shop": 7},
                r"element \{.*'shop': 7\} does not fit the schema: the schema has no field 'shop'",
            ),
            (
                lambda config: kafka_values.avro(schema=PRICE),
                {"price": Decimal("1.555")},
                r"element \{'price': Decimal\('1.555'\)\} does not fit the schema: .*[Ss]cale",
            ),
            (
                lambda config: kafka_values.avro(config, PRICE),
                {"price": Decimal("1.555")},
                r"element \{'price': Decimal\('1.555'\)\} does not fit the schema: .*[Ss]cale",
            ),
        ],
    )
    def test_a_value_that_is_written_is_refused_before_the_commit(
        self, kafka, topic, registry, writing, element, message
    ):
        with pytest.raises(StepError, match=rf"(?s)'Write' raised; nothing of this epoch is committed.*{message}"):
            write(kafka, topic, [element], value_serializer=writing(registry.config))
        assert [key for key, _ in kafka.rows(topic)] == [b"before"]


class TestAnOutage:
    @pytest.mark.parametrize("status", [500, 503, 401, 429])
    def test_sets_no_record_apart(self, kafka, topic, registry, status):
        write(kafka, topic, CLICKS, value_serializer=kafka_values.avro(registry.config, CLICK))
        reading = kafka_values.avro({**registry.config, "timeout": 5 + status / 1000})
        registry.status = status
        expected = (
            rf"registry at http://127.* value schema of topic '{topic}': .*HTTP status code {status}.*start again"
        )
        with pytest.raises(RegistryError, match=expected):
            read_apart(kafka, topic, value_deserializer=reading)
        registry.status = None
        good, bad = read_apart(kafka, topic, value_deserializer=reading)
        assert (len(good), bad) == (2, [])

    @pytest.mark.parametrize("raw", [(404, "<html>no such page</html>"), (404, "{}"), (200, "<html>log in</html>")])
    def test_an_address_that_is_not_the_registrys_sets_no_record_apart(self, kafka, topic, registry, raw):
        write(kafka, topic, CLICKS, value_serializer=kafka_values.avro(registry.config, CLICK))
        registry.status, registry.page = raw
        reading = kafka_values.avro({**registry.config, "timeout": 5 + raw[0] / 1000, "cache.capacity": len(raw[1])})
        with pytest.raises(RegistryError, match=r"did not answer about the value schema of topic .*start again"):
            read_apart(kafka, topic, value_deserializer=reading)

    def test_a_registry_that_never_answers_is_waited_for_ten_seconds(self, monkeypatch):
        monkeypatch.setattr(value_formats, "_DEFAULTS", {"timeout": 0.2})
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            reading = kafka_values.avro({"url": url, "max.retries": 0})
            with pytest.raises(RegistryError, match="did not answer about the value schema of topic 't': ReadTimeout"):
                reading.read(FRAME + b"abc", Place("t", "value"))

    def test_a_registry_that_hangs_up(self, kafka, topic, registry):
        write(kafka, topic, CLICKS, value_serializer=kafka_values.avro(registry.config, CLICK))
        registry.status = HANGS_UP
        with pytest.raises(RegistryError, match=r"did not answer about .*: RemoteProtocolError"):
            read_apart(kafka, topic, value_deserializer=kafka_values.avro({**registry.config, "timeout": 3}))

    def test_a_registry_that_is_gone(self, kafka, topic):
        with running() as registry:
            write(kafka, topic, CLICKS, value_serializer=kafka_values.avro(registry.config, CLICK))
        url = registry.config["url"].replace("http://", "http://user:secret@")
        reading = kafka_values.avro({**registry.config, "url": url})
        with pytest.raises(
            RegistryError, match=r"http://\*\*\*@127.*ConnectError.*nothing of this epoch is committed"
        ) as raised:
            read_apart(kafka, topic, value_deserializer=reading)
        assert "secret" not in str(raised.value)
        with pytest.raises(RegistryError, match="value schema of topic"):
            writing = kafka_values.avro({**registry.config, "timeout": 4}, CLICK)
            write(kafka, topic, CLICKS, value_serializer=writing)
        assert issubclass(RegistryError, ConnectionError)
        assert not issubclass(RegistryError, KafkaReadError)


URL = {"url": "mock://wrong"}
IN_HEADERS = {"schema.id.serializer": header_schema_id_serializer}


class TestWrongArguments:
    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: kafka_values.avro(), ValueError, "neither a schema nor a registry"),
            (lambda: kafka_values.avro({}), TypeError, "give settings with its address"),
            (lambda: kafka_values.avro("http://u:pw@here"), TypeError, r"is 'http://\*\*\*@here'; give settings"),
            (
                lambda: kafka_values.avro({"basic.auth.user.info": "u:pw"}),
                TypeError,
                r"has the settings \['basic.auth.user.info'\]; give",
            ),
            (lambda: kafka_values.avro({"url": "u:pw@here"}), ValueError, r"client: Invalid url the url; correct it"),
            (lambda: kafka_values.avro(URL, json.dumps(CLICK)), TypeError, r"give a dict as json.load makes it"),
            (lambda: kafka_values.avro({**URL, "colour": 1}), ValueError, "refused by its client: .*colour"),
            (lambda: kafka_values.avro(URL, 5), TypeError, "schema is 5; give a dict"),
            (lambda: kafka_values.avro(URL, {"type": "recrd"}), ValueError, "is no schema of Avro"),
            (lambda: kafka_values.json(schema=RULES), ValueError, "by a registry only"),
            (lambda: kafka_values.json(URL, "{}"), TypeError, "give a JSON schema as a dict"),
            (lambda: kafka_values.json(URL, {"type": 5}), ValueError, r"is no JSON schema \(\$\.type: 5 is not valid"),
            (lambda: reading(kafka_values.avro(URL, settings={"x": 1})), ValueError, "refused by confluent-kafka: .*x"),
            (lambda: writing(kafka_values.json(URL)), ValueError, "without a schema; give schema="),
            (lambda: writing(kafka_values.avro(URL, CLICK, IN_HEADERS)), ValueError, "number into a header; leave"),
        ],
    )
    def test_are_told_when_the_pipeline_is_built(self, make, error, message):
        with pytest.raises(error, match=message):
            make()

    @pytest.mark.parametrize("make", [lambda: kafka_values.avro(URL, "string"), lambda: kafka_values.json(URL, RULES)])
    def test_without_the_package(self, monkeypatch, make):
        real = builtins.__import__

        def without(name, *args, **kwargs):
            if name.startswith("confluent_kafka.schema_registry"):
                raise ImportError("No module named 'authlib'")
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(ImportError, match=r"'authlib'\): pip install 'headrace\[kafka,schema-registry\]'"):
            make()


def reading(values):

    return ReadFromKafka(
        {"bootstrap.servers": "localhost:1", "log_level": 0}, ["t"], value_deserializer=values, bounded=True
    )


def writing(values):
    config = {"bootstrap.servers": "localhost:1", "transactional.id": "t", "log_level": 0}
    return WriteToKafka(config, "t", value_serializer=values)
