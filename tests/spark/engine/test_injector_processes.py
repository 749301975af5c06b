"""A distributed injector on Spark: processes hand records over while it runs, one of them killed on the way."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner
from tests.faults.crashes.test_injector_processes import EXPECTED, hand_over, topology

pytestmark = pytest.mark.spark


def test_processes_hand_over_while_it_runs_and_one_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    ended: list[int] = [hand_over(tmp_path, "host-b", 100)]
    begun = threading.Event()

    def lives() -> None:
        begun.wait(120)
        ended.append(hand_over(tmp_path, "host-a", 0, "6+"))
        ended.append(hand_over(tmp_path, "host-a", 0))

    made, rows = topology(tmp_path)
    thread = threading.Thread(target=lives)
    thread.start()
    options = RunOptions(poll_seconds=0.2, progress=lambda progress: begun.set())
    result = SparkRunner(spark, intervals=2).run_topology(made, options)
    thread.join()
    assert ended == [0, -signal.SIGKILL, 0]
    assert sorted(rows, key=repr) == sorted(EXPECTED, key=repr)
    assert result.total("duplicates") == 3
    assert result.epochs > 1
