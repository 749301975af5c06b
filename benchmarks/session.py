"""The one Spark session of a benchmark: all Spark peers and ours run in it, warm."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from benchmarks.peak import JVM, children, kind_of
from headrace.runners.spark.new_session import local_session

CORES_VARIABLE = "HEADRACE_BENCH_CORES"
CORES = int(os.environ.get(CORES_VARIABLE, "2"))
QUICK_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Writes a checkpoint file without starting a process for it, as the default manager does on a local disk."""
DEFAULT_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
MANAGER_OPTION = "spark.sql.streaming.checkpointFileManagerClass"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    # What makes Python workers quicker on one machine makes it so for every system here.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.shuffle.compress": "false",
    "spark.locality.wait": "0",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    MANAGER_OPTION: QUICK_MANAGER,
}


def start_session() -> SparkSession:
    """A quiet local session with state in RocksDB and the quick checkpoint file manager."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("headrace benchmarks")
    for option, value in _SETTINGS.items():
        builder = builder.config(option, value)
    with _quiet():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def spark_processes() -> list[int]:
    """The session's JVM, which starts all Python workers; none before the session."""
    return [pid for pid in children().get(os.getpid(), ()) if kind_of(pid) == JVM]


def start_own_session() -> SparkSession:
    """The session that Headrace opens for a program that has none, with as many cores as the benchmark.

    For comparisons in which no other system runs on Spark. Java's second compiler is off in it on a small machine: else
    it takes a quarter of two cores for minutes, where nothing but blobs pass through Java.
    """
    if (session := SparkSession.getActiveSession()) is not None:
        return session
    with _quiet():
        session = local_session(f"local[{CORES},4]")
    session.sparkContext.setLogLevel("OFF")
    return session


@contextmanager
def _quiet() -> Iterator[None]:
    """What starts now, the JVM and by it every worker, writes its notices to a temporary file instead of the screen.

    A worker of `transformWithState` prints several lines a micro-batch.
    """
    screen = os.dup(2)
    with tempfile.TemporaryFile() as notices:
        os.dup2(notices.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(screen, 2)
            os.close(screen)
