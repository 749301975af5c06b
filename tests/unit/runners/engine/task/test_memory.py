"""What a task has changed and sent is free as soon as the task has ended, without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import headrace as beam
from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, Record, Timer, Topology
from headrace.lowlevel.shuffle.router import Router
from headrace.lowlevel.state.state_store import Delta
from headrace.runners.engine.messages import TaskReport
from headrace.runners.local import LocalRunner
from headrace.transforms.window import FixedWindows


def of_tasks() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, (Delta, TaskReport, Router))]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    gc.collect()
    before = of_tasks()
    gc.disable()
    yield
    try:
        assert len(of_tasks()) == len(before)
    finally:
        gc.enable()


class Count(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.state = record.value
        context.set_timer("minute", 60_000_000)

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.produce("counts", context.key, timer.timestamp)


def test_after_raw_computations() -> None:
    topology = Topology()
    topology.injector("in", BoundedInjector([(str(number % 9), number) for number in range(100)]))
    topology.computation("count", Count(), inputs={"in": lambda value: value}, outputs=["counts"])
    topology.sink("out", "counts", CallSink(lambda epoch, rows: None))
    LocalRunner().run_topology(topology)


@pytest.mark.parametrize("combine", [sum, lambda values: sorted(values)[-1]], ids=["columns", "functions"])
def test_after_groupings(combine: object) -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        pairs = pipeline | beam.Create([(number % 7, number) for number in range(1_000)])
        sums = pairs | beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(combine)
        _ = sums | beam.GroupByKey() | beam.io.ForeachEpoch(lambda epoch, rows: None)
