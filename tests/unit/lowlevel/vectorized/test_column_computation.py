"""Raw computations by columns: what they are given, what they may do, and what is said where something does not fit."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import headrace as beam
from headrace.cli.app import app
from headrace.lowlevel import (
    BoundedInjector,
    CallSink,
    CheckpointView,
    ColumnComputation,
    ColumnContext,
    Field,
    RecordColumns,
    StepError,
    TimerColumns,
    Topology,
    TopologyError,
)
from headrace.lowlevel.coders.coder import STANDARD_KEYS
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Commit, Worker
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.shuffle.partition_buffer import KeyHashCache, PartitionBuffer
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.nodes import Keyed
from headrace.lowlevel.vectorized.rows import KeyedColumns
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.compiler.compiler import execution_strategies
from headrace.testing.util import assert_that, equal_to
from tests.properties.computation_strategies import Running, Step

Called = Callable[[RecordColumns, ColumnContext], object]


class Calls(ColumnComputation):
    """Calls a function with records; timers come out."""

    state_fields: ClassVar = {"total": int, "share": float, "seen": bool}
    timer_fields: ClassVar = {"value": int}

    def __init__(self, call: Called) -> None:
        self.call = call

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        self.call(batch, context)

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        context.produce_columns("out", (due.key_values(), due.timestamps, due["value"]))


def key_of(value: object) -> object:
    return value[0] if isinstance(value, tuple) else value["key"]


def ran(computation: ColumnComputation, rows: list[tuple[object, int]], **options: object) -> list[tuple[object, int]]:
    """What comes out."""
    out: list[tuple[object, int]] = []
    topology = Topology()
    topology.injector("in", BoundedInjector(rows, 0))
    topology.computation("step", computation, {"in": key_of}, ["out"])
    topology.sink("out", "out", CallSink(lambda epoch, its: out.extend(its)))
    LocalRunner().run_topology(topology, RunOptions(**options))
    return out


ROWS = [(("anna", 1), 10), (("boris", 2), 20), (("anna", 3), 30)]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda batch, context: context.set_timers(batch.timestamps),
            r"was given nothing .* all of timer_fields: 'value'",
        ),
        (
            lambda batch, context: context.set_timers([1, 2], value=1),
            r"timestamps has 2 values instead of 3",
        ),
        (lambda batch, context: context.set_timers(5, value=[1, 2]), r"timer column 'value' has 2 values"),
        (lambda batch, context: context.set_timers(5, value=1.5), r"'value' is of type float64, not int64"),
        (lambda batch, context: context.set_timers(2**63 - 1, value=1), "beyond the year 294000"),
        (lambda batch, context: context.set_timers(5, keys=[0, 2], value=1), "numbers from 0 to 1, not 0 to 2"),
        (lambda batch, context: context.set_timers(5, keys=["anna"], value=1), "keys must be key numbers"),
        (
            lambda batch, context: context.state["sum"],
            r"there is no state 'sum' \(state_fields: 'total', 'share', 'seen'\)",
        ),
        (lambda batch, context: context.state.__setitem__("total", 1.5), "state 'total' is of type float64"),
        (
            lambda batch, context: context.state.__setitem__("total", [1]),
            r"state 'total' has 1 values instead of 2",
        ),
        (lambda batch, context: context.produce_columns("more", [1]), r"does not declare \(outputs: out\)"),
        (
            lambda batch, context: context.produce_columns("out", {"a": [1], "b": [1, 2]}),
            "column 'b' to produce has 2 values",
        ),
        (
            lambda batch, context: context.produce_columns("out", [[1]]),
            "1 values for 'out' are not one for each of the 3",
        ),
        (lambda batch, context: context.produce_columns("out", []), "give at least one"),
    ],
)
def test_what_does_not_fit_is_refused(call: Called, told: str) -> None:
    with pytest.raises(StepError, match="step 'step' raised") as raised:
        ran(Calls(call), ROWS)
    # The lines before are the traceback, which has this file's own lines in it.
    assert re.search(told, str(raised.value).splitlines()[-1])


@pytest.mark.parametrize(
    ("rows", "call", "told"),
    [
        (
            [({"key": "a", "n": 1}, 0), ({"key": "b"}, 1)],
            lambda batch, _: batch["n"],
            r"'b' at \{'key': 'b'\}.*no field 'n' \(it has 'key'\)",
        ),
        (
            [(("a", 1), 0), (("b", None), 1)],
            lambda batch, _: batch[1],
            r"key 'b' at \('b', None\).*1 is None.*batch.arrow\(1\)",
        ),
        (
            [(("a", 1), 0), (("b", "x"), 1)],
            lambda batch, _: batch[1],
            r"item 1 is 'x', which cannot be in a column with 1",
        ),
        ([(("a", 1), 0), (("b", 1 << 70), 1)], lambda batch, _: batch[1], r"key 'b'.*at most 64 bits"),
        ([(("a", 1), 0)], lambda batch, _: batch[2], r"no item 2 \(it has 0, 1\)"),
    ],
)
def test_records_that_are_no_columns(rows: list[tuple[object, int]], call: Called, told: str) -> None:
    with pytest.raises(
        StepError, match=rf"(?s)step 'step' raised for key {told}" if told[0] == "'" else rf"(?s){told}"
    ):
        ran(Calls(call), rows)


def test_nulls_and_other_values_as_arrow() -> None:
    found: list[object] = []

    def look(batch: RecordColumns, context: ColumnContext) -> None:
        found.extend(
            [batch.arrow("n").to_pylist(), batch["text"].tolist(), batch.value(0), batch.key_values().to_pylist()]
        )

    ran(Calls(look), [({"key": 7, "n": None, "text": "x"}, 0), ({"key": 7, "n": 1, "text": "y"}, 1)])
    assert found == [[None, 1], ["x", "y"], {"key": 7, "n": None, "text": "x"}, [7, 7]]


Point = namedtuple("Point", ["key", "n"])


@pytest.mark.parametrize(
    "make", [lambda n: beam.Row(key="a", n=n), lambda n: Point("a", n), lambda n: {"key": "a", "n": n}]
)
def test_fields_of_rows_and_named_tuples(make: Callable[[int], object]) -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        computation = Calls(lambda batch, context: context.set_timers(batch.timestamps, value=batch["n"]))
        made = pipeline | beam.Create([1, 2]) | beam.Map(make)
        out = made | beam.RunComputation(
            computation, key=lambda value: value["key"] if isinstance(value, dict) else value.key, outputs="out"
        )
        assert_that(out | beam.MapTuple(lambda key, at, value: (key, value)), equal_to([("a", 1), ("a", 2)]))


def declared(**attributes: object) -> type:
    return type("Declared", (ColumnComputation,), attributes)


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"state_fields": {"name": str}}, "state_fields of Declared: field 'name': a field cannot be of type"),
        ({"state_fields": {"at": pa.timestamp("ns")}}, "a field cannot be of type"),
        ({"state_fields": {"least": Field(int, 1.5)}}, "the default of 'least' is of type float64"),
        ({"timer_fields": {"two words": int}}, "'two words': its name must be a Python identifier"),
        ({"timer_fields": {"keys": int}}, "timer_fields of Declared: 'keys' is a reserved name"),
        ({"timer_fields": {"n": int}, "combine_timers": {}}, "names nothing; name all of timer_fields: 'n'"),
        (
            {"timer_fields": {"n": int}, "combine_timers": {"n": "mean"}},
            "cannot be combined by 'mean'; use sum, min or max",
        ),
        ({"timer_fields": {"n": bool}, "combine_timers": {"n": "sum"}}, "'n' of type bool cannot be combined by 'sum'"),
    ],
)
def test_declarations_are_looked_at_where_they_are_written(attributes: dict[str, object], told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        declared(**attributes)


def test_no_dead_letters() -> None:
    with pytest.raises(TopologyError, match=r"takes all records of a bundle at once.*Computation with process_record"):
        Topology().computation("step", Calls(print), {"in": key_of}, [], dead_letters="dead")


def test_explain_says_which_way() -> None:
    pipeline = beam.Pipeline("LocalRunner")
    rows = pipeline | beam.Create(ROWS)
    _ = rows | beam.RunComputation(Calls(print), key=key_of, outputs="out")
    assert str(execution_strategies(pipeline)[-1]) == "step 'Calls' processes all keys at once"


# What it is given


class Everything(ColumnComputation):
    """Fields of all types."""

    state_fields: ClassVar = {
        "n": int,
        "share": Field(float, -0.5),
        "seen": bool,
        "at": pa.timestamp("us", "UTC"),
        "id": pa.binary(3),
    }
    timer_fields: ClassVar = {"value": float, "flag": bool, "when": pa.timestamp("us"), "id": pa.binary(3)}
    combine_timers = None

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        state = context.state
        assert batch.key_count == len(state["n"]) == len(batch.distinct_keys)
        assert all(a <= b for a, b in pairwise(batch.keys.tolist()))
        state["n"] += batch.sum(batch[1])
        state["share"] = np.maximum(state["share"], batch.max(batch[1]) / 2)
        state["seen"] = True
        state["at"] = batch.timestamps[batch.last].astype("datetime64[us]")
        state["id"][:] = b"abc"
        context.set_timers(100, value=batch[1] / 4, flag=batch[1] > 1, when=batch.timestamps, id=b"xyz")

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        names = ["n", "share", "seen", "at", "id"]
        told = [due.key_values(), *(due[name] for name in self.timer_fields)]
        told += [context.state[name][due.keys] for name in names]
        context.produce_columns("out", told)
        context.state.clear(due.distinct_keys.to_numpy(zero_copy_only=False) == "anna")


def test_all_types(tmp_path: Path) -> None:
    options = {"checkpoint": str(tmp_path), "max_records_per_epoch": 1}
    out = ran(Everything(), ROWS, **options)
    assert sorted(out) == [
        (("anna", 0.25, False, 10, b"xyz", 4, 1.5, True, 30, b"abc"), 100),
        (("anna", 0.75, True, 30, b"xyz", 4, 1.5, True, 30, b"abc"), 100),
        (("boris", 0.5, True, 20, b"xyz", 2, 1.0, True, 20, b"abc"), 100),
    ]
    view = CheckpointView.of(ObjectStore(str(tmp_path)))
    [left] = view.states("step", view.coder_of("step"))
    assert (left.key, left.state) == ("boris", {"n": 2, "share": 1.0, "seen": True, "at": 20, "id": b"abc"})
    assert not view.timers("step")


def test_what_a_checkpoint_shows(tmp_path: Path) -> None:
    class Waits(Calls):
        def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
            context.produce_columns("out", due.key_values())

    def call(batch: RecordColumns, context: ColumnContext) -> None:
        context.state["total"] += batch.sum(batch[1])
        context.set_timers(batch.timestamps + 15, hold=batch.timestamps, value=batch[1])

    assert len(ran(Waits(call), ROWS, checkpoint=str(tmp_path), max_records_per_epoch=1)) == 3
    view = CheckpointView.of(ObjectStore(str(tmp_path))).at_epoch(2)
    assert [(timer.key, timer.timestamp) for timer in view.timers()] == [("anna", 25), ("boris", 35)]
    assert [(hold.key, hold.timestamp, hold.tag) for hold in view.holds()] == [
        ("anna", 10, "timers"),
        ("boris", 20, "timers"),
    ]
    assert [(hold.key, hold.timestamp) for hold in view.holders()] == [("anna", 10)]
    text = CliRunner().invoke(app, ["inspect", str(tmp_path), "--at-epoch=2", "--step=step"]).stdout
    assert "boris\n  state  {'seen': False, 'share': 0.0, 'total': 2}\n  timestamp 35  hold 20  2\n" in text


def test_running_sums_begin_where_they_are_told() -> None:
    found: list[object] = []

    def call(batch: RecordColumns, context: ColumnContext) -> None:
        values = batch[1]
        found.append(batch.running_sum(values).tolist())
        found.append(batch.running_sum(values, np.array([100, 200])).tolist())
        found.append([list(map(int, each(values))) for each in (batch.sum, batch.min, batch.max)])
        found.append([batch.counts.tolist(), batch.first.tolist(), batch.last.tolist()])

    ran(Calls(call), ROWS)
    assert found == [[1, 4, 2], [101, 104, 202], [[4, 2], [1, 2], [3, 2]], [[2, 1], [0, 2], [1, 2]]]


def test_running_sums_of_floats_do_not_depend_on_other_keys() -> None:
    found: list[object] = []

    def call(batch: RecordColumns, context: ColumnContext) -> None:
        found.append(batch.running_sum(np.array([1e17, 1.0, 0.25])).tolist())
        found.append(batch.running_sum(np.array([0.5, 0.25, 0.1]), np.array([1.0, 0.2])).tolist())

    ran(Calls(call), ROWS)
    assert found == [[1e17, 1e17 + 1.0, 0.25], [1.5, 1.75, 0.2 + 0.1]]


def test_running_sums_of_floats_of_many_keys() -> None:
    found: list[object] = []

    def call(batch: RecordColumns, context: ColumnContext) -> None:
        found.append(sorted(batch.running_sum(np.where(batch.counts[batch.keys] == 2, 1e17, 0.1)).tolist()))

    ran(Calls(call), [*ROWS, (("carla", 5), 0)])
    assert found == [[0.1, 0.1, 1e17, 2e17]]


@given(
    counts=st.lists(st.integers(1, 4) | st.sampled_from([9, 40]), min_size=1, max_size=12),
    start=st.sampled_from([0.0, 0.1]),
    data=st.data(),
)
def test_running_sums_of_floats_are_those_of_each_key_alone(
    counts: list[int], start: float, data: st.DataObject
) -> None:
    """Whether keys are about as large as each other, or a few are much larger."""
    keys = np.repeat(np.arange(len(counts)), counts)
    values = data.draw(st.lists(st.sampled_from([0.1, -0.3, 7.0, 1e17]), min_size=len(keys), max_size=len(keys)))
    encoded = pa.nulls(len(counts), pa.large_binary())
    found = KeyedColumns("step", STANDARD_KEYS, encoded, keys, keys).running_sum(np.array(values), start)
    expected: list[float] = []
    for key in range(len(counts)):
        first, *rest = [value for its, value in zip(keys.tolist(), values, strict=True) if its == key]
        expected += accumulate(rest, initial=first + start)
    assert found.tolist() == expected


def test_sums_of_narrow_columns_are_wide() -> None:
    found: list[object] = []

    def call(batch: RecordColumns, context: ColumnContext) -> None:
        narrow = np.full(3, 100, np.int8)
        found.extend([batch.sum(narrow).tolist(), batch.running_sum(narrow).tolist(), batch.sum(narrow > 0).tolist()])
        found.append(batch.sum(np.array([0.5, 1, 2])).tolist())

    ran(Calls(call), ROWS)
    assert found == [[200, 100], [100, 200, 100], [2, 1], [1.5, 2.0]]


def test_what_was_produced_does_not_change() -> None:
    def call(batch: RecordColumns, context: ColumnContext) -> None:
        context.state["total"] += batch.sum(batch[1])
        context.produce_columns("out", context.state["total"], batch.timestamps[batch.first])
        context.state["total"] += 1000

    assert sorted(ran(Calls(call), ROWS)) == [(2, 20), (4, 10)]


class InOrder(ColumnComputation):
    """Tells each key's values in the order in which they are."""

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        values = batch[1].tolist()
        told = [tuple(values[a : b + 1]) for a, b in zip(batch.first.tolist(), batch.last.tolist(), strict=True)]
        context.produce_columns("out", [batch.key_values(batch.first), told], batch.timestamps[batch.first])


