"""Keys of a megabyte, values of many, keys by the million: exact, in memory that follows from what an epoch brings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import BaseInjector, Batch, CallSink, Computation, Context, Delivery, Record, Timer, Topology
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from tests.depth import faults
from tests.faults.tally import Tally

pytestmark = pytest.mark.faults

MIB = 1 << 20
TIMES = 8
"""So many times what an epoch brings to a task, at most, is in the task's memory (docs/semantics.md)."""
USUAL = 256 * MIB
"""What a task's process takes besides."""
LITTLE = 64 * MIB
"""What it may take more than before, besides."""
END = 10**9
Item = tuple[int, bytes, bytes]
"""Number, key and value."""


def content(number: int, size: int) -> bytes:
    """Bytes that cannot be made smaller."""
    seed = blake2b(b"%d" % number, digest_size=64).digest()
    return seed * (size // 64)


@dataclass(frozen=True)
class Large(BaseInjector):
    """Items that are made where they are read: each key comes `rounds` times."""

    keys: int
    key_bytes: int
    value_bytes: int
    rounds: int = 2

    @property
    def records(self) -> int:
        return self.keys * self.rounds

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next records."""
        begin = cast(int, position)
        end = min(begin + limit, self.records)
        step = max(1, -(-(end - begin) // splits))
        parts = [Part(self, at, min(at + step, end)) for at in range(begin, end, step)]
        return Delivery(parts, end, done=end == self.records)


@dataclass(frozen=True)
class Part:
    """Some of them."""

    of: Large
    begin: int
    end: int

    def read(self) -> Iterable[Batch]:
        """A batch each, if they are large."""
        step = 1 if self.of.key_bytes + self.of.value_bytes > MIB // 4 else 10_000
        for at in range(self.begin, self.end, step):
            numbers = range(at, min(at + step, self.end))
            yield Batch([self._item(number) for number in numbers], [number + 1 for number in numbers])

    def _item(self, number: int) -> Item:
        key = b"%d " % (number % self.of.keys) + content(number % self.of.keys, self.of.key_bytes)
        return number, key, content(number, self.of.value_bytes)


class Last(Computation):
    """Keeps the last value of each key, and passes it on at the end of the input."""

    def process_record(self, record: Record, context: Context) -> None:
        number, _, value = cast(Item, record.value)
        before = cast("Item | None", context.state)
        context.state = (number, b"", value)
        context.set_timer("end", END)
        if before is not None:
            context.produce("seen", (before[0], number, len(before[2])))

    def process_timer(self, timer: Timer, context: Context) -> None:
        number, _, value = cast(Item, context.state)
        context.state = None
        context.produce("last", (number, cast(bytes, context.key), value))


class Check(Computation):
    """Whether everything is as it was sent."""

    def process_record(self, record: Record, context: Context) -> None:
        number, key, value = cast(Item, record.value)
        context.produce("checked", (number, len(key), len(value), value == content(number, len(value))))


def topology(injector: Large, checked: list[object]) -> Topology:
    made = Topology()
    made.injector("items", injector)
    made.computation("last", Last(), {"items": lambda item: item[1]}, ["last", "seen"])
    made.computation("check", Check(), {"last": lambda item: item[1]}, ["checked"])
    made.sink("checked", "checked", CallSink(lambda _, rows: checked.extend(value for value, _ in rows)))
    return made


def expected(injector: Large) -> Iterator[object]:
    for number in range(injector.records - injector.keys, injector.records):
        its = number % injector.keys
        yield number, len(b"%d " % its) + injector.key_bytes // 64 * 64, injector.value_bytes // 64 * 64, True


def bring(
    run: Callable[..., RunResult], injector: Large, limit: int, counts: Tally, checkpoint: str | None = None
) -> None:
    checked: list[object] = []
    counts.plan()
    result = run(topology(injector, checked), RunOptions(checkpoint, max_records_per_epoch=limit))
    counts.fire(result.counters["last"]["records"] == injector.records)
    counts.compare(expected(injector), checked)


KEYS = Large(keys=faults(quick=6, full=40), key_bytes=MIB, value_bytes=64)
VALUES = Large(keys=faults(quick=1, full=3), key_bytes=64, value_bytes=faults(quick=8, full=64) * MIB)
MANY = Large(keys=faults(quick=10_000, full=1_000_000), key_bytes=0, value_bytes=64)
SIZES = {"large keys": (KEYS, 4), "large values": (VALUES, 2), "many keys": (MANY, MANY.keys // 4)}
"""What comes, and how many records in an epoch."""


@pytest.mark.parametrize("what", SIZES)
def test_in_memory(what: str, tally: Callable[[int], Tally]) -> None:
    injector, limit = SIZES[what]
    bring(LocalRunner(intervals=2).run_topology, injector, limit, tally(13))


@pytest.mark.spark
@pytest.mark.parametrize("what", ["large keys", "large values", pytest.param("many keys", marks=pytest.mark.slow)])
def test_in_the_workers_memory(what: str, spark: SparkSession, tally: Callable[[int], Tally]) -> None:
    injector, limit = SIZES[what]
    counts = tally(13)
    before = max(now for _, now in peaks(spark))
    bring(SparkRunner(spark, intervals=2).run_topology, injector, limit, counts)
    peak = max(peak for peak, _ in peaks(spark))
    # The last epoch brings everything that is kept.
    brought = max(limit, injector.keys) * (injector.key_bytes + injector.value_bytes + 400)
    counts.note("MiB brought by an epoch", brought // MIB)
    counts.note("MiB of a worker at the most", peak // MIB)
    # Other tests of the session may have loaded libraries that such a worker does not need.
    allowed = max(USUAL, before + LITTLE) + TIMES * brought
    assert peak <= allowed, f"{peak:,} bytes for {brought:,}, after {before:,}"


def peaks(spark: SparkSession) -> list[tuple[int, int]]:
    """The most memory that each worker had since this was asked before, and what it has now, bytes."""

    def ask(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for _ in batches:
            continue
        with open("/proc/self/status", encoding="ascii") as status:
            told = {line.split(":")[0]: line.split()[1] for line in status if line.startswith("Vm")}
        with open("/proc/self/clear_refs", "w", encoding="ascii") as again:
            again.write("5")
        sizes = {"peak": [int(told["VmHWM"]) * 1024], "now": [int(told["VmRSS"]) * 1024]}
        yield pd.DataFrame({"pid": [os.getpid()], **sizes})

    rows = spark.range(0, 8, 1, 8).mapInPandas(ask, "pid long, peak long, now long").collect()
    found: dict[int, tuple[int, int]] = {}
    for row in rows:
        peak, now = found.get(row.pid, (0, 0))
        found[row.pid] = max(peak, row.peak), max(now, row.now)
    return list(found.values())
