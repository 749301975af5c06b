"""Intervals are split, merged and moved while a topology runs, and crashes come on top: nothing shows (paper §7.1)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from headrace.lowlevel import (
    BaseInjector,
    Batch,
    BoundedInjector,
    CallSink,
    Computation,
    Context,
    Delivery,
    MemorySplit,
    Record,
    Topology,
)
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.intervals.balancer import BalancePolicy, Load, LoadBalancer, Loads
from headrace.lowlevel.intervals.interval_map import SPACE, IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import Crash, LocalRunner
from tests.depth import examples
from tests.schedulers import RandomScheduler
from tests.unit.runners.local.test_local_runner import Highest, PerMinute

pytestmark = pytest.mark.faults

ROWS = [(i % 23, (i * 37) % 400, i) for i in range(120)]


class Redelivering(BaseInjector):
    """Gives every record twice, in this bundle and again in the next."""

    max_delay = 100
    record_ids = True

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        assert isinstance(position, int)
        end = min(position + 12, len(ROWS))
        rows = ROWS[max(0, position - 12) : end]
        keys, timestamps, numbers = zip(*rows, strict=True)
        batch = Batch(list(zip(keys, numbers, strict=True)), timestamps, [b"%d" % number for number in numbers])
        return Delivery([MemorySplit(batch)], end, done=end == len(ROWS))


class InOrder(Computation):
    """Sends each number with the one before it of its key, and some of them round a circle first."""

    def process_record(self, record: Record, context: Context) -> None:
        key, number = record.value
        if number % 4 == 0 and number >= 0:
            context.produce("round", (key, ~number))
        context.produce("ordered", (key, number, context.state))
        context.state = number


class RandomBalancer:
    """Changes something at random between any two epochs."""

    def __init__(self, seed: int, tasks: int) -> None:
        self._random, self._tasks = Random(seed), tasks
        self.changes: list[str] = []

    def sampled(self, level: int) -> frozenset[int]:
        return frozenset([0])

    def balanced(self, level: int, intervals: IntervalMap, loads: Loads, tasks: int, now: Sequencer) -> IntervalMap:
        random = self._random
        kind, one = random.choice(["split", "merge", "move", "stay"]), random.choice(intervals.intervals)
        if kind == "split":
            self.changes.append(kind)
            return intervals.split(one.number, random.randrange(one.start + 1, one.stop), random.randrange(tasks), now)
        if kind == "merge" and one.stop < SPACE:
            self.changes.append(kind)
            return intervals.merge(one.number, random.randrange(tasks), now)
        if kind == "move" and tasks > 1:
            self.changes.append(kind)
            return intervals.move(one.number, (one.owner + 1) % tasks, now)
        return intervals


class Outside:
    """What the sinks get: a repeated delivery of an epoch must be the same."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], list[object]] = {}

    def take(self, sink: str) -> CallSink:
        def deliver(epoch: int, rows: Iterable[object]) -> None:
            rows = sorted(rows, key=repr)
            assert self.rows.setdefault((sink, epoch), rows) == rows, "a repeated delivery differs"

        return CallSink(deliver)

    def values(self) -> list[tuple[str, object]]:
        return sorted(((sink, row) for (sink, _), rows in self.rows.items() for row in rows), key=repr)


def topology(outside: Outside) -> Topology:
    made = Topology()
    made.injector("in", Redelivering())
    made.computation("minutes", PerMinute(), {"in": lambda value: value}, ["minutes"])
    made.computation("highest", Highest(), {"minutes": lambda value: value[0][0] % 7}, ["highest"])
    # Its own output comes back to it with the next epoch, when the intervals may be others.
    made.computation(
        "in order", InOrder(), {"in": lambda value: value[0], "round": lambda value: value[0]}, ["ordered", "round"]
    )
    for stream in ("minutes", "highest", "ordered"):
        made.sink(stream, stream, outside.take(stream))
    return made


def life(
    outside: Outside, place: Path | None, tasks: int, scheduler: RandomScheduler, balancer: object = None
) -> RunResult | None:
    options = RunOptions(place and str(place), balancer=balancer and (lambda: balancer))
    try:
        return LocalRunner(scheduler=scheduler, intervals=tasks, parallelism=2).run_topology(topology(outside), options)
    except Crash:
        return None


