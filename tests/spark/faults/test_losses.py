"""Level by level, what one level drew is lost before all of the next have read it: no mixture of attempts is seen."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner
from tests.depth import faults
from tests.faults.tally import Tally
from tests.spark import losing
from tests.spark.faults.test_executors import cluster_environment

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def folders(place: Path) -> tuple[Path, Path]:
    """Where the sink writes, and where the user code notes what it does."""
    out, folder = place / "out", place / "notes"
    out.mkdir(parents=True)
    folder.mkdir()
    return out, folder


def judge(out: Path, folder: Path, run: Tally) -> None:
    """Every target got each visit once, all of them with the number that was kept; the number was drawn again."""
    kept = [losing.Drawn(*value) for path in out.glob("kept-*.json") for value, _ in json.loads(path.read_text())]
    everything = [(target, visit) for target in range(losing.TARGETS) for visit in range(losing.VISITS)]
    run.compare(everything, [(each.target, each.visit) for each in kept])
    numbers = {each.visit: each.number for each in kept}
    assert {(each.visit, each.number) for each in kept} == set(numbers.items()), "a mixture of attempts"
    before = {each.visit: each.before for each in kept}
    for page in range(5):
        for earlier, later in pairwise(range(page, losing.VISITS, 5)):
            assert before[later] == numbers[earlier], "state is of another attempt than what was put out"
    draws = len((folder / f"draws-{losing.FATAL}").read_text().splitlines())
    assert draws > 1, "the number was not drawn again"
    run.note("numbers drawn again", draws - 1)


def test_shuffle_output_lost_in_mid_epoch(spark: SparkSession, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    run = tally(4)
    for number in range(faults(1, 5)):
        run.plan()
        out, folder = folders(tmp_path / str(number))
        made = losing.topology(out, folder, losing.delete_shuffles)
        SparkRunner(spark, intervals=losing.INTERVALS).run_topology(made, RunOptions(**losing.OPTIONS))
        run.fire((folder / "deleted").exists())
        judge(out, folder, run)


@pytest.mark.slow
def test_executor_killed_and_its_shuffle_output_lost(tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    run = tally(4)
    for number in range(faults(1, 5)):
        run.plan()
        place = tmp_path / str(number)
        out, folder = folders(place)
        command = [sys.executable, "-m", "tests.spark.losing", str(place / "checkpoint"), str(out), str(folder)]
        ran = subprocess.run(
            command, env=cluster_environment(place), capture_output=True, text=True, timeout=400, check=False
        )
        assert ran.returncode == 0, ran.stderr
        run.fire((folder / "killed").exists() and (folder / "deleted").exists())
        judge(out, folder, run)
