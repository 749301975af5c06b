"""Real executor processes: code reaches them, and one that dies takes nothing with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from tests.spark import lives, undecided
from tests.spark.faults.test_driver_killed import written

pytestmark = pytest.mark.spark


def cluster_environment(folder: Path) -> dict[str, str]:
    """What a program needs that starts a small cluster of its own."""
    return {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "HEADRACE_STATE_STORES": str(folder / "state-stores"),
    }


def left_in(folder: Path, seconds: float = 20) -> list[str]:
    """What is left in a folder for temporary files when Java has had time to end as well."""
    deadline = time.monotonic() + seconds
    while (left := sorted(path.name for path in folder.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.mark.faults
def test_two_executors_one_killed_in_mid_epoch(tmp_path: Path) -> None:
    out, expected, flag = tmp_path / "out", tmp_path / "expected", tmp_path / "killed"
    out.mkdir()
    expected.mkdir()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "tests.spark.cluster", str(tmp_path / "checkpoint"), str(out), str(flag)]
    environment = cluster_environment(tmp_path) | dict.fromkeys(("TMPDIR", "SPARK_LOCAL_DIRS"), str(temporary))
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert ran.returncode == 0, ran.stderr
    assert flag.exists(), "the fault did not fire"
    assert left_in(temporary) == []
    assert all(".zip/" in line for line in flag.read_text().splitlines()), "the executors had the code from elsewhere"
    LocalRunner(intervals=2, parallelism=2).run_topology(lives.topology(expected), RunOptions(max_records_per_epoch=16))
    assert written(out) == written(expected)


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_a_lost_task_that_makes_something_else_when_it_is_run_again(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-m", "tests.spark.undecided", str(tmp_path), kind]
    ran = subprocess.run(
        command, env=cluster_environment(tmp_path), capture_output=True, text=True, timeout=400, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "killed").exists(), "the fault did not fire"
    made = [path.name.split("-")[1] for path in tmp_path.glob("made-*")]
    (text,) = [path.read_text() for path in tmp_path.glob("kept-*.json")]
    kept = [tuple(value) for value, _ in json.loads(text)]
    both = (undecided.FIRST, undecided.SECOND)
    assert sorted(row[:2] for row in kept) == [(target, key) for target in range(undecided.TARGETS) for key in both]
    numbers = sorted(len({number for _, source, number in kept if source == key}) for key in both)
    if kind == "strong":
        # What was lost was made again, did not fit, and then the whole epoch was run again.
        assert (sorted(map(made.count, map(str, both))), numbers) == ([2, 3], [1, 1])
    else:
        assert (sorted(map(made.count, map(str, both))), numbers) == ([1, 2], [1, 2])