@pytest.fixture(scope="module")
def expected() -> tuple[list[tuple[str, object]], RunResult]:
    outside = Outside()
    result = life(outside, None, 1, RandomScheduler(0))
    assert result is not None
    return outside.values(), result


def check(outside: Outside, result: RunResult | None, expected: tuple[list[tuple[str, object]], RunResult]) -> None:
    assert result is not None
    assert outside.values() == expected[0]
    counted = {step: {name: n for name, n in of.items() if name != "ids_asked"} for step, of in result.counters.items()}
    assert counted == {
        step: {name: n for name, n in of.items() if name != "ids_asked"} for step, of in expected[1].counters.items()
    }
    by_key: dict[object, list[tuple[object, object]]] = {}
    for sink, epoch in sorted(outside.rows):
        if sink == "ordered":
            for (key, number, before), _ in outside.rows[sink, epoch]:
                by_key.setdefault(key, []).append((number, before))
    for of_key in by_key.values():
        # Each key's records form one chain, whoever worked on it: serial work, in order.
        links = dict((before, number) for number, before in of_key)
        chain = [None]
        while chain[-1] in links:
            chain.append(links.pop(chain[-1]))
        assert not links and len(chain) == len(of_key) + 1
        fresh = [number for number in chain[1:] if number >= 0]
        assert all(one < other for one, other in pairwise(fresh))


@pytest.mark.parametrize("durable", [False, True])
def test_intervals_that_change_all_the_time(tmp_path, expected, durable):
    kinds = set()
    for seed in range(examples(12, 500)):
        outside, balancer = Outside(), RandomBalancer(seed, 3)
        place = tmp_path / str(seed) if durable else None
        result = life(outside, place, 1 + seed % 3, RandomScheduler(seed), balancer)
        check(outside, result, expected)
        kinds |= set(balancer.changes)
    assert kinds >= {"split", "merge", "move"}, "the changes did not happen"


def test_crashes_and_another_number_of_intervals_in_every_life(tmp_path, expected):
    crashed = 0
    for seed in range(examples(25, 1000)):
        random, outside, result = Random(seed), Outside(), None
        for number in range(20):
            crash_at = random.randrange(1, 60) if number < 4 else None
            scheduler = RandomScheduler(seed * 100 + number, crash_at)
            result = life(outside, tmp_path / str(seed), random.randrange(1, 5), scheduler, RandomBalancer(seed, 4))
            if result is not None:
                break
            crashed += 1
        check(outside, result, expected)
    assert crashed > examples(25, 1000), "the faults did not fire"


def test_the_balancer_of_the_product_follows_skew():
    """All keys lie in one task's half of the key space: it has everything to do, until the balancer sees it."""
    half = IntervalMap.evenly(2).intervals[0]
    keys = [key for key in range(60) if IntervalMap.evenly(2).of(key_hash_of(encode_key(key))) == half]
    rows = [((keys[i % len(keys)], i), i) for i in range(600)]
    busiest: list[float] = []

    class Watched(LoadBalancer):
        def balanced(self, level, intervals, loads, tasks, now):
            spent = [sum(loads.get(one.number, Load()).records for one in intervals.owned(task)) for task in range(2)]
            busiest.append(max(spent) / sum(spent))
            return super().balanced(level, intervals, loads, tasks, now)

    found = []
    for balancer in (None, lambda: Watched(BalancePolicy("records", least=4, patience=2, rest=2))):
        made, ordered = Topology(), []
        made.injector("in", BoundedInjector(rows))
        made.computation("in order", InOrder(), {"in": lambda value: value[0]}, ["ordered", "round"])
        made.sink("ordered", "ordered", CallSink(lambda epoch, more, ordered=ordered: ordered.extend(more)))
        LocalRunner(intervals=2).run_topology(made, RunOptions(max_records_per_epoch=30, balancer=balancer))
        found.append(ordered)
    assert sorted(found[0], key=repr) == sorted(found[1], key=repr)
    assert busiest[0] == 1.0, "there was no skew"
    assert busiest[-1] < 0.65, "the skew was not followed"
