"""Key intervals on Spark: they change while a pipeline runs and between its runs, and nothing shows (paper §7.1)."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import BoundedInjector, CallSink, Topology
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.intervals.balancer import BalancePolicy, LoadBalancer
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from tests.faults.crashes.test_intervals_change import RandomBalancer
from tests.unit.runners.local.test_local_runner import Highest, PerMinute

pytestmark = pytest.mark.spark

CROWDED = [key for key in range(80) if IntervalMap.evenly(2).of(key_hash_of(encode_key(key))).number == 0]
ROWS = [(CROWDED[i % len(CROWDED)], (i * 37) % 400) for i in range(400)]


Delivered = dict[tuple[str, int], list[tuple[object, int]]]
"""(sink, epoch) -> rows: a repeated delivery takes the place of the first."""


def topology(delivered: Delivered) -> Topology:
    made = Topology()
    made.injector("in", BoundedInjector(ROWS, max_delay=200))
    made.computation("per minute", PerMinute(), {"in": lambda value: value}, ["minutes"])
    made.computation("highest", Highest(), {"minutes": lambda value: value[0] % 3}, ["highest"])
    for stream in ("minutes", "highest"):
        made.sink(stream, stream, CallSink(lambda epoch, rows, at=stream: delivered.update({(at, epoch): list(rows)})))
    return made


def values(delivered: Delivered) -> list[object]:
    return sorted((sink, *row) for (sink, _), rows in delivered.items() for row in rows)


@pytest.fixture(scope="module")
def expected() -> list[object]:
    delivered: Delivered = {}
    LocalRunner().run_topology(topology(delivered), RunOptions(max_records_per_epoch=20))
    return values(delivered)


def test_skew_is_followed(spark: SparkSession, tmp_path: Path, expected: list[object]) -> None:
    delivered: Delivered = {}
    policy = BalancePolicy("records", least=4, patience=1, rest=1)
    options = RunOptions(str(tmp_path), max_records_per_epoch=20, balancer=lambda: LoadBalancer(policy))
    SparkRunner(spark, intervals=2).run_topology(topology(delivered), options)
    assert values(delivered) == expected
    manifest = Checkpoint.read(ObjectStore(str(tmp_path))).manifest
    assert manifest is not None
    busy = [one for one in manifest.intervals[1] if one.start < 1 << 63]
    assert len(busy) > 1, "nothing was split"
    assert {one.owner for one in busy} == {0, 1}
    assert all(one.sequencer.epoch > 1 for one in busy)


def test_changes_all_the_time_and_another_number_in_the_next_run(
    spark: SparkSession, tmp_path: Path, expected: list[object]
) -> None:
    class StopsAt:
        def bundle_size(self, epoch: int, limit: int) -> int:
            return limit

        def step(self, name: str, epoch: int) -> None:
            if (name, epoch) == ("delivered", 9):
                raise KeyboardInterrupt

    delivered: Delivered = {}
    seed = Random(None if os.environ.get("HEADRACE_SOAK") else 1).randrange(2**32)
    changes = []
    for intervals, steps in ((2, StopsAt()), (3, None)):
        balancer = RandomBalancer(seed, intervals)
        options = RunOptions(str(tmp_path), max_records_per_epoch=20, balancer=lambda balancer=balancer: balancer)
        runner = SparkRunner(spark, intervals=intervals, steps=steps)
        if steps is None:
            runner.run_topology(topology(delivered), options)
        else:
            with pytest.raises(KeyboardInterrupt):
                runner.run_topology(topology(delivered), options)
        changes += balancer.changes
    assert values(delivered) == expected, f"seed {seed}"
    assert len(set(changes)) == 3, f"seed {seed}: the changes did not happen"
