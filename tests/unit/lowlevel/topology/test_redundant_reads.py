"""Which topologies may have what they read read by several tasks: nothing of the user's runs before a key is known."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.lowlevel import (
    BoundedInjector,
    CallSink,
    Computation,
    InlineComputation,
    SendSink,
    Topology,
)
from headrace.lowlevel.topology.redundant_reads import obstacle_to_reading_twice
from headrace.pipeline import Pipeline
from headrace.sdk.compiler.compiler import compile_pipeline
from headrace.transforms.window import FixedWindows, Sessions, WindowFn

first = itemgetter(0)


class Pure(InlineComputation):
    is_pure = True


class Weak(Computation):
    strong_productions = False


def plain(computation: Computation | None = None, **inputs: object) -> Topology:
    """One computation, with a step behind it that is the user's."""
    topology = Topology()
    topology.injector("in", BoundedInjector([]))
    topology.computation("sums", computation or Computation(), inputs or {"in": first}, ["out"])
    topology.inline("behind", InlineComputation(), ["out"], ["end"])
    topology.sink("rows", "end", CallSink(print))
    return topology


def test_what_runs_behind_the_key_does_not_matter() -> None:
    assert obstacle_to_reading_twice(plain()) is None


def test_pure_steps_may_run_in_every_task() -> None:
    topology = plain(pairs=first)
    topology.inline("before", Pure(), ["in"], ["pairs"])
    assert obstacle_to_reading_twice(topology) is None


def in_a_row() -> Topology:
    topology = plain()
    topology.computation("again", Computation(), {"end": first})
    return topology


def inline_before() -> Topology:
    topology = plain(pairs=first)
    topology.inline("before", InlineComputation(), ["in"], ["pairs"])
    return topology


def inline_behind_a_pure_one() -> Topology:
    topology = plain(pairs=first)
    topology.inline("pure", Pure(), ["in"], ["between"])
    topology.inline("before", InlineComputation(), ["between"], ["pairs"])
    return topology


def sink_of(stream: str) -> Topology:
    topology = plain(pairs=first)
    topology.inline("before", Pure(), ["in"], ["pairs"])
    topology.sink("early", stream, CallSink(print))
    return topology


def with_ids() -> Topology:
    injector = BoundedInjector([])
    injector.record_ids = True
    topology = plain()
    topology.injectors["in"] = injector
    return topology


def dead_letters() -> Topology:
    topology = Topology()
    topology.injector("in", BoundedInjector([]))
    topology.computation("sums", Computation(), {"in": first}, ["out"], "letters")
    return topology


def weak() -> Topology:
    topology = Topology()
    topology.injector("in", BoundedInjector([]))
    topology.computation("sums", Weak(), {"in": first}, ["out"])
    topology.sink("rows", "out", SendSink(print))
    return topology


@pytest.mark.parametrize(
    ("topology", "reason"),
    [
        (Topology(), "several groupings in a row, or none"),
        (in_a_row(), "several groupings in a row"),
        (inline_before(), "'before' may run user code"),
        (inline_behind_a_pure_one(), "'before' may run user code"),
        (sink_of("in"), "sink 'early' takes records without a key"),
        (sink_of("pairs"), "sink 'early' takes records without a key"),
        (with_ids(), "records of 'in' have ids"),
        (dead_letters(), "'sums' has dead letters"),
        (weak(), "weak"),
        (plain(**{"in": str}), "the key of 'sums' is found by a function"),
    ],
)
def test_what_stands_against_it(topology: Topology, reason: str) -> None:
    assert reason in str(obstacle_to_reading_twice(topology))


def summed(folder: Path, step: object, combiner: object = sum, windows: WindowFn = FixedWindows(60)) -> str | None:
    path = folder / "rows.parquet"
    pq.write_table(pa.table({"key": ["a"], "value": [1]}), path)
    pipeline = Pipeline("LocalRunner")
    pairs = pipeline | beam.io.ReadFromParquet(str(path)) | "Pair" >> step
    _ = pairs | beam.WindowInto(windows) | beam.CombinePerKey(combiner) | beam.Map(print)
    return obstacle_to_reading_twice(compile_pipeline(pipeline))


def label(row: dict[str, object]) -> tuple[object, object]:
    found = row["key"]
    return found, row["value"]


def test_functions_that_are_seen_through_are_pure_and_others_are_not(tmp_path: Path) -> None:
    assert summed(tmp_path, beam.Map(lambda row: (row["key"], row["value"]))) is None
    assert "may run user code" in str(summed(tmp_path, beam.Map(label)))
    assert "may run user code" in str(summed(tmp_path, beam.FlatMap(lambda row: [(row["key"], row["value"])])))


def test_sessions_are_combined_by_the_engine(tmp_path: Path) -> None:
    assert summed(tmp_path, beam.Map(lambda row: (row["key"], row["value"])), windows=Sessions(60)) is None


def test_a_combiner_of_the_users_runs_where_it_is_alone(tmp_path: Path) -> None:
    pairs = beam.Map(lambda row: (row["key"], row["value"]))
    assert summed(tmp_path, pairs, max) is None
    assert "may run user code" in str(summed(tmp_path, pairs, lambda values: sum(values)))
