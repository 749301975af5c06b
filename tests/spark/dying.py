"""A program whose worker dies: `headrace run tests.spark.dying:HOW`; `python -m tests.spark.dying HOW` on executors."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from functools import partial

from headrace.lowlevel import BoundedInjector, Computation, Context, Record, Topology

WAYS = ("exits", "killed", "crashes", "leaves", "java")


def die(how: str) -> None:
    if how == "exits":
        os._exit(3)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "crashes":
        ctypes.string_at(0)
    if how == "leaves":
        sys.exit(4)
    if how == "java":
        # The worker's parent is Spark's daemon, and that one's is Java.
        with open(f"/proc/{os.getppid()}/stat") as stat:
            os.kill(int(stat.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
        # A task that stays would answer the driver without Java.
        os._exit(1)


class Fragile(Computation):
    """Dies of the value 3."""

    def __init__(self, how: str) -> None:
        self._how = how

    def process_record(self, record: Record, context: Context) -> None:
        if record.value == 3:
            die(self._how)


def topology(how: str) -> Topology:
    """Values 0 to 9, of which the step `fragile` dies."""
    made = Topology()
    made.injector("in", BoundedInjector([(value, value) for value in range(10)]))
    made.computation("fragile", Fragile(how), {"in": lambda value: value % 2}, [])
    return made


exits, killed, crashes, leaves, java = (partial(topology, how) for how in WAYS)


def main(how: str) -> None:
    from pyspark.sql import SparkSession

    from headrace.runners.engine.options import RunOptions
    from headrace.runners.spark import SparkRunner

    session = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        SparkRunner(session).run_topology(topology(how), RunOptions(os.environ["HEADRACE_CHECKPOINT"]))
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
