"""A program on two real executor processes, one killed in mid-epoch: `python -m tests.spark.cluster PLACE OUT FLAG`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import headrace
from headrace.lowlevel import Record
from headrace.runners.engine.options import RunOptions
from tests.spark import lives


class KillExecutor:
    """Kills the executor that the task runs on, once; the file says that it did, and where the code came from."""

    def __init__(self, flag: Path, fatal: Callable[[Record], bool]) -> None:
        self._flag = flag
        self._fatal = fatal

    def __call__(self, record: Record) -> None:
        if self._fatal(record) and not self._flag.exists():
            self._flag.write_text(f"{headrace.__file__}\n{lives.__file__}\n")
            os.kill(parent(os.getppid()), signal.SIGKILL)


def visit_70(record: Record) -> bool:
    """A visit in the middle of the input."""
    assert isinstance(record.value, lives.Visit)
    return record.value.seconds == 70


def parent(process: int) -> int:
    """A worker's parent is Spark's daemon, and that one's the executor."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def main(place: str, out: str, flag: str) -> None:
    from pyspark.sql import SparkSession

    from headrace.runners.spark import SparkRunner

    session = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
    topology = lives.topology(Path(out), KillExecutor(Path(flag), visit_70))
    SparkRunner(session, intervals=2).run_topology(topology, RunOptions(place, max_records_per_epoch=16))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
