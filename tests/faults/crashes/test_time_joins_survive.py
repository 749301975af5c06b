"""Joins by time with rows kept and results awaited: crashes at any step, with late rows and retractions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headrace as beam
from headrace.lowlevel import BoundedInjector, CallSink, Topology
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import SECOND
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.transforms.schemas import Join
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.window import FixedWindows
from tests.depth import faults
from tests.faults.crashes.test_intervals_change import RandomBalancer
from tests.faults.crashes.test_vectorized_grouping_survives import FixedSize, Rows, _keeper, of_sinks, told

pytestmark = pytest.mark.faults
LIMIT = 16
LEFT = [(beam.Row(k=f"k{i % 7}", v=i), (i * 37 % 60 + 2 * i) * SECOND) for i in range(140)]
RIGHT = [(beam.Row(k=f"k{i % 5}", w=i % 3), (i * 23 % 50 + 2 * i) * SECOND) for i in range(140)]
CHANGES = [
    ((sign, row), time) for i, (row, time) in enumerate(RIGHT) for sign in ("+-" if i % 4 == 0 else "+")
]  # Some rows are taken back at once, and stay in pairs of epochs.
RETRACTING = AccumulationMode.ACCUMULATING_AND_RETRACTING
JOINS = ("within", "within, early", "within, of changes", "as of", "as of, early", "as of panes")


def topology(rows: Rows) -> Topology:
    """Each join of left rows with right rows, changes, or the panes of a grouping."""
    pipeline = beam.Pipeline("LocalRunner")
    left = pipeline | "left" >> beam.io.Read(BoundedInjector(LEFT, 5 * SECOND))
    right = pipeline | "right" >> beam.io.Read(BoundedInjector(RIGHT, 5 * SECOND))
    changes = pipeline | "changes" >> beam.io.Read(BoundedInjector(_shuffled(CHANGES), 5 * SECOND))
    early = beam.WindowInto(
        FixedWindows(30),
        trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
        accumulation_mode=RETRACTING,
        allowed_lateness=40,
    )
    retracting, of_changes = left | "early left" >> early, changes | "undo" >> beam.FromChangelog()
    totals = (
        right
        | "early right" >> early
        | "pairs" >> beam.Map(lambda row: (row.k, row.w))
        | "sum" >> beam.CombinePerKey(sum)
        | "total rows" >> beam.MapTuple(lambda key, total: beam.Row(k=key, w=total))
    )
    ends = {
        "within": left | "j1" >> Join(right, "k", "outer", within=(1, 3)),
        "within, early": retracting | "j2" >> Join(right, "k", "outer", within=(1, 3)),
        "within, of changes": left | "j3" >> Join(of_changes, "k", "outer", within=(5, 5)),
        "as of": left | "j4" >> Join(right, "k", "left", as_of=20),
        "as of, early": retracting | "j5" >> Join(right, "k", "left", as_of=True),
        "as of panes": retracting | "j6" >> Join(totals, "k", "left", as_of=True),
    }
    for name, its in ends.items():
        seen = its | f"log {name}" >> beam.ToChangelog() | f"see {name}" >> beam.Map(_seen)
        seen | f"out {name}" >> beam.io.Write(CallSink(_keeper(rows, name)))
    return pipeline.topology()


def _shuffled(changes: list[Any]) -> list[Any]:
    """A deletion comes some places after its insertion."""
    return [changes[place] for place in sorted(range(len(changes)), key=lambda at: at + 9 * (changes[at][0][0] == "-"))]


def _seen(change: Any, at: Any = beam.DoFn.TimestampParam) -> str:
    left, right = change.value.left, change.value.right
    return f"{change.kind} {left and (left.k, left.v)} {right and (right.k, right.w)} {at}"


def life(rows: Rows, place: Path, scheduler: Scheduler, balancer: RandomBalancer | None = None) -> RunResult | None:
    """One life of a driver; None if it crashed."""
    options = RunOptions(str(place), max_records_per_epoch=LIMIT, balancer=balancer and (lambda: balancer))
    try:
        return LocalRunner(scheduler=scheduler, intervals=2, parallelism=2).run_topology(topology(rows), options)
    except Crash:
        return None


def kept(place: Path) -> int:
    """How many cells the joins have in a checkpoint."""
    view = Checkpoint.read(ObjectStore(str(place)))
    if view.manifest is None:
        return 0
    names = [name for level in view.manifest.topology.levels for name in level if name.endswith("/ByTime")]
    return sum(view.load(name).count()["cells"] for name in names)


def test_crash_at_any_step(tmp_path: Path) -> None:
    rows: Rows = {}
    whole = FixedSize(0)
    result = life(rows, tmp_path / "whole", whole)
    assert result is not None and not kept(tmp_path / "whole")
    signs = Counter((sink, line[2]) for sink, line in of_sinks(rows))
    assert {sink for sink, sign in signs if sign == "-"} == {*JOINS} - {"within", "as of"}
    assert {sink for sink, sign in signs if sign == "+"} == {*JOINS}
    assert sum(of.get("dropped_late", 0) for step, of in result.counters.items() if step.endswith("/ByTime"))
    with_rows = 0
    tried = range(1, whole.steps + 1, max(1, whole.steps // faults(quick=9, full=whole.steps)))
    for step in tried:
        found: Rows = {}
        place, balancer, crashing = tmp_path / f"at-{step}", RandomBalancer(step, 2), FixedSize(step, crash_at=step)
        if life(found, place, crashing, balancer) is not None:
            # Where the balancer joins intervals, there are fewer steps at the end.
            assert crashing.steps < step and step > 0.9 * whole.steps, "the fault did not fire"
            continue
        with_rows += kept(place) > 0
        again = life(found, place, FixedSize(step + 1), balancer)
        assert again is not None and of_sinks(found) == of_sinks(rows), f"crash at step {step}"
        assert told(again) == told(result), f"crash at step {step}"
        assert not kept(place)
    assert with_rows > len(tried) // 3
