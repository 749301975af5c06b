"""A server of Spark Connect whose interceptor locks all settings and takes no files: pipelines run as elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.spark.client.test_clients import SUMS
from tests.spark.connectserver import connect_server, needs_connect

ROOT = Path(__file__).parents[3]
INTERCEPTOR = Path(__file__).with_name("Refusing.java")
pytestmark = [
    pytest.mark.spark,
    needs_connect,
    pytest.mark.skipif(shutil.which("javac") is None, reason="the interceptor is compiled by a JDK"),
]
PROGRAM = """
import json, logging, sys
from pyspark.sql import SparkSession
from tests.spark.client.pipelines import error, refused, windows

logging.basicConfig(level=logging.WARNING)
session = SparkSession.builder.getOrCreate()
locked = refused(lambda: session.conf.set("spark.sql.adaptive.enabled", "false"))
sums = windows(f"{sys.argv[1]}/sums", "--task_idle_seconds=0", "--no_one_task_epochs")
print(json.dumps({"locked": locked, "sums": sums, "error": error(f"{sys.argv[1]}/error")}))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    jars = Path(pyspark.__path__[0]) / "jars"
    compiled = ["javac", "-cp", f"{jars}/*", "-d", str(folder / "classes"), str(INTERCEPTOR)]
    subprocess.run(compiled, check=True, capture_output=True)
    settings = {
        "spark.driver.extraClassPath": str(folder / "classes"),
        "spark.connect.grpc.interceptor.classes": INTERCEPTOR.stem,
    }
    with pytest.MonkeyPatch.context() as patch:
        # The executors have the program's modules, as it sends none.
        patch.setenv("PYTHONPATH", str(ROOT))
        with connect_server(folder, wanted=settings) as address:
            yield address


def test_a_session_in_which_nothing_can_be_set(server: str, tmp_path: Path) -> None:
    environment = os.environ | {"SPARK_REMOTE": server, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout)
    assert "settings are locked" in found["locked"]
    assert found["sums"] == SUMS
    assert "step 'Divide' raised at 0" in found["error"]
    assert "the Spark session refuses" in ran.stderr and "spark.sql.adaptive.enabled" in ran.stderr, ran.stderr[-3000:]
    assert "files are forbidden" in ran.stderr, ran.stderr[-3000:]
