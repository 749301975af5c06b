"""Shuffle files that vanish in mid-epoch, and the executor with them: `python -m tests.spark.losing PLACE OUT FOLDER`.

User code draws other numbers each time that it runs. In the middle of the epoch, between the tasks of one level that
have read what the level before drew and those that have not, the level before loses its output: it must draw again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast
from uuid import uuid4

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, Record, Topology
from headrace.runners.engine.options import RunOptions
from tests.spark.cluster import parent
from tests.spark.lives import write

VISITS, TARGETS = 24, 8
FATAL = 13
"""The visit in whose epoch it happens."""
INTERVALS = 4
"""Twice as many as tasks run at once: half of a level's tasks have not begun when the first ones run."""


class Drawn(NamedTuple):
    """A visit, the number drawn for it, the number drawn for its page's visit before; one for each target."""

    target: int
    visit: int
    number: str
    before: str | None


class Draw(Computation):
    """Draws a number for each visit, and sends it to all targets. Notes each time in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process_record(self, record: Record, context: Context) -> None:
        visit, number = cast(int, record.value), uuid4().hex
        note(self._folder / f"draws-{visit}", f"{number} {executor()} {os.environ['SPARK_LOCAL_DIRS']}\n")
        for target in range(TARGETS):
            context.produce("drawn", Drawn(target, visit, number, cast("str | None", context.state)))
        context.state = number


class Keep(Computation):
    """Passes on what was drawn; the first one that gets the fatal visit strikes, and the others wait for it to be done.

    A task that did not wait could end, and the tasks after it could read all that they need, before the output is gone.
    """

    def __init__(self, folder: Path, strike: Callable[[Path], None]) -> None:
        self._folder, self._strike = folder, strike

    def process_record(self, record: Record, context: Context) -> None:
        drawn = cast(Drawn, record.value)
        if drawn.visit == FATAL:
            if first(self._folder / "striking"):
                self._strike(self._folder)
                first(self._folder / "struck")
            wait_until_struck(self._folder)
        context.produce("kept", tuple(drawn))


def wait_until_struck(folder: Path, seconds: float = 60) -> None:
    """Return when the strike is done; raises TimeoutError after that many seconds."""
    end = time.monotonic() + seconds
    while not (folder / "struck").exists():
        if time.monotonic() > end:
            raise TimeoutError(f"the shuffle output was not deleted within {seconds:g} s")
        time.sleep(0.01)


def executor() -> int:
    """The process that runs the executor whose worker this is."""
    return parent(os.getppid())


def note(path: Path, line: str) -> None:
    """Add a line to a file."""
    with path.open("a") as file:
        file.write(line)


def first(path: Path) -> bool:
    """Whether nobody has made this file yet; it is there then."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def drew(folder: Path) -> dict[int, str]:
    """Executors that drew numbers, and where each keeps its shuffle output."""
    lines = [line.split() for path in folder.glob("draws-*") for line in path.read_text().splitlines()]
    return {int(process): places for _, process, places in lines}


def delete_shuffles(folder: Path) -> None:
    """Takes the output of all shuffles away."""
    for places in drew(folder).values():
        for place in places.split(","):
            for path in Path(place).rglob("shuffle_*"):
                path.unlink()
                note(folder / "deleted", f"{path.name}\n")


def kill_other(folder: Path) -> None:
    """Kills an executor that drew numbers, not its own, and takes the output of all shuffles away."""
    for victim in sorted(drew(folder).keys() - {executor()})[:1]:
        os.kill(victim, signal.SIGKILL)
        note(folder / "killed", f"{victim}\n")
    delete_shuffles(folder)


def topology(out: Path, folder: Path, strike: Callable[[Path], None]) -> Topology:
    made = Topology()
    made.injector("visits", BoundedInjector([(visit, visit) for visit in range(VISITS)]))
    made.computation("draw", Draw(folder), {"visits": lambda visit: visit % 5}, ["drawn"])
    made.computation("keep", Keep(folder, strike), {"drawn": lambda drawn: drawn.target}, ["kept"])
    made.sink("kept", "kept", CallSink(write(out, "kept")))
    return made


OPTIONS = {"max_records_per_epoch": 8, "one_task_epochs": False}
"""Spread, or there is nothing between levels that could be lost."""


def main(place: str, out: str, folder: str) -> None:
    from pyspark.sql import SparkSession

    from headrace.runners.spark import SparkRunner

    session = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
    made = topology(Path(out), Path(folder), kill_other)
    SparkRunner(session, intervals=INTERVALS).run_topology(made, RunOptions(place, **OPTIONS))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
