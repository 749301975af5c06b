"""An injector's processes are killed by SIGKILL and started again: nothing is lost, nothing counts twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.lowlevel import CallSink, Computation, Context, ProcessInjector, Record, Topology
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from tests.depth import seeds

pytestmark = pytest.mark.faults

RECORDS = 9
"""Of each process, in three hand-overs."""
WRITES = 9
"""By a process: its name, its opening, then records and entry of each hand-over, then its end."""
EXPECTED = [(number, number) for first in (0, 100) for number in range(first, first + RECORDS)]


class Once(Computation):
    """Puts out each record that it is given."""

    def process_record(self, record: Record, context: Context) -> None:
        context.produce("out", record.value)


def hand_over(place: Path, name: str, first: int, operation: str = "") -> int:
    command = [sys.executable, "-m", "tests.handovers", str(place), name, str(first), str(RECORDS)]
    return subprocess.run([*command, *filter(None, [operation])], timeout=120, check=False).returncode


def topology(place: Path) -> tuple[Topology, list[object]]:
    made, rows = Topology(), list[object]()
    made.injector("in", ProcessInjector(place, {"host-a", "host-b"}, record_ids=True))
    made.computation("once", Once(), {"in": lambda value: value}, ["out"])
    made.sink("rows", "out", CallSink(lambda epoch, more: rows.extend(more)))
    return made, rows


@pytest.mark.parametrize("seed", seeds(4, 2 * WRITES))
def test_a_process_killed_at_every_write_and_started_again_loses_and_repeats_nothing(seed: int, tmp_path: Path) -> None:
    # In steps of 5, so that a few seeds are spread over all writes.
    number, after = 1 + seed * 5 % (2 * WRITES) // 2, bool(seed * 5 % 2)
    operation = f"{number}{'+' * after}"
    assert hand_over(tmp_path, "host-a", 0, operation) == -signal.SIGKILL, f"the fault did not fire: write {operation}"
    assert hand_over(tmp_path, "host-b", 100) == 0
    closed = operation == f"{WRITES}+"
    assert hand_over(tmp_path, "host-a", 0) == (1 if closed else 0)
    made, rows = topology(tmp_path)
    result = LocalRunner().run_topology(made, RunOptions(max_records_per_epoch=4))
    assert sorted(rows, key=repr) == sorted(EXPECTED, key=repr), f"write {operation}"
    entered = number > 4 or (number == 4 and after)
    assert (result.total("duplicates") > 0) == (entered and not closed), f"write {operation}"
