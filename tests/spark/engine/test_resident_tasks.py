"""The task that stays: many epochs in one Spark job, and nothing lost or doubled however the task is lost."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import cast

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import BaseInjector, CallSink, Computation, Context, Delivery, Record, StepError, Topology
from headrace.lowlevel.injectors.injector import MemorySplit
from headrace.lowlevel.records.record import Batch
from headrace.runners.engine.driver import running_topology
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.engine.task import host
from headrace.runners.spark import SparkRunner
from headrace.runners.spark.jobs import resident_task, stage_function
from headrace.runners.spark.jobs.epoch_job import EpochJob
from headrace.runners.spark.jobs.job_error import SparkJobError
from headrace.runners.spark.jobs.stage_policy import StageExtent

pytestmark = [pytest.mark.spark, pytest.mark.faults]

KEYS, RECORDS = 7, 5
Seen = list[tuple[int, int, int]]


class Numbers(BaseInjector):
    """Some records in each epoch; `before` is called with the number of the epoch that is planned."""

    def __init__(self, epochs: int, before: Callable[[int], None] = lambda epoch: None, large: int = -1) -> None:
        self.epochs, self.before, self.large = epochs, before, large

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        epoch = cast(int, position or 0)
        self.before(epoch)
        # So many records are foreseen as too much for one task.
        number = 200_000 if epoch == self.large else RECORDS
        numbers = [epoch * RECORDS + place for place in range(number)]
        return Delivery(
            [MemorySplit(Batch(numbers, [epoch] * number))], epoch + 1, watermark=epoch, done=epoch + 1 == self.epochs
        )


class CountThenMeet(Computation):
    """Counts the records of each key; may meet an accident at a record."""

    def __init__(self, accident: Callable[[int], None] = lambda number: None) -> None:
        self.accident = accident

    def __setstate__(self, state: dict[str, object]) -> None:
        # In the worker: however long an epoch takes on a busy machine, the task does not give it up.
        self.__dict__.update(state)
        host.MOST_SECONDS = stage_function.MOST_SECONDS = math.inf

    def process_record(self, record: Record, context: Context) -> None:
        number = cast(int, record.value)
        context.state = cast(int, context.state or 0) + 1
        self.accident(number)
        context.produce("counts", (number, context.state, os.getpid()))


def topology(seen: Seen, injector: Numbers, accident: Callable[[int], None] = lambda number: None) -> Topology:
    made = Topology()
    made.injector("numbers", injector)
    made.computation("count", CountThenMeet(accident), {"numbers": lambda number: number % KEYS}, ["counts"])
    made.sink("seen", "counts", CallSink(lambda epoch, rows: seen.extend(value for value, _ in rows)))
    return made


def expected(epochs: int) -> Counter[tuple[int, int]]:
    return Counter((number, number // KEYS + 1) for number in range(epochs * RECORDS))


def found(seen: Seen) -> Counter[tuple[int, int]]:
    return Counter((number, count) for number, count, _ in seen)


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small epochs run in one task, large ones in several, however long each has taken."""
    monkeypatch.setattr(StageExtent, "took", lambda self, seconds, busy, is_one: None)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The epochs that have run as Spark jobs."""
    epochs: list[int] = []

    def noting(run):
        return lambda self, epoch, *rest: (epochs.append(epoch), run(self, epoch, *rest))[1]

    for name in ("run", "run_in_one_task"):
        monkeypatch.setattr(EpochJob, name, noting(getattr(EpochJob, name)))
    return epochs


def run(spark: SparkSession, made: Topology, place: Path, **options) -> RunResult:
    return SparkRunner(spark, intervals=2).run_topology(
        made, RunOptions(str(place / "checkpoint"), **{"task_idle_seconds": 60.0, **options})
    )


def test_many_epochs_are_one_job(spark: SparkSession, tmp_path: Path, jobs: list[int]) -> None:
    seen: Seen = []
    run(spark, topology(seen, Numbers(80)), tmp_path)
    assert found(seen) == expected(80)
    assert not jobs, "all ran in the task that stays"
    assert len({pid for _, _, pid in seen}) == 1, "one process"


def test_one_task_does_the_work_of_many(
    spark: SparkSession, tmp_path: Path, jobs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where tasks are so many that only the driver tells them watermarks, epochs in one task are no different."""
    monkeypatch.setattr(running_topology, "MANY_TASKS", 2)
    seen: Seen = []
    run(spark, topology(seen, Numbers(40, large=20)), tmp_path)
    counted = found(seen)
    assert sum(counted.values()) == len(counted) == 39 * RECORDS + 200_000
    assert len(jobs) < 15, "all but the large epoch, and those around it, ran in the task that stays"


