"""What cannot be sent or kept is refused: code before anything runs, by variable; values by step, key and value."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as beam
from headrace.coders import PickleCoder, VarIntCoder
from headrace.lowlevel import (
    BoundedInjector,
    CallSink,
    Computation,
    Context,
    ManualInjector,
    Record,
    StepError,
    Topology,
)
from headrace.lowlevel.code_pickling import ShippingError
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from headrace.testing.test_stream import TestStream
from headrace.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
)
from headrace.utils.timestamp import Timestamp
from tests.faults.tally import Tally

pytestmark = pytest.mark.faults

GLOBAL = threading.local()
THINGS: dict[str, Callable[[], object]] = {
    "thread-local data": threading.local,
    "a thread": lambda: threading.Thread(target=print),
    "a file to write to": lambda: open("/dev/null", "w"),  # noqa: SIM115 - it is to be open when it is pickled
    "a socket": socket.socket,
    "a generator": lambda: (number for number in range(3)),
    "a database": lambda: sqlite3.connect(":memory:"),
    "the last of 30,000": lambda: [*range(30_000), threading.local()],
    "deep inside": lambda: {"a": [1, (2, {"b": threading.local()})]},
}


class Nowhere:
    """A runner that must not be asked, and a session."""

    def run_topology(self, topology: Topology, options: RunOptions | None = None) -> RunResult:
        raise AssertionError("something was to run")

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the session's {name} was asked for")


class Ignore(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        return


class Holder(beam.DoFn):
    def __init__(self, thing: object) -> None:
        self.thing = thing

    def process(self, element: object) -> Iterator[object]:
        yield element


class Sum(beam.CombineFn):
    """Sums, with something that does not travel."""

    def __init__(self, thing: object) -> None:
        self.thing = thing

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: list[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class Keep(Computation):
    """Keeps the state, and sends the value, that it is told to make."""

    def __init__(self, state: Callable[[], object], value: Callable[[], object], thing: object = None) -> None:
        self.state, self.value, self.thing = state, value, thing

    def process_record(self, record: Record, context: Context) -> None:
        context.state = self.state()
        context.produce("out", self.value())


def default(thing: object) -> Callable[[object], object]:
    def keep(element: object, held: object = thing) -> object:
        return element

    return keep


USES: dict[str, tuple[Callable[[object], beam.PTransform], str]] = {
    "a closure": (lambda thing: beam.Map(lambda pair: (pair, thing)), "the variable 'thing' of "),
    "a filter": (lambda thing: beam.Filter(lambda pair: thing is None), "the variable 'thing' of "),
    "a default argument": (lambda thing: beam.Map(default(thing)), "a default argument of default.<locals>.keep"),
    "a global": (lambda thing: beam.Map(lambda pair: GLOBAL), "the global variable 'GLOBAL' of "),
    "an attribute": (lambda thing: beam.ParDo(Holder(thing)), "the attribute 'thing' "),
    "an argument": (lambda thing: beam.Map(lambda pair, more: pair, thing), "'step it' cannot be sent"),
    "a combiner": (lambda thing: beam.CombinePerKey(Sum(thing)), "the attribute 'thing' "),
    "a key function": (lambda thing: beam.GroupBy(lambda pair: (pair, thing)), "the variable 'thing' of "),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", THINGS)
def test_code_is_refused_while_the_pipeline_is_built(use: str, kind: str, tally: Callable[[int], Tally]) -> None:
    run = tally(16)
    run.plan()
    make, variable = USES[use]
    thing = THINGS[kind]()
    pipeline = beam.Pipeline(Nowhere())
    pairs = pipeline | beam.Create([("a", 1)])
    with pytest.raises(ShippingError, match=r"^step 'step it.*cannot be sent to the workers: ") as caught:
        pairs | "step it" >> make(thing)
        pipeline.topology()
    run.fire()
    assert variable in str(caught.value)
    assert str(caught.value).endswith("make it in DoFn.setup(), or pass what it is made of")
    if use == "a closure" and kind == "the last of 30,000":
        assert "the item 30000 of the variable 'thing' of " in str(caught.value)
    if hasattr(thing, "close"):
        thing.close()


@pytest.mark.parametrize("use", USES)
def test_what_can_be_sent_is_not_refused(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "GLOBAL", "plain")
    pipeline = beam.Pipeline(Nowhere())
    pipeline | beam.Create([("a", 1)]) | "step it" >> USES[use][0]({"a": [1, (2, None)]})
    assert pipeline.topology().injectors


def keeping(state: Callable[[], object], value: Callable[[], object], thing: object = None) -> Topology:
    topology = Topology()
    topology.injector("in", BoundedInjector([("key", 1)]))
    topology.computation("keep it", Keep(state, value, thing), {"in": lambda value: value}, ["out"])
    topology.computation("next", Ignore(), {"out": lambda value: "next"})
    return topology


def test_a_topology_is_refused_before_there_is_spark_or_a_checkpoint(
    tmp_path: Path, tally: Callable[[int], Tally]
) -> None:
    """A program that cannot run must not replace one that does."""
    run = tally(16)
    local = threading.local()
    made: list[tuple[Topology, str]] = [
        (keeping(int, int, local), "step 'keep it' .* the attribute 'thing' "),
        (keeping(lambda: local, int), "step 'keep it' .* the variable 'local' of "),
    ]
    by_key = keeping(int, int)
    by_key.computation("by key", Ignore(), {"out": lambda value: local})
    made.append((by_key, "step 'by key' .* the variable 'local' of "))
    for topology, says in made:
        run.plan()
        runner = SparkRunner(Nowhere())
        with pytest.raises(ShippingError, match=says):
            runner.run_topology(topology, RunOptions(str(tmp_path / "checkpoint")))
        assert not (tmp_path / "checkpoint").exists()
        run.fire()


@pytest.mark.spark
def test_a_spark_session_in_a_closure(spark: SparkSession, tally: Callable[[int], Tally]) -> None:
    run = tally(16)
    run.plan()
    before = len(spark.sparkContext.statusTracker().getJobIdsForGroup())
    pipeline = beam.Pipeline(SparkRunner(spark))
    with pytest.raises(ShippingError, match=r"step 'step it' .* the variable 'spark' of "):
        pipeline | beam.Create([1]) | "step it" >> beam.Map(lambda number: spark.range(number).count())
        pipeline.run()
    run.fire()
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup()) == before


def nothing() -> None:
    return None


UNSTORABLE = r"(?s)^step 'keep it' raised for key 'key' at <unlocked _thread.lock.*nothing of this epoch is committed"


def test_a_state_that_cannot_be_stored(run: Callable[[Topology], RunResult], tally: Callable[[int], Tally]) -> None:
    counts = tally(16)
    counts.plan(2)
    with pytest.raises(StepError, match=UNSTORABLE + ".*this is its state, which cannot be stored .*state_coder"):
        run(keeping(threading.Lock, nothing))
    counts.fire()
    with pytest.raises(
        StepError, match=r"(?s)^step 'next' raised for key 'next' at <unlocked.*on stream 'out' and cannot"
    ):
        run(keeping(nothing, threading.Lock))
    counts.fire()
    assert run(keeping(nothing, nothing)).counters["next"]["records"] == 1


def test_a_value_that_cannot_leave(tally: Callable[[int], Tally]) -> None:
    counts = tally(16)
    counts.plan()
    topology, delivered = keeping(nothing, threading.Lock), []
    del topology.keyed["next"]
    topology.sink("way out", "out", CallSink(lambda _, rows: delivered.extend(rows)))
    says = r"(?s)^step 'way out' raised; .*<unlocked _thread.lock .* cannot be sent to the driver \(TypeError: cannot"
    with pytest.raises(StepError, match=says):
        LocalRunner().run_topology(topology)
    counts.fire()
    assert not delivered


def test_what_cannot_be_read_by_a_task(run: Callable[[Topology], RunResult], tally: Callable[[int], Tally]) -> None:
    counts = tally(16)
    counts.plan()
    topology = Topology()
    topology.injector("locks", ManualInjector().records((threading.Lock(), 1)))
    topology.computation("next", Ignore(), {"locks": lambda value: "next"})
    with pytest.raises(
        StepError, match=r"(?s)^step 'locks' raised at .*cannot be sent there \(TypeError: cannot pickle"
    ):
        run(topology)
    counts.fire()


class Locks(Sum):
    def create_accumulator(self) -> object:
        return threading.Lock()

    def add_input(self, accumulator: object, element: object) -> object:
        return accumulator


LOCK = threading.Lock
STATES = {
    "value": (ReadModifyWriteStateSpec("kept", PickleCoder()), lambda state: state.write(LOCK())),
    "whole number": (ReadModifyWriteStateSpec("kept", VarIntCoder()), lambda state: state.write("no number")),
    "bag": (BagStateSpec("kept", PickleCoder()), lambda state: state.add(LOCK())),
    "set": (SetStateSpec("kept", PickleCoder()), lambda state: state.add(LOCK())),
    "combined": (CombiningValueStateSpec("kept", PickleCoder(), Locks(None)), lambda state: state.add(1)),
    "ordered list": (OrderedListStateSpec("kept", PickleCoder()), lambda state: state.add((Timestamp(1), LOCK()))),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_state_of_a_do_fn_that_cannot_be_stored(kind: str, tally: Callable[[int], Tally]) -> None:
    run = tally(16)
    run.plan()
    spec, _ = STATES[kind]

    class Keeps(beam.DoFn):
        SPEC = spec

        def process(self, element: object, state: object = beam.DoFn.StateParam(SPEC)) -> None:
            # Looked up by name: what it makes does not travel with the function.
            act(kind, state)

    delivered: list[object] = []
    pipeline = beam.Pipeline(LocalRunner())
    rows = pipeline | TestStream().add_elements([("key", 1)]).advance_watermark_to(10).add_elements([("key", 2)])
    rows | beam.io.Write(CallSink(lambda _, its: delivered.extend(its)))
    rows | "keep it" >> beam.ParDo(Keeps())
    message = r"(?s)^step 'keep it' raised for key 'key'.*state 'kept' cannot keep .*Coder says \w+: .*a coder for such"
    with pytest.raises(StepError, match=message):
        pipeline.run()
    run.fire()
    assert not delivered


def act(kind: str, state: object) -> None:
    STATES[kind][1](state)
