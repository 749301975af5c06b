"""Kept state changes nothing: random programs, several processes in turn, attempts given up, restarts, tiny caches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lowlevel import Computation, StepError
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.state_cache import SMALLEST, StateCache
from headrace.lowlevel.processing.worker import Commit, Worker
from headrace.lowlevel.records.record import Batch, KeyRecords, Record
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import Context
from headrace.lowlevel.topology.nodes import Keyed
from headrace.lowlevel.topology.timer import TimeDomain, Timer

KEYS = "abcd"
PROCESSES = 3
LARGE = "x" * SMALLEST
HITS: list[int] = []
"""Of every example."""


class Program(Computation):
    """Does to its state what its records say."""

    private_state = True

    def initial_state(self) -> object:
        return {"log": [], "pad": LARGE}

    def process_record(self, record: Record, context: Context) -> None:
        what, number = cast("tuple[str, int]", record.value)
        state = cast("dict[str, object]", context.state)
        match what:
            case "append":
                cast("list[int]", state["log"]).append(number)
            case "replace":
                context.state = {"log": [number], "pad": LARGE + str(number)}
            case "small":
                context.state = {"log": [number]}
            case "remove":
                context.state = None
            case "timer":
                context.set_timer(str(number % 3), number * 10)
            case "clock":
                context.set_timer("clock", number, TimeDomain.WALL_TIME)
            case "delete":
                context.delete_timer(str(number % 3))
            case "fail":
                cast("list[int]", state["log"]).append(-1)
                raise ValueError("as told")
            case _:
                context.produce("out", (context.key, repr(state)))
        if context.state is None and what != "remove":
            context.state = self.initial_state()

    def process_timer(self, timer: Timer, context: Context) -> None:
        state = cast("dict[str, object] | None", context.state) or cast("dict[str, object]", self.initial_state())
        # A number: whether equal strings are one object shows in a pickle, and decoding may make them one.
        cast("list[int]", state["log"]).append(len(timer.tag))
        context.produce("out", (context.key, timer.tag, repr(state)))
        context.state = state


@dataclass(frozen=True)
class Step:
    """A bundle, or before it a restart of the process that runs it."""

    records: list[tuple[str, str, int]]
    process: int
    advance: int
    committed: bool
    restarts: bool


ORDERS = (
    "append",
    "append",
    "append",
    "replace",
    "small",
    "remove",
    "timer",
    "timer",
    "clock",
    "delete",
    "look",
    "fail",
)
RECORDS = st.tuples(st.sampled_from(KEYS), st.sampled_from(ORDERS), st.integers(0, 20))
STEPS = st.builds(
    Step,
    st.lists(RECORDS, max_size=6),
    st.integers(0, PROCESSES - 1),
    st.integers(0, 30),
    st.integers(0, 3).map(bool),
    st.integers(0, 9).map(lambda dice: dice == 0),
)


@dataclass
class Interval:
    """One key interval's committed state, and what bundles on it put out."""

    store: MemoryStateStore = field(default_factory=MemoryStateStore)
    out: list[object] = field(default_factory=list)

    def run(self, bundle: Bundle, cache: StateCache | None) -> Commit | str:
        """The commit, or what failed."""

        def emit(stream: str, batch: Batch) -> None:
            self.out += batch.rows()

        place = Keyed("step", Program(), {"in": str}, frozenset({"out"}))
        try:
            return Worker(place, self.store, emit, states=cache).run(bundle)
        except StepError as error:
            return str(error)


def bundle_of(step: Step, watermark: int) -> Bundle:
    bundle = Bundle(watermark_before=watermark, watermark=max(watermark, 0) + step.advance, wall_time=step.advance)
    for key, what, number in step.records:
        encoded = encode_key(key)
        parts = bundle.keys.setdefault(key_hash_of(encoded), (encoded, []))[1]
        parts.append(KeyRecords("in", [(what, number)], [number]))
    return bundle


def test_bundles_commit_and_produce_the_same_with_and_without() -> None:
    HITS.clear()
    compare()
    assert any(HITS) or len(HITS) < 30, "state was never kept"


@settings(deadline=None)
@given(st.lists(STEPS, min_size=4, max_size=25), st.sampled_from([20_000, 50_000, 5_000_000]))
def compare(steps: list[Step], limit: int) -> None:
    caches = [StateCache(limit) for _ in range(PROCESSES)]
    kept, plain = Interval(), Interval()
    watermark = MIN_TIMESTAMP
    for step in steps:
        if step.restarts:
            caches[step.process] = StateCache(limit)
        cache = caches[step.process]
        mine, expected = (
            interval.run(bundle_of(step, watermark), its) for interval, its in ((kept, cache), (plain, None))
        )
        assert mine == expected
        assert kept.out == plain.out
        check(cache, limit)
        if step.committed and not isinstance(mine, str) and not isinstance(expected, str):
            kept.store.apply(mine.delta)
            plain.store.apply(expected.delta)
            watermark = max(watermark, 0) + step.advance
    HITS.append(sum(cache.hits for cache in caches))


def check(cache: StateCache, limit: int) -> None:
    """What the cache says of itself."""
    held = [entry for states in cache._computations.values() for entry in states.entries.values()]
    assert cache.used == sum(entry.size for entry in held) <= limit
    assert len(cache) == len(held)
    noted = {(-due, -number) for due, number, _, _ in cache._order}
    assert {(entry.due, entry.number) for entry in held} <= noted, "what cannot be found cannot give way"
