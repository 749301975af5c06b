"""Kafka as a source, over its protocol: offsets, watermarks of partitions, poison, wrong settings."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace

import pytest

import headrace as beam
from headrace.io.kafka import KafkaReadError, KafkaRecord, ReadFromKafka
from headrace.lowlevel import CallSink
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.io.kafka import injector as kafka_injector
from headrace.sdk.io.kafka.client import KafkaCluster, PartitionRange, RecordMark, consumer_settings
from headrace.sdk.io.kafka.injector import KafkaInjector, KafkaSplit, PartitionPosition, Policy, _plain
from headrace.sdk.io.kafka.source import _Starts
from headrace.utils.timestamp import Timestamp
from tests.kafkacluster import Cluster as Brokers
from tests.kafkacluster import numbered
from tests.unit.collected import collect, values
from tests.unit.sdk.io.sourcefiles import OneByOne

TEXT = "org.apache.kafka.common.serialization.StringDeserializer"


class TestReading:
    def test_pairs_with_the_timestamps_of_records(self, kafka, topic):
        kafka.send(topic, [(0, b"a", b"1", 1000), (2, None, b"2", 2000), (2, b"c", None, 3000)])
        rows = collect(lambda p: p | kafka.reading(topic))
        assert sorted(rows, key=lambda row: row[1]) == [
            ((b"a", b"1"), 1_000_000),
            ((None, b"2"), 2_000_000),
            ((b"c", None), 3_000_000),
        ]

    def test_deserializers_metadata_and_a_timestamp_of_ones_own(self, kafka, topic):
        kafka.send(topic, [(1, b"a", bytes(7) + b"*", 1000)], headers=[("from", b"x")])
        number = "org.apache.kafka.common.serialization.LongDeserializer"
        source = kafka.reading(
            topic,
            key_deserializer=TEXT,
            value_deserializer=number,
            timestamp_policy=lambda record: record.value,
            with_metadata=True,
        )
        record = KafkaRecord(topic, 1, 0, "a", 42, (("from", b"x"),), Timestamp(1))
        assert collect(lambda p: p | source) == [(record, 42_000_000)]

    def test_partitions_keep_their_order_whatever_the_epochs(self, kafka, topic):
        kafka.send(topic, [row for partition in range(4) for row in numbered(partition, range(10))])
        for runner in ({}, {"scheduler": OneByOne()}, {"parallelism": 3}):
            got = values(lambda p: p | kafka.reading(topic), **runner)
            for partition in range(4):
                assert [int(v) for k, v in got if k == b"k%d" % partition] == list(range(10))

    def test_a_delivery_knows_what_is_left(self, kafka, topic):
        kafka.send(topic, [row for partition in range(2) for row in numbered(partition, range(10))])
        injector = kafka.reading(topic, bounded=False, max_delay=0).injector()
        first = injector.plan(injector.start(), 6, 1)
        second = injector.plan(first.position, 100, 1)
        assert (first.backlog, second.backlog, injector.plan(second.position, 100, 1).backlog) == (14, 0, 0)

    def test_a_reader_goes_on_with_another_bound(self, kafka, topic):
        """Each life reads what the one before has left, up to the records that are there or without end."""
        kafka.send(topic, numbered(0, range(3)))
        position, read = None, []
        for bounded in (False, True, False):
            injector = kafka.reading(topic, bounded=bounded, max_delay=0).injector()
            delivery = injector.plan(injector.start() if position is None else position, 100, 1)
            position = delivery.position
            read.append(sum(split.count_records() for split in delivery.splits))
            assert delivery.done == bounded
            assert (injector.holder(position) is None) == bounded
            kafka.send(topic, numbered(0, range(4)))
            if bounded:
                again = injector.plan(position, 100, 1)
                assert (again.splits, again.done) == ([], True)
        assert read == [3, 4, 4]

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"start_offsets": "earliest"}, [0, 1, 2, 3]),
            ({"start_offsets": "latest"}, []),
            ({"start_offsets": "committed"}, [0, 1, 2, 3]),
        ],
    )
    def test_where_it_begins(self, kafka, topic, options, expected):
        kafka.send(topic, numbered(0, range(4)))
        assert [int(v) for _, v in values(lambda p: p | kafka.reading(topic, **options))] == expected

    def test_topics_by_pattern(self, kafka, topic):
        for number in range(2):
            kafka.send(f"{topic}-{number}", numbered(0, [number]))
        kafka.send(f"other-{topic}", numbered(0, [2]))
        assert sorted(values(lambda p: p | kafka.reading(f"^{topic}-[0-9]"))) == [(b"k0", b"0"), (b"k0", b"1")]

    def test_the_time_of_reading(self, kafka, topic):
        kafka.send(topic, [(0, b"a", b"1", 1000), (1, b"b", b"2", 9000)])
        before = time.time_ns() // 1000
        rows = collect(lambda p: p | kafka.reading(topic, timestamp_policy=ReadFromKafka.processing_time_policy))
        assert [key for (key, _), _ in sorted(rows)] == [b"a", b"b"]
        assert before <= rows[0][1] == rows[1][1] <= time.time_ns() // 1000

    def test_a_time_that_no_window_holds(self, kafka, topic):
        kafka.send(topic, [(0, b"a", b"1", 2**60)])
        with pytest.raises(KafkaReadError, match=r"offset 0: .* where time ends"):
            values(lambda p: p | kafka.reading(topic))

    def test_stated_offsets(self, kafka, topic):
        kafka.send(topic, numbered(0, range(4)))
        source = kafka.reading(topic, start_offsets={(topic, 0): 3})
        assert values(lambda p: p | source) == [(b"k0", b"3")]
        with pytest.raises(KafkaReadError, match=r"start_offsets names .* 9.*, which is no partition"):
            values(lambda p: p | kafka.reading(topic, start_offsets={(topic, 9): 3}))

    def test_the_group_learns_what_is_committed(self, kafka, topic):
        kafka.send(topic, numbered(0, range(5)))
        config = {**kafka.config, "group.id": topic}
        values(lambda p: p | ReadFromKafka(config, [topic], commit_offset_in_finalize=True, bounded=True))
        assert KafkaCluster(consumer_settings(config)).committed([(topic, 0)]) == {(topic, 0): 5}
        kafka.send(topic, numbered(0, [5]))
        again = ReadFromKafka(config, [topic], start_offsets="committed", bounded=True)
        assert values(lambda p: p | again) == [(b"k0", b"5")]


class TestPoison:
    def test_it_stops_the_run_and_is_named(self, kafka, topic):
        kafka.send(topic, [(0, b"a", b"1", 1000), (0, b"b", b"x", 2000)])
        with pytest.raises(
            KafkaReadError, match=r"partition 0, offset 1: ValueError: invalid .*; correct the deserial"
        ):
            values(lambda p: p | kafka.reading(topic, value_deserializer=int))

    def test_or_is_set_apart(self, kafka, topic):
        kafka.send(topic, [(0, b"a", b"1", 1000), (0, b"b", b"x", 2000), (0, b"c", b"-9", 3000)])

        def stamp(record):
            if record.value < 0:
                raise ValueError("before all time")
            return record.value

        bad = []

        def build(p):
            source = kafka.reading(topic, value_deserializer=int, timestamp_policy=stamp)
            good, apart = p | source.with_exception_handling()
            apart | "bad" >> beam.io.Write(CallSink(lambda epoch, rows: bad.extend(rows)))
            return good

        assert collect(build) == [((b"a", 1), 1_000_000)]
        assert [(record.value, micros) for (record, _), micros in bad] == [(b"x", 2_000_000), (b"-9", 3_000_000)]
        assert [failure[1] for (_, failure), _ in bad][1] == "ValueError('before all time')"


class TestTimes:
    def test_it_begins_with_the_first_that_is_not_older(self):
        # The broker of the tests does not look for times.
        class Partitions:
            def bounds(self, partitions):
                return dict.fromkeys(partitions, (2, 9))

            def at_time(self, partitions, milliseconds):
                assert milliseconds == 1001
                return {partitions[0]: 4}

        starts = _Starts("earliest", Timestamp(micros=1_000_001))
        assert starts(Partitions(), [("t", 0), ("t", 1)]) == {("t", 0): 4, ("t", 1): 9}


class TestWatermark:
    def injector(self, kafka, topic, **policy):
        self.now = 0.0
        source = kafka.reading(topic, bounded=False, max_delay=1)

        def first(cluster, found):
            return {one: low for one, (low, _) in cluster.bounds(found).items()}

        policy = Policy((topic,), first, max_delay=1_000_000, **policy)
        return KafkaInjector(
            source._settings, policy, source._reader, lambda: self.now, lambda: int((100 + self.now) * 1e9)
        )

    def step(self, injector, position, limit=100):
        """An epoch: its rows, watermark and idleness, and the position after it."""
        delivery = injector.plan(position, limit, 2)
        rows = [row for split in delivery.splits for batch in split.read() for row in batch.rows()]
        told = [split.told() for split in delivery.splits]
        return rows, delivery.watermark, delivery.idle, injector.learned(delivery.position, told)

    def test_it_is_the_least_of_the_partitions(self, kafka, topic):
        kafka.send(topic, [(0, b"", b"", 9000), (1, b"", b"", 5000), (2, b"", b"", 7000), (3, b"", b"", 8000)])
        injector = self.injector(kafka, topic)
        rows, watermark, _, position = self.step(injector, injector.start())
        assert (len(rows), watermark) == (4, MIN_TIMESTAMP)
        rows, watermark, idle, position = self.step(injector, position)
        assert (rows, watermark, idle) == ([], 4_000_000, False), "what was read counts from the next epoch on"
        assert "partition 1" in injector.holder(position)
        kafka.send(topic, [(1, b"", b"", 20_000), (1, b"", b"", 6000)])
        _, _, _, position = self.step(injector, position)
        _, watermark, _, position = self.step(injector, position)
        assert watermark == 6_000_000
        assert self.step(injector, position)[2], "nothing is new"

    def test_an_idle_partition_holds_it_only_for_a_time(self, kafka, topic):
        kafka.send(topic, [(0, b"", b"", 9000), (1, b"", b"", 5000)])
        injector = self.injector(kafka, topic, idle_timeout=10)
        _, _, _, position = self.step(injector, injector.start())
        self.now = 9
        assert self.step(injector, position)[1] == MIN_TIMESTAMP, "two partitions never had anything"
        kafka.send(topic, [(1, b"", b"", 6000)])
        _, _, _, position = self.step(injector, position)
        self.now = 11
        _, watermark, _, after = self.step(injector, position)
        assert watermark == 5_000_000, "partition 1 is not idle, 0 and the others are"
        assert "partition 1" in injector.holder(after)
        self.now = 20
        assert self.step(injector, position)[1] == 8_000_000, "all are, so none holds"

    def test_it_follows_the_clock_in_steps_of_a_second_once_all_are_idle(self, kafka, topic):
        kafka.send(topic, [(0, b"", b"", 4000)])
        injector = self.injector(kafka, topic, idle_timeout=10, follows_clock_when_idle=True)
        injector._policy = replace(injector._policy, starts=_Starts("latest", None))
        _, _, _, position = self.step(injector, injector.start())
        self.now = 11
        assert self.step(injector, position)[1] == MIN_TIMESTAMP, "nothing was read, so no window waits"
        kafka.send(topic, [(0, b"", b"", 9000)])
        _, _, _, position = self.step(injector, position)
        self.now = 20
        assert self.step(injector, position)[1] == 8_000_000, "one partition is not idle; the others hold nothing"
        for self.now, expected, idle in [
            (21.5, 110_500_000, False),
            (22.4, 110_500_000, True),
            (22.5, 111_500_000, False),
        ]:
            _, watermark, was_idle, position = self.step(injector, position)
            assert (watermark, was_idle) == (expected, idle), self.now
        kafka.send(topic, [(0, b"", b"", 100_000)])
        _, watermark, _, position = self.step(injector, position)
        assert watermark == 111_500_000, "it never goes back"
        kafka.send(topic, [(0, b"", b"", 120_000)])
        _, _, _, position = self.step(injector, position)
        assert self.step(injector, position)[1] == 119_000_000, "records lead again"

    def test_a_partition_with_more_to_read_is_not_idle(self, kafka, topic):
        kafka.send(topic, [(0, b"", b"", 9000), *((1, b"", b"", 5000 + at) for at in range(3))])
        injector = self.injector(kafka, topic, idle_timeout=10)
        _, _, _, position = self.step(injector, injector.start(), limit=2)
        self.now = 11
        assert self.step(injector, position, limit=1)[1] == 4_000_000

    def test_the_clock_is_the_watermark_where_it_is_the_event_time(self, kafka, topic):
        kafka.send(topic, [(0, b"", b"", 9000)])
        self.now, policy = 0.0, Policy((topic,), _Starts("earliest", None), max_delay=0, by_clock=True)
        source = kafka.reading(topic)
        injector = KafkaInjector(source._settings, policy, source._reader, clock_ns=lambda: int(self.now * 1e9))
        self.now = 5
        rows, watermark, _, position = self.step(injector, injector.start())
        assert (rows, watermark) == ([((b"", b""), 5_000_000)], 5_000_000)
        self.now = 5.5
        assert self.step(injector, position)[2], "an epoch a second is enough where there is nothing"
        self.now = 6
        assert self.step(injector, position)[:3] == ([], 6_000_000, False)
        self.now = 4
        assert self.step(injector, position)[1] == 5_000_000, "it never goes back"

    def test_topics_that_come_to_match_a_pattern(self, kafka, topic):
        kafka.send(f"{topic}-1", numbered(0, [1]))
        injector = self.injector(kafka, f"^{topic}", look_interval=5)
        _, _, _, position = self.step(injector, injector.start())
        kafka.send(f"{topic}-2", numbered(0, [2]))
        assert self.step(injector, position)[0] == []
        self.now = 6
        assert self.step(injector, position)[0] == [((b"k0", b"2"), 2_000_000)]

    def test_new_partitions_are_found(self, kafka, topic):
        kafka.send(topic, numbered(0, [1]) + numbered(3, [2]))
        injector = self.injector(kafka, topic, look_interval=5)
        # Three partitions as if the fourth had come later; the first is read.
        known = _plain(
            {(topic, 0): PartitionPosition(1), (topic, 1): PartitionPosition(0), (topic, 2): PartitionPosition(0)}, 7
        )
        assert self.step(injector, known)[0] == []
        self.now = 6
        rows, watermark, _, _ = self.step(injector, known)
        assert rows == [((b"k3", b"2"), 2_000_000)]
        assert watermark == 7, "it never goes back"

    def test_records_that_are_gone_are_an_error(self, kafka, topic):
        kafka.send(topic, numbered(0, [1]))
        injector = self.injector(kafka, topic)
        with pytest.raises(KafkaReadError, match="was read up to offset 5 but ends at 1: the topic was made anew"):
            injector.plan(_plain({(topic, 0): PartitionPosition(5)}, 0), 100, 1)

    def test_an_unreadable_record_does_not_make_the_others_late(self, kafka, topic):
        # The records tell seconds since 1970, and Kafka that they came in 2024.
        arrived = 1_704_200_000_000
        kafka.send(topic, [(0, None, b"%d" % second, arrived) for second in range(59)])
        kafka.send(topic, [(0, None, b"x", arrived + 1)])
        kinds = {"own": {"timestamp_policy": lambda record: record.value}, "of Kafka": {}}
        told = {}
        for kind, options in kinds.items():
            source = kafka.reading(topic, value_deserializer=int, max_delay=1, **options).tolerant()
            injector = source.injector()
            delivery = injector.plan(injector.start(), 1000, 1)
            for split in delivery.splits:
                assert sum(map(len, split.read())) == 60
                told[kind] = next(greatest for partition, greatest, _ in split.told() if partition == (topic, 0))
        assert told == {"own": 58_000_000, "of Kafka": (arrived + 1) * 1000}

    def test_a_split_that_is_read_again_tells_the_same(self):
        class Reader:
            def read(self, wanted, stamp):
                yield Batch(["a"], [wanted.start]), RecordMark(wanted.start, 1, 2)

            def greatest(self, batch, latest):
                return batch.greatest()

        split = KafkaSplit(Reader(), (PartitionRange("t", 0, 5, 6), PartitionRange("t", 1, 7, 8)))
        assert split.count_records() == 2
        for _ in range(2):
            assert sum(map(len, split.read())) == 2
            assert split.told() == ((("t", 0), 5, RecordMark(5, 1, 2)), (("t", 1), 7, RecordMark(7, 1, 2)))


class TestMadeAnew:
    """A topic that was made anew, and has grown past the offset up to which it was read, is not read on."""

    REFUSED = r"partition 0 of topic 't' has another record at offset 2 than the one that was read .*was made anew"

    @pytest.fixture
    def anew(self):
        """The broker that has the topic of this name now."""
        return Brokers()

    @pytest.fixture
    def read(self, faulty):
        """The position of a reader that has read three records of one partition."""
        faulty.send("t", numbered(0, range(3)))
        return self.after(faulty.reading("t", bounded=False, max_delay=0).injector())

    @staticmethod
    def after(injector, position=None):
        delivery = injector.plan(injector.start() if position is None else position, 100, 1)
        for split in delivery.splits:
            list(split.read())
        return injector.learned(delivery.position, [split.told() for split in delivery.splits])

    @pytest.mark.parametrize("bounded", [False, True])
    def test_other_records_are_refused(self, read, anew, bounded):
        anew.send("t", [(0, b"k0", b"other", 2000 + at) for at in range(9)])
        injector = anew.reading("t", bounded=bounded, max_delay=0).injector()
        with pytest.raises(KafkaReadError, match=self.REFUSED):
            injector.plan(read, 100, 1)

    def test_other_contents_with_the_same_time_are_refused(self, read, anew):
        anew.send("t", [(0, b"k0", b"other", 2000)] * 9)
        with pytest.raises(KafkaReadError, match=self.REFUSED):
            anew.reading("t", bounded=False, max_delay=0).injector().plan(read, 100, 1)

    def test_a_copy_is_read_on(self, read, anew):
        anew.send("t", numbered(0, range(5)))
        delivery = anew.reading("t", bounded=False, max_delay=0).injector().plan(read, 100, 1)
        assert [row[0][1] for split in delivery.splits for batch in split.read() for row in batch.rows()] == [
            b"3",
            b"4",
        ]

    def test_a_reader_that_has_read_nothing_knows_the_record_before_its_start(self, faulty, anew):
        faulty.send("t", numbered(0, range(3)))
        latest = {"bounded": False, "max_delay": 0, "start_offsets": "latest"}
        position = faulty.reading("t", **latest).injector().start()
        anew.send("t", [(0, b"k0", b"other", 1)] * 9)
        with pytest.raises(KafkaReadError, match=self.REFUSED):
            anew.reading("t", **latest).injector().plan(position, 100, 1)

    def test_the_driver_looks_again_after_it_has_not_looked_for_a_while_or_after_an_outage(self, faulty, read, anew):
        anew.send("t", [(0, b"k0", b"other", 1)] * 9)
        for seconds, outages in ((11, 0), (0, 1)):
            now = 0.0
            injector = faulty.reading("t", bounded=False, max_delay=0).injector()
            injector._now = lambda: now  # noqa: B023 - called before it changes
            position = self.after(injector, read)
            injector._cluster = KafkaCluster(consumer_settings(anew.config))
            now, injector._cluster.outages = seconds, outages
            with pytest.raises(KafkaReadError, match=self.REFUSED):
                injector.plan(position, 100, 1)

    def test_a_record_that_was_removed_tells_nothing(self, kafka, topic):
        """A request for an offset that a partition does not have is answered by an error or by another record."""
        kafka.send(topic, numbered(0, range(3)))
        cluster = KafkaCluster(consumer_settings(kafka.config))
        assert cluster.marks({(topic, 0): 7, (topic, 1): 0}) == {}
        marks = cluster.marks({(topic, 0): 1, (topic, 1): 0})
        assert [(place, mark.offset, mark.milliseconds) for place, mark in marks.items()] == [((topic, 0), 1, 1000)]

    def test_positions_of_the_release_before_are_read_and_learn_the_record(self, faulty):
        faulty.send("t", numbered(0, range(5)))
        old = ((("t", 0, 3, None, 2_000_000), ("t", 1, 0, None, MIN_TIMESTAMP)), 7)
        delivery = faulty.reading("t", bounded=False, max_delay=0).injector().plan(old, 1, 1)
        (first, second), _ = delivery.position
        assert first[:3] == ("t", 0, 4) and first[5][:2] == (2, 2000)
        assert second == ("t", 1, 0, None, MIN_TIMESTAMP, None)


class TestWaking:
    """A record wakes the driver, which then need not ask ten times a second."""

    @pytest.fixture
    def woken(self):
        return threading.Event()

    @pytest.fixture
    def injector(self, kafka, topic, woken):
        kafka.send(topic, numbered(0, [1]) + numbered(3, [2]))
        source = kafka.reading(topic)
        injector = KafkaInjector(source._settings, Policy((topic,), _Starts("earliest", None)), source._reader)
        injector.wake_by(woken.set)
        yield injector
        injector.run_ended()
        for thread in threading.enumerate():
            if thread.name == "kafka arrivals":
                thread.join(10)

    def test_a_record_wakes_the_driver_again_and_again(self, kafka, topic, injector, woken):
        position = injector.start()
        for number, partition in enumerate((1, 3, 1), 3):
            first = injector.plan(position, 100, 1)
            assert first.splits and first.quiet_seconds is None
            position = first.position
            # Asked once more because a second has passed, it waits for the same.
            for _ in range(2):
                idle = injector.plan(position, 100, 1)
                assert idle.idle and idle.quiet_seconds == 1.0
            woken.clear()
            assert not woken.wait(0.3)
            kafka.send(topic, numbered(partition, [number]))
            assert woken.wait(10)

    def test_a_partition_that_is_to_be_idle_sooner_is_looked_at_sooner(self, kafka, topic):
        source = kafka.reading(topic)
        policy = Policy((topic,), _Starts("latest", None), max_delay=0, idle_timeout=0.25)
        injector = KafkaInjector(source._settings, policy, source._reader)
        kafka.send(topic, numbered(0, [1]))
        idle = injector.plan(injector.start(), 100, 1)
        assert idle.idle and idle.quiet_seconds is None, "nobody is to be woken"
        injector.wake_by(lambda: None)
        assert injector.plan(injector.start(), 100, 1).quiet_seconds == 0.25
        injector.run_ended()

    def test_a_consumer_that_cannot_be_made_leaves_the_driver_asking(self, injector, woken, monkeypatch, caplog):
        monkeypatch.setattr(kafka_injector, "consumer_of", lambda settings: 1 / 0)
        position = injector.plan(injector.start(), 100, 1).position
        injector.plan(position, 100, 1)
        injector._arrivals._thread.join(10)
        idle = injector.plan(position, 100, 1)
        assert idle.idle and idle.quiet_seconds is None
        assert "records of Kafka wake no driver, which keeps asking for them: division by zero" in caplog.text


class TestWrongInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"idle_timeout": None, "follow_clock_when_idle": True, "max_delay": 1},
                "follow_clock_when_idle needs idle_timeout and input without an end",
            ),
            ({"consumer_config": {}}, "consumer_config names no broker; give 'bootstrap.servers'"),
            (
                {"consumer_config": {"bootstrap.servers": "x:1", "nonsense": 1}},
                'No such configuration property: "nonse',
            ),
            ({"topics": "t"}, "topics must be a list of names"),
            ({"topics": []}, "topics must be a list of names"),
            ({"max_delay": None}, "reading without end needs to know how late records may be"),
            ({"max_delay": -1}, "max_delay is -1 s"),
            (
                {"timestamp_policy": "Now"},
                "timestamp_policy 'Now' is none of CreateTime, LogAppend",
            ),
            ({"timestamp_policy": "ProcessingTime"}, "max_delay has no meaning with timestamp_policy='ProcessingTime'"),
            ({"topics": ["^("]}, r"topic '\^\(' begins with \^ but is no regular expression: missing \)"),
            ({"topics": [""]}, "topics must be a list of names"),
            ({"start_offsets": "middle"}, "start_offsets 'middle' is none of earliest, latest, committed"),
            (
                {"value_deserializer": "JsonDeserializer"},
                "value_deserializer 'JsonDeserializer' is none of ByteArrayDes",
            ),
            ({"commit_offset_in_finalize": True}, "commit_offset_in_finalize needs a group"),
        ],
    )
    def test_of_the_source(self, options, message):
        given = {"consumer_config": {"bootstrap.servers": "x:1", "log_level": 0}, "topics": ["t"], "max_delay": 0}
        with pytest.raises(ValueError, match=message):
            ReadFromKafka(**{**given, **options})

    def test_a_topic_that_is_not_there(self, kafka):
        with pytest.raises(
            KafkaReadError, match=r"topic 'nowhere' cannot be read at .*Unknown topic.*; create it first"
        ):
            values(lambda p: p | kafka.reading("nowhere"))

    def test_without_the_package(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "confluent_kafka", None)
        with pytest.raises(ImportError, match=r"by confluent-kafka: pip install 'headrace\[kafka\]'"):
            ReadFromKafka({"bootstrap.servers": "x:1"}, ["t"], bounded=True)
