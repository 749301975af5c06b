"""Large state that computations keep to themselves stays decoded in Spark's worker processes, and changes nothing."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, PickleCoder, Record, Topology
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner

pytestmark = pytest.mark.spark

KEYS, EPOCHS = 4, 20


class Counting(PickleCoder):
    """Counts what it decodes, in each process."""

    decoded = 0

    def decode(self, data: bytes) -> object:
        self.decoded += 1
        return super().decode(data)


class History(Computation):
    private_state = True

    def __init__(self) -> None:
        self.state_coder = Counting()

    def initial_state(self) -> object:
        return ["x" * 3000]

    def process_record(self, record: Record, context: Context) -> None:
        before = self.state_coder.decoded
        state = cast("list[object]", context.state)
        context.count("decoded", self.state_coder.decoded - before)
        state.append(record.value)
        context.produce("lengths", (context.key, record.value, len(state)))


def run(spark: SparkSession, cache_bytes: int) -> tuple[list[object], int]:
    """What came out, and how often state was decoded."""
    topology = Topology()
    topology.injector("in", BoundedInjector([(number, number) for number in range(KEYS * EPOCHS)]))
    topology.computation("history", History(), {"in": lambda number: number % KEYS}, ["lengths"])
    rows: list[object] = []
    topology.sink("lengths", "lengths", CallSink(lambda epoch, more: rows.extend(value for value, _ in more)))
    # A stage for each level: epochs of one task take the processes in turn, so that none has the state of the last.
    options = RunOptions(max_records_per_epoch=KEYS, cache_bytes=cache_bytes, one_task_epochs=False)
    result = SparkRunner(spark, intervals=1).run_topology(topology, options)
    assert result.epochs >= EPOCHS
    return sorted(rows, key=repr), result.counters["history"]["decoded"]


def test_state_stays_decoded_from_epoch_to_epoch(spark: SparkSession) -> None:
    expected, always = run(spark, cache_bytes=0)
    rows, decoded = run(spark, cache_bytes=1 << 20)
    assert (
        rows
        == expected
        == sorted(((number % KEYS, number, number // KEYS + 2) for number in range(KEYS * EPOCHS)), key=repr)
    )
    assert always == KEYS * (EPOCHS - 1)
    # The interval has one task an epoch. Spark chooses the worker process, about every second time the same.
    assert decoded < always
