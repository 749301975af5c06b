"""A cluster that is reached over Spark Connect: Spark's driver is another program, perhaps on another machine.

There is no JVM bridge, and nothing of pyspark is used that is not its public interface. What Connect has no call for is
done by other means, or left out:

- Jobs have no properties, so all input of tasks is rows.
- How many tasks run at once is asked of a small job.
- Jobs have no description in Spark's UI, and nobody tells how many run.
"""

from __future__ import annotations

import atexit
import re
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.runners.spark.releases import numbered_chunks, sibling

_RANGE = 1 << 16
"""Numbers in a DataFrame that Spark divides by its own rule, which is into as many partitions as tasks run at once."""
_STATED = ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism")
"""Settings that replace Spark's rule, and say nothing of how many tasks run at once."""
_LEAST = 2
"""The number of partitions by Spark's rule where a cluster has fewer cores."""
_LOCAL = re.compile(r"local(?:\[(\d+)(?:, *\d+)?\])?")


@dataclass(frozen=True, slots=True)
class Connect:
    """See `Cluster`."""

    session: SparkSession
    has_job_properties: ClassVar[bool] = False
    is_of_session: ClassVar[bool] = True

    def describe(self) -> str:
        """See `Cluster`."""
        return f"Spark Connect at {self.session.client.host}"

    def is_local(self) -> bool:
        """See `Cluster`. That files are shared cannot be known, wherever the server is."""
        return False

    def parallelism(self) -> int:
        """See `Cluster`."""
        numbers = self.session.range(_RANGE).selectExpr("spark_partition_id() AS at")
        return int(numbers.agg({"at": "max"}).collect()[0][0]) + 1

    def slots(self) -> int:
        """See `Cluster`. They follow from settings and the number of partitions that Spark makes by its own rule."""
        at_once = self.parallelism()
        if any(self.setting(name) for name in _STATED):
            at_once = min(at_once, _stated_cores(self.setting) or 1)
        elif at_once == _LEAST and not (self.setting("spark.master") or "").startswith("local["):
            at_once = 1  # A cluster of one core says 2, too.
        return at_once // int(self.setting("spark.task.cpus") or 1)

    def application(self) -> str:
        """See `Cluster`."""
        return self.setting("spark.app.id") or self.describe()

    def setting(self, name: str) -> str | None:
        """See `Cluster`. What a server keeps to itself counts as not set."""
        with suppress(PySparkException):
            return self.session.conf.get(name, None)
        return None

    def knows_java_class(self, name: str) -> bool:
        """See `Cluster`."""
        return False

    def is_driver_here(self) -> bool:
        """See `Cluster`."""
        return _is_here(self.session.client.host) and _is_here(self.setting("spark.driver.host") or "")

    def is_stopped(self) -> bool:
        """See `Cluster`."""
        return bool(cast(Any, self.session).is_stopped)

    def forgotten_jobs(self) -> frozenset[int]:
        """See `Cluster`. A stopped client raises an error where one waits for an answer."""
        return frozenset()

    def end_forgotten(self, jobs: frozenset[int]) -> None:
        """See `Cluster`."""

    def sibling(self) -> SparkSession | None:
        """See `Cluster`."""
        if (made := sibling(self.session)) is None:
            return None
        # A program with a session that nobody has stopped waits for ever at its end.
        atexit.register(_stop, made)
        give_up_at_exit(made)
        return made

    def make_active(self) -> None:
        """See `Cluster`. A sibling over Connect does not become the active session."""

    def use_python(self, executable: str) -> dict[str, str]:
        """See `Cluster`."""
        raise AssertionError("workers of a server have an interpreter of their own")

    def send_modules(self, name: str, write: Callable[[Path], None]) -> None:
        """See `Cluster`. The server keeps what it was sent."""
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            write(Path(folder, name))
            self.session.addArtifacts(str(Path(folder, name)), pyfile=True)

    def partitioned(self, table: pa.Table) -> DataFrame:
        """See `Cluster`. Rows say where they go, as the server divides what it gets over Connect by its own rule."""
        return numbered_chunks(self.session, table)

    @contextmanager
    def described(self, description: str) -> Iterator[None]:
        """See `Cluster`."""
        yield

    def job_property(self, name: str, value: str) -> AbstractContextManager[None]:
        """See `Cluster`."""
        raise AssertionError("jobs have no properties over Spark Connect")

    def tag(self, tag: str) -> None:
        """See `Cluster`."""
        self.session.addTag(tag)

    def cancel_tag(self, tag: str) -> None:
        """See `Cluster`."""
        with suppress(PySparkException):
            self.session.interruptTag(tag)

    def cancel_all(self) -> None:
        """See `Cluster`."""
        with suppress(PySparkException):
            self.session.interruptAll()


def _stop(session: SparkSession) -> None:
    """Stop a sibling. A clone of Spark 4.2 cannot stop, as it lacks an attribute; its connection can be closed."""
    try:
        session.stop()
    except AttributeError:
        session.client.close()


def give_up_at_exit(session: SparkSession) -> None:
    """Let the program end at once if the server is gone then, to which Spark's client would talk for ten minutes more.

    At its end the client of each session tells the server so, and repeats that as any request.
    """
    # Spark 3.5 has no way to say so.
    if (set_policies := getattr(session.client, "set_retry_policies", None)) is not None:
        atexit.register(set_policies, ())


def _stated_cores(setting: Callable[[str], str | None]) -> int | None:
    """The number of cores that settings name; None if they do not.

    >>> _stated_cores({"spark.master": "local[4,2]"}.get), _stated_cores({"spark.master": "yarn"}.get)
    (4, None)
    """
    if (local := _LOCAL.fullmatch(setting("spark.master") or "")) is not None:
        return int(local[1] or 1)
    executors, cores = setting("spark.executor.instances"), setting("spark.executor.cores")
    return int(executors) * int(cores) if executors and cores else None


def _is_here(host: str) -> bool:
    """Whether a host is this machine: whether a server may listen at one of its addresses."""
    try:
        socket.create_server((host, 0)).close()
    except OSError:
        return False
    return bool(host)
