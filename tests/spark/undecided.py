"""What is not deterministic loses a task: `python -m tests.spark.undecided OUT KIND`, on two real executors.

Level 1 makes something else each time it runs. It sends to both tasks of level 2; when one of these has taken it all
in, the other kills its executor, and what level 1 made there is lost and made again. KIND says whether levels 0 and 1
are `strong` or `weak`. Which executor runs which task is chance, so level 0 may be lost, too.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from itertools import count
from pathlib import Path

from headrace.lowlevel import (
    Batch,
    BoundedInjector,
    CallSink,
    Computation,
    Context,
    InlineComputation,
    Record,
    Topology,
)
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.records.record import Emit
from headrace.runners.engine.options import RunOptions
from tests.spark.cluster import parent
from tests.spark.lives import write

TARGETS = 8
_PATIENCE = 1200
"""Looks at a folder, a tenth of a second apart, before a task gives up waiting for another one."""


def interval_of(key: object) -> int:
    """The interval of a key, of two of equal size."""
    return IntervalMap.evenly(2).index_of(key_hash_of(encode_key(key)))


FIRST, SECOND = (next(key for key in count() if interval_of(key) == one) for one in (0, 1))
"""A key of each interval."""


def await_file(path: Path) -> None:
    """Wait for another task's sign."""
    for _ in range(_PATIENCE):
        if path.exists():
            return
        time.sleep(0.1)
    raise TimeoutError(f"no other task made {path}")


class PassOn(InlineComputation):
    """Gives the records of an injector, whose own stream is strong, a stream of the given kind."""

    def __init__(self, strong_productions: bool) -> None:
        self.strong_productions = strong_productions

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        emit("passed on", batch)


class Undecided(Computation):
    """Sends a number that nobody can foresee to many keys. Its tasks wait for each other, so each has an executor."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def process_record(self, record: Record, context: Context) -> None:
        (self._out / f"began-{record.value}").touch()
        await_file(self._out / f"began-{FIRST if record.value == SECOND else SECOND}")
        number = secrets.randbelow(1 << 40)
        (self._out / f"made-{record.value}-{number}").touch()
        for target in range(TARGETS):
            context.produce("numbers", (target, record.value, number))


class WeaklyUndecided(Undecided):
    strong_productions = False


class Keep(Computation):
    """In interval 0 it waits until the other task is done, and then kills its executor, once."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def process_record(self, record: Record, context: Context) -> None:
        context.produce("kept", record.value)
        if interval_of(context.key) == 0 and not (self._out / "killed").exists():
            await_file(self._out / "done")
            (self._out / "killed").touch()
            os.kill(parent(os.getppid()), signal.SIGKILL)

    def finish_bundle(self, emit: object) -> None:
        if not (self._out / "killed").exists():
            (self._out / "done").touch()


def topology(out: Path, kind: str) -> Topology:
    made = Topology()
    made.injector("in", BoundedInjector([(FIRST, 1), (SECOND, 2)]))
    made.inline("pass on", PassOn(strong_productions=kind == "strong"), ["in"], ["passed on"])
    undecided = WeaklyUndecided(out) if kind == "weak" else Undecided(out)
    made.computation("undecided", undecided, {"passed on": lambda key: key}, ["numbers"])
    made.computation("keep", Keep(out), {"numbers": lambda number: number[0]}, ["kept"])
    made.sink("kept", "kept", CallSink(write(out, "kept")))
    return made


def main(out: str, kind: str) -> None:
    from pyspark.sql import SparkSession

    from headrace.runners.spark import SparkRunner

    session = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
    # Spread, as tasks wait for each other.
    options = RunOptions(f"{out}/checkpoint", one_task_epochs=False)
    SparkRunner(session, intervals=2).run_topology(topology(Path(out), kind), options)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
