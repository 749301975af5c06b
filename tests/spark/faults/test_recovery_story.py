"""The recovery story on Spark, with a driver that dies by SIGKILL and a source that sends again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.lowlevel import CallSink
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from tests.recovery import OPTIONS, Source, topology

pytestmark = pytest.mark.spark


def live(place: Path, out: Path, *die: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.recovery", str(place), str(out), *die]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)


def rows(out: Path, sink: str) -> list[object]:
    return sorted(row for path in out.glob(f"{sink}-*.json") for row in json.loads(path.read_text()))


def test_sixty_of_a_hundred_are_checkpointed_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    place, out = tmp_path / "checkpoint", tmp_path / "out"
    out.mkdir()
    died = live(place, out, "die")
    assert died.returncode == -signal.SIGKILL, f"the fault did not fire\n{died.stderr}"
    assert len(rows(out, "balances")) == 60
    assert Source(tmp_path / "checkpoint.acknowledged").acknowledged == 50
    again = live(place, out)
    assert again.returncode == 0, again.stderr
    assert again.stdout.split()[-1] == "10"  # duplicates: 51 to 60

    expected: dict[str, list[object]] = {"balances": [], "alerts": []}
    made = topology(
        Source(tmp_path / "undisturbed"), lambda sink: CallSink(lambda _, rows: expected[sink].extend(rows))
    )
    LocalRunner().run_topology(made, RunOptions(**OPTIONS))
    for sink, its in expected.items():
        assert rows(out, sink) == sorted(json.loads(json.dumps(its))), sink
    assert not (out / "differs").exists()