@pytest.mark.parametrize("as_columns", [False, True])
def test_records_of_a_key_are_in_order_of_their_delivery(as_columns: bool) -> None:
    running = Running(InOrder)
    running.step(Step([(n % 7, n, 0) for n in range(500)], 0, as_columns), batches=5)
    assert sorted(value for value, _ in running.out) == [(key, tuple(range(key, 500, 7))) for key in range(7)]


# Timers


class Again(ColumnComputation):
    """A timer that sets the next one, until a time."""

    until: int = 50

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        context.set_timers(batch.timestamps)

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        context.produce_columns("out", (due.key_values(), due.timestamps))
        more = due.timestamps < self.until
        context.set_timers(due.timestamps[more] + 10, keys=due.keys[more])


def test_timers_set_timers() -> None:
    out = ran(Again(), ROWS)
    assert sorted(value for value, _ in out) == sorted(
        [("anna", at) for at in (10, 20, 30, 40, 50)]
        + [("anna", at) for at in (30, 40, 50)]
        + [("boris", at) for at in (20, 30, 40, 50)]
    )
    assert all(value[1] == at for value, at in out)


def test_timers_that_never_end() -> None:
    class Endless(Again):
        def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
            context.set_timers(due.timestamps)

    with pytest.raises(StepError, match="timers of step 'step' have set timers that were due 10000 times"):
        ran(Endless(), ROWS[:1])


