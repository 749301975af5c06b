"""Poison: whatever it did before it raised, the rest comes out as if it had not come, and it is set aside exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import (
    BoundedInjector,
    BundleComputation,
    CallSink,
    Computation,
    Context,
    DeadLetter,
    Record,
    StepError,
    Timer,
    Topology,
    TopologyError,
)
from headrace.metrics import Metrics
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.testing.util import assert_that, equal_to

pytestmark = pytest.mark.faults


class Busy(Computation):
    """Does everything a computation can, then raises for poison."""

    def initial_state(self) -> object:
        return []

    def process_record(self, record: Record, context: Context) -> None:
        _, number, poison = record.value
        context.state.append(number)
        context.write(b"last", b"%d" % number)
        context.produce("out", ("record", context.key, number))
        context.count("busy")
        context.set_timer(f"timer {number % 3}", record.timestamp + 5)
        Metrics.counter("busy", "records").inc()
        if poison:
            context.hold(0)
            context.delete_timer("timer 0")
            context.state = None
            raise ValueError(f"poison {number}")

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.produce("out", ("timer", context.key, timer.tag, list(context.state), context.read(b"last")))


def key_of(value: object) -> object:
    return value[0]


def run(rows: list[tuple[object, int]], limit: int) -> tuple[list[object], list[DeadLetter], dict[str, int], int]:
    """What comes out, the dead letters, the counters, and the metric."""
    topology = Topology()
    topology.injector("in", BoundedInjector(rows))
    topology.computation("busy", Busy(), {"in": key_of}, ["out"], dead_letters="dead")
    out: list[object] = []
    dead: list[tuple[DeadLetter, int]] = []
    topology.sink("out", "out", CallSink(lambda epoch, its: out.extend(its)))
    topology.sink("dead", "dead", CallSink(lambda epoch, its: dead.extend(its)))
    result = LocalRunner(intervals=2).run_topology(topology, RunOptions(max_records_per_epoch=limit))
    assert all(time == letter.value[1] for letter, time in dead)
    # Beside what the engine itself measures of each step.
    cells = [cell for of in result.metrics.values() for metric, cell in of.items() if metric.namespace == "busy"]
    counted = sum(getattr(cell, "total", 0) for cell in cells)
    return sorted(map(repr, out)), [letter for letter, _ in dead], result.counters["busy"], counted


ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.booleans() | st.just(False)), min_size=1, max_size=200)


@given(ROWS, st.sampled_from([7, 50, 1000]))
def test_as_if_it_had_not_come(rows: list[tuple[str, bool]], limit: int) -> None:
    timed: list[tuple[object, int]] = [((key, at, poison), at) for at, (key, poison) in enumerate(rows)]
    out, dead, counters, metric = run(timed, limit)
    # Without its poison an epoch would hold other records: what is not poison keeps its place.
    bad = {value for value, _ in timed if value[2]}
    assert {letter.value for letter in dead} == bad
    assert len(dead) == len(bad) == counters.get("dead_letters", 0)
    assert counters.get("busy", 0) == metric == len(rows) - len(bad)
    assert counters["records"] == len(rows)
    if limit >= len(rows):
        well = [row for row in timed if not row[0][2]]
        assert out == (run(well, limit)[0] if well else [])
    for letter in dead:
        assert (letter.step, letter.key) == ("busy", letter.value[0])
        assert f"ValueError: poison {letter.value[1]}" in letter.error


class Opaque:
    """No key: nothing says what its bytes are."""


def test_a_value_without_a_key_is_set_aside() -> None:
    opaque = (Opaque(), 2, False)
    topology = Topology()
    topology.injector("in", BoundedInjector([(("a", 0, False), 0), (5, 1), (opaque, 2)]))
    topology.computation("busy", Busy(), {"in": key_of}, ["out"], dead_letters="dead")
    letters: list[tuple[DeadLetter, int]] = []
    topology.sink("dead", "dead", CallSink(lambda epoch, its: letters.extend(its)))
    result = LocalRunner().run_topology(topology)
    assert sorted((letter.key, time) for letter, time in letters) == [(None, 1), (None, 2)]
    errors = {time: letter.error for letter, time in letters}
    assert "not subscriptable" in errors[1] and "cannot be encoded deterministically" in errors[2]
    assert (result.counters["busy"]["dead_letters"], result.counters["busy"]["records"]) == (2, 1)


def test_without_a_stream_for_them_the_run_stops() -> None:
    topology = Topology()
    topology.injector("in", BoundedInjector([(("a", 3, True), 0)]))
    topology.computation("busy", Busy(), {"in": key_of}, ["out"])
    with pytest.raises(StepError, match=r"step 'busy' raised for key 'a' at \('a', 3, True\)"):
        LocalRunner().run_topology(topology)


def test_what_cannot_have_dead_letters() -> None:
    with pytest.raises(TopologyError, match="takes all records of a key at once"):
        Topology().computation("all", BundleComputation(), {"in": key_of}, [], dead_letters="dead")
    with pytest.raises(TopologyError, match="stream 'out' is an output of computation 'busy'"):
        Topology().computation("busy", Busy(), {"in": key_of}, ["out"], dead_letters="out")


def test_between_two_transforms() -> None:
    with beam.Pipeline("LocalRunner") as p:
        rows = p | beam.Create([("a", 1, False), ("a", 2, True), ("b", 3, False)])
        results = rows | beam.RunComputation(Busy(), key=key_of, outputs="out", dead_letters="dead")
        assert isinstance(results, dict)
        bad = results["dead"] | "Error" >> beam.Map(lambda letter: (letter.value, letter.error.split("\n")[-2]))
        assert_that(bad, equal_to([(("a", 2, True), "ValueError: poison 2")]))
