"""Kafka that answers with errors: what passes unnoticed, what ends the run, and what is sent once all the same."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

import headrace as beam
from headrace.io.kafka import KafkaReadError, KafkaWriteError, ReadFromKafka, WriteToKafka
from headrace.lowlevel.records.record import Batch
from headrace.runners.local import LocalRunner
from headrace.sdk.io.kafka import client
from tests import kafkafaults as faults
from tests.kafkacluster import QUIET, numbered
from tests.unit.collected import values

BEFORE = (0, b"before", b"", 1)


class Delivered:
    """A sink on a broker, with an epoch of one record that is staged."""

    def __init__(self, cluster, **config):
        cluster.send("out", [BEFORE])
        self.sink = WriteToKafka({**cluster.config, "transactional.id": "a", **config}, "out").sink()
        self.receipts = [self.sink.stage(Batch([("k", "v")], [5]), 1, 0, "t")]

    def deliver(self):
        self.sink.deliver(1, self.receipts)


@pytest.mark.parametrize(
    ("request_", "errors"),
    [
        (faults.INIT_PRODUCER_ID, [faults.NO_COORDINATOR]),
        (faults.ADD_PARTITIONS, [faults.CONCURRENT, faults.NO_COORDINATOR]),
        (faults.PRODUCE, [faults.NOT_LEADER, faults.TIMED_OUT]),
        (faults.END_TRANSACTION, [faults.NO_COORDINATOR, faults.CONCURRENT]),
        (faults.ADD_PARTITIONS, [faults.FORBIDDEN]),
    ],
    ids=["begin", "add", "produce", "commit", "refused once"],
)
def test_an_epoch_is_sent_once_whatever_the_broker_says_at_first(faulty, request_, errors):
    epoch = Delivered(faulty)
    faulty.fail(request_, *errors)
    epoch.deliver()
    assert sorted(faulty.rows("out")) == [(b"before", b""), (b"k", b"v")]


@pytest.mark.parametrize(
    ("request_", "error", "says"),
    [
        (faults.END_TRANSACTION, faults.FENCED, "fenced"),
        (faults.PRODUCE, faults.FORGED_EPOCH, "epoch"),
        (faults.INIT_PRODUCER_ID, faults.FENCED, "fenced"),
    ],
    ids=["commit", "produce", "begin"],
)
def test_a_driver_that_was_replaced_is_refused(faulty, request_, error, says):
    epoch = Delivered(faulty)
    faulty.fail(request_, *[error] * 9)
    with pytest.raises(KafkaWriteError, match=rf"epoch 1 was not taken by topic 'out': .*{says}.*; the epoch is comm"):
        epoch.deliver()


def test_a_topic_that_may_not_be_written_to_is_said(faulty):
    epoch = Delivered(faulty)
    faulty.fail(faults.ADD_PARTITIONS, *[faults.FORBIDDEN] * 9)
    with pytest.raises(KafkaWriteError, match=r"epoch 1 was not taken by topic 'out': .*; the epoch is committed"):
        epoch.deliver()


def test_a_record_that_is_too_long_is_refused_before_the_commit(faulty):
    epoch = Delivered(faulty, **{"message.max.bytes": 2000})
    for element in (("k", "v" * 2000), ("k" * 2000, None)):
        with pytest.raises(ValueError, match=r"a record of 20\d\d bytes with key b'k+.* message.max.bytes, 2000; make"):
            epoch.sink.stage(Batch([element], [5]), 1, 0, "t")
    epoch.sink.deliver(1, [epoch.sink.stage(Batch([("k", "v" * 1900)], [5]), 1, 0, "t")])


@pytest.mark.parametrize(
    ("request_", "errors"),
    [(faults.FETCH, 1), *((faults.LIST_OFFSETS, errors) for errors in (1, 2, 3))],
    ids=["fetch", "offsets", "offsets twice", "offsets three times"],
)
def test_reading_goes_on_after_errors_that_pass(faulty, request_, errors):
    faulty.send("in", numbered(0, range(5)))
    faulty.fail(request_, *[faults.NOT_LEADER] * errors)
    assert [int(value) for _, value in values(lambda p: p | faulty.reading("in"))] == list(range(5))


def test_what_may_not_be_read_is_said(faulty):
    faulty.send("in", numbered(0, range(5)))
    faulty.fail(faults.FETCH, *[faults.FORBIDDEN] * 9)
    with pytest.raises(KafkaReadError, match=r"topic 'in', partition 0, offsets 0 to 4 cannot be read: .*uthoriz"):
        values(lambda p: p | faulty.reading("in"))


def test_offsets_that_are_not_told_are_not_taken_for_none(faulty):
    faulty.send("in", numbered(0, range(5)))
    for options in ({}, {"start_read_time": 3}, {"start_offsets": "latest"}):
        faulty.fail(faults.LIST_OFFSETS, faults.FORBIDDEN)
        with pytest.raises(KafkaReadError, match=r"offsets.*: the request to Kafka at .*uthoriz[^;]*$"):
            values(lambda p, options=options: p | faulty.reading("in", **options))


def test_what_a_group_has_committed_is_not_taken_for_nothing(faulty):
    faulty.send("in", numbered(0, range(5)))
    faulty.fail(faults.FETCH_COMMITTED, *[faults.FORBIDDEN_GROUP] * 9)
    with pytest.raises(KafkaReadError, match=r"committed offsets: the request to Kafka at .*uthoriz"):
        values(lambda p: p | faulty.reading("in", start_offsets="committed"))


class TestOutage:
    """A broker that is away for a while, and what it says while it comes back, does not end a run."""

    @pytest.fixture
    def reader(self, faulty):
        faulty.send("in", numbered(0, range(5)))
        injector = faulty.reading("in", bounded=False, max_delay=0).injector()
        return injector, injector.start()

    @staticmethod
    def count(injector, position):
        return sum(len(batch) for split in injector.plan(position, 100, 1).splits for batch in split.read())

    def test_the_only_broker_is_away(self, faulty, reader):
        assert self.count(*reader) == 5
        faulty.stop()
        back = threading.Timer(2.0, faulty.start)
        back.start()
        assert self.count(*reader) == 5, "the driver asks until it is back"
        back.join()
        assert reader[0]._cluster.outages > 0

    def test_it_goes_away_between_the_plan_and_the_reading(self, faulty, reader):
        splits = reader[0].plan(reader[1], 100, 1).splits
        faulty.stop()
        back = threading.Timer(1.0, faulty.start)
        back.start()
        assert sum(len(batch) for split in splits for batch in split.read()) == 5

    def test_it_is_away_while_new_partitions_are_looked_for(self, faulty, reader):
        injector, position = reader
        injector._checked -= 100
        faulty.stop()
        back = threading.Timer(1.0, faulty.start)
        back.start()
        assert self.count(injector, position) == 5
        back.join()

    @pytest.mark.parametrize("request_", [faults.LIST_OFFSETS, faults.METADATA, faults.FETCH])
    def test_a_broker_that_does_not_know_the_topic_yet(self, faulty, reader, request_):
        injector, position = reader
        injector._checked -= 100
        faulty.fail(request_, *[faults.UNKNOWN_TOPIC] * 3)
        assert self.count(injector, position) == 5

    def test_every_name_of_an_error_that_passes_is_one_of_the_client(self):
        assert [name for name in client._PASSING if not hasattr(KafkaError, name)] == []

    @pytest.mark.parametrize("name", sorted(client._PASSING))
    def test_every_one_of_them_is_waited_for(self, name):
        answers = [KafkaException(KafkaError(getattr(KafkaError, name))), 7]

        def ask():
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        assert client.KafkaCluster({})._patiently(ask) == 7


class TestNoBroker:
    @pytest.fixture(autouse=True)
    def little_patience(self, monkeypatch):
        monkeypatch.setattr(client, "PATIENCE", 0.5)

    def test_a_wrong_address(self):
        config = {"bootstrap.servers": "127.0.0.1:1", **QUIET}
        with pytest.raises(
            KafkaReadError, match=r"partitions: .*127\.0\.0\.1:1 failed: .*ransport.*; no broker .*check"
        ):
            values(lambda p: p | ReadFromKafka(config, ["in"], bounded=True))

    def test_a_wrong_address_to_write_to(self):
        config = {"bootstrap.servers": "127.0.0.1:1", "transactional.id": "a", **QUIET}
        with (
            pytest.raises(Exception, match=r"partitions: the request to Kafka at 127\.0\.0\.1:1 failed: .*ransport"),
            beam.Pipeline(LocalRunner()) as pipeline,
        ):
            pipeline | beam.Create([("a", "b")]) | WriteToKafka(config, "out")

    def test_one_that_goes_away(self, faulty):
        faulty.send("in", numbered(0, range(5)))
        injector = faulty.reading("in").injector()
        position = injector.start()
        faulty.stop()
        with pytest.raises(KafkaReadError, match=r"topic 'in', partition 0, offsets 0 to 4"):
            [list(split.read()) for split in injector.plan(position, 10, 1).splits]
