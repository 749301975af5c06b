"""Panes that wait for the wall clock, all keys at once: idle streams and crashes."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headrace as beam
from headrace.io import Write
from headrace.lowlevel import BaseInjector, CallSink, Delivery, MemorySplit
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import SECOND
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.clock import ManualClock
from headrace.runners.local import LocalRunner, Scheduler
from headrace.sdk.combinefns.numeric import SumFn
from headrace.sdk.compiler import execution_strategy
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.vectorized.column_grouping import ColumnGrouping
from headrace.sdk.operators.vectorized.state.segment_formats import WindowFormat
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import NEVER, WAKE, WindowTable
from headrace.testing.test_stream import TestStream
from headrace.transforms import trigger, window

Rows = dict[int, list[object]]
WAIT = trigger.AfterProcessingTime(30)
EARLY = trigger.AfterWatermark(early=trigger.AfterProcessingTime(10), late=trigger.AfterProcessingTime(3))


class Crash(Exception):
    pass


class CrashBefore(Scheduler):
    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("plan", self._epoch):
            raise Crash


def script() -> TestStream:
    """Panes at the wall clock, at the end, and late; one whose time comes after its window is closed."""
    return (
        TestStream()
        .advance_watermark_to(0)
        .add_elements([window.TimestampedValue(("a", 1), 1), window.TimestampedValue(("b", 2), 15)])
        .advance_processing_time(6)
        .add_elements([window.TimestampedValue(("a", 4), 2), window.TimestampedValue(("c", 8), 3)])
        .advance_processing_time(5)
        .advance_processing_time(7)
        .advance_watermark_to(10)
        .add_elements([window.TimestampedValue(("a", 16), 4)])
        .advance_processing_time(4)
        .add_elements([window.TimestampedValue(("a", 32), 5), window.TimestampedValue(("d", 64), 25)])
        .advance_watermark_to(16)
        .advance_processing_time(20)
        .advance_watermark_to_infinity()
    )


def run(place: Path, crash_before: int | None = None) -> Rows:
    """What is delivered, by epoch."""
    rows: Rows = {}

    def deliver(epoch: int, delivered: object) -> None:
        rows[epoch] = sorted(map(repr, delivered))

    scheduler = None if crash_before is None else CrashBefore(crash_before)
    options = PipelineOptions([], checkpoint=str(place))
    with suppress(Crash), beam.Pipeline(LocalRunner(scheduler=scheduler), options=options) as pipeline:
        into = beam.WindowInto(
            window.FixedWindows(10),
            trigger=EARLY,
            accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
            allowed_lateness=5,
        )
        sums = pipeline | script() | into | beam.CombinePerKey(sum)
        shown = sums | beam.Map(lambda pair, pane=beam.DoFn.PaneInfoParam: (pair, pane.timing, pane.index))
        _ = shown | Write(CallSink(deliver))
    return rows


def by_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execution_strategy, "obstacle", lambda *_, **__: "the test")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    with pytest.MonkeyPatch.context() as patch:
        by_key(patch)
        return run(tmp_path_factory.mktemp("general"))


def told(rows: Rows) -> list[object]:
    return [row for epoch in sorted(rows) for row in rows[epoch]]


def test_epochs_have_the_panes_of_the_general_way(tmp_path: Path, expected: Rows) -> None:
    assert run(tmp_path) == expected
    assert len(told(expected)) > 8


@pytest.mark.parametrize("is_upgrade", [False, True])
def test_a_successor_fires_what_waits(
    tmp_path: Path, expected: Rows, is_upgrade: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever its predecessor was stopped; also if that went key by key."""
    for crash_before in range(3, max(expected) + 1, 3):
        place = tmp_path / str(crash_before)
        with monkeypatch.context() as patch:
            if is_upgrade:
                by_key(patch)
            rows = run(place, crash_before)
        assert max(rows, default=0) < crash_before
        # A change of the topology is an epoch of its own.
        assert told({**rows, **run(place)}) == told(expected)


def test_lines_that_wait_for_nothing_do_not_say_so() -> None:
    rows, keys = pa.array([bytes(16)], pa.binary(16)), pa.array([b"key"], pa.large_binary())
    sums = reducers_of(SumFn())
    assert sums is not None
    table = WindowFormat(Accumulated(sums, SumFn())).encode(
        WindowTable(rows, keys, [np.array([7])] * 3, []).with_panes()
    )
    assert "wake" not in {*table.schema.names, *json.loads(table.schema.metadata[b"same"])}
    assert WindowTable.decode(table)[WAKE].tolist() == [NEVER]


class Once(BaseInjector):
    """Gives one record, then nothing until a pane has come."""

    def __init__(self) -> None:
        self.is_over, self._asked = False, 0

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        self._asked += 1
        assert self._asked < 1000, "nobody wakes the step"
        came = [MemorySplit(Batch([("a", 1)], [SECOND]))] if position == 0 else []
        return Delivery(came, 1, watermark=0, done=self.is_over, idle=not came and not self.is_over)


def test_an_idle_stream_has_its_pane_in_time() -> None:
    clock, once, times = ManualClock(), Once(), []

    def deliver(epoch: int, delivered: object) -> None:
        times.append(clock.now())
        once.is_over = True

    with beam.Pipeline(LocalRunner(clock)) as pipeline:
        mode = trigger.AccumulationMode.DISCARDING
        into = beam.WindowInto(window.GlobalWindows(), trigger=trigger.Repeatedly(WAIT), accumulation_mode=mode)
        sums = pipeline | beam.io.Read(once) | into | "sum" >> beam.CombinePerKey(sum)
        _ = sums | Write(CallSink(deliver))
        assert type(pipeline.topology().keyed["sum"].computation) is ColumnGrouping
    assert times == [30 * SECOND]
