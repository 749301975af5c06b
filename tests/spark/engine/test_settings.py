"""Settings that users' sessions have: a stream, a job of the program's own beside it, and DataFrames in and out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.depth import soaking
from tests.spark import settings
from tests.spark.faults.test_executors import cluster_environment

pytestmark = pytest.mark.spark
NAMES = list(settings.SETTINGS if soaking() else settings.BROKEN)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """What the program says of each setting; one process has a context for one after the other."""
    folder = tmp_path_factory.mktemp("settings")
    command = [sys.executable, "-m", "tests.spark.settings", str(folder), *NAMES]
    with (folder / "errors").open("w") as log:
        said = subprocess.run(command, env=cluster_environment(folder), stdout=subprocess.PIPE, stderr=log, check=False)
    lines = [json.loads(line) for line in said.stdout.splitlines() if line.startswith(b"{")]
    assert lines, (folder / "errors").read_text()[-4000:]
    return {line["name"]: line for line in lines}


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_and_a_job_beside_it(found: dict[str, dict[str, object]], name: str) -> None:
    told = found[name]
    assert "error" not in told, told
    assert told["stream"] is True
    assert float(str(told["seconds"])) < settings.PATIENCE_SECONDS, "a slot was free for the job"
    assert told["job"] == settings.JOB
    assert told["frames"] == settings.FRAMES
