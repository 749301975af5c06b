"""Elements that come with time, and lines from a socket."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import StepError
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.sequences import Beat, Impulses, TickInjector, _Numbers
from headrace.sdk.io.socket_source import SocketError
from headrace.testing.test_stream import TestStream
from headrace.transforms.periodicsequence import PeriodicImpulse, PeriodicSequence, RebaseMode
from headrace.utils.timestamp import Timestamp
from tests.unit.collected import collect, values
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 500))
def test_what_is_due_is_what_has_its_time(elements, micros, now):
    beat = Beat(elements, micros)
    assert beat.due_at(now) == sum(beat.time_of(number) <= now for number in range(now * elements + elements + 1))


class TestTickInjector:
    def step(self, injector, position, limit=100):
        delivery = injector.plan(position, limit, 2)
        rows = [row for split in delivery.splits for batch in split.read() for row in batch.rows()]
        return rows, delivery

    def test_elements_come_when_they_are_due(self):
        now = 1000
        injector = TickInjector(_Numbers(7, None), Beat(1, 10), None, 5, now=lambda: now)
        rows, delivery = self.step(injector, injector.start())
        assert (rows, delivery.watermark, delivery.done) == ([(7, 1000)], 1010, False)
        rows, delivery = self.step(injector, delivery.position)
        assert (rows, delivery.idle, delivery.watermark) == ([], True, 1010)
        now = 1025
        assert self.step(injector, delivery.position, limit=1)[0] == [(8, 1010)]
        rows, delivery = self.step(injector, delivery.position)
        assert rows == [(8, 1010), (9, 1020)]
        now = 9999
        again = TickInjector(_Numbers(7, None), Beat(1, 10), None, 5, now=lambda: now)
        rows, delivery = self.step(again, delivery.position)
        assert (rows, delivery.done) == ([(10, 1030), (11, 1040)], True), "a run that goes on keeps the beat"

    def test_impulses_take_their_data_in_turn(self):
        injector = TickInjector(Impulses(("a", "b")), Beat(1, 10), 100, None, now=lambda: 120)
        assert self.step(injector, injector.start())[0] == [("a", 100), ("b", 110), ("a", 120)]


class TestGenerateSequence:
    def test_numbers_without_a_rate_come_at_once_and_in_order(self):
        rows = collect(lambda p: p | beam.io.GenerateSequence(0, 25_000), parallelism=2)
        assert rows == [(number, MIN_TIMESTAMP) for number in range(25_000)]
        assert values(lambda p: p | beam.io.GenerateSequence(3, 6), scheduler=OneByOne()) == [3, 4, 5]
        assert values(lambda p: p | beam.io.GenerateSequence(3, 3)) == []

    def test_a_rate_gives_event_times(self):
        rows = collect(lambda p: p | beam.io.GenerateSequence(0, 3, rate=1000))
        assert [number for number, _ in rows] == [0, 1, 2]
        assert [stamp - rows[0][1] for _, stamp in rows] == [0, 1000, 2000]

    def test_times_of_ones_own(self):
        source = beam.io.GenerateSequence(0, 3, rate=1000, timestamp=lambda number: 100 - number)
        assert [stamp for _, stamp in collect(lambda p: p | source)] == [100_000_000, 99_000_000, 98_000_000]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"start": 3, "stop": 2}, "stop is 2, less than start, which is 3"),
            ({"rate": 0}, "rate is 0 a second; give one from"),
            ({"timestamp": lambda number: number}, "numbers without end need to know how late they may be"),
            ({"max_delay": 3}, "max_delay is given without timestamp"),
        ],
    )
    def test_wrong_arguments(self, options, message):
        with pytest.raises(ValueError, match=message):
            beam.io.GenerateSequence(**options)


class TestPeriodicImpulse:
    def test_times_are_elements_and_event_times(self):
        rows = collect(lambda p: p | PeriodicImpulse(Timestamp(100), Timestamp(130), 10))
        assert rows == [(100.0, 100_000_000), (110.0, 110_000_000), (120.0, 120_000_000)]

    def test_each_in_a_window_of_its_own(self):
        def build(p):
            impulses = p | PeriodicImpulse(100, 130, 10, apply_windowing=True, data=["a", "b"])
            return impulses | beam.Map(lambda element, window=beam.DoFn.WindowParam: (element, window.end.micros))

        assert values(build) == [("a", 110_000_000), ("b", 120_000_000), ("a", 130_000_000)]

    def test_data_come_once_where_no_end_is_stated(self):
        assert values(lambda p: p | PeriodicImpulse(100, fire_interval=10, data=["a", "b"])) == ["a", "b"]

    def test_data_with_event_times(self):
        data = [(Timestamp(5), "a"), (Timestamp(3), "b")]
        rows = collect(lambda p: p | PeriodicImpulse(100, 120, 10, data=data))
        assert rows == [("a", 5_000_000), ("b", 3_000_000)]

    @pytest.mark.parametrize(
        ("rebase", "start", "stop", "count"),
        [("REBASE_ALL", 100, 100.003, 3), ("REBASE_START", 100, 200, 0), ("REBASE_NONE", None, 200, 0)],
    )
    def test_times_counted_from_the_start_of_the_run(self, rebase, start, stop, count):
        before = time.time()
        rows = values(lambda p: p | PeriodicImpulse(start, stop, 0.001, rebase=RebaseMode[rebase]))
        assert len(rows) == count
        assert all(seconds >= before for seconds in rows)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"fire_interval": 0}, "fire_interval is 0 s; give"),
            (
                {"data": [(Timestamp(1), "a")], "start_timestamp": 0, "stop_timestamp": 720},
                "data has 1 elements with time",
            ),
            ({"start_timestamp": 6, "stop_timestamp": 5}, "stop_timestamp is 1000000 µs before start_timestamp"),
            ({"data": []}, "data has no element"),
        ],
    )
    def test_wrong_arguments(self, options, message):
        with pytest.raises(ValueError, match=message):
            PeriodicImpulse(**options)


class TestPeriodicSequence:
    def test_a_sequence_for_each_element(self):
        plans = [(0, 30, 10), (Timestamp(100), 102, 1), (0, 30, 10), (5, 5, 1)]
        rows = collect(lambda p: p | beam.Create(plans) | PeriodicSequence(), parallelism=2)
        assert sorted(rows) == [
            (float(second), second * 1_000_000) for second in (0, 0, 10, 10, 20, 20, 100, 101)
        ]  # fmt: skip

    def test_times_to_come_are_waited_for_with_the_watermark(self):
        seen = []
        stream = TestStream().add_elements([(10, 31, 10)]).advance_watermark_to_infinity()
        for second in (10, 15, 5, 5):
            stream = stream.advance_processing_time(second)
        with beam.Pipeline("LocalRunner") as pipeline:
            times = pipeline | stream | PeriodicSequence() | beam.WindowInto(beam.window.FixedWindows(10))
            ones = times | beam.Map(lambda time: (time, 1)) | beam.CombinePerKey(sum)
            ones | beam.io.ForeachEpoch(lambda epoch, elements: seen.append(elements))
        assert seen == [[(10.0, 1)], [(20.0, 1)], [(30.0, 1)]]

    def test_it_goes_on_where_it_was_after_a_crash(self, tmp_path):
        seen = {}

        def run(scheduler):
            options = PipelineOptions([f"--checkpoint={tmp_path}"])
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
                plans = pipeline | beam.Create([(number, number + 2, 1) for number in (0, 10, 20, 30)])
                plans | PeriodicSequence() | beam.io.ForeachEpoch(seen.__setitem__)

        with pytest.raises(Crash):
            run(CrashAt("commit"))
        run(OneByOne())
        assert sorted(time for times in seen.values() for time in times) == [0, 1, 10, 11, 20, 21, 30, 31]

    @pytest.mark.parametrize("plan", [5, (1, 2), (3, 2, 1), (1, 2, 0), ("x", 2, 1), (1, 2, None)])
    def test_what_is_no_sequence(self, plan):
        with pytest.raises(StepError, match="is no sequence"):
            values(lambda p: p | beam.Create([plan]) | PeriodicSequence())


class TestSocket:
    def test_lines_until_the_sender_closes(self):
        server = socket.create_server(("127.0.0.1", 0))

        def send():
            connection, _ = server.accept()
            with connection:
                for part in (b"a\r\nb", b"c\n\xff\n", b"last"):
                    connection.sendall(part)

        sender = threading.Thread(target=send)
        sender.start()
        with server:
            rows = collect(lambda p: p | beam.io.ReadFromSocket("127.0.0.1", server.getsockname()[1]))
        sender.join()
        assert [line for line, _ in rows] == ["a", "bc", "\ufffd", "last"]
        assert [stamp for _, stamp in rows] == sorted(stamp for _, stamp in rows)

    def test_time_goes_on_where_no_line_comes(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            injector = beam.io.ReadFromSocket("127.0.0.1", server.getsockname()[1]).injector()
            first, second = injector.plan(0, 10, 1), injector.plan(0, 10, 1)
            assert (first.idle, second.idle, second.done) == (False, True, False)
            injector._watermark -= 1_000_000
            third = injector.plan(0, 10, 1)
            assert not third.idle
            assert third.watermark >= second.watermark >= first.watermark

    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        with pytest.raises(SocketError, match=rf"nobody answers at 127.0.0.1:{port} .*; start the sender first"):
            values(lambda p: p | beam.io.ReadFromSocket("127.0.0.1", port))

    def test_a_wrong_port(self):
        with pytest.raises(ValueError, match="port is 70000"):
            beam.io.ReadFromSocket("x", 70_000)
