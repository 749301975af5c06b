"""Restarts: twenty of them, on another runner or with other intervals; and on what earlier releases left behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.runners.spark import SparkRunner
from tests.depth import faults
from tests.faults.tally import Tally
from tests.golden import make
from tests.golden.program import CLOCK, LIMIT, RECORDS, Out, rows_of, topology

pytestmark = pytest.mark.faults

GOLDEN = sorted(path.parent.name for path in make.HERE.glob(f"*/{make.EXPECTED}"))
"""What releases have left behind."""
NOW = {f"this release: {name}": name for name in make.PROGRAMS}
"""What this release would leave, of each program."""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Golden checkpoints as this release makes them, each when it is first asked for: there are several processes."""

    @cache
    def made(now: str) -> Path:
        folder = tmp_path_factory.mktemp("golden") / "now"
        make.make(folder, NOW[now])
        return folder

    return made


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A copy of a golden checkpoint, with what is expected of it; the original stays as it is."""
    folder = request.getfixturevalue("fresh")(request.param) if request.param in NOW else make.HERE / request.param
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    yield copy
    assert {path.name for path in folder.iterdir()} == {make.EXPECTED, make.PLACE}


def go_on(golden: Path, runner: LocalRunner | SparkRunner, run: Tally) -> None:
    """Run the program to its end on a checkpoint: together with what was delivered before, exactly everything."""
    told = json.loads((golden / make.EXPECTED).read_text(encoding="utf-8"))
    options = RunOptions(str(golden / make.PLACE), max_records_per_epoch=LIMIT)
    out: Out = {}
    runner.run_topology(make.PROGRAMS[told["program"]](out), options)
    since = {sink: {epoch: rows for epoch, rows in of.items() if epoch > told["epoch"]} for sink, of in out.items()}
    for sink, rows in told["rows"].items():
        run.compare(rows, told["delivered"].get(sink, []) + rows_of(since).get(sink, []), sink)
    assert set(out) <= set(told["rows"])


@pytest.mark.parametrize("golden", [*GOLDEN, *NOW], indirect=True)
def test_what_a_release_has_left_is_read(golden: Path, tally: Callable[[int], Tally]) -> None:
    run = tally(15)
    run.plan()
    told = json.loads((golden / make.EXPECTED).read_text(encoding="utf-8"))
    view = Checkpoint.read(ObjectStore(str(golden / make.PLACE)))
    assert view.manifest is not None and view.manifest.epoch == told["epoch"]
    contents = make.Contents.of(view)
    contents.check(told["program"])
    assert asdict(contents) == told["contents"]
    run.fire()


@pytest.mark.parametrize("intervals", [None, 3])
@pytest.mark.parametrize("golden", [*GOLDEN, *NOW], indirect=True)
def test_a_run_goes_on_from_it(golden: Path, intervals: int | None, tally: Callable[[int], Tally]) -> None:
    run = tally(15)
    run.plan()
    go_on(golden, LocalRunner(ManualClock(CLOCK), intervals=intervals or 2), run)
    run.fire()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("golden", [*GOLDEN, *NOW], indirect=True)
def test_a_run_goes_on_from_it_on_spark(golden: Path, spark: SparkSession, tally: Callable[[int], Tally]) -> None:
    run = tally(15)
    run.plan()
    go_on(golden, SparkRunner(spark, intervals=2), run)
    run.fire()


class DiesAt(Scheduler):
    """Stops the driver at a step of an epoch."""

    def __init__(self, name: str, epoch: int) -> None:
        self._at = (name, epoch)
        self.died = False

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == self._at:
            self.died = True
            raise Crash(f"{name} of epoch {epoch}")


STEPS = ("commit", "committed", "deliver", "delivered")
RESTARTS = 20


def restarts(place: Path, lives: int, start: Callable[[int, Scheduler, Out], None], run: Tally) -> None:
    """Start the program again and again, each time to die a few epochs later; then let it live."""
    whole: Out = {}
    LocalRunner(ManualClock(CLOCK), intervals=2).run_topology(topology(whole), RunOptions(max_records_per_epoch=LIMIT))
    out: Out = {}
    for life in range(1, lives + 1):
        run.plan()
        dies = DiesAt(STEPS[life % len(STEPS)], life * (RECORDS // LIMIT) // (lives + 1) + 1)
        with pytest.raises(Crash):
            start(life, dies, out)
        run.fire(dies.died)
    start(0, Scheduler(), out)
    view = Checkpoint.read(ObjectStore(str(place)))
    assert view.lease is not None and view.lease.generation == lives + 1
    for sink, rows in rows_of(whole).items():
        run.compare(rows, rows_of(out).get(sink, []), sink)
    assert set(out) == set(whole)


@pytest.mark.parametrize("changing", [False, True], ids=["the same intervals", "other intervals each time"])
def test_many_restarts(changing: bool, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    def start(life: int, scheduler: Scheduler, out: Out) -> None:
        options = RunOptions(str(tmp_path), max_records_per_epoch=LIMIT, intervals=1 + life % 4 if changing else None)
        LocalRunner(ManualClock(CLOCK), scheduler, intervals=2).run_topology(topology(out), options)

    restarts(tmp_path, faults(quick=6, full=RESTARTS), start, tally(15))


@pytest.mark.spark
@pytest.mark.slow
def test_restarts_on_both_runners_in_turn(spark: SparkSession, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    """With other intervals each time."""

    def start(life: int, scheduler: Scheduler, out: Out) -> None:
        options = RunOptions(str(tmp_path), max_records_per_epoch=LIMIT, intervals=1 + life % 3)
        if life % 2:
            SparkRunner(spark, steps=scheduler).run_topology(topology(out), options)
        else:
            LocalRunner(ManualClock(CLOCK), scheduler).run_topology(topology(out), options)

    restarts(tmp_path, faults(quick=1, full=RESTARTS), start, tally(15))
