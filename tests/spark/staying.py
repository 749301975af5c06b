"""The task that stays meets one fault after another: `python -m tests.spark.staying FOLDER FAULT=MOMENT...`.

The program runs on two executors of its own. When a task stays and has run an epoch, the next fault is due, and strikes
at its moment: a step of the driver, `sent` or `answered` around the driver's wait for the task, or, inside the task,
its `first record`, its `last record` or its `staging` of the sink's rows. The folder gets a file of each fault that has
struck. Started again with the same arguments, the program goes on; it ends some epochs after the last fault.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import cast

from headrace.lowlevel import BaseInjector, Batch, CallSink, Computation, Context, Delivery, Record, Topology
from headrace.lowlevel.injectors.injector import MemorySplit
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark.jobs import resident_task
from tests.spark.cluster import parent
from tests.spark.lives import write

KEYS, RECORDS = 7, 5
MOMENTS = (
    *("plan", "sent", "first record", "last record", "staging"),
    *("answered", "commit", "committed", "deliver", "delivered"),
)
FAULTS = (
    *("worker killed", "worker stopped", "worker replaced", "executor killed", "executor stopped"),
    *("driver killed", "driver stopped", "connection cut"),
)
_MOST_EPOCHS = 2000
_APART_SECONDS = 1.0
"""The least time from a fault to the end of the epoch before the next one."""
_STOPPED_SECONDS = 2.0
"""How long a worker is stopped that nobody replaces: Spark and the driver wait for it."""
_EPOCHS_WITHOUT = 2
"""Epochs that are committed while what was replaced is still stopped."""
_MOST_SECONDS_WITHOUT = 300
"""How long these epochs may take, on a busy machine."""
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.executor.heartbeatInterval": "1s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "10s",
    "spark.network.timeoutInterval": "1s",
    "spark.shuffle.io.connectionTimeout": "10s",
    "spark.task.maxFailures": "20",
}
"""A stopped executor is soon lost. A short `spark.network.timeout` would do that as well, but no question of Spark's
processes to one another waits longer, also while a cluster starts: on a busy machine none started. An executor that is
only slow may be lost, and its tasks with it, but the run does not end by that."""
_connections: list[Connection] = []
"""Of the driver, to tasks that stay."""


class Faults:
    """The faults to come, and those that have struck, as files of a folder: tasks and later drivers see them, too."""

    def __init__(self, folder: Path, faults: list[str]) -> None:
        self.folder, self.faults = folder, faults
        self.driver = os.getpid()
        (folder / "driver").write_text(str(self.driver))

    def is_replaced(self) -> bool:
        """Whether a later driver has begun."""
        return (self.folder / "driver").read_text() != str(self.driver)

    def struck(self) -> int:
        """How many have struck."""
        return len(list(self.folder.glob("struck-*")))

    def let_next_come(self) -> None:
        """Called before each epoch: the next fault is due if a task stays that has run an epoch after the last one."""
        number, worker, due = self.struck(), self.folder / "worker", self.folder / "due"
        if self.is_replaced() or number == len(self.faults) or due.exists() or not (connected() and worker.exists()):
            return
        # The worker of a killed executor runs epochs until Spark has found out.
        if (
            not number
            or worker.stat().st_mtime > (self.folder / f"struck-{number - 1}").stat().st_ctime + _APART_SECONDS
        ):
            due.write_text(f"{number} {self.faults[number]}")

    def is_due(self, moment: str) -> bool:
        """Whether the fault that is due strikes at this moment."""
        return self._due().endswith(f"={moment}") and not self.is_replaced()

    def _due(self) -> str:
        """Number and name of the fault that is due; nothing if none is, or if it has just struck in another process."""
        with suppress(FileNotFoundError):
            return (self.folder / "due").read_text()
        return ""

    def may_strike(self, moment: str) -> None:
        """Do the harm that is due at this moment, if any, while a task stays; in tasks: if it is this one."""
        due = self._due()
        if not (connected() and due.endswith(f"={moment}")) or self.is_replaced():
            return
        number, _, fault = due.partition(" ")
        worker, executor = map(int, (self.folder / "worker").read_text().split())
        try:
            (self.folder / "due").rename(self.folder / f"struck-{number}")
        except FileNotFoundError:
            # A task that was replaced and continued has been faster.
            return
        self._harm(fault.partition("=")[0], worker, executor)

    def _harm(self, fault: str, worker: int, executor: int) -> None:
        victim, what = fault.split()
        if what == "cut":
            cut()
        elif what == "killed":
            os.kill({"worker": worker, "executor": executor, "driver": self.driver}[victim], signal.SIGKILL)
        elif victim == "driver":
            # Whoever has started it continues it.
            os.kill(self.driver, signal.SIGSTOP)
        else:
            stopped = [executor, worker] if victim == "executor" else [worker]
            (self.folder / "stopping").write_text(f"{fault}\n{' '.join(map(str, stopped))}")
            (self.folder / "stopping").rename(self.folder / "stopped")
            # A worker that stops itself does so last.
            for process in stopped:
                os.kill(process, signal.SIGSTOP)

    def continue_stopped(self, epochs: Path) -> None:
        """Replace and continue what was stopped, for ever; `epochs` has a file for each delivered epoch."""
        while True:
            time.sleep(0.05)
            if not (self.folder / "stopped").exists():
                continue
            fault, processes = (self.folder / "stopped").read_text().splitlines()
            before, deadline = len(list(epochs.iterdir())), time.monotonic() + _MOST_SECONDS_WITHOUT
            if fault == "worker stopped":
                time.sleep(_STOPPED_SECONDS)
            else:
                time.sleep(0.5)
                if fault == "worker replaced":
                    cut()
                while len(list(epochs.iterdir())) < before + _EPOCHS_WITHOUT:
                    if time.monotonic() > deadline:
                        (self.folder / "not replaced").touch()
                        break
                    time.sleep(0.05)
            (self.folder / "stopped").unlink()
            for process in processes.split():
                # Spark kills workers of cancelled tasks.
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGCONT)

    # Hooks of the driver

    def bundle_size(self, epoch: int, limit: int) -> int:
        return limit

    def step(self, name: str, epoch: int) -> None:
        self.may_strike(name)


def connected() -> list[Connection]:
    """The connection of this process with its peer, of the driver or of the task that stays; none if there is none."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_stay":
        frame = frame.f_back
    found = _connections if frame is None else [cast(Connection, frame.f_locals["connection"])]
    return [connection for connection in found if not connection.closed]


