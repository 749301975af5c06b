"""Executors come and go while a run goes on: a standalone cluster with Spark's dynamic allocation."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections import defaultdict
from itertools import groupby
from pathlib import Path

import pyspark
import pytest

from tests.spark.allocation import KEYS, PHASES
from tests.spark.faults.test_executors import cluster_environment
from tests.spark.nethosts import wait_for
from tests.spark.processes import marked, none_stays_behind

pytestmark = pytest.mark.spark
_DAEMON = {"SPARK_DAEMON_MEMORY": "128m", "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}


def start(folder: Path, name: str, *arguments: str) -> None:
    """Start a part of Spark's standalone cluster; its log is in the folder."""
    home = Path(pyspark.__file__).parent
    environment = {**cluster_environment(folder), **_DAEMON, **marked(folder)}
    command = [str(home / "bin" / "spark-class"), *arguments, "--host", "127.0.0.1", "--webui-port", "0"]
    with (folder / f"{name}.log").open("wb") as log:
        subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def cluster(folder: Path, workers: int) -> str:
    """Start a master and workers with a core each; returns the master's URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    start(folder, "master", "org.apache.spark.deploy.master.Master", "--port", str(port))
    for number in range(workers):
        worker = (
            "org.apache.spark.deploy.worker.Worker",
            master,
            "-c",
            "1",
            "-m",
            "1g",
            "-d",
            f"{folder}/work{number}",
        )
        start(folder, f"worker{number}", *worker)
    for number in range(workers):
        log = folder / f"worker{number}.log"
        wait_for(f"worker {number}", lambda log=log: b"Successfully registered" in log.read_bytes(), seconds=180)
    return master


def seen(folder: Path) -> dict[int, list[tuple[int, int]]]:
    """Key -> the numbers that the sink got, each with how many of its key there were by then."""
    found = defaultdict(list)
    for path in folder.glob("seen-*.json"):
        for (number, count), _ in json.loads(path.read_text()):
            found[number % KEYS].append((number, count))
    return found


@pytest.mark.slow
@pytest.mark.faults
def test_executors_come_and_go_and_each_record_counts_once(tmp_path: Path) -> None:
    out, program = tmp_path / "run", [sys.executable, "-m", "tests.spark.allocation"]
    out.mkdir()
    with none_stays_behind(tmp_path):
        master = cluster(tmp_path, workers=2)
        environment = {**cluster_environment(tmp_path), **marked(tmp_path)}
        command = [*program, str(out), f"spark.master={master}"]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert ran.returncode == 0, ran.stderr
    assert not (out / "differs").exists()
    found = seen(out)
    numbers = sorted(number for rows in found.values() for number, _ in rows)
    assert numbers == list(range(len(numbers)))
    assert all(sorted(count for _, count in rows) == list(range(1, len(rows) + 1)) for rows in found.values())
    course = json.loads((out / "course.json").read_text())
    assert max(splits for _, splits, _, _ in course) == 3, "input is not cut for the executors that may come"
    # The look that ends a phase is the first of the next one.
    firsts = {phase: next(rows)[2:] for phase, rows in groupby(course, key=lambda row: row[0])}
    ends = dict(zip(PHASES, [*firsts.values()][1:], strict=True))
    assert {phase: executors for phase, (executors, _) in ends.items()} == PHASES
    _, stays = ends["small"]
    assert not stays, "a task stays while another slot is free, and gives its slot back when none is"
