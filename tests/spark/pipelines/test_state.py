"""State and timers of a DoFn on Spark: as on the local runner, in several intervals, with restarts, nothing left."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from headrace.sdk.compiler.compiler import compile_pipeline
from headrace.testing.test_stream import TestStream
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from headrace.transforms.window import FixedWindows, TimestampedValue

pytestmark = pytest.mark.spark
StateParam, TimerParam = beam.DoFn.StateParam, beam.DoFn.TimerParam


class AllKinds(beam.DoFn):
    """Keeps every value in state of every kind, and puts all of it out when its timers fire."""

    LAST = ReadModifyWriteStateSpec("last")
    BAG = BagStateSpec("bag")
    SET = SetStateSpec("set")
    SUM = CombiningValueStateSpec("sum", sum)
    LIST = OrderedListStateSpec("list")
    END, WAKE = TimerSpec("end", TimeDomain.WATERMARK), TimerSpec("wake", TimeDomain.REAL_TIME)

    def process(
        self,
        pair,
        time=beam.DoFn.TimestampParam,
        window=beam.DoFn.WindowParam,
        last=StateParam(LAST),
        bag=StateParam(BAG),
        its=StateParam(SET),
        total=StateParam(SUM),
        ordered=StateParam(LIST),
        end=TimerParam(END),
        wake=TimerParam(WAKE),
    ):
        key, value = pair
        before = last.read()
        last.write(value if before is None else max(before, value))
        bag.add(value), its.add(value % 3), total.add(value), ordered.add((100 - time.seconds(), value))
        end.set(window.end, dynamic_timer_tag=str(value % 2))
        if value == 1:
            wake.set_relative(5)
        yield key, "got", value

    @on_timer(END)
    def on_end(
        self,
        key=beam.DoFn.KeyParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        last=StateParam(LAST),
        bag=StateParam(BAG),
        its=StateParam(SET),
        total=StateParam(SUM),
        ordered=StateParam(LIST),
    ):
        by_time = [value for _, value in ordered.read()]
        yield key, tag, last.read(), sorted(bag.read()), sorted(its.read()), total.read(), by_time

    @on_timer(WAKE)
    def on_wake(self, key=beam.DoFn.KeyParam, bag=StateParam(BAG)):
        yield key, "awake", sorted(bag.read())


def pipeline_and_rows():
    """A pipeline whose bundles, watermark and clock move as told, and what it puts out by epoch."""
    stream = TestStream()
    for step in range(4):
        pairs = [TimestampedValue((f"key {n % 7}", n), (n * 11 + step) % 40) for n in range(step * 9, step * 9 + 30)]
        stream.add_elements(pairs).advance_watermark_to(step * 9 + 1).advance_processing_time(3)
    rows: dict[int, list[object]] = {}
    pipeline = beam.Pipeline("LocalRunner")
    windowed = pipeline | stream.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(10), allowed_lateness=3)
    out = windowed | "step" >> beam.ParDo(AllKinds())
    out | beam.io.Write(CallSink(lambda epoch, its: rows.update({epoch: sorted(map(str, its))})))
    return pipeline, rows


@pytest.fixture(scope="module")
def expected():
    """What the local runner makes of it."""
    pipeline, rows = pipeline_and_rows()
    LocalRunner().run_topology(compile_pipeline(pipeline))
    assert any("awake" in row for its in rows.values() for row in its)
    return rows


def test_every_kind_of_state_and_timer_as_on_the_local_runner(spark, expected):
    pipeline, rows = pipeline_and_rows()
    SparkRunner(spark, intervals=3).run_topology(compile_pipeline(pipeline))
    assert rows == expected


def test_a_driver_that_stops_goes_on_with_state_and_timers(spark, expected, tmp_path):
    class Stopped(Exception):
        pass

    def stop(progress):
        if progress.epoch == stop_after:
            raise Stopped

    everything: dict[int, list[object]] = {}
    for stop_after in (3, 8, None):
        pipeline, rows = pipeline_and_rows()
        options = RunOptions(checkpoint=str(tmp_path), progress=stop)
        try:
            SparkRunner(spark, intervals=2).run_topology(compile_pipeline(pipeline), options)
        except Stopped:
            assert stop_after is not None
        everything.update(rows)
    assert everything == expected
