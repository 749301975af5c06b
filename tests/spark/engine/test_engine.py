"""Topologies on Spark: the same results as in memory, and how they come about."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as beam
from headrace.lowlevel import (
    BaseInjector,
    BoundedInjector,
    CallSink,
    Computation,
    Context,
    Delivery,
    InlineComputation,
    MemorySplit,
    Record,
    StepError,
    TimeDomain,
    Timer,
    Topology,
)
from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.metric_cells import CounterCell
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.driver import running_topology
from headrace.runners.engine.messages import Message
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner, executor
from headrace.runners.spark.jobs import epoch_job
from headrace.runners.spark.jobs.stage_function import was_too_much
from headrace.runners.spark.jobs.stage_policy import StageExtent
from headrace.runners.spark.statestore.store_cache import StoreCache
from headrace.utils.windowed_value import WindowedValue
from tests.unit.runners.local.test_local_runner import Highest, PerMinute

pytestmark = pytest.mark.spark

ROWS = [(i % 5, (i * 37) % 400) for i in range(60)]


def itself(value: object) -> object:
    return value


def collect(topology: Topology, stream: str) -> list[object]:
    rows: list[object] = []
    topology.sink(f"collect {stream}", stream, CallSink(lambda epoch, more: rows.extend(more)))
    return rows


def sums(result: RunResult) -> dict[tuple[str, str], CounterCell]:
    """What was counted; gauges have the time of the run."""
    return {
        (step, metric.name): cell
        for step, cells in result.metrics.items()
        for metric, cell in cells.items()
        if isinstance(cell, CounterCell)
    }


def two_levels(max_delay: int | None = None) -> tuple[Topology, list[object], list[object]]:
    topology = Topology()
    topology.injector("in", BoundedInjector(ROWS, max_delay))
    topology.computation("per minute", PerMinute(), {"in": itself}, ["minutes"])
    topology.computation("highest", Highest(), {"minutes": lambda value: value[0] % 2}, ["highest"])
    return topology, collect(topology, "minutes"), collect(topology, "highest")


@pytest.mark.parametrize("intervals", [1, 3])
@pytest.mark.parametrize("max_delay", [None, 50])
def test_same_results_as_in_memory(spark: SparkSession, intervals: int, max_delay: int | None) -> None:
    options = RunOptions(max_records_per_epoch=16)
    topology, *expected = two_levels(max_delay)
    reference = LocalRunner(parallelism=2).run_topology(topology, options)
    topology, *found = two_levels(max_delay)
    result = SparkRunner(spark, intervals=intervals).run_topology(topology, options)
    assert [sorted(map(repr, rows)) for rows in found] == [sorted(map(repr, rows)) for rows in expected]
    assert result == reference
    assert sums(result) == sums(reference)


@pytest.mark.parametrize("one_task_epochs", [True, False])
def test_many_tasks_that_hear_from_the_driver_alone_come_to_the_same_end(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, one_task_epochs: bool
) -> None:
    options = RunOptions(max_records_per_epoch=16, intervals=5, one_task_epochs=one_task_epochs)
    topology, *expected = two_levels()
    reference = LocalRunner(parallelism=2).run_topology(topology, options)
    monkeypatch.setattr(running_topology, "MANY_TASKS", 5)
    topology, *found = two_levels()
    result = SparkRunner(spark).run_topology(topology, options)
    assert [sorted(map(repr, rows)) for rows in found] == [sorted(map(repr, rows)) for rows in expected]
    assert sums(result) == sums(reference)
    # In an epoch of one task, that task works the watermarks out itself.
    assert (result.epochs > reference.epochs) != one_task_epochs, "the watermark comes later from the driver"


def test_small_and_large_epochs_take_different_ways_to_the_same_end(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for options in ({}, {"one_task_epochs": False}, {"one_task_epochs": False}):
        topology, minutes, _ = two_levels()
        SparkRunner(spark).run_topology(topology, RunOptions(max_records_per_epoch=16, **options))
        found.append(sorted(minutes))
        if options:
            monkeypatch.setattr(epoch_job, "_SMALL", 0)
    assert found == [found[0]] * 3
    assert found[0]


@dataclass(frozen=True)
class Numbers:
    """A split that does not say how large it is."""

    count: int

    def read(self) -> Iterator[Batch]:
        for start in range(0, self.count, 5_000):
            numbers = list(range(start, min(start + 5_000, self.count)))
            yield Batch(numbers, numbers)


class Growing(BaseInjector):
    """Small epochs, and a large one among them."""

    SIZES = (5, 5, 5, 5, 20_000, 5, 5)

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        assert isinstance(position, int)
        return Delivery([Numbers(self.SIZES[position])], position + 1, done=position + 1 == len(self.SIZES))


class Count(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.state = (context.state or 0) + 1
        context.produce("counts", (context.key, context.state))


@pytest.mark.parametrize("idle_seconds", [0, 60], ids=["in a job", "in a task that stays"])
def test_an_epoch_that_turns_out_too_large_for_one_task_is_spread(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, idle_seconds: float
) -> None:
    too_much = []

    def watched(found: Sequence[Message]) -> bool:
        too_much.append(was_too_much(found))
        return too_much[-1]

    monkeypatch.setattr(executor, "was_too_much", watched)
    topology = Topology()
    topology.injector("in", Growing())
    topology.computation("count", Count(), {"in": lambda number: number % 5}, ["counts"])
    rows = collect(topology, "counts")
    result = SparkRunner(spark).run_topology(topology, RunOptions(task_idle_seconds=idle_seconds))
    counts = [count for count, _ in rows]
    assert too_much[-1] is True and too_much[:-1] == [False] * len(too_much[:-1])
    assert Counter(key for key, _ in counts) == dict.fromkeys(range(5), sum(Growing.SIZES) // 5)
    assert max(count for _, count in counts) == sum(Growing.SIZES) // 5
    assert result.counters["in"]["records"] == sum(Growing.SIZES)


class Buffers(beam.DoFn):
    """Keeps elements until the end of the bundle, and trusts that each bundle has an end."""

    def setup(self):
        self.kept = []

    def process(self, number):
        self.kept.append(number)

    def finish_bundle(self):
        kept, self.kept = self.kept, []
        for number in kept:
            yield WindowedValue(number, 0, [beam.window.GlobalWindow()])


@pytest.mark.parametrize("idle_seconds", [0, 60], ids=["in a job", "in a task that stays"])
def test_functions_that_have_begun_an_epoch_which_is_given_up_are_not_called_again(
    spark: SparkSession, idle_seconds: float
) -> None:
    rows: list[tuple[object, int]] = []
    options = beam.options.pipeline_options.PipelineOptions(task_idle_seconds=idle_seconds)
    with beam.Pipeline(SparkRunner(spark), options=options) as pipeline:
        kept = pipeline | beam.io.Read(Growing()) | beam.ParDo(Buffers())
        _ = kept | beam.io.Write(CallSink(lambda epoch, found: rows.extend(found)))
    assert Counter(number for number, _ in rows) == Counter(number for size in Growing.SIZES for number in range(size))


class Large(BaseInjector):
    """Epochs of thirty thousand records."""

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        assert isinstance(position, int)
        return Delivery([Numbers(15_000), Numbers(15_000)], position + 1, done=position == 3)


def test_large_epochs_in_one_task_and_spread_go_on_from_each_other(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = iter([False, True, True, False])
    ran = []
    monkeypatch.setattr(StageExtent, "choose_one_task", lambda self, splits: next(ways))
    monkeypatch.setattr(StageExtent, "took", lambda self, seconds, busy, is_one: ran.append(is_one))
    topology = Topology()
    topology.injector("in", Large())
    topology.computation("count", Count(), {"in": lambda number: number % 5}, ["counts"])
    rows = collect(topology, "counts")
    result = SparkRunner(spark).run_topology(topology, RunOptions())
    assert ran == [False, True, True, False]
    assert sorted(count for count, _ in rows) == [(key, n + 1) for key in range(5) for n in range(24_000)]
    assert result.counters["in"]["records"] == 120_000


def test_without_keyed_computations(spark: SparkSession) -> None:
    class Double(InlineComputation):
        def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
            emit("doubled", Batch([2 * value for value in batch.values], batch.timestamps))

    topology = Topology()
    topology.injector("in", BoundedInjector([(i, i) for i in range(100)]))
    topology.inline("double", Double(), ["in"], ["doubled"])
    rows = collect(topology, "doubled")
    SparkRunner(spark).run_topology(topology, RunOptions(max_records_per_epoch=30))
    assert sorted(rows) == [(2 * i, i) for i in range(100)]


class Echo(Computation):
    """Says a value again when the wall clock has moved on by its key."""

    def process_record(self, record: Record, context: Context) -> None:
        context.state = record.value
        context.set_timer("echo", context.wall_time + 300_000, TimeDomain.WALL_TIME)

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.produce("echoes", (context.state, context.wall_time >= timer.timestamp), 0)
        context.state = None


class Open(BaseInjector):
    """One record, and then nothing until it is told to end."""

    ended = False

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        new = position == 0
        return Delivery(
            [MemorySplit(Batch(["a"], [1]))] if new else [], 1, done=self.ended, idle=not new and not self.ended
        )


def test_wall_timers_fire_without_input(spark: SparkSession) -> None:
    topology = Topology()
    injector = Open()
    topology.injector("in", injector)
    topology.computation("echo", Echo(), {"in": itself}, ["echoes"])
    rows: list[object] = []

    def take(epoch: int, more: list[tuple[object, int]]) -> None:
        rows.extend(more)
        injector.ended = True

    topology.sink("echoes", "echoes", CallSink(take))
    SparkRunner(spark).run_topology(topology, RunOptions(poll_seconds=0.05))
    assert rows == [(("a", True), 0)]


class Failing(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.state = (context.state or 0) + 1
        if record.value == ("bad", 7):
            raise ValueError("seven is poison")


def test_poison_stops_the_run_and_names_step_key_and_value(spark: SparkSession, tmp_path: Path) -> None:
    def run(rows: list[tuple[object, int]]) -> RunResult:
        topology = Topology()
        topology.injector("in", BoundedInjector(rows))
        topology.computation("fails", Failing(), {"in": lambda value: value[0]}, [])
        return SparkRunner(spark).run_topology(topology, RunOptions(str(tmp_path), max_records_per_epoch=5))

    rows: list[tuple[object, int]] = [(("bad", i), i) for i in range(10)]
    with pytest.raises(StepError, match="seven is poison") as caught:
        run(rows)
    assert (caught.value.step, caught.value.key, caught.value.value) == ("fails", "bad", ("bad", 7))
    assert "process_record" in caught.value.cause
    # The first epoch is committed; a program that copes with the value goes on from there.
    rows[7] = (("bad", -7), 7)
    assert run(rows).counters["fails"] == {"records": 10}


def test_a_sink_that_fails_in_the_task_is_named(spark: SparkSession) -> None:
    class Refusing(CallSink):
        def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
            raise OSError("disk full")

    topology = Topology()
    topology.injector("in", BoundedInjector([(1, 1)]))
    topology.sink("refusing", "in", Refusing(lambda epoch, rows: None))
    with pytest.raises(StepError, match="disk full"):
        SparkRunner(spark).run_topology(topology)


class Suicidal(Computation):
    """Kills its process once: the file says that it did."""

    def __init__(self, flag: Path) -> None:
        self._flag = flag

    def process_record(self, record: Record, context: Context) -> None:
        context.state = (context.state or 0) + 1
        context.produce("counts", (context.key, context.state))
        if record.timestamp == 33 and not self._flag.exists():
            self._flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_killed_in_a_task_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    def run(flag: Path) -> list[object]:
        topology = Topology()
        topology.injector("in", BoundedInjector([(i % 4, i) for i in range(60)]))
        topology.computation("count", Suicidal(flag), {"in": itself}, ["counts"])
        rows = collect(topology, "counts")
        SparkRunner(spark).run_topology(topology, RunOptions(max_records_per_epoch=20))
        return sorted(map(repr, rows))

    flag = tmp_path / "killed"
    killed = run(flag)
    assert flag.exists(), "the fault did not fire"
    assert killed == run(flag)


class Counting(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        if record.value == "stop":
            raise ValueError("stop here")
        context.state = (context.state or 0) + 1
        context.produce("counts", (context.key, context.state))


def test_snapshots_are_made_beside_the_epochs_and_copies_begin_with_them(spark: SparkSession, tmp_path: Path) -> None:
    def run(rows: list[tuple[object, int]]) -> list[object]:
        topology = Topology()
        topology.injector("in", BoundedInjector(rows))
        topology.computation("count", Counting(), {"in": itself}, ["counts"])
        found = collect(topology, "counts")
        # Snapshots take as long as some dozens of these epochs without a pause. Commits of one task would carry deltas,
        # of which many more are worth one.
        options = RunOptions(
            str(place), max_records_per_epoch=4, progress=lambda _: time.sleep(0.1), one_task_epochs=False
        )
        SparkRunner(spark, intervals=2).run_topology(topology, options)
        return found

    place = tmp_path / "checkpoint"
    rows: list[tuple[object, int]] = [(i % 4, i) for i in range(200)]
    with pytest.raises(StepError, match="stop here"):
        run([*rows, ("stop", 0)])
    checkpoint = CheckpointView.of(ObjectStore(place))
    assert checkpoint.manifest is not None
    assert any(plan.snapshot is not None for plan in checkpoint.manifest.chains.values()), "no snapshot was committed"
    StoreCache(checkpoint.identity).discard()
    again = run([*rows, *[(key, 200) for key in range(4)]])
    assert {row for row in again if row[1] == 200} == {((key, 51), 200) for key in range(4)}


@pytest.mark.parametrize("damage", ["pages", "header", "crash"])
def test_a_damaged_copy_is_made_again(spark: SparkSession, tmp_path: Path, damage: str) -> None:
    def run(rows: list[tuple[object, int]]) -> list[object]:
        topology = Topology()
        topology.injector("in", BoundedInjector(rows))
        topology.computation("count", Counting(), {"in": itself}, ["counts"])
        found = collect(topology, "counts")
        SparkRunner(spark, intervals=1).run_topology(topology, RunOptions(str(place), max_records_per_epoch=400))
        return found

    place = tmp_path / "checkpoint"
    rows: list[tuple[object, int]] = [(i % 400, i) for i in range(1600)]
    with pytest.raises(StepError, match="stop here"):
        run([*rows, ("stop", 0)])
    (file,) = StoreCache(CheckpointView.of(ObjectStore(place)).identity).folder.rglob("data.mdb")
    with file.open("r+b") as opened:
        if damage == "crash":
            opened.truncate(8192)
        else:
            opened.seek(8192 if damage == "pages" else 0)
            opened.write(b"\xfe" * (file.stat().st_size - opened.tell()))
    again = run([*rows, *[(key, 2000) for key in range(400)]])
    assert {row for row in again if row[1] == 2000} == {((key, 5), 2000) for key in range(400)}


class Big(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.produce("out", (record.value[0], len(record.value[1])))


def test_large_rows_travel(spark: SparkSession) -> None:
    topology = Topology()
    topology.injector("in", BoundedInjector([((i, os.urandom(5 << 20)), i) for i in range(20)]))
    topology.computation("big", Big(), {"in": lambda value: value[0] % 2}, ["out"])
    rows = collect(topology, "out")
    SparkRunner(spark).run_topology(topology)
    assert sorted(rows) == [((i, 5 << 20), i) for i in range(20)]


def test_the_programs_own_settings_and_jobs_are_left_alone(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.codegen.wholeStage")
    topology, *_ = two_levels()
    SparkRunner(spark).run_topology(topology)
    assert spark.conf.get("spark.sql.codegen.wholeStage") == before
    assert not spark.sparkContext.getLocalProperty("headrace.rows")
    assert not spark.sparkContext.getLocalProperty("spark.job.description")


def test_two_runs_at_once_in_one_program(spark: SparkSession) -> None:
    results: list[list[str]] = []

    def run() -> None:
        topology, minutes, _ = two_levels()
        SparkRunner(spark).run_topology(topology, RunOptions(max_records_per_epoch=16))
        results.append(sorted(map(repr, minutes)))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    assert results[0] == results[1]
    assert results[0]


def test_copies_end_with_a_run_that_has_no_checkpoint(spark: SparkSession) -> None:
    kept = StoreCache("any").folder.parent
    before = set(kept.iterdir()) if kept.exists() else set()
    topology, *_ = two_levels()
    SparkRunner(spark).run_topology(topology)
    time.sleep(0.2)
    assert set(kept.iterdir()) <= before