def test_runs_of_one_session_leave_a_slot_to_others(spark: SparkSession, tmp_path: Path, jobs: list[int]) -> None:
    """Two pipelines with small epochs, on two slots; without the limit a query waits until one has been idle."""
    went_on, at_rest = Event(), Barrier(3)

    def pauses(epoch: int) -> None:
        if epoch == 12:
            at_rest.wait(60)
            went_on.wait(60)

    seen: list[Seen] = [[], []]
    runs = [
        Thread(target=run, args=(spark, topology(rows, Numbers(20, pauses)), tmp_path / str(number)))
        for number, rows in enumerate(seen)
    ]
    for each in runs:
        each.start()
    at_rest.wait(60)
    began = time.monotonic()
    assert spark.range(7).count() == 7
    assert time.monotonic() - began < 20, "a slot was free"
    went_on.set()
    for each in runs:
        each.join(60)
    assert list(map(found, seen)) == [expected(20)] * 2
    assert len(jobs) >= 12, "of one of them every epoch was a job until the other had ended"


def test_no_task_stays_if_told_so(spark: SparkSession, tmp_path: Path, jobs: list[int]) -> None:
    seen: Seen = []
    run(spark, topology(seen, Numbers(15)), tmp_path, task_idle_seconds=0)
    assert found(seen) == expected(15)
    assert jobs == list(range(1, 16))


def test_ten_tasks_are_killed_while_they_work(
    spark: SparkSession, tmp_path: Path, jobs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_task, "_LOSSES", 100)
    seen: Seen = []

    def accident(number: int) -> None:
        marker = tmp_path / f"killed {number}"
        if number % 97 == 96 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    run(spark, topology(seen, Numbers(200), accident), tmp_path)
    assert len(list(tmp_path.glob("killed *"))) == 10
    assert found(seen) == expected(200)
    assert len(jobs) == 10, "an epoch whose task was lost is a job, and a task stays for the next one"


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_task_that_dies_between_two_epochs(
    spark: SparkSession, tmp_path: Path, jobs: list[int], caplog: pytest.LogCaptureFixture, sign: signal.Signals
) -> None:
    seen: Seen = []

    def before(epoch: int) -> None:
        if epoch == 30:
            os.kill(seen[-1][2], sign)
            time.sleep(0.5)

    with caplog.at_level(logging.INFO):
        run(spark, topology(seen, Numbers(60, before)), tmp_path)
    assert found(seen) == expected(60)
    assert "the task that stays was lost" in caplog.text and "run again as a Spark job" in caplog.text


def test_no_task_stays_after_three_losses(
    spark: SparkSession, tmp_path: Path, jobs: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    seen: Seen = []

    def before(epoch: int) -> None:
        if epoch in (20, 40, 60):
            os.kill(seen[-1][2], signal.SIGKILL)
            time.sleep(0.5)

    with caplog.at_level(logging.INFO):
        run(spark, topology(seen, Numbers(80, before)), tmp_path)
    assert found(seen) == expected(80)
    assert caplog.text.count("the task that stays was lost") == 3
    [warning] = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "there will be no such task in this run" in warning
    assert jobs == [21, 41, *range(61, 81)]


def test_a_stopped_task_whose_job_is_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    """As at a second signal: the run ends at once, and says that the job was cancelled."""
    seen: Seen = []
    stopped = tmp_path / "stopped"

    def accident(number: int) -> None:
        if number == 40 * RECORDS:
            stopped.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)

    def cancel() -> None:
        while not stopped.exists():
            time.sleep(0.05)
        time.sleep(0.5)
        spark.sparkContext.cancelAllJobs()

    canceller = Thread(target=cancel, daemon=True)
    canceller.start()
    try:
        with pytest.raises(SparkJobError, match="cancelled"):
            run(spark, topology(seen, Numbers(60), accident), tmp_path)
    finally:
        canceller.join(30)
        with suppress(ProcessLookupError):
            os.kill(int(stopped.read_text()), signal.SIGKILL)
    assert len(seen) == 40 * RECORDS, "nothing of the cancelled epoch was delivered"


