"""Records that an injector delivers again, also after a restart: each counts once, and ids do not pile up."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import Computation, Context, ManualInjector, Record, Topology
from headrace.lowlevel.time import SECOND
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner

pytestmark = pytest.mark.spark

KEYS = 40


class Count(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.state = int(str(context.state or 0)) + 1


def repeating(rounds: int) -> ManualInjector:
    """Each round has records of its own, those of the round before again, and the watermark a second behind."""
    injector = ManualInjector(record_ids=True, id_slack=2 * SECOND)
    for number in range(rounds):
        rows = [(key, at * SECOND) for at in (number - 1, number) if at >= 0 for key in range(KEYS)]
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


def test_each_record_counts_once_whoever_asks(spark: SparkSession, tmp_path: Path) -> None:
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
    assert (counters["records"], counters["duplicates"]) == (6 * KEYS, 5 * KEYS)
    # The filter called nearly all new ids new; only repeated ones were looked up.
    assert counters["duplicates"] <= counters["ids_asked"] <= 6 * KEYS
