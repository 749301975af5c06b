"""No process of a test stays behind, and what processes tell each other in files may vanish while it is read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from tests.spark import staying
from tests.spark.processes import kill_all, marked, none_stays_behind, started

# The child runs once it has printed a line; while the system still starts it, it may have no environment to read.
PARENT = """
import subprocess, sys
sleeping = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
child = subprocess.Popen(sleeping, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


def family(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A process that waits for a word, and its child, which sleeps for long."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        env=os.environ | marked(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def is_running(process: int) -> bool:
    """Whether it has neither ended nor is it only kept for its parent."""
    status = Path(f"/proc/{process}/status")
    return status.exists() and "\nState:\tZ" not in status.read_text()


@pytest.mark.parametrize("orphan", [False, True])
def test_stopped_processes_and_orphans_do_not_outlive_a_test_that_fails(tmp_path: Path, orphan: bool) -> None:
    other, its_child = family(tmp_path / "other")
    with pytest.raises(ZeroDivisionError), none_stays_behind(tmp_path):
        process, child = family(tmp_path)
        assert sorted(started(tmp_path)) == sorted([process.pid, child])
        os.kill(child, signal.SIGSTOP)
        if orphan:
            process.communicate("end")
        else:
            os.kill(process.pid, signal.SIGSTOP)
        raise ZeroDivisionError
    assert not is_running(child) and not started(tmp_path)
    process.communicate()
    assert is_running(other.pid) and is_running(its_child), "they belong to another test"
    kill_all(tmp_path / "other")
    other.communicate()


def test_a_fault_that_strikes_elsewhere_while_its_name_is_read(tmp_path: Path) -> None:
    faults = staying.Faults(tmp_path, [])
    due, struck = tmp_path / "due", tmp_path / "struck"

    def strike() -> None:
        for _ in range(500):
            due.write_text("0 worker killed=sent")
            due.rename(struck)

    elsewhere = Thread(target=strike)
    elsewhere.start()
    while elsewhere.is_alive():
        assert not faults.is_due("answered")
    assert not due.exists()
