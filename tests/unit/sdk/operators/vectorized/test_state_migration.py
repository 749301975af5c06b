"""Edits that give a grouping another way go on with its state: after a restart, and while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from headrace.lowlevel import Topology
from headrace.lowlevel.checkpoint import Checkpoint, Consent
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.driver.background_run import Running
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from tests.groupingedits import LIMIT, RECORDS, Edit, Rows, lives, outcome, topology

PLAIN, SPREAD = Edit(), Edit(fanout=3)
TURNS = [PLAIN, SPREAD, PLAIN, SPREAD, PLAIN]
STOPS = [2, 3, 5, 6]


def run(edits: Sequence[Edit], stops: Sequence[int], place: Path, by_columns: bool = True) -> Rows:
    """Each edition of the program goes on with the checkpoint of the one before."""
    rows: Rows = {}
    for edit, dies in lives(edits, stops):
        options = RunOptions(str(place), max_records_per_epoch=LIMIT)
        try:
            LocalRunner(intervals=3, scheduler=dies).run_topology(topology(edit, rows, by_columns), options)
        except Crash:
            continue
    left = Checkpoint.read(ObjectStore(str(place)))
    for name in ("sum", "mean", "most"):
        assert not any(left.load(name).count().values()), f"of {name} something is left"
    return rows


def test_a_fan_out_comes_and_goes(tmp_path: Path) -> None:
    """Sessions by columns, key by key behind shards, and back: as if there had been no edits."""
    never = outcome(run([PLAIN], [], tmp_path / "never"))
    assert outcome(run(TURNS, STOPS, tmp_path / "edited")) == never
    assert sum(never["sums"].values()) > 50


def test_other_lengths_and_counts(tmp_path: Path) -> None:
    """As if all had always gone key by key: windows without overlap and later panes are for the general way."""
    edits = [PLAIN, Edit(period=10, count=2), Edit(fanout=2, period=10, count=3)]
    expected = outcome(run(edits, [2, 5], tmp_path / "by key", by_columns=False))
    assert outcome(run(edits, [2, 5], tmp_path / "edited")) == expected


@pytest.mark.parametrize("stops", [[1, 2, 3], [2, 4, 6]])
def test_counts_that_come_back_lose_nothing(tmp_path: Path, stops: list[int]) -> None:
    """A pane that waited for more elements than the new count comes at once, and not with the next element."""
    edits = [PLAIN, Edit(count=4), PLAIN, Edit(count=2)]
    rows = run(edits, stops, tmp_path)
    counted = [cast("tuple[str, int]", row)[1] for its in rows["counts"].values() for row in its]
    assert sum(counted) == RECORDS


class Updates(Scheduler):
    """Asks for the next edition while an epoch runs, so that it begins with the one after."""

    def __init__(self, at: Mapping[int, Topology]) -> None:
        self._at = dict(at)
        self.running: Running | None = None
        self.begun = Event()
        self.asked: list[Future[int]] = []

    def bundle_size(self, epoch: int, limit: int) -> int:
        return LIMIT

    def step(self, name: str, epoch: int) -> None:
        self.begun.wait()
        # A change is an epoch of its own, so the number asked for may be passed over.
        due = min((wanted for wanted in self._at if wanted <= epoch), default=None)
        if name == "plan" and due is not None:
            assert self.running is not None
            made = self._at.pop(due)
            self.asked.append(self.running.changes.request(lambda _: made, Consent()))


def test_a_fan_out_comes_and_goes_while_it_runs(tmp_path: Path) -> None:
    """Without a restart."""
    never = outcome(run([PLAIN], [], tmp_path / "never"))
    rows: Rows = {}
    scheduler = Updates({2: topology(SPREAD, rows), 4: topology(PLAIN, rows), 6: topology(SPREAD, rows)})
    runner = LocalRunner(intervals=3, scheduler=scheduler)
    scheduler.running = runner.start(topology(PLAIN, rows), RunOptions(max_records_per_epoch=LIMIT))
    scheduler.begun.set()
    scheduler.running.wait(60)
    assert [done.result(0) > 0 for done in scheduler.asked] == [True] * 3
    assert outcome(rows) == never
