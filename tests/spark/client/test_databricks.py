"""databricks-connect, as far as a machine without Databricks can show: it runs pipelines on a server of Spark itself.

`./dev test --client databricks` runs this; each release needs some 350 MB, and a server with the same Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.spark.client import environments
from tests.spark.connectserver import connect_server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("HEADRACE_CLIENT") != "databricks", reason="./dev test --client databricks runs this"
    ),
]
NEWEST = ".".join(pyspark.__version__.split(".")[:2])
HERE = ".".join(map(str, sys.version_info[:2]))
PAIRS = [(n % 7, n) for n in range(300)]
SUMS = sorted([key, sum(n for k, n in PAIRS if k == key and n // 60 == m)] for key in range(7) for m in range(5))


@pytest.fixture(scope="module", params=list(dict.fromkeys(environments.DATABRICKS.values())))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A version of Python, and the address of a server with it."""
    python = [] if request.param == HERE else [environments.server(NEWEST, request.param)]
    with connect_server(tmp_path_factory.mktemp("server"), *python) as address:
        yield request.param, address


def run(release: str, command: list[str], address: str = "") -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "DATABRICKS_"))}
    environment = kept | {"PYTHONPATH": str(environments.ROOT)} | ({"SPARK_REMOTE": address} if address else {})
    command = [environments.databricks(release), *command]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("release", environments.DATABRICKS)
def test_pipelines(server: tuple[str, str], release: str, tmp_path: Path) -> None:
    python, address = server
    if environments.DATABRICKS[release] != python:
        pytest.skip(f"databricks-connect {release} is for Python {environments.DATABRICKS[release]}")
    ran = run(release, ["-m", "tests.spark.client.pipelines", str(tmp_path)], address)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["stays"] == found["jobs"] == found["levels"] == SUMS
    at = "2024-05-06T07:08:09.123456"
    assert found["frames"] == [[1, at, "1"], [3, None, "3"], [5, at, "5"]]
    assert "step 'Divide' raised at 0" in found["error"]
    assert found["unchanged"]
    assert "pyspark.daemon" not in found["bridge"] and "pyspark.worker" not in found["bridge"]


@pytest.mark.parametrize("release", environments.DATABRICKS)
def test_without_a_session_it_says_how_to_make_one(release: str, tmp_path: Path) -> None:
    program = (
        "import headrace as beam\nwith beam.Pipeline('SparkRunner') as pipeline:\n    pipeline | beam.Create([1])\n"
    )
    ran = run(release, ["-c", program])
    assert ran.returncode
    assert "SparkSetupError: the installed pyspark is a client" in ran.stderr, ran.stderr
    assert "DatabricksSession.builder.getOrCreate()" in ran.stderr