@pytest.mark.parametrize("when", ["before the epoch", "in the epoch", "before the answer"])
def test_a_connection_that_is_cut(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    seen: Seen = []
    cut: list[int] = []
    answer = resident_task.ResidentJob._answer
    send = resident_task.ResidentJob.send

    def shut(self) -> None:
        cut.append(1)
        with socket.socket(fileno=socket.dup(self._connection.fileno())) as again:
            again.shutdown(socket.SHUT_RDWR)

    def sending(self, *rest):
        if when == "before the epoch" and self._connection is not None and len(seen) > 100 and not cut:
            shut(self)
        return send(self, *rest)

    def answering(self, connection):
        if when != "before the epoch" and len(seen) > 100 and not cut:
            if when == "before the answer":
                connection.poll(10)
            shut(self)
        return answer(self, connection)

    monkeypatch.setattr(resident_task.ResidentJob, "send", sending)
    monkeypatch.setattr(resident_task.ResidentJob, "_answer", answering)
    run(spark, topology(seen, Numbers(60)), tmp_path)
    assert cut and found(seen) == expected(60)


def test_an_idle_task_leaves_its_slot(spark: SparkSession, tmp_path: Path) -> None:
    seen: Seen = []
    active: list[int] = []
    tracker = spark.sparkContext.statusTracker()

    def before(epoch: int) -> None:
        if epoch in (30, 31):
            time.sleep(3.0 if epoch == 31 else 0)
            active.append(len(tracker.getActiveJobsIds()))

    run(spark, topology(seen, Numbers(60, before)), tmp_path, task_idle_seconds=1.0)
    assert active == [1, 0]
    assert found(seen) == expected(60)


def test_the_slot_is_given_back_for_a_large_epoch(spark: SparkSession, tmp_path: Path, jobs: list[int]) -> None:
    seen: Seen = []
    ends: list[int] = []
    run_plan = EpochJob.run

    def counting(self, epoch, *rest):
        ends.append(len(spark.sparkContext.statusTracker().getActiveJobsIds()))
        return run_plan(self, epoch, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EpochJob, "run", counting)
        run(spark, topology(seen, Numbers(60, large=40)), tmp_path)
    counts = Counter(number for number, _, _ in seen)
    assert set(counts) >= {number for number, _ in expected(60)}
    assert ends[-1] == 0, "the staying task had left before the job began"
    assert len(jobs) < 40, "and another one came afterwards"


def test_strangers_are_cut_off(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever connects without the secret gets nothing, and keeps nobody from connecting."""
    seen: Seen = []
    create = socket.create_server
    ports: list[int] = []

    def creating(*arguments, **named):
        server = create(*arguments, **named)
        ports.append(server.getsockname()[1])
        stranger = socket.create_connection(("127.0.0.1", ports[-1]))
        stranger.sendall(b"\x00\x00\x00\x04#HEL")
        return server

    monkeypatch.setattr(resident_task.socket, "create_server", creating)
    with caplog.at_level(logging.WARNING):
        run(spark, topology(seen, Numbers(60)), tmp_path)
    assert ports and found(seen) == expected(60)
    assert "did not prove that it is the task that stays" in caplog.text


def test_no_task_stays_where_spark_encrypts(
    spark: SparkSession, tmp_path: Path, jobs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Seen = []
    monkeypatch.setattr("headrace.runners.spark.executor.driver_address", lambda session: None)
    run(spark, topology(seen, Numbers(15)), tmp_path)
    assert found(seen) == expected(15) and jobs == list(range(1, 16))


def test_an_error_of_user_code_is_told_as_ever(spark: SparkSession, tmp_path: Path) -> None:
    seen: Seen = []

    def accident(number: int) -> None:
        if number == 203:
            raise ValueError("a poisoned number")

    with pytest.raises(StepError, match="step 'count' raised for key 0 at 203; nothing of this epoch is committed"):
        run(spark, topology(seen, Numbers(60), accident), tmp_path)
    assert found(seen) == expected(40)
