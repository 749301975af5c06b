"""Edited programs as users start them: by `headrace run` and by `python`, each run a process of its own."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.depth import examples
from tests.properties.edits.programs import FOLDER, LAST_EPOCH, LIMIT, RECORDS, Editor, Model, Program, options_in
from tests.properties.edits.test_edits import check, committed

HEADRACE = Path(sys.executable).with_name("headrace")
REFUSED, KILLED = 1, 9


class Processes:
    """Runs editions of a program in a folder, which keeps its name and place as a user's would."""

    def __init__(self, rng: random.Random, folder: Path, runners: Sequence[str]) -> None:
        self._rng, self._folder, self._runners = rng, folder, runners
        self.checkpoint, self.out = folder / "checkpoint", folder / "out"

    def run(self, program: Program, until: int | None, options: Sequence[str] = ()) -> str | None:
        """Run to the end of an epoch, or of the input; the message if the start was refused."""
        for name, text in program.files().items():
            (self._folder / name).write_text(text, encoding="utf-8")
        begun = self._rng.choice(
            [[str(HEADRACE), "run", "program.py", "--no-progress"], [sys.executable, "program.py"]]
        )
        flags = [f"--runner={self._rng.choice(self._runners)}", f"--checkpoint={self.checkpoint}"]
        command = [*begun, *flags, f"--max_records_per_epoch={LIMIT}", *options]
        last = "" if until is None else str(until)
        variables = {**os.environ, FOLDER: str(self.out), LAST_EPOCH: last, "PYTHONPATH": str(Path.cwd())}
        done = subprocess.run(command, cwd=self._folder, env=variables, capture_output=True, text=True, check=False)
        if done.returncode == REFUSED and "cannot go on with the changed pipeline" in done.stderr:
            # The command line breaks long lines.
            return " ".join(done.stderr.split())
        assert done.returncode == (0 if until is None else KILLED), done.stderr
        return None


def live(processes: Processes, rng: random.Random) -> None:
    """Several editions, the last to the end of the input, each refused or not; what they come to is checked."""
    editor, model = Editor(rng), Model()
    for number in range(rng.randint(2, 3)):
        program = editor.snapshot()
        last_epoch = 0 if number == 0 else committed(processes.checkpoint)[0]
        until = last_epoch + rng.randint(1, 2) + (number > 0)
        options: list[str] = []
        if (refusal := processes.run(program, until)) is not None:
            options = options_in(refusal)
            assert processes.run(program, until, options) is None
        model.ran(program, committed(processes.checkpoint)[1], options)
        editor.edit()
    assert processes.run(program, None) is None
    check(program, model.allowed(program, RECORDS), processes.out)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(examples(2, 300)))
def test_a_restart_never_confuses(seed: int, tmp_path: Path) -> None:
    """In memory; the file keeps its name, so that only its lines change."""
    rng = random.Random(seed)
    live(Processes(rng, tmp_path, ["LocalRunner"]), rng)


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(examples(1, 50)))
def test_on_either_runner(seed: int, tmp_path: Path) -> None:
    """Begun on one runner and continued on the other."""
    rng = random.Random(seed)
    live(Processes(rng, tmp_path, ["SparkRunner", "LocalRunner"]), rng)
