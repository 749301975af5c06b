"""Epochs that several tasks read, each for its own keys: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from threading import Thread
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from headrace.lowlevel import BaseInjector, CallSink, Computation, Context, Delivery, Record, StepError, Topology
from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.metric_cells import CounterCell
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.records.value_schema import Single, pair
from headrace.runners.engine.messages import Message
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from headrace.runners.spark.jobs import epoch_job, resident_task
from headrace.runners.spark.jobs.resident_tasks import ResidentTasks
from headrace.runners.spark.jobs.stage_policy import StageExtent

pytestmark = pytest.mark.spark

EPOCHS, RECORDS, KEYS = 4, 300, 11


def columns(numbers: Sequence[int]) -> ColumnBatch:
    """Pairs of a key and a number."""
    table = pa.record_batch({"key": [f"key {number % KEYS}" for number in numbers], "number": list(numbers)})
    return ColumnBatch(table, np.array(numbers, np.int64), pair(Single(0), Single(1)))


@dataclass(frozen=True)
class Numbers:
    start: int

    def numbers(self) -> list[int]:
        return list(range(self.start, self.start + RECORDS))

    def read(self) -> Iterator[Batch]:
        yield columns(self.numbers())


class AsValues(Numbers):
    """The same as Python values."""

    def read(self) -> Iterator[Batch]:
        for batch in super().read():
            yield Batch(batch.values, batch.timestamps)


class AnotherForEach(Numbers):
    """A file that is written while it is read: who comes later finds its records under other keys."""

    def numbers(self) -> list[int]:
        task = TaskContext.get()
        later = 0 if task is None else task.partitionId()
        return [number + later for number in super().numbers()]


class Input(BaseInjector):
    max_delay = 10

    def __init__(self, split: type[Numbers] = Numbers, before: Callable[[int], None] = lambda position: None) -> None:
        self.split, self.before = split, before

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        assert isinstance(position, int)
        self.before(position)
        found: list[Split] = [self.split(position * RECORDS)]
        return Delivery(found, position + 1, done=position + 1 == EPOCHS)


class Sums(Computation):
    """A sum for each key, told with each number."""

    def process_record(self, record: Record, context: Context) -> None:
        key, number = record.value
        context.state = (context.state or 0) + number
        context.produce("sums", (key, number, context.state))


@dataclass
class Watched:
    """A run on Spark, and by how many tasks of one stage its epochs were tried, in jobs or in tasks that stay."""

    result: RunResult
    rows: list[object]
    jobs: list[int] = field(default_factory=list)
    stays: list[int] = field(default_factory=list)

    @property
    def widths(self) -> list[int]:
        """Of jobs and of tasks that stay."""
        return self.jobs + self.stays


Run = Callable[..., Watched]


@pytest.fixture(params=[0.0, 60.0], ids=["jobs", "tasks that stay"])
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Run:
    jobs: list[int] = []
    stays: list[int] = []
    run_job, run_staying = epoch_job.EpochJob.run_in_one_stage, ResidentTasks.run

    def as_job(self: epoch_job.EpochJob, epoch: int, rows: Sequence[Message], width: int = 1) -> list[Message]:
        jobs.append(width)
        return run_job(self, epoch, rows, width)

    def staying(self: ResidentTasks, epoch: int, tasks: int, rows: Sequence[Message], width: int) -> object:
        stays.append(width)
        return run_staying(self, epoch, tasks, rows, width)

    monkeypatch.setattr(epoch_job.EpochJob, "run_in_one_stage", as_job)
    monkeypatch.setattr(ResidentTasks, "run", staying)
    monkeypatch.setattr(StageExtent, "choose_one_task", never(StageExtent.choose_one_task))
    # On a busy machine a run would go on with one task before the second one has begun.
    monkeypatch.setattr(resident_task, "_SOON_SECONDS", 120.0)

    def run(split: type[Numbers] = Numbers, computation: Computation | None = None, **options: object) -> Watched:
        rows: list[object] = []
        made = topology(
            rows, split, computation, cast("Callable[[int], None]", options.pop("before", lambda position: None))
        )
        settings = RunOptions(**{"task_idle_seconds": request.param, **options})
        return Watched(SparkRunner(spark, intervals=3).run_topology(made, settings), rows, jobs, stays)

    return run


def never(is_one: Callable[[StageExtent, Sequence[Split]], bool]) -> Callable[[StageExtent, Sequence[Split]], bool]:
    """Asked as ever, but no epoch is for one task."""

    def asked(self: StageExtent, splits: Sequence[Split]) -> bool:
        is_one(self, splits)
        return False

    return asked


def topology(
    rows: list[object],
    split: type[Numbers] = Numbers,
    computation: Computation | None = None,
    before: Callable[[int], None] = lambda position: None,
) -> Topology:
    built = Topology()
    built.injector("in", Input(split, before))
    built.computation("sums", computation or Sums(), {"in": itemgetter(0)}, ["sums"])
    built.sink("rows", "sums", CallSink(lambda epoch, its: rows.extend((epoch, *row) for row in its)))
    return built


def expected(split: type[Numbers] = Numbers) -> Watched:
    rows: list[object] = []
    return Watched(LocalRunner(parallelism=2).run_topology(topology(rows, split)), rows)


def counted(run: Watched) -> dict[tuple[str, str], CounterCell]:
    """What was counted; gauges have the time of the run."""
    return {
        (step, metric.name): cell
        for step, cells in run.result.metrics.items()
        for metric, cell in cells.items()
        if isinstance(cell, CounterCell)
    }


def test_several_tasks_come_to_what_one_runner_in_memory_does(run: Run) -> None:
    found, reference = run(), expected()
    # The first epoch of an input of which nothing is known is spread.
    assert found.widths == [2] * (EPOCHS - 1)
    assert found.jobs == [] or found.stays == []
    assert sorted(found.rows) == sorted(reference.rows)
    assert found.result == reference.result
    assert found.result.counters["in"] == {"records": EPOCHS * RECORDS}
    assert counted(found) == counted(reference)


@pytest.mark.parametrize("run", [0.0], indirect=True, ids=["jobs"])
def test_where_tasks_read_something_else_one_reads_for_all(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """In jobs, whose tasks have numbers of their own; what the tasks that stay report is compared in the same place."""
    with caplog.at_level("INFO"):
        found = run(AnotherForEach)
    assert found.widths == [2], "it is not tried again"
    assert "may differ from reader to reader" in caplog.text
    assert sorted(found.rows) == sorted(expected(AnotherForEach).rows)


def test_values_of_python_are_read_by_one_task(run: Run) -> None:
    found = run(AsValues)
    assert found.widths == [2], "it is not tried again"
    assert sorted(found.rows) == sorted(expected(AsValues).rows)
    assert found.result.counters["in"] == {"records": EPOCHS * RECORDS}


def test_it_can_be_forbidden(run: Run) -> None:
    found = run(one_task_epochs=False)
    assert found.widths == []
    assert sorted(found.rows) == sorted(expected().rows)


class DiesOnce(Sums):
    """Ends its process, the first time that it gets a number of the third epoch."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def process_record(self, record: Record, context: Context) -> None:
        super().process_record(record, context)
        if record.value[1] == 2 * RECORDS + 5 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_is_run_again_changes_nothing(run: Run, tmp_path: Path) -> None:
    found = run(computation=DiesOnce(tmp_path / "died"), checkpoint=str(tmp_path / "checkpoint"))
    assert (tmp_path / "died").exists()
    assert sorted(found.rows) == sorted(expected().rows)
    assert found.result.counters["in"] == {"records": EPOCHS * RECORDS}


