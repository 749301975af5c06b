"""A cluster of which this program has Spark's driver, a Java process that it talks to over the JVM bridge."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from headrace.runners.spark.engine_settings import CHUNKS_SETTING
from headrace.runners.spark.errors import java_gone
from headrace.runners.spark.jvm_private import (
    concurrent_tasks,
    is_context_in_java,
    is_stopped,
    knows_java_class,
    let_java_end_quietly,
    make_active_in_java,
    make_active_in_python,
    set_worker_python,
    temporary_folder,
    threads_of_jobs,
    worker_environment,
    worker_python,
)
from headrace.runners.spark.releases import frame_of, numbered_chunks

_DESCRIPTION = "spark.job.description"


@dataclass(frozen=True, slots=True)
class Classic:
    """See `Cluster`."""

    session: SparkSession
    has_job_properties: ClassVar[bool] = True
    is_of_session: ClassVar[bool] = False

    def describe(self) -> str:
        """See `Cluster`."""
        return str(self.session.sparkContext.master)

    def is_local(self) -> bool:
        """See `Cluster`."""
        master = self.session.sparkContext.master or ""
        return master == "local" or master.startswith("local[")

    def parallelism(self) -> int:
        """See `Cluster`."""
        return self.session.sparkContext.defaultParallelism

    def slots(self) -> int:
        """See `Cluster`."""
        with suppress(*java_gone()):
            return concurrent_tasks(self.session)
        return 0

    def application(self) -> str:
        """See `Cluster`."""
        return self.session.sparkContext.applicationId

    def setting(self, name: str) -> str | None:
        """See `Cluster`. The context's own method would read all settings, for some ten milliseconds."""
        return self.session.conf.get(name, None)

    def knows_java_class(self, name: str) -> bool:
        """See `Cluster`."""
        return knows_java_class(self.session, name)

    def is_driver_here(self) -> bool:
        """See `Cluster`."""
        return True

    def is_stopped(self) -> bool:
        """See `Cluster`."""
        with suppress(Py4JError, OSError):
            return is_stopped(self.session)
        return False

    def forgotten_jobs(self) -> frozenset[int]:
        """See `Cluster`."""
        with suppress(*java_gone()):
            if not is_context_in_java(self.session):
                waiting = frozenset(threads_of_jobs(self.session))
                # A context that has come meanwhile may have jobs among these.
                return frozenset() if is_context_in_java(self.session) else waiting
        return frozenset()

    def end_forgotten(self, jobs: frozenset[int]) -> None:
        """See `Cluster`."""
        with suppress(*java_gone()):
            for number, thread in threads_of_jobs(self.session).items():
                if number in jobs:
                    thread.interrupt()

    def sibling(self) -> SparkSession:
        """See `Cluster`."""
        let_java_end_quietly(self.session)
        return self.session.newSession()

    def make_active(self) -> None:
        """See `Cluster`."""
        with suppress(Py4JError, ConnectionError):  # If Java has ended, the job has raised an error that says so.
            make_active_in_java(self.session)
        make_active_in_python(self.session)

    def use_python(self, executable: str) -> dict[str, str]:
        """See `Cluster`."""
        if shutil.which(worker_python(self.session)) != executable:
            set_worker_python(self.session, executable)
        return worker_environment(self.session)

    def send_modules(self, name: str, write: Callable[[Path], None]) -> None:
        """See `Cluster`.

        Executors may fetch the file as long as the session exists. So it is inside the temporary folder of the Java
        process, which deletes that folder when it ends, even if this Python process was killed.
        """
        path = Path(tempfile.mkdtemp(prefix="headrace-", dir=temporary_folder(self.session))) / name
        write(path)
        self.session.sparkContext.addPyFile(str(path))

    def partitioned(self, table: pa.Table) -> DataFrame:
        """See `Cluster`. With the engine's settings, Spark makes a partition of each chunk by itself."""
        if self.setting(CHUNKS_SETTING) != "0":
            return numbered_chunks(self.session, table)
        return frame_of(self.session, table)

    @contextmanager
    def described(self, description: str) -> Iterator[None]:
        """See `Cluster`."""
        with self.job_property(_DESCRIPTION, description):
            yield

    @contextmanager
    def job_property(self, name: str, value: str) -> Iterator[None]:
        """See `Cluster`."""
        context = self.session.sparkContext
        before = context.getLocalProperty(name)
        try:
            context.setLocalProperty(name, value)
            yield
        finally:
            with suppress(*java_gone()):
                # None takes the property away.
                context.setLocalProperty(name, cast(str, before))

    def tag(self, tag: str) -> None:
        """See `Cluster`."""
        self.session.sparkContext.addJobTag(tag)

    def cancel_tag(self, tag: str) -> None:
        """See `Cluster`."""
        # The call fails if a signal has ended the Java process, too.
        with suppress(*java_gone()):
            self.session.sparkContext.cancelJobsWithTag(tag)

    def cancel_all(self) -> None:
        """See `Cluster`."""
        self.session.sparkContext.cancelAllJobs()
