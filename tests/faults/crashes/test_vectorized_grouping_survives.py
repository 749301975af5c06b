"""Combining by columns with windows open: crashes at any step, changing intervals, and state of the general way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headrace as beam
from headrace.lowlevel import BoundedInjector, CallSink, Topology
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import SECOND
from headrace.lowlevel.vectorized import segment_store
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.sdk.compiler import execution_strategy
from headrace.sdk.model.panes import PaneInfoTiming
from headrace.sdk.operators.vectorized.column_group_by_key import ColumnGroupByKey
from headrace.sdk.operators.vectorized.column_grouping import ColumnGrouping
from headrace.sdk.triggers import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms import window
from tests.depth import faults, seeds
from tests.faults.crashes.test_intervals_change import RandomBalancer
from tests.schedulers import RandomScheduler

pytestmark = pytest.mark.faults

ROWS = [((f"key {i % 23}", i if i % 5 else i / 4), (i * 37 % 90 + i) * SECOND) for i in range(96)]
LIMIT = 16
Rows = dict[tuple[str, int], list[str]]
"""Sink and epoch -> what it got; a repeated delivery must be the same."""


def topology(rows: Rows) -> Topology:
    """Sums of whole numbers and others in fixed windows, and lists; means in sliding ones; early and late panes."""
    pipeline = beam.Pipeline("LocalRunner")
    pairs = pipeline | "in" >> beam.io.Read(BoundedInjector(ROWS, 95 * SECOND))
    partly_late = pipeline | "partly late in" >> beam.io.Read(BoundedInjector(ROWS, 20 * SECOND))
    whole = pairs | "whole" >> beam.MapTuple(lambda key, value: (key, int(value)))
    fixed, sliding = beam.WindowInto(window.FixedWindows(60)), beam.WindowInto(window.SlidingWindows(50, 20))
    panes = beam.WindowInto(
        window.FixedWindows(30),
        trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
        accumulation_mode=AccumulationMode.ACCUMULATING,
        allowed_lateness=40,
    )
    ends = {
        "sums": pairs | "fixed" >> fixed | "sum" >> beam.CombinePerKey(sum),
        "most": whole | "fixed too" >> fixed | "max" >> beam.CombinePerKey(max),
        "running": partly_late | "with panes" >> panes | "running sum" >> beam.CombinePerKey(sum),
        "lists": pairs
        | "fixed as well" >> fixed
        | "list" >> beam.GroupByKey()
        | "in order" >> beam.MapTuple(_in_order),
        "means": whole | "sliding" >> sliding | "mean" >> beam.combiners.Mean.PerKey(),
    }
    for name, its in ends.items():
        its | f"see {name}" >> beam.Map(_seen) | f"out {name}" >> beam.io.Write(CallSink(_keeper(rows, name)))
    return pipeline.topology()


def _seen(
    pair: tuple[object, object], where: object = beam.DoFn.WindowParam, pane: object = beam.DoFn.PaneInfoParam
) -> str:
    return f"{pair} {where} {pane}"


def _in_order(key: object, values: Iterable[Any]) -> tuple[object, list[Any]]:
    return key, sorted(values)


def _keeper(rows: Rows, sink: str):
    def keep(epoch: int, its: list[tuple[object, int]]) -> None:
        told = sorted(map(repr, its))
        assert rows.setdefault((sink, epoch), told) == told, "a repeated delivery differs"

    return keep


def of_sinks(rows: Rows) -> list[tuple[str, str]]:
    """All rows, whatever their epochs."""
    return sorted((sink, row) for (sink, _), its in rows.items() for row in its)


def told(result: RunResult) -> dict[str, dict[str, int]]:
    """Counters of elements; the general way fires timers."""
    return {
        step: {name: count for name, count in its.items() if name != "timers"} for step, its in result.counters.items()
    }


def life(
    rows: Rows, place: Path, scheduler: Scheduler, balancer: RandomBalancer | None = None, intervals: int = 2
) -> RunResult | None:
    """One life of a driver; None if it crashed."""
    options = RunOptions(str(place), max_records_per_epoch=LIMIT, balancer=balancer and (lambda: balancer))
    try:
        return LocalRunner(scheduler=scheduler, intervals=intervals, parallelism=2).run_topology(
            topology(rows), options
        )
    except Crash:
        return None


class FixedSize(RandomScheduler):
    """Bundles of a fixed size, so that epochs are the same in every life."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        return LIMIT


