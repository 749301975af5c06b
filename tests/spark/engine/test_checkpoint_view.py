"""What a checkpoint of Spark's tells somebody who only looks is what one of the local runner's does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import read_state
from headrace.lowlevel import BoundedInjector, CheckpointView, PickleCoder, Topology
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.runners.spark import SparkRunner
from tests.unit.lowlevel.checkpoint.inspection.test_checkpoint_view import StopAfter, Visits

pytestmark = pytest.mark.spark


def listed(place: Path, run: Callable[[Topology, RunOptions], object]) -> list[object]:
    """Everything that does not depend on who ran it, of a run that stops after its third epoch."""
    topology = Topology()
    rows = [(f"page {number % 5}", number) for number in range(20)]
    topology.injector("in", BoundedInjector(rows, max_delay=5))
    topology.computation("visits", Visits(), {"in": lambda value: value}, ["round"])
    with pytest.raises(Crash):
        run(topology, RunOptions(checkpoint=str(place)))
    view = CheckpointView.of(ObjectStore(str(place)))
    [watermarks] = view.watermarks()
    states = sorted(view.states("visits", PickleCoder()), key=repr)
    assert len(states) == 5 and sum(file.size for file in view.files()) > 0
    epochs = [(one.epoch, one.finished) for one in view.epochs()]
    table = sorted(read_state(str(place), "visits").to_pylist(), key=repr)
    assert {row["key"] for row in table} == {state.key for state in states} and any(row["timers"] for row in table)
    return [epochs, table, watermarks, view.timers(), view.timers(limit=3), view.holds(), view.holders(), states]


def test_the_same_as_of_the_local_runner(spark: SparkSession, tmp_path: Path) -> None:
    local = LocalRunner(scheduler=StopAfter(3), intervals=2)
    on_spark = SparkRunner(spark, intervals=2, steps=StopAfter(3))
    assert listed(tmp_path / "spark", on_spark.run_topology) == listed(tmp_path / "local", local.run_topology)
