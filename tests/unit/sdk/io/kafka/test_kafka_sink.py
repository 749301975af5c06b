"""Kafka as a sink, over its protocol: transactions of epochs, deliveries that are repeated, crashes, wrong settings."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import KafkaError, KafkaException

import headrace as beam
from headrace.io.kafka import KafkaReadError, KafkaWriteError, WriteToKafka
from headrace.lowlevel import StepError
from headrace.lowlevel.records.record import Batch
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.kafka import client
from headrace.sdk.io.kafka import sink as sink_module
from tests import kafkafaults as faults
from tests.kafkacluster import numbered
from tests.unit.sdk.io.sourcefiles import OneByOne


class TestWriting:
    def sink(self, kafka, topic, **config):
        return WriteToKafka({**kafka.config, "transactional.id": topic, **config}, topic).sink()

    def staged(self, sink, *elements, token="t"):
        return sink.stage(Batch(list(elements), [5_000_000] * len(elements)), 1, 0, token)

    def test_pairs_with_their_event_times(self, kafka, topic):
        kafka.send(topic, [(0, b"before", b"", 1)])
        with beam.Pipeline(LocalRunner()) as pipeline:
            rows = pipeline | beam.Create([("a", b"1"), (None, "2"), (b"c", None)])
            stamped = rows | beam.Map(lambda row: beam.window.TimestampedValue(row, 7))
            stamped | WriteToKafka({**kafka.config, "transactional.id": topic}, topic)
        written = [one for one in kafka.messages(topic) if one.key() != b"before"]
        assert Counter((one.key(), one.value()) for one in written) == Counter(
            [(b"a", b"1"), (None, b"2"), (b"c", None)]
        )
        assert {one.timestamp()[1] for one in written} == {7000}

    def test_a_delivery_that_is_repeated_is_not_sent_twice(self, kafka, topic):
        kafka.send(topic, [(0, b"before", b"", 1)])
        first = self.sink(kafka, topic)
        receipts = [self.staged(first, ("a", "1"), ("b", "2")), self.staged(first, ("c", "3"), token="u")]
        first.deliver(1, receipts)
        again = self.sink(kafka, topic)
        again.deliver(1, receipts)
        assert sorted(key for key, _ in kafka.rows(topic)) == [b"a", b"b", b"before", b"c"]
        again.deliver(2, [self.staged(again, ("d", "4"))])
        assert sorted(key for key, _ in kafka.rows(topic)) == [b"a", b"b", b"before", b"c", b"d"]

    def test_tasks_ask_the_broker_for_the_ends_once_in_a_while(self, faulty):
        faulty.send("out", [(0, b"before", b"", 1)])
        sink = self.sink(faulty, "out")
        self.staged(sink, ("a", "0"))
        faulty.requests()
        for task in range(32):
            self.staged(sink, ("a", "1"), token=str(task))
        assert not faulty.requests()[faults.LIST_OFFSETS]
        sink._ends_until -= sink_module._KEPT_SECONDS
        self.staged(sink, ("a", "2"))
        assert faulty.requests()[faults.LIST_OFFSETS] == 1

    def test_marks_are_found_from_ends_that_are_a_while_old(self, kafka, topic):
        kafka.send(topic, [(0, b"before", b"", 1)])
        first = self.sink(kafka, topic)
        self.staged(first, ("a", "0"))
        kafka.send(topic, numbered(0, range(5)))
        receipts = [self.staged(first, ("a", "1"))]
        first.deliver(1, receipts)
        self.sink(kafka, topic).deliver(1, receipts)
        assert Counter(key for key, _ in kafka.rows(topic))[b"a"] == 1

    @pytest.mark.parametrize(
        ("mark", "last_stable", "sent"),
        [("none", 1, 1), ("committed", 9, 0), ("aborted", 9, 1), ("committed", 0, KafkaReadError)],
    )
    def test_an_open_transaction_of_another_producer_matters_only_before_a_mark(
        self, kafka, topic, monkeypatch, mark, last_stable, sent
    ):
        """The broker of the tests hides nothing, so that ours does: behind `last_stable`, and what was aborted."""
        kafka.send(topic, [(0, b"before", b"", 1)])
        sink, real, produced = self.sink(kafka, topic), client.KafkaCluster, []
        receipts = [self.staged(sink, ("a", "1"))]
        if mark != "none":
            sink.deliver(1, receipts)

        class Hiding(real):
            def read(self, offsets):
                committed = self._settings["isolation.level"] == "read_committed"
                if committed and offsets.end > last_stable:
                    raise KafkaReadError("no message arrived")
                found = super().read(offsets)
                return iter(()) if committed and mark == "aborted" else found

        monkeypatch.setattr(sink_module, "KafkaCluster", Hiding)
        again = self.sink(kafka, topic)
        monkeypatch.setattr(again, "_send", lambda producer, records, mark: produced.extend(records))
        if sent is KafkaReadError:
            with pytest.raises(KafkaWriteError, match="no message arrived"):
                again.deliver(1, receipts)
        else:
            again.deliver(1, receipts)
            assert len(produced) == sent

    def test_another_run_under_the_same_name_is_not_mistaken_for_it(self, kafka, topic):
        kafka.send(topic, [(0, b"before", b"", 1)])
        for token in "tu":
            sink = self.sink(kafka, topic)
            sink.deliver(1, [self.staged(sink, ("a", "1"), token=token)])
        assert Counter(key for key, _ in kafka.rows(topic))[b"a"] == 2

    def test_a_driver_that_was_replaced_sends_nothing_more(self, kafka, topic):
        # The broker of the tests fences nobody, so its answer is ours.
        kafka.send(topic, [(0, b"before", b"", 1)])
        zombie, successor = self.sink(kafka, topic), self.sink(kafka, topic)
        zombie.deliver(1, [self.staged(zombie, ("a", "1"))])
        receipts = [self.staged(zombie, ("b", "2"))]
        successor.deliver(2, receipts)
        zombie._producer = Answering(zombie._producer, KafkaError(KafkaError._FENCED, "fenced", True))
        with pytest.raises(KafkaWriteError, match=r"epoch 2 was not taken .*: fenced; the epoch is committed and is"):
            zombie.deliver(2, receipts)
        zombie.deliver(2, receipts)
        assert Counter(key for key, _ in kafka.rows(topic))[b"b"] == 1

    def test_a_transaction_that_the_broker_gives_up_is_tried_again(self, kafka, topic):
        kafka.send(topic, [(0, b"before", b"", 1)])
        sink = self.sink(kafka, topic)
        sink.deliver(1, [self.staged(sink, ("a", "1"))])
        aborted = KafkaError(KafkaError.INVALID_TXN_STATE, "once more", False, False, True)
        sink._producer = Answering(sink._producer, aborted, times=2)
        sink.deliver(2, [self.staged(sink, ("b", "2"))])
        assert sink._producer.left == 0
        assert Counter(key for key, _ in kafka.rows(topic))[b"b"] == 1
        sink._producer = Answering(sink._producer, aborted, times=3)
        with pytest.raises(KafkaWriteError, match="once more"):
            sink.deliver(3, [self.staged(sink, ("c", "2"))])

    def test_what_is_no_pair(self, kafka, topic):
        kafka.send(topic, [(0, b"before", b"", 1)])
        with (
            pytest.raises(StepError, match="'abc' is no pair \\(key, value\\); map it to one"),
            beam.Pipeline(LocalRunner()) as pipeline,
        ):
            pipeline | beam.Create(["abc"]) | WriteToKafka({**kafka.config, "transactional.id": topic}, topic)
        sink = self.sink(kafka, topic)
        with pytest.raises(TypeError, match="5 is neither bytes nor text; give a serializer"):
            self.staged(sink, ("a", 5))


class Answering:
    """A producer whose first transactions fail when they are to begin."""

    def __init__(self, producer, error, times=1):
        self._producer, self._error, self.left = producer, error, times

    def begin_transaction(self):
        if self.left:
            self.left -= 1
            raise KafkaException(self._error)
        self._producer.begin_transaction()

    def abort_transaction(self, timeout):
        pass

    def __getattr__(self, name):
        return getattr(self._producer, name)


class Crash(BaseException):
    pass


class Crashing(LocalRunner):
    """Stops the driver at a step of some epoch, as a machine that goes down does."""

    def __init__(self, step, epoch):
        super().__init__(scheduler=_CrashAt(step, epoch))


class _CrashAt(OneByOne):
    def __init__(self, step, epoch):
        super().__init__()
        self._at = (step, epoch)

    def step(self, name, epoch):
        if (name, epoch) == self._at:
            raise Crash
        super().step(name, epoch)


@pytest.mark.parametrize("step", ["plan", "commit", "committed", "deliver", "delivered"])
def test_from_topic_to_topic_nothing_is_lost_or_doubled_by_a_crash(kafka, topic, tmp_path, step):
    out = f"{topic}-out"
    kafka.send(topic, [row for partition in range(2) for row in numbered(partition, range(4))])
    kafka.send(out, [(0, b"before", b"", 1)])

    def run(runner):
        with beam.Pipeline(runner, options=PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])) as pipeline:
            rows = pipeline | kafka.reading(topic)
            rows | WriteToKafka({**kafka.config, "transactional.id": out}, out)

    with pytest.raises(Crash):
        run(Crashing(step, 3))
    run(LocalRunner(scheduler=OneByOne()))
    got = [row for row in kafka.rows(out) if row[0] != b"before"]
    assert sorted(got) == sorted((b"k%d" % partition, b"%d" % number) for partition in range(2) for number in range(4))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "producer_config names no broker"),
        ({"bootstrap.servers": "x:1"}, "producer_config has no 'transactional.id'; give a name that stays"),
        (
            {"bootstrap.servers": "x:1", "transactional.id": "a", "acks": 1},
            "librdkafka: .*`acks` must be",
        ),
    ],
)
def test_wrong_settings(config, message):
    with pytest.raises(ValueError, match=message):
        WriteToKafka({**config, "log_level": 0}, "t")