def cut() -> None:
    """Cut the connection, as seen from both sides."""
    for connection in connected():
        with socket.socket(fileno=socket.dup(connection.fileno())) as again:
            again.shutdown(socket.SHUT_RDWR)


def executor_of_worker() -> int | None:
    """The executor of this worker; None if it is dead, and the daemon has another parent."""
    with suppress(FileNotFoundError):
        executor = parent(os.getppid())
        if Path(f"/proc/{executor}/comm").read_text() == "java\n":
            return executor
    return None


class Numbers(BaseInjector):
    """Some numbers in each epoch."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        epoch = cast(int, position or 0)
        self._faults.let_next_come()
        time.sleep(0.02 if connected() else 0.2)
        self._note_end(epoch)
        numbers = [epoch * RECORDS + place for place in range(RECORDS)]
        return Delivery([MemorySplit(Batch(numbers, [epoch] * RECORDS))], epoch + 1, epoch, epoch + 1 == self._end())

    def _note_end(self, epoch: int) -> None:
        is_over = self._faults.struck() == len(self._faults.faults) and not (self._faults.folder / "stopped").exists()
        if (
            (is_over or epoch > _MOST_EPOCHS)
            and not self._faults.is_replaced()
            and not (self._faults.folder / "end").exists()
        ):
            (self._faults.folder / "end").write_text(str(epoch + 10))

    def _end(self) -> int:
        end = self._faults.folder / "end"
        return int(end.read_text()) if end.exists() else -1


class Count(Computation):
    """Counts the records of each key."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def process_record(self, record: Record, context: Context) -> None:
        number = cast(int, record.value)
        self._faults.may_strike("first record")
        context.state = cast(int, context.state or 0) + 1
        context.produce("counts", (number, context.state))

    def finish_bundle(self, emit: object) -> None:
        self._faults.may_strike("last record")
        if connected() and (executor := executor_of_worker()):
            # The driver may read it at any time.
            told = self._faults.folder / f"worker-{os.getpid()}"
            told.write_text(f"{os.getpid()} {executor}")
            told.rename(self._faults.folder / "worker")


class Staging(CallSink):
    """A sink whose tasks may meet a fault before they answer."""

    def __init__(self, out: Path, faults: Faults) -> None:
        super().__init__(write(out, "seen"))
        self._faults = faults

    def __getstate__(self) -> dict[str, object]:
        return super().__getstate__() | {"_faults": self._faults}

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        self._faults.may_strike("staging")
        return super().stage(batch, epoch, interval, token)


def expected(folder: Path) -> Iterator[tuple[int, int]]:
    """Each number, and how many of its key there were by then."""
    return ((number, number // KEYS + 1) for number in range(int((folder / "end").read_text()) * RECORDS))


def watch(faults: Faults) -> None:
    """Let the driver note its connections, and let faults strike around its wait for answers."""
    greeted, answer = resident_task._greeted, resident_task.ResidentJob._answer  # seams of this test

    def noting(accepted: socket.socket, secret: bytes) -> Connection | None:
        if (connection := greeted(accepted, secret)) is not None:
            _connections[:] = [connection]
        return connection

    def answering(self: resident_task.ResidentJob, connection: Connection) -> bytes:
        faults.may_strike("sent")
        if faults.is_due("answered"):
            connection.poll(10)
            faults.may_strike("answered")
        return answer(self, connection)

    resident_task._LOSSES = 1000  # or there would be no task for the later faults
    resident_task._greeted = noting
    resident_task.ResidentJob._answer = answering  # type: ignore[method-assign]  # a seam


def main(place: str, *names: str) -> None:
    from pyspark.sql import SparkSession

    from headrace.runners.spark import SparkRunner

    folder, out = Path(place), Path(place) / "out"
    out.mkdir(exist_ok=True)
    faults = Faults(folder, list(names))
    watch(faults)
    Thread(target=faults.continue_stopped, args=(out,), daemon=True).start()
    made = Topology()
    made.injector("numbers", Numbers(faults))
    made.computation("count", Count(faults), {"numbers": lambda number: number % KEYS}, ["counts"])
    made.sink("seen", "counts", Staging(out, faults))
    session = SparkSession.builder.master("local-cluster[2,1,1024]").config(map=_SETTINGS).getOrCreate()
    SparkRunner(session, intervals=2, steps=faults).run_topology(
        made, RunOptions(str(folder / "checkpoint"), task_idle_seconds=60.0)
    )
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
