"""A worker process that dies is told of in one sentence: the epoch, the step, what happened and what helps."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner
from headrace.runners.spark.jobs.job_error import SparkJobError
from tests.spark import dying
from tests.spark.faults.test_executors import cluster_environment

pytestmark = pytest.mark.spark

AGAIN = "nothing of it is committed, and the same program goes on from there when it is started again"
KILLED = (
    "ended without an error message in step 'fragile' at each of 4 attempts: it was killed, most likely by the system "
    "as memory"
)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("exits", KILLED),
        ("killed", KILLED),
        ("crashes", "crashed in step 'fragile' at each of 4 attempts, at "),
    ],
)
@pytest.mark.parametrize("one_task", [True, False], ids=["one task", "spread"])
def test_a_worker_that_dies(spark: SparkSession, how: str, told: str, one_task: bool) -> None:
    with pytest.raises(SparkJobError) as caught:
        SparkRunner(spark, intervals=2).run_topology(dying.topology(how), RunOptions(one_task_epochs=one_task))
    text = str(caught.value)
    assert text.startswith(f"Spark could not run epoch 1: a Python worker process {told}"), text
    assert text.endswith(AGAIN) and "\n" not in text
    assert caught.value.__suppress_context__, "Spark's text would be shown as well"
    if how == "crashes":
        # Another test of the session may have sent the module to its workers.
        assert "/tests/spark/dying.py, line " in text
        assert "in die (Segmentation fault); most likely by a defect of a compiled package" in text


def test_a_worker_that_is_left_by_sys_exit(spark: SparkSession) -> None:
    with pytest.raises(SparkJobError) as caught:
        SparkRunner(spark).run_topology(dying.topology("leaves"))
    sentence, *traceback = str(caught.value).splitlines()
    assert sentence.startswith("Spark could not run epoch 1: a Python worker process failed (SystemExit: 4);")
    assert sentence.endswith(AGAIN)
    assert traceback[-1] == "SystemExit: 4" and "    sys.exit(4)" in traceback


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("killed", KILLED),
        pytest.param(
            *("java", "Spark's Java process has ended or does not answer; if nobody stopped it, it was killed"),
            marks=[pytest.mark.slow, pytest.mark.faults],
        ),
    ],
)
def test_what_the_command_line_says(how: str, told: str) -> None:
    command = [sys.executable, "-m", "headrace", "run", f"tests.spark.dying:{how}", "--no-progress"]
    ran = subprocess.run(
        command, cwd=Path(__file__).parents[3], env=os.environ, capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 1
    lines = [line for line in ran.stderr.strip().splitlines() if not line.startswith("WARNING: Using incubator")]
    if how == "java":
        # pyspark's own thread says something when its socket closes.
        lines = lines[-1:]
    assert len(lines) == 1 and lines[0].startswith("error: Spark could not run epoch 1: "), ran.stderr
    assert told in lines[0]


@pytest.mark.slow
@pytest.mark.faults
def test_executors_that_are_killed(tmp_path: Path) -> None:
    """The step's code kills every executor that runs it."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.dying", "java"],
        env=cluster_environment(tmp_path) | {"HEADRACE_CHECKPOINT": str(tmp_path / "checkpoint")},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 1
    last = ran.stderr.strip().splitlines()[-1]
    assert re.search(
        r"SparkJobError: Spark could not run epoch 1: executor \d was lost at the last of 4 attempts "
        r"\(.*, so it was killed, most likely by the system as memory ran out\)",
        last,
    ), ran.stderr
    assert last.endswith(AGAIN)
