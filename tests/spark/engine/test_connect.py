"""Spark Connect: the same pipelines on a server that is another program, without the JVM bridge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from tests.spark import lives
from tests.spark.connectserver import connect_server, free_port, needs_connect
from tests.spark.faults.test_driver_killed import written

pytestmark = [pytest.mark.spark, needs_connect]
PAIRS = [(n % 7, n) for n in range(300)]
"""Keys, and values that are their own times."""
SUMS = sorted([key, sum(n for k, n in PAIRS if k == key and n // 60 == m)] for key in range(7) for m in range(5))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("server")) as address:
        yield address


def run(server: str, module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A program that is told by the environment where its sessions are."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "SPARK_REMOTE": server}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_pipelines(server: str, tmp_path: Path) -> None:
    ran = run(server, "tests.spark.overconnect", tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["class"].startswith("pyspark.sql.connect")
    assert found["stays"] == found["jobs"] == found["levels"] == SUMS
    assert found["frames"] == list(range(1, 20, 2))
    assert all(found["ways"].values()), f"an epoch has been run in each way: {found['ways']}"
    assert found["raw"] == [
        10,
        sorted(f"{sink}-{epoch}.json" for sink in ("minutes", "totals") for epoch in range(1, 11)),
    ]
    assert "rate reads a streaming DataFrame over Spark Connect" in found["stream"]
    assert "use a session made with a master" in found["stream"]
    assert "step 'Divide' raised at 0" in found["error"] and "ZeroDivisionError" in found["error"]
    assert "ended without an error message in step 'Die' at each of 4 attempts" in found["death"]
    assert "the session runs on Spark Connect at localhost, whose executors" in found["nowhere"]
    assert "--checkpoint" in found["nowhere"]


def test_a_client_without_the_bridge_to_java(server: str, tmp_path: Path) -> None:
    """As with pyspark-client, which has neither Py4J nor Spark's own code."""
    ran = run(server, "tests.spark.client.withoutbridge", tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found == {"sums": SUMS, "bridge": []}


def test_a_session_that_refuses(server: str, tmp_path: Path) -> None:
    """The executors of this server have headrace and the tests installed, as files of the checkout."""
    ran = run(server, "tests.spark.client.refused", tmp_path, "artifacts")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["sums"] == [SUMS], found["error"]
    assert found["refused"] >= 9
    assert ran.stderr.count("refuses") == 1 and "spark.sql.adaptive.enabled=false ([CANNOT_MODIFY_CONFIG]" in ran.stderr
    assert ran.stderr.count("takes no files for its executors ([ARTIFACTS_DISABLED]") == 1


def test_executors_without_a_module_that_they_cannot_get(server: str, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def double(n):\n    return 2 * n\n")
    (tmp_path / "main.py").write_text(NEEDS_A_MODULE)
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "main.py"), str(tmp_path / "place")],
        env={**os.environ, "SPARK_REMOTE": server, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "SparkSetupError: the Spark session takes no files" in ran.stderr
    assert "lacks modules of the program: helper;" in ran.stderr and "nothing has been read" in ran.stderr


NEEDS_A_MODULE = """
import sys

from pyspark.sql import SparkSession

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from helper import double
from tests.spark.refusing import refusing

with refusing(SparkSession.builder.getOrCreate(), lambda name: False, artifacts=True):
    with beam.Pipeline("SparkRunner", PipelineOptions(["--checkpoint=" + sys.argv[1]])) as pipeline:
        pipeline | beam.Create([1]) | beam.Map(double)
"""


@contextmanager
def started(server: str, module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A program that is still running, with pipes to it and from it. It is killed at the end if it has not ended."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "SPARK_REMOTE": server}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            yield program
        finally:
            program.kill()


def test_a_program_ends_after_its_server(tmp_path: Path) -> None:
    """Spark's client would try for ten minutes to tell the server that the sessions have ended."""
    with ExitStack() as program_after_server:
        with connect_server(tmp_path) as address:
            program = program_after_server.enter_context(
                started(address, "tests.spark.afterconnect", tmp_path / "place")
            )
            assert program.stdout is not None
            assert program.stdout.readline() == "the run is over\n"
        assert program.communicate("end\n", timeout=120) == ("", None)
        assert program.returncode == 0


def test_a_program_without_a_server_ends_by_a_signal(tmp_path: Path) -> None:
    nowhere = f"sc://localhost:{free_port()}"
    with started(nowhere, "tests.spark.afterconnect", tmp_path / "place", "interrupted") as program:
        assert program.communicate(timeout=120) == ("", None)
        assert program.returncode == -signal.SIGINT


@pytest.mark.parametrize(("point", "epoch"), [("task", 6)])
def test_a_program_that_is_killed_goes_on(server: str, tmp_path: Path, point: str, epoch: int) -> None:
    out, expected = tmp_path / "out", tmp_path / "expected"
    out.mkdir()
    expected.mkdir()
    killed = run(server, "tests.spark.lives", tmp_path / "place", out, point, epoch)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = run(server, "tests.spark.lives", tmp_path / "place", out)
    assert again.returncode == 0, again.stderr
    LocalRunner(intervals=2, parallelism=2).run_topology(lives.topology(expected), RunOptions(max_records_per_epoch=16))
    assert written(out) == written(expected)
    assert not (out / "differs").exists()
