"""A run on Spark whose process, or all processes of whose service, are told to end: one line, and what is committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.runners.engine.driver.test_signals import committed, running, wait_for

pytestmark = pytest.mark.spark

PROGRAM = """
import os, sys, time
from headrace.lowlevel import BaseInjector, Batch, CallSink, Computation, Delivery, MemorySplit, Topology
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner

class Endless(BaseInjector):
    max_delay = 0

    def start(self):
        return 0

    def plan(self, position, limit, splits):
        return Delivery([MemorySplit(Batch([position], [position]))], position + 1)

class Work(Computation):
    def process_record(self, record, context):
        context.produce("out", record.value)
        if record.value >= LONG:
            open(WORKING, "w").close()
        time.sleep(0.2 if record.value < LONG else 1000)

WORKING = os.path.abspath("working")
LONG = int(sys.argv[1])
if sys.argv[2:]:
    from pyspark.sql import SparkSession
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder.getOrCreate().sparkContext.setLogLevel("OFF")
made = Topology()
made.injector("in", Endless())
made.computation("work", Work(), {"in": lambda value: 1}, ["out"])
made.sink("out", "out", CallSink(lambda epoch, rows: print(f"epoch {epoch}", flush=True)))
SparkRunner().run_topology(made, RunOptions(checkpoint="state", max_records_per_epoch=1))
"""


def said(err: str) -> list[str]:
    """Without what Java says when it starts."""
    return [line for line in err.splitlines() if not line.startswith("WARNING: Using incubator modules")]


def command(folder: Path, long: int, *more: str) -> list[str]:
    (folder / "program.py").write_text(PROGRAM)
    return [sys.executable, "program.py", str(long), *more]


def wait_for_long_work(process: subprocess.Popen[str], folder: Path) -> None:
    """Wait until the first long record is processed, in the epoch after two that are committed."""
    wait_for(process, "epoch 2")
    while not (folder / "working").exists():
        assert process.poll() is None, "the program has ended"
        time.sleep(0.05)


def test_a_signal_to_all_processes_lets_the_epoch_end(tmp_path: Path) -> None:
    with running(command(tmp_path, 10**9), tmp_path) as process:
        wait_for(process, "epoch 3")
        os.killpg(process.pid, signal.SIGTERM)
        _, err = process.communicate()
    told = f"stopped by SIGTERM: epoch {committed(tmp_path)} is committed; start it again to go on from there"
    assert (process.returncode, said(err)) == (143, [told])


def test_java_that_ends_with_all_processes_is_no_news(tmp_path: Path) -> None:
    with running(command(tmp_path, 2, "a session of its own"), tmp_path) as process:
        wait_for_long_work(process, tmp_path)
        os.killpg(process.pid, signal.SIGTERM)
        _, err = process.communicate()
    told = "stopped by SIGTERM before the end of the epoch: epoch 2 is committed; start it again to go on from there"
    assert process.returncode == 143 and err.splitlines()[-1] == told
    assert "Traceback" not in err


def test_an_epoch_that_goes_on_is_left_at_once(tmp_path: Path) -> None:
    with running(command(tmp_path, 2), tmp_path) as process:
        wait_for_long_work(process, tmp_path)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    last = said(err)[-1]
    # Of two signals that are there together, the system chooses the order.
    assert process.returncode in (143, 129) and last.startswith("stopped by SIG") and len(said(err)) == 1
    assert last.endswith("before the end of the epoch: epoch 2 is committed; start it again to go on from there")
