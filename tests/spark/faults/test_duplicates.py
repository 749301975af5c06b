"""Records that an injector delivers again, also after a restart: each counts once, and ids do not pile up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import Computation, Context, ManualInjector, Record, Topology
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import SECOND
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner
from tests.faults.tally import Tally

pytestmark = [pytest.mark.spark, pytest.mark.faults]

KEYS = 40


class Count(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.state = int(str(context.state or 0)) + 1


def repeating(rounds: int) -> ManualInjector:
    """Each round has records of its own, up to five times, those of the round before again, and the watermark moves."""
    injector = ManualInjector(record_ids=True, id_slack=2 * SECOND)
    for number in range(rounds):
        times = [at * SECOND for at in (number - 1, number) if at >= 0]
        rows = [(key, at) for at in times for key in range(KEYS) for _ in range(1 + key % 5)]
        injector.records(*rows, ids=[b"%d at %d" % row for row in rows])
        injector.watermark(number * SECOND)
    return injector


class Broken(Exception):
    """The driver ends here."""


class StopAt:
    """Stops the driver after so many epochs."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs

    def bundle_size(self, epoch: int, limit: int) -> int:
        if epoch > self._epochs:
            raise Broken
        return limit

    def step(self, name: str, epoch: int) -> None:
        return


def test_each_record_counts_once_whoever_asks(
    spark: SparkSession, tmp_path: Path, tally: Callable[[int], Tally]
) -> None:
    run = tally(9)

    def topology() -> Topology:
        made = Topology()
        made.injector("in", repeating(6))
        made.computation("count", Count(), {"in": lambda value: value}, [])
        return made

    options = RunOptions(checkpoint=str(tmp_path))
    with pytest.raises(Broken):
        SparkRunner(spark, intervals=2, steps=StopAt(7)).run_topology(topology(), options)
    result = SparkRunner(spark, intervals=2).run_topology(topology(), options)
    counters = result.counters["count"]
    copies = sum(1 + key % 5 for key in range(KEYS))
    run.plan(copies * 11 - 6 * KEYS)
    run.fire(counters["duplicates"])
    run.compare([6 * KEYS], [counters["records"]], "records processed")
    # The filter called nearly all new ids new; only repeated ones were looked up.
    assert 5 * KEYS <= counters["ids_asked"] <= counters["duplicates"] + KEYS
    store = ObjectStore(str(tmp_path))
    kept = sum(len(delta.ids) for delta in Checkpoint.read(store).load("count").dump())
    assert kept == 0, "the watermark is past everything, and ids are left"
