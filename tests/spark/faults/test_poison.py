"""One record in a hundred is poison: on Spark, each is set aside with its error, and everything else comes out."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, DeadLetter, Record, Topology
from headrace.runners.spark import SparkRunner

pytestmark = pytest.mark.spark


class Divide(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        number = int(str(record.value))
        context.state = int(str(context.state or 0)) + 1
        context.produce("quotients", (number, 1000 / (number % 100)))


def test_one_in_a_hundred(spark: SparkSession) -> None:
    topology = Topology()
    topology.injector("in", BoundedInjector([(number, number) for number in range(2_000)]))
    topology.computation("divide", Divide(), {"in": lambda number: number % 7}, ["quotients"], dead_letters="dead")
    quotients: list[object] = []
    dead: list[DeadLetter] = []
    topology.sink("quotients", "quotients", CallSink(lambda epoch, rows: quotients.extend(value for value, _ in rows)))
    topology.sink("dead", "dead", CallSink(lambda epoch, rows: dead.extend(value for value, _ in rows)))
    result = SparkRunner(spark, intervals=2).run_topology(topology)
    assert sorted(letter.value for letter in dead) == list(range(0, 2_000, 100))
    assert all("ZeroDivisionError" in letter.error for letter in dead)
    assert sorted(quotients) == [(number, 1000 / (number % 100)) for number in range(2_000) if number % 100]
    assert result.counters["divide"]["dead_letters"] == 20
