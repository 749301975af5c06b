"""`headrace ui` and `headrace run --ui` as a person starts them: the address that is printed is that of the page."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

import pytest

from tests.pageruns import asked, finished, news, stopped

FAILING = """
import time
import headrace as beam

def refusing(number):
    time.sleep(0.05)
    if number == 60:
        raise ValueError("a number that is refused")
    return ("sum", number)

def pipeline(pipeline):
    pipeline | "Numbers" >> beam.Create(range(1000)) | "Refusing" >> beam.Map(refusing) | beam.CombinePerKey(sum)
"""
SLOW = """
import time
import headrace as beam

def slowly(number):
    time.sleep(0.05)
    return ("sum", number)

def pipeline(pipeline):
    pipeline | "Numbers" >> beam.Create(range(1000)) | "Slowly" >> beam.Map(slowly) | "Sum" >> beam.CombinePerKey(sum)
"""


@contextmanager
def command(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-m", "headrace", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def port_in(said: IO[str] | None) -> int:
    assert said is not None
    line = said.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert found is not None, line
    return int(found[1])


def live(port: int) -> Any:
    return news(port)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ui_serves_checkpoints_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    finished(tmp_path / "one")
    stopped(tmp_path / "two")
    with command(tmp_path, "ui", "one", "two", "--listen=0") as serving:
        port = port_in(serving.stdout)
        assert [each["snapshot"]["title"] for each in live(port)] == ["one", "two"]
        assert "<title>Headrace</title>" in asked(port, "/").text
        serving.send_signal(number)
        assert serving.wait(timeout=20) == 0
        assert serving.stderr is not None and serving.stderr.read() == ""


def test_a_run_serves_its_page_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    options = ["--runner=LocalRunner", "--checkpoint=state", "--max_records_per_epoch=2", "--no-progress"]
    with command(tmp_path, "run", "slow.py", *options, "--ui=0") as running:
        port = port_in(running.stderr)
        [shown] = live(port)
        # A commit may be read from the checkpoint before the run has reported it.
        while shown["snapshot"]["status"]["phase"] == "starting" or shown["snapshot"]["stored"] is None:
            [shown] = live(port)
        assert shown["snapshot"]["title"] == "slow.py"
        assert shown["snapshot"]["status"]["phase"] == "running"
        assert [row["step"] for row in shown["snapshot"]["stored"]["watermarks"]] == ["Sum"]
        graph = json.loads(asked(port, "/pipelines/0/graph.json").text)
        assert {box["step"] for box in graph["across"]["boxes"]} == {"Numbers", "Slowly", "Sum"}
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 143
    with pytest.raises(OSError, match="refused"):
        asked(port, "/live.json")


def test_the_page_of_a_run_that_fails_says_so_and_why(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    options = ["--runner=LocalRunner", "--max_records_per_epoch=2", "--no-progress"]
    with command(tmp_path, "run", "failing.py", *options, "--ui=0") as running:
        port, status = port_in(running.stderr), dict[str, Any]()
        with suppress(OSError, HTTPException):
            while status.get("phase") in (None, "unread", "empty", "starting", "running"):
                status = live(port)[0]["snapshot"]["status"]
        assert running.wait(timeout=30) == 1
    assert status["phase"] == "failed"
    assert "a number that is refused" in status["sentence"]


def test_checkpoints_of_one_name_are_told_apart(tmp_path: Path) -> None:
    finished(tmp_path / "scores" / "state")
    stopped(tmp_path / "teams" / "state")
    with command(tmp_path, "ui", "scores/state", "teams/state", "--listen=0") as serving:
        titles = [each["snapshot"]["title"] for each in live(port_in(serving.stdout))]
    assert titles == ["scores/state", "teams/state"]
