"""The contract of a cluster: all that the engine needs of Spark beside DataFrames; and which kind a session is on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.runners.spark.cluster.connect import Connect
from headrace.runners.spark.releases import is_connect


class DriverAddress(NamedTuple):
    """Where a server of the driver listens, and where the executors of its session reach it."""

    bind: str
    host: str


class Cluster(Protocol):
    """The cluster of a session. Objects are cheap, so they are made where they are needed."""

    has_job_properties: ClassVar[bool]
    """Whether a job can have a property that its tasks read (`job_property`); else all input of tasks is rows."""
    is_of_session: ClassVar[bool]
    """Whether files and running jobs belong to one session, and not to all sessions on the cluster."""

    def describe(self) -> str:
        """Return the name of the cluster for messages."""

    def is_local(self) -> bool:
        """Return whether all tasks run on this machine, in processes that can read its files."""

    def parallelism(self) -> int:
        """Return how many tasks Spark runs at once, at the start."""

    def slots(self) -> int:
        """Return how many tasks Spark can run at once now; too few rather than too many where that is not known."""

    def application(self) -> str:
        """Return the id of Spark's application, whose slots all its sessions share."""

    def setting(self, name: str) -> str | None:
        """Return one of Spark's settings, if it is set."""

    def knows_java_class(self, name: str) -> bool:
        """Return whether this release of Spark has a Java class of that name; False if it cannot be asked."""

    def is_driver_here(self) -> bool:
        """Return whether this program is on the machine where executors expect Spark's driver."""

    def is_stopped(self) -> bool:
        """Return whether somebody has stopped the session; False if the cluster does not answer."""

    def forgotten_jobs(self) -> frozenset[int]:
        """Return ids of what waits for a job of a stopped session; empty while another session may run one."""

    def end_forgotten(self, jobs: frozenset[int]) -> None:
        """End the waiting for such jobs: who waits for them gets an error."""

    def sibling(self) -> SparkSession | None:
        """Return a new session on the same cluster with settings of its own; None where there can be none."""

    def make_active(self) -> None:
        """Make the session the active one of the program again, after jobs of a sibling."""

    def use_python(self, executable: str) -> dict[str, str]:
        """Let workers on this machine that start from now on run under this interpreter.

        Returns their environment variables, which the caller may change. Only for a cluster that `is_local`.
        """

    def send_modules(self, name: str, write: Callable[[Path], None]) -> None:
        """Make modules importable for tasks; `write` writes a zip of them to the path that it is given."""

    def partitioned(self, table: pa.Table) -> DataFrame:
        """Return the rows of a table as a DataFrame with a partition for each chunk, in the order of the chunks."""

    def described(self, description: str) -> AbstractContextManager[None]:
        """Give that description to jobs that this thread runs inside; later jobs have the program's own again."""

    def job_property(self, name: str, value: str) -> AbstractContextManager[None]:
        """Give that property to jobs that this thread runs inside; later jobs have the program's own again."""

    def tag(self, tag: str) -> None:
        """Give a tag to all jobs that this thread runs from now on."""

    def cancel_tag(self, tag: str) -> None:
        """Cancel the jobs with a tag. Nothing happens if the cluster does not answer."""

    def cancel_all(self) -> None:
        """Cancel all jobs of the session, or of the cluster's sessions in this program."""


def cluster_of(session: SparkSession) -> Cluster:
    """Return the cluster of a session."""
    if is_connect(session):
        return Connect(session)
    # Over Spark Connect there may be no Py4J, which this imports.
    from headrace.runners.spark.cluster.classic import Classic

    return Classic(session)


MOST_FORESEEN = 127
"""The most tasks for executors that may come: a maximum that nobody chose, such as 10,000 of a platform, is none."""


def tasks_to_come(setting: Callable[[str], str | None]) -> int:
    """Return how many tasks Spark runs at once when dynamic allocation has started all executors that it may start.

    It starts executors only for tasks that wait, so a run that never has more tasks than the executors of its start
    gets no more of them.

    Args:
        setting: Returns one of Spark's settings, see `Cluster.setting`.

    Returns:
        The number; 0 if it is more than `MOST_FORESEEN`, is not known, or executors do not come and go.

    >>> given = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "8"}
    >>> tasks_to_come((given | {"spark.executor.cores": "4", "spark.task.cpus": "2"}).get)
    16
    >>> tasks_to_come(given.get), tasks_to_come({}.get)
    (8, 0)
    """
    if setting("spark.dynamicAllocation.enabled") != "true" or setting("spark.default.parallelism"):
        return 0
    most, cores, needed = (
        _number(setting(name))
        for name in ("spark.dynamicAllocation.maxExecutors", "spark.executor.cores", "spark.task.cpus")
    )
    tasks = most * max(1, max(1, cores) // max(1, needed))
    return tasks if tasks <= MOST_FORESEEN else 0


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
