"""A client of Spark Connect of its own release, in an environment of its own, against servers of two releases.

`./dev test --client 4.0` names the release in HEADRACE_CLIENT; the environments are made when they are missing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
import pytest

from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from tests.s3 import S3
from tests.spark import lives
from tests.spark.client import environments
from tests.spark.connectserver import connect_server
from tests.spark.faults.test_driver_killed import written

RELEASE = os.environ.get("HEADRACE_CLIENT", "")
NEWEST = ".".join(pyspark.__version__.split(".")[:2])
"""The release of the main environment, which has a server, too."""
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not RELEASE[:1].isdigit(), reason="./dev test --client RELEASE runs this"),
]
PAIRS = [(n % 7, n) for n in range(300)]
SUMS = sorted([key, sum(n for k, n in PAIRS if k == key and n // 60 == m)] for key in range(7) for m in range(5))


SERVERS = [NEWEST] if RELEASE in (NEWEST, "3.5") else [RELEASE, NEWEST]
"""The packages of Spark 3.5 have no server of Spark Connect: it would come from Maven."""


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, s3_server: S3) -> Iterator[str]:
    """The address of a server whose executors reach the S3 server."""
    own = request.param != NEWEST
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_server.environment.items():
            patch.setenv(name, value)
        folder = tmp_path_factory.mktemp("server")
        with connect_server(folder, *([environments.server(request.param)] if own else [])) as address:
            yield address


def run(
    server: str, module: str, *arguments: object, also: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A program in the client's environment."""
    command = [environments.client(RELEASE), "-m", module, *map(str, arguments)]
    variables = {"SPARK_REMOTE": server, "PYTHONPATH": str(environments.ROOT)}
    if RELEASE == "4.2":
        # pyspark-client 4.2.0 looks for a Spark when it is imported, and ends the program without one.
        variables["SPARK_HOME"] = "/nowhere"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= variables | dict(also or {})
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_pipelines(server: str, tmp_path: Path) -> None:
    ran = run(server, "tests.spark.client.pipelines", tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["stays"] == found["jobs"] == found["levels"] == SUMS
    at = "2024-05-06T07:08:09.123456"
    assert found["frames"] == [[1, at, "1"], [3, None, "3"], [5, at, "5"]]
    assert "step 'Divide' raised at 0" in found["error"] and "ZeroDivisionError" in found["error"]
    assert found["unchanged"]
    if RELEASE != "3.5":
        # Spark 3.5 has no package with the client alone, and the whole one imports Py4J by itself.
        assert found["bridge"] == []
    assert "Traceback" not in ran.stderr and "WARNING" not in ran.stderr, ran.stderr


@pytest.mark.parametrize("kind", ["directory", "s3"])
def test_a_program_that_is_killed_goes_on(server: str, s3_server: S3, tmp_path: Path, kind: str) -> None:
    place = str(tmp_path / "place") if kind == "directory" else s3_server.new_place()
    out, expected = tmp_path / "out", tmp_path / "expected"
    out.mkdir()
    expected.mkdir()
    for point, epoch in (("task", 6), ("commit", 8)):
        killed = run(server, "tests.spark.lives", place, out, point, epoch, also=s3_server.environment)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = run(server, "tests.spark.lives", place, out, also=s3_server.environment)
    assert again.returncode == 0, again.stderr
    LocalRunner(intervals=2, parallelism=2).run_topology(lives.topology(expected), RunOptions(max_records_per_epoch=16))
    assert written(out) == written(expected)
    assert not (out / "differs").exists()


def test_executors_that_cannot_get_headrace(server: str, tmp_path: Path) -> None:
    """Only those of the newest server have headrace, as they run in the main environment."""
    ran = run(server, "tests.spark.client.refused", tmp_path, "artifacts")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    if found["error"]:
        assert RELEASE != NEWEST and found["sums"] == []
        assert "SparkSetupError: the Spark session takes no files for its executors" in found["error"]
        assert "their Python does not have headrace; install headrace==" in found["error"]
    else:
        assert found["sums"] == [SUMS]
    # A server of 4.0 has no session beside the program's own, whose settings a run asks for after it has its files.
    if not (found["error"] and RELEASE == "4.0"):
        assert "refuses 10 settings" in ran.stderr or "refuses 11 settings" in ran.stderr, ran.stderr
