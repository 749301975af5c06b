"""A full disk under Spark: the program ends naming the place, and goes on exactly when there is space."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.smalldisk import may_mount, run_on_small_disk
from tests.faults.tally import Tally
from tests.spark.faults.test_driver_killed import expected, written

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.faults]

__all__ = ["expected"]


@pytest.mark.parametrize("what", ["checkpoint", "state-stores", "shuffles"])
def test_a_full_disk_ends_the_program_by_name_and_it_goes_on_exactly(
    tally: Callable[[int], Tally], tmp_path: Path, expected: dict[str, str], what: str
) -> None:
    assert may_mount(), "this test needs a small disk of its own: user and mount namespaces (unshare)"
    run = tally(6)
    folder, out = tmp_path / "disk", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    run.plan()
    done = run_on_small_disk("tests.spark.fulldisk", what, str(folder), str(out))
    assert done.returncode == 0, done.stderr
    full, again = json.loads(done.stdout)
    assert full["code"] not in (0, None)
    assert "no space left on device" in full["said"].lower(), full["said"]
    assert str(folder) in full["said"].splitlines()[-1], full["said"]
    assert "\tat " not in full["said"], "stacks of Java"
    run.fire()
    run.note("ENOSPC")
    assert again["code"] == 0, again["said"]
    run.compare(expected.items(), written(out).items(), "what the sinks got")
