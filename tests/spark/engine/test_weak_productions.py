"""Weak productions on Spark: from worker processes before the commit; nothing is lost when they die or are slow."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, Record, SendSink, Topology
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner
from tests.spark.lives import write

pytestmark = pytest.mark.spark
NUMBERS = range(48)


class Sums(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        assert isinstance(record.value, int)
        context.state = (context.state or 0) + record.value
        context.produce("sums", (context.key, context.state))


class Square(Computation):
    strong_productions = False

    def process_record(self, record: Record, context: Context) -> None:
        assert isinstance(record.value, int)
        context.produce("squares", (record.value, record.value**2))


class Service:
    """Takes rows, but once it dies, once it refuses, and once it takes longer than anybody waits."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def __call__(self, epoch: int, rows: list[tuple[object, int]]) -> bool:
        numbers = [number for (number, _), _ in rows]
        if self._once("refused", 20 in numbers):
            return False
        if self._once("slow", 40 in numbers):
            time.sleep(1.5)
        early = not (self._out / f"sums-{epoch}.json").exists()
        name = uuid4().hex
        # The process may be killed by another thread while it writes.
        (self._out / name).write_text(json.dumps([numbers, os.getpid(), early]))
        (self._out / name).rename(self._out / f"squares-{name}")
        if self._once("killed", 5 in numbers):
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def _once(self, what: str, wanted: bool) -> bool:
        if not wanted or (self._out / what).exists():
            return False
        (self._out / what).touch()
        return True


def test_weak_productions_beside_strong_ones(spark: SparkSession, tmp_path: Path) -> None:
    made = Topology()
    made.injector("in", BoundedInjector([(number, number) for number in NUMBERS]))
    made.computation("sums", Sums(), {"in": lambda number: number % 3}, ["sums"])
    made.computation("square", Square(), {"in": lambda number: number % 4}, ["squares"])
    made.sink("sums", "sums", CallSink(write(tmp_path, "sums")))
    made.sink("service", "squares", SendSink(Service(tmp_path)))
    options = RunOptions(str(tmp_path / "checkpoint"), max_records_per_epoch=16, straggler_delay=0.3)
    result = SparkRunner(spark, intervals=2).run_topology(made, options)

    assert all((tmp_path / fault).exists() for fault in ("killed", "refused", "slow")), "a fault did not fire"
    taken = [json.loads(path.read_text()) for path in tmp_path.glob("squares-*")]
    times = Counter(number for numbers, _, _ in taken for number in numbers)
    assert set(times) == set(NUMBERS), "lost, or made up"
    assert times[5] > 1, "what was released by a task that died is released again"
    assert any(process != os.getpid() and early for _, process, early in taken), "before the commit, by a task"
    assert any(process == os.getpid() and 20 in numbers for numbers, process, _ in taken), "stragglers by the driver"
    assert result.counters["service"]["rows"] == len(NUMBERS), "counters are exact"
    assert result.counters["service"]["stragglers"] > 0
    assert Checkpoint.read(ObjectStore(str(tmp_path / "checkpoint"))).manifest.pending == ()

    assert not (tmp_path / "differs").exists()
    sums = [value for path in tmp_path.glob("sums-*.json") for value, _ in json.loads(path.read_text())]
    running = {key: [sum(NUMBERS[key : stop + 1 : 3]) for stop in NUMBERS[key::3]] for key in range(3)}
    assert sorted(map(tuple, sums)) == sorted((key, total) for key, totals in running.items() for total in totals)
