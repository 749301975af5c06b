"""A Spark program whose disk is full from epoch 3 on, and then not: `python -m tests.spark.fulldisk WHAT FOLDER OUT`.

WHAT lies on the small disk: `checkpoint`, `state-stores` or `shuffles` (Spark's local directories). Prints as JSON
what became of both programs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from headrace.runners.engine.options import RunOptions
from tests.faults.smalldisk import TmpfsDisk, fill
from tests.spark import lives

VARIABLES = {"state-stores": "HEADRACE_STATE_STORES", "shuffles": "SPARK_LOCAL_DIRS"}


class FullAt(lives.KillAt):
    """Fills the disk at a step."""

    def __init__(self, folder: Path, name: str, epoch: int) -> None:
        super().__init__("never", 0)
        self._folder, self._full_at = folder, (name, epoch)

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == self._full_at:
            fill(self._folder)


def program(what: str, folder: str, out: str, epoch: str) -> None:
    """The program itself."""
    from headrace.runners.spark import SparkRunner

    place = Path(folder) / "checkpoint" if what == "checkpoint" else Path(out).parent / "checkpoint"
    runner = SparkRunner(intervals=2, steps=FullAt(Path(folder), "plan", int(epoch)))
    # Epochs in one stage have no shuffles.
    options = RunOptions(str(place), max_records_per_epoch=16, one_task_epochs=what != "shuffles")
    runner.run_topology(lives.topology(Path(out)), options)


def main(what: str, folder: str, out: str) -> None:
    disk = TmpfsDisk(Path(folder), "64m")
    variable = VARIABLES.get(what)
    environment = os.environ | ({variable: f"{folder}/{what}"} if variable else {})
    told = []
    for epoch in ("3", "0"):
        command = [sys.executable, "-m", "tests.spark.fulldisk", what, folder, out, epoch]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        told.append({"code": done.returncode, "said": done.stderr})
        disk.free()
    print(json.dumps(told))


if __name__ == "__main__":
    (program if len(sys.argv) == 5 else main)(*sys.argv[1:])