def test_sums_that_could_be_too_large() -> None:
    class Sums(Calls):
        combine_timers: ClassVar = {"value": "sum"}

    with pytest.raises(StepError, match="may need more than 64 bits"):
        ran(Sums(lambda batch, context: context.set_timers(100, value=1 << 62)), ROWS)


# Ids


def bundle(place: Keyed, copy: MemoryStateStore, ids: list[bytes]) -> tuple[Commit, list[object]]:
    """The commit of records of these ids, and what came out."""
    out: list[object] = []
    found = Bundle(watermark_before=MIN_TIMESTAMP, watermark=0)
    [interval] = IntervalMap.evenly(1)
    gather = PartitionBuffer(place, "in", lambda _: None, lambda *_: None)
    gather.add(Batch([("a" if i[0] % 2 else "b", i[0]) for i in ids], [i[0] for i in ids], ids))
    found.blocks = list(gather.take_blocks(IntervalMap.evenly(1), KeyHashCache()).values())
    assert interval.number == 0
    commit = Worker(place, copy, lambda _, batch: out.extend(batch.values), {"in": 5}).run(found)
    copy.apply(commit.delta)
    return commit, sorted(out)


def test_records_go_before_timers_fire() -> None:
    """What fires at the end of the input needs the room."""
    seen: list[int] = []

    class Watching(Calls):
        def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
            seen.append(len(found.blocks))

    computation = Watching(lambda batch, context: context.set_timers(batch.timestamps, value=1))
    place, found = Keyed("step", computation, {"in": key_of}, frozenset(["out"])), Bundle(watermark=100)
    gather = PartitionBuffer(place, "in", lambda _: None, lambda *_: None)
    gather.add(Batch([("a", 1), ("b", 2)], [1, 2]))
    found.blocks = list(gather.take_blocks(IntervalMap.evenly(1), KeyHashCache()).values())
    assert found.blocks
    Worker(place, MemoryStateStore(), lambda *_: None).run(found)
    assert seen == [0]


def test_records_that_come_again() -> None:
    computation = Calls(lambda batch, context: context.produce_columns("out", batch[1]))
    place, copy = Keyed("step", computation, {"in": key_of}, frozenset(["out"])), MemoryStateStore()
    assert bundle(place, copy, [b"\1", b"\2"])[1] == [1, 2]
    commit, out = bundle(place, copy, [b"\2", b"\3", b"\5", b"\3", b"\4"])
    assert out == [3, 4, 5]
    assert (commit.counters["duplicates"], commit.counters["records"]) == (2, 3)
    assert bundle(place, copy, [b"\3"])[1] == []


def test_the_end_of_time() -> None:
    out = ran(Calls(lambda batch, context: context.set_timers(MAX_TIMESTAMP, value=batch[1])), ROWS)
    assert sorted(value for (*_, value), _ in out) == [1, 2, 3]
