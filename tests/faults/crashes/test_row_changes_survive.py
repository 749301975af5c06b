"""Random histories of two tables as changes: what follows from them equals a recomputation from the final tables.

A crash at any step, and going on, changes nothing of it.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import cast

import pytest

import headrace as beam
from headrace import RowChange, RowOperation
from headrace.lowlevel import Topology
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.window import FixedWindows, GlobalWindows, Sessions, TimestampedValue
from tests.depth import faults
from tests.faults.crashes.test_crash_at_every_step import Outside
from tests.schedulers import RandomScheduler

pytestmark = pytest.mark.faults

Table = dict[int, dict[str, object]]
GAP, WIDTH = 7, 10


def history(rng: random.Random, length: int, truncates: bool = True) -> tuple[list[RowChange], Table]:
    """Changes of a table of orders, some told twice, some with a part of the row before; and the table they make."""
    table: Table = {}
    log: list[RowChange] = []
    for number in range(length):
        key, what = rng.randrange(6), rng.random()
        old = table.get(key)
        before = rng.choice([None, old, {"id": key}])
        if truncates and what < 0.04:
            log.append(RowChange(RowOperation.TRUNCATE, sequence=number))
            table.clear()
        elif what < 0.15 and log:
            log.append(log[-1])
        elif what < 0.35:
            log.append(RowChange(RowOperation.DELETE, {"id": key}, None, number))
            table.pop(key, None)
        else:
            key = key if old is None or what < 0.9 else 6 + key
            row = {"id": key, "region": rng.choice("nsw"), "at": rng.randrange(60), "amount": rng.randrange(9)}
            operation = rng.choice([RowOperation.INSERT, RowOperation.UPDATE, RowOperation.READ])
            if old is not None and old["id"] != key:
                before = old
                del table[cast_int(old["id"])]
            log.append(RowChange(operation, before, row, number))
            table[key] = row
    return log, table


def cast_int(value: object) -> int:
    assert isinstance(value, int)
    return value


def results(outside: Outside, orders: list[RowChange], managers: list[RowChange], key: str | None = "id") -> Topology:
    """Amounts by region and window, by region and session, and orders joined with managers of their region."""
    pipeline = beam.Pipeline("LocalRunner")
    eager = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
    retracting = AccumulationMode.ACCUMULATING_AND_RETRACTING

    def told(label: str, changes: list[RowChange]) -> beam.PCollection:
        stamped = pipeline | f"{label} changes" >> beam.Create([TimestampedValue(each, 0) for each in changes])
        return stamped | f"{label} rows" >> beam.FromRowChanges(key=key, timestamp="at")

    rows, others = told("Orders", orders), told("Managers", managers)
    for name, window_fn in (("fixed", FixedWindows(WIDTH)), ("session", Sessions(GAP))):
        windowed = rows | f"{name} window" >> beam.WindowInto(window_fn, eager, retracting, allowed_lateness=10_000)
        pairs = windowed | f"{name} pair" >> beam.Map(lambda row: (row["region"], row["amount"]))
        sums = pairs | f"{name} sum" >> beam.CombinePerKey(sum)
        changes = sums | f"{name} changes" >> beam.ToChangelog()
        shown = changes | f"{name} show" >> beam.Map(
            lambda change, window=beam.DoFn.WindowParam: (
                str(change.kind),
                (*change.value, float(window.start), float(window.end)),
            )
        )
        _ = shown | f"{name} end" >> beam.io.Write(outside.take(name))
    sides = [
        side
        | f"{name} whole" >> beam.WindowInto(GlobalWindows(), eager, retracting)
        | f"{name} by region" >> beam.Map(lambda row: (row["region"], row["id"]))
        for name, side in (("orders", rows), ("managers", others))
    ]
    joined = tuple(sides) | "Join" >> beam.CoGroupByKey()
    shown = joined | "Joined" >> beam.FlatMapTuple(
        lambda region, both: [(region, order, manager) for order in both[0] for manager in both[1]]
    )
    log = shown | "join changes" >> beam.ToChangelog() | "join show" >> beam.Map(lambda c: (str(c.kind), c.value))
    _ = log | "join end" >> beam.io.Write(outside.take("join"))
    eagerly = beam.WindowInto(GlobalWindows(), eager, retracting)
    ids = beam.pvalue.AsList(others | "side window" >> eagerly | "side id" >> beam.Map(lambda row: row["id"]))
    looked = (
        rows | "look window" >> eagerly | "Look" >> beam.Map(lambda row, side: (row["id"], tuple(sorted(side))), ids)
    )
    log = looked | "look changes" >> beam.ToChangelog() | "look show" >> beam.Map(lambda c: (str(c.kind), c.value))
    _ = log | "look end" >> beam.io.Write(outside.take("look"))
    return pipeline.topology()


def recomputed(orders: Table, managers: Table) -> dict[str, Counter[object]]:
    """What `results` must come to, from the final tables."""
    fixed: dict[tuple[object, float, float], int] = defaultdict(int)
    sessions: Counter[object] = Counter()
    by_region: dict[object, list[tuple[int, int]]] = defaultdict(list)
    for row in orders.values():
        at, amount = cast_int(row["at"]), cast_int(row["amount"])
        start = float(at - at % WIDTH)
        fixed[row["region"], start, start + WIDTH] += amount
        by_region[row["region"]].append((at, amount))
    for region, found in by_region.items():
        first, end, total = min(found)[0], min(found)[0], 0
        for at, amount in sorted(found):
            if at >= end and end > first:
                sessions[region, total, float(first), float(end)] += 1
                first, total = at, 0
            end, total = at + GAP, total + amount
        sessions[region, total, float(first), float(end)] += 1
    join = Counter(
        (order["region"], order["id"], manager["id"])
        for order in orders.values()
        for manager in managers.values()
        if order["region"] == manager["region"]
    )
    sums = Counter((region, total, start, end) for (region, start, end), total in fixed.items())
    return {"fixed": sums, "session": sessions, "join": Counter(join), "look": Counter(list(orders))}


def standing(outside: Outside) -> dict[str, Counter[object]]:
    """What was put out and not taken back, of each result; of what looked at a side input, the rows alone."""
    found = {}
    for name in ("fixed", "session", "join", "look"):
        net: Counter[object] = Counter()
        for (kind, value), _ in outside.values(name):
            net[value] += 1 if kind == "+" else -1
        assert all(count >= 0 for count in net.values()), net
        found[name] = +net
    found["look"] = Counter(cast("tuple[int, object]", value)[0] for value in found["look"].elements())
    return found


class FixedSize(RandomScheduler):
    """Bundles of a fixed size, so that epochs are the same in every life."""

    def __init__(self, seed: int, crash_at: int | None = None, size: int = 16) -> None:
        super().__init__(seed, crash_at)
        self._size = size

    def bundle_size(self, epoch: int, limit: int) -> int:
        return self._size


def attempt(outside: Outside, made: Topology, checkpoint: object, scheduler: FixedSize) -> bool:
    """One life of a driver; whether it lived to the end."""
    runner = LocalRunner(scheduler=scheduler, intervals=3, parallelism=2)
    try:
        runner.run_topology(made, RunOptions(checkpoint=str(checkpoint)))
    except Crash:
        return False
    return True


def test_crash_at_every_step(tmp_path):
    rng = random.Random(5)
    (orders, table), (managers, other) = history(rng, 24), history(rng, 12)
    expected, scheduler = recomputed(table, other), FixedSize(0)
    outside = Outside()
    assert attempt(outside, results(outside, orders, managers), tmp_path / "reference", scheduler)
    assert standing(outside) == expected
    assert any(kind == "-" for (kind, _), _ in outside.values("session"))
    for step in range(1, scheduler.steps + 1):
        outside, place = Outside(), tmp_path / f"at-{step}"
        made = results(outside, orders, managers)
        assert not attempt(outside, made, place, FixedSize(step, crash_at=step)), "the fault did not fire"
        assert attempt(outside, made, place, FixedSize(step + 1))
        assert standing(outside) == expected, f"crash at step {step}"


def test_random_histories_in_random_bundles(tmp_path):
    for seed in range(faults(12, 1000)):
        rng = random.Random(seed)
        (orders, table), (managers, other) = history(rng, 30), history(rng, 10)
        outside, size = Outside(), rng.randrange(1, 12)
        made, place = results(outside, orders, managers), tmp_path / str(seed)
        scheduler = FixedSize(seed, rng.randrange(1, 60), size)
        if not attempt(outside, made, place, scheduler):
            assert attempt(outside, made, place, FixedSize(seed + 1, size=size))
        assert standing(outside) == recomputed(table, other), f"seed {seed}"
