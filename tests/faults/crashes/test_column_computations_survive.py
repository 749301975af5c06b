"""Raw computations by columns: crashes at any step, changing intervals, and programs that have changed meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from headrace.lowlevel import (
    BoundedInjector,
    CallSink,
    ColumnComputation,
    ColumnContext,
    Computation,
    RecordColumns,
    TimerColumns,
    Topology,
    TopologyChangeError,
)
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.vectorized import segment_store
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import Crash, LocalRunner, Scheduler
from tests.depth import faults, seeds
from tests.faults.crashes.test_intervals_change import RandomBalancer
from tests.properties.computation_strategies import BySums, BySumsOfColumns
from tests.schedulers import RandomScheduler

pytestmark = pytest.mark.faults

ROWS = [((f"key {i % 13}", i % 7 - 1), i * 37 % 50 + i) for i in range(96)]
DELAY = 20
"""How far the watermark stays behind: some are late."""
LIMIT = 16
Rows = dict[int, list[str]]
"""Epoch -> what the sink got; a repeated delivery must be the same."""


def key_of(value: object) -> object:
    return value[0]


def topology(rows: Rows, computation: Computation) -> Topology:
    def keep(epoch: int, its: list[tuple[object, int]]) -> None:
        told = sorted(map(repr, its))
        assert rows.setdefault(epoch, told) == told, "a repeated delivery differs"

    topology = Topology()
    topology.injector("in", BoundedInjector(ROWS, DELAY))
    topology.computation("sums", computation, {"in": key_of}, ["out"])
    topology.sink("out", "out", CallSink(keep))
    return topology


def of_sink(rows: Rows) -> list[str]:
    """All rows, whatever their epochs."""
    return sorted(row for its in rows.values() for row in its)


class FixedSize(RandomScheduler):
    """Bundles of a fixed size, so that epochs are the same in every life."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        return LIMIT


def life(
    rows: Rows,
    place: Path,
    scheduler: Scheduler,
    computation: Computation | None = None,
    balancer: RandomBalancer | None = None,
    intervals: int = 2,
) -> RunResult | None:
    """One life of a driver; None if it crashed."""
    options = RunOptions(str(place), max_records_per_epoch=LIMIT, balancer=balancer and (lambda: balancer))
    runner = LocalRunner(scheduler=scheduler, intervals=intervals, parallelism=2)
    try:
        return runner.run_topology(topology(rows, computation or BySumsOfColumns()), options)
    except Crash:
        return None


@pytest.fixture
def expected(tmp_path: Path) -> tuple[list[str], dict[str, int]]:
    """What comes of it record by record, and its counters."""
    rows: Rows = {}
    result = life(rows, tmp_path / "by record", FixedSize(0), BySums())
    assert result is not None and result.counters["sums"]["dropped_late"]
    return of_sink(rows), result.counters["sums"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that come together soon."""
    monkeypatch.setattr(segment_store, "SMALL", 4)
    monkeypatch.setattr(segment_store, "MANY", 3)
    monkeypatch.setattr(segment_store, "GROWTH", 2)


def stored(place: Path) -> dict[str, int]:
    """How much there is in a checkpoint."""
    view = Checkpoint.read(ObjectStore(str(place)))
    return {} if view.manifest is None else view.load("sums").count()


def test_crash_at_any_step(tmp_path: Path, expected: tuple[list[str], dict[str, int]]) -> None:
    rows, counters = expected
    whole = FixedSize(0)
    life({}, tmp_path / "whole", whole)
    met: list[dict[str, int]] = []
    tried = range(1, whole.steps + 1, max(1, whole.steps // faults(quick=8, full=whole.steps)))
    for step in tried:
        found: Rows = {}
        place, balancer = tmp_path / f"at-{step}", RandomBalancer(step, 2)
        assert life(found, place, FixedSize(step, crash_at=step), balancer=balancer) is None, "the fault did not fire"
        met.append(stored(place))
        again = life(found, place, FixedSize(step + 1), balancer=balancer, intervals=1 + step % 3)
        assert again is not None and of_sink(found) == rows, f"crash at step {step}"
        assert again.counters["sums"] == counters, f"crash at step {step}"
        assert not stored(place)["segments"]
    assert sum(bool(counts.get("segments") and counts["cells"]) for counts in met) > len(tried) // 3


@pytest.mark.parametrize("seed", seeds(quick=2, full=40))
def test_intervals_change_while_timers_wait(
    tmp_path: Path, expected: tuple[list[str], dict[str, int]], seed: int
) -> None:
    found: Rows = {}
    balancer = RandomBalancer(seed, 3)
    result = life(found, tmp_path / "found", FixedSize(seed), balancer=balancer, intervals=3)
    assert balancer.changes and result is not None
    assert (of_sink(found), result.counters["sums"]) == expected


# Programs that have changed


class Counts(ColumnComputation):
    """How many of each key, told a while after each."""

    state_fields: ClassVar = {"count": int}
    timer_fields: ClassVar = {"at": int}

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        context.state["count"] += batch.counts
        context.set_timers(batch.timestamps + 40, at=batch.timestamps, **self.more(batch))

    def more(self, batch: RecordColumns) -> dict[str, object]:
        """What else comes with timers."""
        return {}

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        told = [due.key_values(), due["at"], *self.other(due, context)]
        context.produce_columns("out", told)

    def other(self, due: TimerColumns, context: ColumnContext) -> list[object]:
        """What else is told."""
        return []

    def state_signature(self) -> dict[str, str]:
        return {**super().state_signature(), "class": "Counts"}


class MoreFields(Counts):
    """Fields added behind the others; what is stored has their defaults."""

    state_fields: ClassVar = {"count": int, "total": int}
    timer_fields: ClassVar = {"at": int, "value": int}

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        super().process_columns(batch, context)
        context.state["total"] += batch.sum(batch[1])

    def more(self, batch: RecordColumns) -> dict[str, object]:
        return {"value": batch[1]}

    def other(self, due: TimerColumns, context: ColumnContext) -> list[object]:
        return [due["value"], context.state["count"][due.keys]]


class OtherType(Counts):
    """A field that is something else."""

    state_fields: ClassVar = {"count": float}


def test_fields_are_added_while_it_lives(tmp_path: Path) -> None:
    rows: Rows = {}
    whole = FixedSize(0)
    assert life({}, tmp_path / "whole", whole, Counts())
    assert life(rows, tmp_path / "found", FixedSize(0, crash_at=whole.steps // 2), Counts()) is None
    before = stored(tmp_path / "found")
    assert before["segments"] and before["cells"]
    with pytest.raises(TopologyChangeError, match=r"state field 0.*count double.*count int64"):
        life(rows, tmp_path / "found", FixedSize(1), OtherType())
    assert life(rows, tmp_path / "found", FixedSize(1), MoreFields())
    told = [eval(row)[0] for its in rows.values() for row in its]
    assert sorted((key, at) for key, at, *_ in told) == sorted((key, at) for (key, _), at in ROWS)
    more = [row for row in told if len(row) == 4]
    assert len(more) < len(ROWS)
    # The last of each key tells how many there were, those before the change counted.
    assert max(count for *_, count in more) == sum(key == "key 0" for (key, _), _ in ROWS)
    assert any(value == 0 for *_, value, _ in more)
