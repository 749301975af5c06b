"""The Zeitgeist example on Spark: what the local runner finds, also when a driver and an executor are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.zeitgeist_world import World
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from tests.spark import zeitgeist_lives
from tests.spark.faults.test_driver_killed import written
from tests.spark.faults.test_executors import cluster_environment
from tests.unit.examples.test_zeitgeist import Run

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each sink gets in each epoch, in memory and undisturbed."""
    out = tmp_path_factory.mktemp("expected")
    LocalRunner(intervals=2, parallelism=2).run_topology(zeitgeist_lives.topology(out))
    files = written(out)
    assert sum(name.startswith("anomalies") for name in files) >= 3
    return files


def live(
    place: Path, out: Path, *killed: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.spark.zeitgeist_lives", str(place), str(out), *killed]
    return subprocess.run(
        command, env=environment or dict(os.environ), capture_output=True, text=True, timeout=400, check=False
    )


def test_exactly_what_was_planted_is_found(spark: SparkSession) -> None:
    run = Run(World(queries_each=20), 60, SparkRunner(spark, intervals=2))
    assert len(run.world.planted) == 35
    assert run.verdict.missed == []
    assert run.verdict.false_alarms == []
    counters = run.result.counters["queries counter"]
    assert counters["records"] == counters["counted"] + counters["dropped_late"]


# The example in memory dies at every step (`tests/faults/crashes/test_zeitgeist_crashes.py`), and others on Spark do by
# SIGKILL (`tests/spark/faults/test_driver_killed.py`).
@pytest.mark.slow
@pytest.mark.faults
def test_a_run_whose_driver_is_killed_finds_the_same(tmp_path: Path, expected: dict[str, str]) -> None:
    place, out = tmp_path / "checkpoint", tmp_path / "out"
    out.mkdir()
    killed = live(place, out, "driver", "5")
    assert killed.returncode == -signal.SIGKILL, f"the fault did not fire\n{killed.stderr}"
    assert written(out).items() < expected.items()
    again = live(place, out)
    assert again.returncode == 0, again.stderr
    assert written(out) == expected


@pytest.mark.slow
@pytest.mark.faults
def test_a_run_whose_executor_is_killed_finds_the_same(tmp_path: Path, expected: dict[str, str]) -> None:
    place, out, flag = tmp_path / "checkpoint", tmp_path / "out", tmp_path / "killed"
    out.mkdir()
    ran = live(place, out, "executor", str(flag), environment=cluster_environment(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert flag.exists(), "the fault did not fire"
    assert written(out) == expected
