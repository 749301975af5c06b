"""Values that stay decoded change nothing, whatever user code does to the objects that it has read or written.

Random programs read, replace and leave state, and change every object that they have ever had in hand. With and without
a cache they must put out and commit the same: with several processes in turn, attempts that are given up, failures,
restarts, and on the local runner with crashes and other key intervals in each life.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import FrozenInstanceError, dataclass, field
from typing import NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import CallSink, Computation, StepError
from headrace.lowlevel.class_lookup import loads
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.coders.decoded_values import DecodedValues
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.state_cache import StateCache
from headrace.lowlevel.processing.worker import Commit, Worker
from headrace.lowlevel.records.record import Batch, KeyRecords, Record
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import Context
from headrace.lowlevel.topology.nodes import Keyed
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.transforms.userstate import (
    CombiningValueState,
    CombiningValueStateSpec,
    ReadModifyWriteState,
    ReadModifyWriteStateSpec,
)
from tests.depth import examples
from tests.schedulers import RandomScheduler

KEYS = "abc"
PROCESSES = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: object
    pad: str = "p"


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int
    y: object


class Named(NamedTuple):
    x: int
    y: object


@dataclass
class Box:
    items: list[object]


SHAPES = {
    "numbers": lambda n: tuple(range(n, n + 60)),
    "text": lambda n: f"{n}" * 150,
    "short": lambda n: (n, "a"),
    "frozen": lambda n: Point(n, ("a", 2.5)),
    "slotted": lambda n: Slotted(n, Point(n, None)),
    "named": lambda n: Named(n, Slotted(n, b"b")),
    "frozen with a list": lambda n: Point(n, [n]),
    "slotted with a box": lambda n: Slotted(n, (n, Box([n]))),
    "named with a dict": lambda n: Named(n, {"n": [n]}),
    "tuple with a set": lambda n: (*range(n, n + 40), {n}),
    "list": lambda n: list(range(n, n + 40)),
    "list of points": lambda n: [Point(n, n), Point(n, [n])],
    "box": lambda n: Box([n, Point(n, n)]),
}
"""Name -> a function that makes a value; some cannot be changed, some can in a part, some as a whole."""


def meddle(value: object) -> None:
    """Change whatever of a value can be changed."""
    match value:
        case list():
            for item in value:
                meddle(item)
            value.append(-1)
        case dict():
            for item in value.values():
                meddle(item)
            value["meddled"] = -1
        case set():
            value.add(-1)
        case Box():
            meddle(value.items)
            value.extra = -1  # type: ignore[attr-defined]  # none of its fields
        case Point() | Slotted():
            for name in ("x", "extra"):
                # Python 3.11's own class with slots raises a TypeError for a name that is no field.
                with suppress(FrozenInstanceError, TypeError):
                    setattr(value, name, -1)
            meddle(value.y)
        case tuple():
            for item in value:
                meddle(item)


ORDERS = (*["look"] * 20, *["write"] * 4, "write the same", "add", "meddle", "meddle", "remove", "fail")
ORDER = st.tuples(st.sampled_from(ORDERS), st.sampled_from(sorted(SHAPES)), st.integers(0, 3))
RECORDS = st.lists(st.tuples(st.sampled_from(KEYS), ORDER), min_size=1, max_size=4)
Order = tuple[str, str, int]


class Program(Computation):
    """Does to its state what its records say; has every object in hand that it has had once."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def process_record(self, record: Record, context: Context) -> None:
        what, shape, number = cast(Order, record.value)
        match what:
            case "write":
                context.state = SHAPES[shape](number)
            case "write the same":
                context.state = context.state  # it is written, too
            case "add" if isinstance(context.state, tuple) and not isinstance(context.state, Named):
                context.state = (*context.state, number)
            case "meddle":
                for value in self.seen:
                    meddle(value)
            case "remove":
                context.state = None
            case "fail":
                meddle(context.state)
                raise ValueError("as told")
        self.seen.append(context.state)
        context.produce("out", (context.key, repr(context.state)))


@dataclass(frozen=True)
class Step:
    """A bundle, or before it a restart of the process that runs it."""

    records: list[tuple[str, Order]]
    process: int
    committed: bool
    restarts: bool


STEPS = st.builds(
    Step,
    RECORDS,
    st.integers(0, PROCESSES - 1),
    st.integers(0, 5).map(lambda dice: dice < 5),
    st.integers(0, 19).map(lambda dice: dice == 19),
)


@dataclass
class Side:
    """The run with caches of one size."""

    limit: int
    store: MemoryStateStore = field(default_factory=MemoryStateStore)
    out: list[object] = field(default_factory=list)
    processes: dict[int, tuple[Keyed, StateCache]] = field(default_factory=dict)

    def run(self, step: Step, number: int) -> Commit | str:
        """The commit, or what failed."""
        if step.restarts or step.process not in self.processes:
            node = Keyed("step", Program(), {"in": str}, frozenset({"out"}))
            self.processes[step.process] = (node, StateCache(self.limit))
        node, cache = self.processes[step.process]

        def emit(stream: str, batch: Batch) -> None:
            self.out += batch.values

        bundle = Bundle(watermark_before=number or MIN_TIMESTAMP, watermark=number + 1)
        for key, order in step.records:
            encoded = encode_key(key)
            parts = bundle.keys.setdefault(key_hash_of(encoded), (encoded, []))[1]
            parts.append(KeyRecords("in", [order], [number]))
        try:
            commit = Worker(node, self.store, emit, states=cache).run(bundle)
        except StepError as error:
            return str(error)
        values = cache.values
        assert values.used <= values.limit
        assert values.used == sum(10 * len(data) + 200 for data in (*values._young, *values._old))
        if step.committed:
            self.store.apply(commit.delta)
        return commit


