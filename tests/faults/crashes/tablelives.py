"""A program that writes to tables, files or a topic and is killed: `python -m tests.faults.crashes.tablelives LIFE`.

LIFE is a `Life` as JSON. The same lives without Spark are forked from a process that has imported everything (`Lives`),
as what is killed is to be the run and not Python's start.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import forkserver, get_context
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner, Scheduler
from headrace.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from headrace.transforms.window import GlobalWindows
from tests.depth import faults
from tests.faults.crashes.outputworlds import OUTPUTS
from tests.faults.crashes.tableworlds import WORLDS, Places
from tests.faults.tally import Tally

ROWS = [("abcde"[i % 5], i) for i in range(40)]
MODES = ["append", "upsert", "changelog"]
IMPORTED = [
    "headrace.io.delta",
    "headrace.io.iceberg",
    "headrace.sdk.compiler.compiler",
    "headrace.sdk.operators.grouping.grouping",
    "headrace.sdk.pipeline.pipeline",
    "headrace.stored",
    "deltalake.table",
    "pandas",
    "psycopg",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "pyiceberg.table.upsert_util",
    "sqlalchemy.dialects.sqlite",
]
"""What a life imports when it needs it; found anew in each process, that would take most of its time."""


def expected(mode: str) -> Counter[tuple[str, int]]:
    """What a table has in the end."""
    if mode == "append":
        return Counter(ROWS)
    totals: Counter[str] = Counter()
    for name, amount in ROWS:
        totals[name] += amount
    # How many names have which total, as changes, when all is summed up.
    return Counter(totals.items()) if mode == "upsert" else Counter(Counter(map(str, totals.values())).items())


def build(pipeline: beam.Pipeline, world: Any, mode: str) -> None:
    """Rows as they are, totals by name, or a change log of how many names have which total."""
    rows = pipeline | beam.Create(ROWS)
    if mode != "append":
        accumulation = AccumulationMode.ACCUMULATING
        if mode == "changelog":
            accumulation = AccumulationMode.ACCUMULATING_AND_RETRACTING
        eager = Repeatedly(AfterCount(1))
        windowed = beam.WindowInto(GlobalWindows(), trigger=eager, accumulation_mode=accumulation)
        rows = rows | windowed | beam.CombinePerKey(sum)
    if mode == "changelog":
        swapped = rows | beam.Map(lambda pair: (str(pair[1]), 1))
        # A total that nobody has any more has the count 0; it is taken out of the table.
        counted = swapped | "Count" >> beam.CombinePerKey(sum) | beam.Filter(lambda pair: pair[1] > 0)
        rows = counted | beam.ToChangelog()
    rows | "Out" >> world.writing(mode)


@dataclass(frozen=True)
class Life:
    """One life of a driver: its table, its checkpoint, and the moment at which it dies, counted from 1."""

    world: str
    folder: str
    mode: str
    checkpoint: str
    dies_at: int | None = None
    on_spark: bool = False

    def live(self) -> None:
        """Run to the end of the input, or die. The end writes down which moments there were."""
        moments = Deadly(self.dies_at)
        options = PipelineOptions([f"--checkpoint={self.checkpoint}", "--max_records_per_epoch=16"])
        with pytest.MonkeyPatch.context() as patched:
            world = {**WORLDS, **OUTPUTS}[self.world](Path(self.folder), moments, patched)
            with beam.Pipeline(self._runner(moments), options) as pipeline:
                build(pipeline, world, self.mode)
        Path(f"{self.checkpoint}.moments").write_text(json.dumps(moments.names))

    def _runner(self, moments: Deadly) -> Any:
        if not self.on_spark:
            return LocalRunner(scheduler=Steps(moments), intervals=2, parallelism=2)
        from headrace.runners.spark import SparkRunner
        from headrace.runners.spark.new_session import local_session

        return SparkRunner(local_session("local[2]"), intervals=2, steps=Steps(moments))


class Deadly(Places):
    """Kills the process that made it at a moment; copies in other processes only count."""

    def __init__(self, dies_at: int | None) -> None:
        super().__init__(dies_at)
        self._driver = os.getpid()

    def die(self, what: str) -> None:
        if os.getpid() == self._driver:
            os.kill(self._driver, signal.SIGKILL)


class Steps(Scheduler):
    """Bundles of a fixed size, so that epochs are the same in every life; each step of the protocol is a moment."""

    def __init__(self, moments: Places) -> None:
        self._moments = moments

    def bundle_size(self, epoch: int, limit: int) -> int:
        return 16

    def step(self, name: str, epoch: int) -> None:
        self._moments.pass_by(name.partition(" task")[0])


class Mortal(Protocol):
    """What can be lived in another process."""

    def live(self) -> None:
        """Run to the end, or die."""


class Lives:
    """Starts lives in processes of their own."""

    def __init__(self) -> None:
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([__name__, *IMPORTED])

    def died(self, life: Mortal, seconds: float | None = None) -> bool:
        """Whether a life was killed, by itself or after some seconds, and did not live to its end."""
        process = self._context.Process(target=life.live)
        process.start()
        process.join(seconds or 120)
        if process.is_alive():
            process.kill()
            process.join()
            assert seconds is not None, f"hung: {life}"
        assert process.exitcode in (0, -signal.SIGKILL), f"exit code {process.exitcode}: {life}"
        return process.exitcode != 0

    def died_on_spark(self, life: Life) -> bool:
        """The same of a driver on Spark."""
        command = [sys.executable, "-m", __name__, json.dumps(asdict(replace(life, on_spark=True)))]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert ran.returncode in (0, -signal.SIGKILL), f"exit code {ran.returncode}: {life}\n{ran.stderr}"
        return ran.returncode != 0


@contextmanager
def lives() -> Iterator[Lives]:
    """Starts lives meanwhile. The process that they are forked from ends with them."""
    try:
        yield Lives()
    finally:
        forkserver._forkserver._stop()  # type: ignore[attr-defined]  # there is no public way to end it


@dataclass
class Trial:
    """Lives that write to one table, one after another, and what is compared."""

    world: Any
    life: Life
    lives: Lives
    run: Tally

    def undisturbed(self) -> list[str]:
        """The moments of a life that nobody kills."""
        assert not self.lives.died(self.life)
        self.compare("undisturbed")
        return [str(name) for name in json.loads(Path(f"{self.life.checkpoint}.moments").read_text())]

    def dies(self, **at: Any) -> bool:
        """Whether the next life is killed at a moment, or after some seconds."""
        seconds = at.pop("seconds", None)
        return self._count(self.lives.died(replace(self.life, **at), seconds))

    def dies_on_spark(self, at: int | None) -> bool:
        """The same on Spark."""
        return self._count(self.lives.died_on_spark(replace(self.life, dies_at=at)))

    def _count(self, died: bool) -> bool:
        if died:
            self.run.plan()
            self.run.fire()
            self.run.hit(self.world.connector)
        return died

    def compare(self, when: str) -> None:
        """The table equals that of an undisturbed run."""
        name, mode = self.world.name, self.life.mode
        self.run.compare(expected(mode).elements(), self.world.rows(mode).elements(), f"{name}, {mode}, {when}")

    def begin_anew(self) -> None:
        """An empty table and no checkpoint."""
        self.world.clear()
        shutil.rmtree(self.life.checkpoint, ignore_errors=True)

    def killed_at_each_moment(self) -> None:
        """Die once at moments of all kinds, each time in a run of its own."""
        moments = self.undisturbed()
        assert {"plan", "commit", "committed", "deliver", "delivered"} < set(moments)
        assert len(set(moments)) >= 10
        chosen = spread(moments, faults(quick=2, full=1000), Random(f"{self.world.name} {self.life.mode}"))
        for moment in chosen:
            self.begin_anew()
            assert self.dies(dies_at=moment), f"the fault did not fire at moment {moment}, {moments[moment - 1]}"
            assert not self.dies()
            self.compare(f"killed at moment {moment}, {moments[moment - 1]}")

    def killed_at_any_time(self) -> None:
        """In each run, die up to five times, each time after a random time."""
        # The first life takes longer than others.
        self.undisturbed()
        self.begin_anew()
        started = time.monotonic()
        self.undisturbed()
        length = time.monotonic() - started
        for seed in self.run.seeds(quick=1, full=20):
            random, kills = Random(f"{self.world.name} {self.life.mode} {seed}"), 1
            self.begin_anew()
            seconds = random.uniform(0.05, 0.8) * length
            while not self.dies(seconds=seconds):
                self.begin_anew()
                seconds /= 2
            while kills < 5 and self.dies(seconds=random.uniform(0.05, 0.8) * length):
                kills += 1
            if kills == 5:
                assert not self.dies()
            self.compare(f"killed {kills} times at any time")


def spread(moments: list[str], number: int, random: Random) -> list[int]:
    """Some moments, counted from 1: of all kinds first, in random order, then others; all if there are not so many."""
    shuffled = random.sample(range(len(moments)), len(moments))
    first = {moments[place]: place for place in shuffled}
    return [place + 1 for place in [*first.values(), *(each for each in shuffled if first[moments[each]] != each)]][
        :number
    ]


if __name__ == "__main__":
    Life(**json.loads(sys.argv[1])).live()
