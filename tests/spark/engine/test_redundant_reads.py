"""Epochs that several tasks read, each for its own keys: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

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
from headrace.runners.spark.jobs import epoch_job
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

    def __init__(self, split: type[Numbers] = Numbers) -> None:
        self.split = split

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        assert isinstance(position, int)
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
    """A run on Spark, and by how many tasks of one stage its epochs were tried."""

    result: RunResult
    rows: list[object]
    widths: list[int] = field(default_factory=list)


Run = Callable[..., Watched]


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Run:
    widths: list[int] = []
    run_in_one = epoch_job.EpochJob.run_in_one_stage

    def watched(self: epoch_job.EpochJob, epoch: int, rows: Sequence[Message], width: int = 1) -> list[Message]:
        widths.append(width)
        return run_in_one(self, epoch, rows, width)

    monkeypatch.setattr(epoch_job.EpochJob, "run_in_one_stage", watched)
    monkeypatch.setattr(StageExtent, "choose_one_task", never(StageExtent.choose_one_task))

    def run(split: type[Numbers] = Numbers, computation: Computation | None = None, **options: object) -> Watched:
        rows: list[object] = []
        result = SparkRunner(spark, intervals=3).run_topology(topology(rows, split, computation), RunOptions(**options))
        return Watched(result, rows, widths)

    return run


def never(is_one: Callable[[StageExtent, Sequence[Split]], bool]) -> Callable[[StageExtent, Sequence[Split]], bool]:
    """Asked as ever, but no epoch is for one task."""

    def asked(self: StageExtent, splits: Sequence[Split]) -> bool:
        is_one(self, splits)
        return False

    return asked


def topology(rows: list[object], split: type[Numbers] = Numbers, computation: Computation | None = None) -> Topology:
    built = Topology()
    built.injector("in", Input(split))
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
    assert sorted(found.rows) == sorted(reference.rows)
    assert found.result == reference.result
    assert found.result.counters["in"] == {"records": EPOCHS * RECORDS}
    assert counted(found) == counted(reference)


def test_where_tasks_read_something_else_one_reads_for_all(run: Run, caplog: pytest.LogCaptureFixture) -> None:
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


def test_an_error_names_step_key_and_value_as_ever(run: Run) -> None:
    with pytest.raises(StepError, match=r"(?s)'sums' raised for key 'key 0' at \('key 0', 605\).*five") as told:
        run(computation=Fails())
    assert told.value.step == "sums"