HITS: list[int] = []
"""Of every example."""


def test_programs_put_out_and_commit_the_same_with_and_without() -> None:
    HITS.clear()
    compare()
    assert any(HITS) or len(HITS) < 30, "no value was found decoded"


@settings(deadline=None, max_examples=examples(150, 3000))
@given(st.lists(STEPS, min_size=15, max_size=40), st.sampled_from([3_000, 10_000, 5_000_000]))
def compare(steps: list[Step], limit: int) -> None:
    kept, plain = Side(limit), Side(0)
    for number, step in enumerate(steps):
        mine, expected = kept.run(step, number), plain.run(step, number)
        assert told(mine) == told(expected)
        assert kept.out == plain.out
        assert stored(kept.store) == stored(plain.store)
    HITS.append(sum(cache.values.hits for _, cache in kept.processes.values()))


def told(commit: Commit | str) -> object:
    """What a commit has besides cells."""
    return commit if isinstance(commit, str) else (commit.delta.keys, commit.delta.marks, commit.counters)


def stored(store: MemoryStateStore) -> dict[bytes, str]:
    """Hash of each key -> its state: equal texts may be one object on one side only, so the bytes may differ."""
    cells = {key_hash: data for delta in store.dump() for (key_hash, _), data in delta.cells.items()}
    return {key_hash: repr(loads(data)) for key_hash, data in cells.items() if data is not None}


# On the local runner


@dataclass(frozen=True)
class Tally:
    count: int
    total: int
    note: object = None


class Tallies(beam.CombineFn):
    def create_accumulator(self) -> Tally:
        return Tally(0, 0, "none so far")

    def add_input(self, accumulator: Tally, element: int) -> Tally:
        # Every third is one that can be changed.
        note = [element] if element % 3 == 0 else "no"
        return Tally(accumulator.count + 1, accumulator.total + element, note)

    def merge_accumulators(self, accumulators: list[Tally]) -> Tally:
        return Tally(sum(each.count for each in accumulators), sum(each.total for each in accumulators))

    def extract_output(self, accumulator: Tally) -> Tally:
        return accumulator


SEEN: list[object] = []
"""Every object that the function has had in hand in this process."""


class Meddler(beam.DoFn):
    VALUE = ReadModifyWriteStateSpec("value")
    TALLY = CombiningValueStateSpec("tally", Tallies())

    def process(
        self,
        pair: tuple[str, Order],
        value: ReadModifyWriteState = beam.DoFn.StateParam(VALUE),
        tally: CombiningValueState = beam.DoFn.StateParam(TALLY),
    ) -> Iterator[str]:
        key, (what, shape, number) = pair
        match what:
            case "write":
                value.write(SHAPES[shape](number))
            case "write the same":
                value.write(value.read())
            case "add":
                tally.add(number)
            case "remove":
                value.clear()
            case "meddle" | "fail":
                for each in SEEN:
                    meddle(each)
        SEEN.extend([value.read(), tally.read()])
        yield f"{key} {value.read()} {tally.read()}"


class Recorded(StateCache):
    values_made: list[DecodedValues]

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.values_made.append(self.values)


Life = tuple[int, int]
"""The step at which the driver crashes, and the number of key intervals."""


def lives(records: list[tuple[str, Order]], folder: str, seed: int, crashes: list[Life], cache_mb: int) -> object:
    """What each life delivers, epoch by epoch."""
    SEEN.clear()
    delivered: list[dict[int, list[object]]] = []
    for number, (crash_at, intervals) in enumerate([*crashes, (0, 2)]):
        rows: dict[int, list[object]] = {}
        delivered.append(rows)
        scheduler = RandomScheduler(seed + number, crash_at or None)
        options = PipelineOptions([], checkpoint=folder, cache_mb=cache_mb, max_records_per_epoch=8)
        with suppress(Crash):
            runner = LocalRunner(scheduler=scheduler, parallelism=2, intervals=intervals)
            with beam.Pipeline(runner, options=options) as pipeline:
                out = pipeline | beam.Create(records) | "meddle" >> beam.ParDo(Meddler())
                sink = CallSink(lambda epoch, them: rows.setdefault(epoch, []).extend(them))  # noqa: B023  # of this life
                out | "told" >> beam.io.Write(sink)
    return delivered


def test_crashes_and_moved_intervals_show_nothing_either(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    Recorded.values_made = []
    monkeypatch.setattr("headrace.runners.local.executor.StateCache", Recorded)

    @settings(deadline=None, max_examples=examples(6, 300))
    @given(
        st.lists(st.tuples(st.sampled_from(KEYS), ORDER), min_size=50, max_size=80),
        st.integers(0, 2**32),
        st.lists(st.tuples(st.integers(1, 150), st.integers(1, 3)), max_size=2),
    )
    def compare_lives(records: list[tuple[str, Order]], seed: int, crashes: list[Life]) -> None:
        folder = tmp_path_factory.mktemp("lives")
        with_cache, without = (
            lives(records, str(folder / f"{size}"), seed, crashes, cache_mb=size) for size in (64, 0)
        )
        assert with_cache == without

    compare_lives()
    assert any(values.hits for values in Recorded.values_made), "no value was found decoded"
