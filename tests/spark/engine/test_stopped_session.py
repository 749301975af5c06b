"""A session that is stopped in mid-run, by the program itself: one sentence says so, whatever failed first."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.spark import stopping

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What each way of stopping ends with; all are in one process."""
    folder = tmp_path_factory.mktemp("stopping")
    command = [sys.executable, "-m", "tests.spark.stopping", str(folder)]
    with (folder / "errors").open("w") as log:
        said = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, check=False, timeout=400)
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    assert said.returncode == 0, (folder / "errors").read_text()[-4000:]
    return {line["way"]: line for line in lines}


@pytest.mark.parametrize("way", [way.__name__ for way in stopping.WAYS])
def test_one_sentence(told: dict[str, dict[str, str]], way: str) -> None:
    assert told[way].get("error") == "SparkJobError"
    text = told[way]["text"]
    assert text.startswith("the Spark session of this run is stopped (SparkSession.stop(), or ")
    outcome = "without a checkpoint the run begins anew" if way == "between" else "what is committed stays"
    assert outcome in text and text.endswith("when it is started again with a new session") and "\n" not in text