@contextmanager
def general_way() -> Iterator[None]:
    """Compiles everything the general way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution_strategy, "obstacle", lambda *_, **__: "the test")
        yield


@pytest.fixture
def expected(tmp_path: Path) -> tuple[Rows, RunResult]:
    """What the general way makes of it."""
    rows: Rows = {}
    with general_way():
        result = life(rows, tmp_path / "general", FixedSize(0))
    assert result is not None
    return rows, result


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that come together soon."""
    monkeypatch.setattr(segment_store, "SMALL", 4)
    monkeypatch.setattr(segment_store, "MANY", 3)
    monkeypatch.setattr(segment_store, "GROWTH", 2)


def segments(place: Path) -> int:
    """How many there are in a checkpoint."""
    view = Checkpoint.read(ObjectStore(str(place)))
    if view.manifest is None:
        return 0
    return sum(view.load(name).count()["segments"] for names in view.manifest.topology.levels for name in names)


def test_crash_at_any_step(tmp_path: Path, expected: tuple[Rows, RunResult]) -> None:
    rows, result = expected
    groupings = [place.computation for place in topology({}).keyed.values()]
    assert Counter(map(type, groupings)) == {ColumnGrouping: 4, ColumnGroupByKey: 1}
    assert Counter(its._append_only for its in groupings if isinstance(its, ColumnGrouping)) == {True: 3, False: 1}
    timings = {timing for _, row in of_sinks(rows) for timing in PaneInfoTiming if f"Timing.{timing.name}:" in row}
    assert timings == {PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE}
    whole = FixedSize(0)
    life({}, tmp_path / "whole", whole)
    open_windows = 0
    tried = range(1, whole.steps + 1, whole.steps // faults(quick=9, full=whole.steps))
    for step in tried:
        found: Rows = {}
        place, balancer = tmp_path / f"at-{step}", RandomBalancer(step, 2)
        assert life(found, place, FixedSize(step, crash_at=step), balancer) is None, "the fault did not fire"
        open_windows += segments(place) > 0
        again = life(found, place, FixedSize(step + 1), balancer, intervals=1 + step % 3)
        assert again is not None and of_sinks(found) == of_sinks(rows), f"crash at step {step}"
        assert told(again) == told(result), f"crash at step {step}"
        assert not segments(place)
    assert open_windows > len(tried) // 3


@pytest.mark.parametrize("seed", seeds(quick=2, full=40))
def test_intervals_change_while_windows_are_open(tmp_path: Path, expected: tuple[Rows, RunResult], seed: int) -> None:
    rows, result = expected
    found: Rows = {}
    balancer = RandomBalancer(seed, 3)
    again = life(found, tmp_path / "found", FixedSize(seed), balancer, intervals=3)
    assert balancer.changes
    assert again is not None and of_sinks(found) == of_sinks(rows)
    assert told(again) == told(result)


def test_state_of_the_general_way_goes_on(tmp_path: Path, expected: tuple[Rows, RunResult]) -> None:
    rows, result = expected
    place = tmp_path / "found"
    found: Rows = {}
    with general_way():
        assert life(found, place, Dies(3)) is None
    again = life(found, place, FixedSize(1), intervals=3)
    assert again is not None and of_sinks(found) == of_sinks(rows)
    assert told(again) == told(result)


class Dies(FixedSize):
    """Stops the driver when an epoch is committed and delivered."""

    def __init__(self, epoch: int) -> None:
        super().__init__(0)
        self._epoch = epoch

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("delivered", self._epoch):
            raise Crash("as planned")