class Fails(Sums):
    def process_record(self, record: Record, context: Context) -> None:
        if record.value[1] == 2 * RECORDS + 5:
            raise ValueError("five")
        super().process_record(record, context)


@pytest.mark.parametrize("run", [60.0], indirect=True, ids=["tasks that stay"])
def test_tasks_that_stay_give_way_to_another_job(run: Run, spark: SparkSession) -> None:
    """With two slots, and both held, another job waits for the end of an epoch at most."""
    counts: list[int] = []
    other = Thread(target=lambda: counts.append(spark.range(0, 700, 1, 4).count()))

    def before(position: int) -> None:
        if position == EPOCHS - 2:
            other.start()
            deadline = time.monotonic() + 30
            while len(spark.sparkContext.statusTracker().getActiveJobsIds()) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
        elif position == EPOCHS - 1:
            other.join(30)
            time.sleep(0.6)

    found = run(before=before)
    assert counts == [700]
    assert found.stays == [2, 1, 2], "the second task came back when the other job had ended"
    assert sorted(found.rows) == sorted(expected().rows)


def test_an_error_names_step_key_and_value_as_ever(run: Run) -> None:
    with pytest.raises(StepError, match=r"(?s)'sums' raised for key 'key 0' at \('key 0', 605\).*five") as told:
        run(computation=Fails())
    assert told.value.step == "sums"
