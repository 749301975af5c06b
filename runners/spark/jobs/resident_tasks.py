"""The tasks that stay of one run: how many there are, which slots of Spark they hold, and what becomes of lost ones.

The runs of a process leave one of Spark's slots to other jobs. Several tasks of an epoch, which all read the same, may
also use that one, for as long as no other job is there. If a task, its host or its connection is lost, the driver gives
the epoch up and runs it as a job.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from threading import Lock

from pyspark.sql import SparkSession

from headrace.runners.engine.messages import Message
from headrace.runners.spark.cluster.cluster import Cluster, DriverAddress
from headrace.runners.spark.cluster.of_session import cluster_of
from headrace.runners.spark.jobs.resident_task import CUT, LeftError, ResidentTask
from headrace.runners.spark.jobs.single_stage import Share
from headrace.runners.spark.worker.task_payload import TaskPayload

_log = logging.getLogger(__name__)
_LOSSES = 3
"""Lost tasks of a run after which epochs are run as jobs only."""
_FURTHER_IDLE_SECONDS = 1.0
"""How long a further task, which may hold the last slot, waits at most for an epoch before it leaves."""
_ALONE_SECONDS = 0.5
"""How long there is no further task after another job was there."""
_NO_SLOT_SECONDS = 30.0
"""How long there is no further task after one had no slot, though Spark said that there was one."""
_ASK_AGAIN_SECONDS = 1.0
"""The least time from one question for the number of slots to the next."""
_COSTS = 100
"""How many times as long as a question for the number of slots takes there is none after it."""


class ResidentTasks:
    """The tasks that stay of one run, begun when small epochs come and ended when slots are needed or nothing comes.

    Args:
        session: The engine's session.
        payload: The payload of all tasks of the run.
        address: Where the driver listens; None if it may not.
        idle_seconds: How long the first task waits for an epoch before it leaves; 0 for no task that stays.
    """

    def __init__(
        self, session: SparkSession, payload: TaskPayload, address: DriverAddress | None, idle_seconds: float
    ) -> None:
        self._session, self._payload, self._address = session, payload, address
        self._idle_seconds = idle_seconds
        self._is_allowed = address is not None and idle_seconds > 0
        self._cluster = cluster_of(session)
        self._slots = _slots_of(self._cluster)
        self._running: list[ResidentTask] = []
        self._losses = 0
        self._alone_until = 0.0
        """Until when (`monotonic`) there is one task at most, as another job was there."""

    def prepare(self, epoch: int, width: int) -> int:
        """Begin tasks for an epoch; how many are there for it: `width`, 1 while others need the slots, or 0.

        It is 0 if no task may stay, and the epoch has to be a job.
        """
        if self._running and not self._slots.are_enough(self._cluster):
            self.give_back()
        if len(self._running) > 1 and self._is_another_job():
            self._go_alone(_ALONE_SECONDS)
        if not self._begin(epoch):
            return 0
        return width if width == 1 or self._begin_further(epoch, width) else 1

    def run(self, epoch: int, tasks: int, messages: Sequence[Message], width: int) -> list[Message] | None:
        """Run an epoch; returns the messages to the driver, or None if it has to be a job, as a task was lost or left.

        Args:
            epoch: Number of the epoch.
            tasks: Number of the engine's tasks at each level.
            messages: The messages to the engine's tasks.
            width: What `prepare` returned: the number of Spark's tasks, which all get the messages.

        Raises:
            SparkJobError: A job was cancelled from outside, as at a second signal.
        """
        try:
            for number, task in enumerate(self._running[:width]):
                task.send(tasks, Share(number, width), messages)
            return [message for task in self._running[:width] for message in task.answer()]
        except LeftError:
            self.give_back()
        except CUT as error:
            self._lose(epoch, error)
        return None

    def _begin(self, epoch: int) -> bool:
        """Begin the first task, if it may stay; whether it is there."""
        if not self._running and self._is_allowed and self._slots.take(self._cluster):
            self._running.append(self._new(epoch, self._idle_seconds, self._slots.give_back))
        return bool(self._running)

    def _begin_further(self, epoch: int, width: int) -> bool:
        """Begin further tasks until there are so many; whether all are there."""
        for left in [task for task in self._running[1:] if task.has_ended]:
            self._running.remove(left)
            left.end()
        if len(self._running) < width and (time.monotonic() < self._alone_until or self._is_another_job()):
            return False
        while len(self._running) < width:
            if not self._slots.take_further(self._cluster):
                return False
            seconds = min(self._idle_seconds, _FURTHER_IDLE_SECONDS)
            self._running.append(self._new(epoch, seconds, self._slots.give_further_back))
        if all(task.comes_soon() for task in self._running[1:]):
            return True
        self._go_alone(_NO_SLOT_SECONDS)
        return False

    def _new(self, epoch: int, idle_seconds: float, ended: Callable[[], None]) -> ResidentTask:
        assert self._address is not None, "it is allowed"
        return ResidentTask(self._session, self._payload, self._address, idle_seconds, epoch, ended)

    def _is_another_job(self) -> bool:
        """Whether Spark has, or may have, another job than those of the tasks that stay."""
        running = sum(not task.has_ended for task in self._running)
        jobs = self._cluster.active_jobs()
        return jobs is None or jobs > running

    def _go_alone(self, seconds: float) -> None:
        """End further tasks, and begin none for so long."""
        self._alone_until = time.monotonic() + seconds
        while len(self._running) > 1:
            self._running.pop().end()

    def _lose(self, epoch: int, error: Exception) -> None:
        """Note that a task was lost; too often, and there will be no other."""
        lost, self._running = self._running, []
        for task in lost:
            task.end(at_once=True)
        if (cancelled := next((task.error for task in lost if task.was_cancelled), None)) is not None:
            raise cancelled
        self._losses += 1
        self._is_allowed = self._losses < _LOSSES
        _log.log(
            logging.INFO if self._is_allowed else logging.WARNING,
            "epoch %d: the task that stays was lost (%s: %s), so the epoch is run again as a Spark job%s",
            epoch,
            type(error).__name__,
            str(error) or "the connection has ended",
            "" if self._is_allowed else f"; that was so {_LOSSES} times, so there will be no such task in this run",
        )

    def give_back(self, at_once: bool = False) -> None:
        """End the tasks, so that Spark has their slots for others; nothing happens if there is none.

        With `at_once` their jobs are cancelled.
        """
        while self._running:
            self._running.pop().end(at_once)


class Slots:
    """The slots of Spark that tasks of this process's runs may hold: one is left to other jobs.

    Spark is asked how many slots there are, as executors come and go, but only so often that asking costs little.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._slots = 0
        self._ask_again_at = 0.0
        """From when on (`monotonic`) the number counts as old."""
        self._first = 0
        """Slots that first tasks of runs hold."""
        self._further = 0
        """Slots that further tasks hold, which leave as soon as there is another job."""

    def take(self, cluster: Cluster) -> bool:
        """Take a slot for the first task of a run; False if there is none, or only the last one."""
        with self._lock:
            is_free = self._number(cluster) - self._first - self._further > 1
            self._first += is_free
            return is_free

    def take_further(self, cluster: Cluster) -> bool:
        """Take a slot for a further task, which may be the last one; False if there is none."""
        with self._lock:
            is_free = self._number(cluster) > self._first + self._further
            self._further += is_free
            return is_free

    def are_enough(self, cluster: Cluster) -> bool:
        """Whether the tasks that hold slots still leave one to other jobs, though executors may have gone."""
        with self._lock:
            return self._number(cluster) > self._first

    def give_back(self) -> None:
        """Give back the slot of a first task whose job has ended."""
        with self._lock:
            self._first -= 1

    def give_further_back(self) -> None:
        """Give back the slot of a further task whose job has ended."""
        with self._lock:
            self._further -= 1

    def _number(self, cluster: Cluster) -> int:
        """How many slots there are."""
        if (began := time.monotonic()) >= self._ask_again_at:
            self._slots = cluster.slots()
            ended = time.monotonic()
            self._ask_again_at = ended + max(_ASK_AGAIN_SECONDS, _COSTS * (ended - began))
        return self._slots


_SLOTS: dict[str, Slots] = {}
"""Id of Spark's application -> its slots; several runs may use one session."""


def _slots_of(cluster: Cluster) -> Slots:
    return _SLOTS.setdefault(cluster.application(), Slots())
