"""RELIABILITY row 6: the disk is full at any write; the run stops and names the place, and goes on exactly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.depth import faults
from tests.faults.smalldisk import run_on_small_disk
from tests.faults.tally import Tally

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("how", ["checkpoint", "local", "state-stores"])
def test_a_full_disk_stops_the_run_by_name_and_it_goes_on_exactly(
    tally: Callable[[int], Tally], tmp_path: Path, how: str
) -> None:
    run = tally(6)
    done = run_on_small_disk("tests.faults.fulldisk", how, str(tmp_path / "disk"), str(faults(quick=20, full=60)))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    run.note(told["kind"], len(told["runs"]))
    assert len(told["runs"]) >= 15
    for each in told["runs"]:
        run.plan()
        assert each["named"], each
        assert each["exact"], each
        run.fire()
    words = {"ENOSPC": "no space left on device; free some space", "EFBIG": "file too large; "}
    assert sum(words[told["kind"]] in each["error"] for each in told["runs"]) >= len(told["runs"]) - 3
