"""A pipeline that is fed at a steady pace, and when each record came out: figure 13 of the MillWheel paper.

Each stage has other keys than the one before, so every record is shuffled at every stage. A record is the time at which
it was due, seconds since 1970; whoever has it at last writes down how late that is.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np

from headrace.lowlevel import (
    BaseInjector,
    Batch,
    Computation,
    Context,
    Delivery,
    MemorySplit,
    Record,
    SendSink,
    Topology,
)
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner

KEYS = 1000


class Pace(BaseInjector):
    """So many records a second; each has an id, as of a source that may deliver it again."""

    record_ids = True

    def __init__(self, rate: int, count: int, max_delay: int | None = None) -> None:
        self._rate, self._count = rate, count
        self.max_delay = max_delay
        self._began: float | None = None

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        assert isinstance(position, int)
        now = time.time()
        if self._began is None:
            self._began = now
        # Record 0 is due at once.
        end = min(self._count, int((now - self._began) * self._rate) + 1)
        due = [(number, self._began + number / self._rate) for number in range(position, end)]
        share = -(-len(due) // splits) or 1
        parts = [_batch(due[at : at + share]) for at in range(0, len(due), share)]
        quiet = None if due else max(0.0, self._began + end / self._rate - now)
        splits_due = [MemorySplit(part) for part in parts]
        return Delivery(splits_due, end, done=end == self._count, idle=not due, quiet_seconds=quiet)


def _batch(due: list[tuple[int, float]]) -> Batch:
    return Batch(due, [int(at * 1e6) for _, at in due], [b"%d" % number for number, _ in due])


class Stage(Computation):
    """Counts the records of a bucket, and passes them on."""

    def __init__(self, output: str, is_strong: bool, exactly_once: bool) -> None:
        self._output = output
        self.strong_productions = is_strong
        self.exactly_once = exactly_once

    def process_record(self, record: Record, context: Context) -> None:
        seen = context.state
        context.state = 1 + (seen if isinstance(seen, int) else 0)
        context.produce(self._output, record.value)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Where records end: a file of each process, of number and delay."""

    folder: Path
    slow_every: int = 0
    """Records of which one takes `slow_seconds` to be taken, with those that come with it; 0 for none."""
    slow_seconds: float = 0.0

    def __call__(self, epoch: int, rows: list[tuple[object, int]]) -> None:
        due = cast("list[tuple[tuple[int, float], int]]", rows)
        if self.slow_every and any((number + 1) % self.slow_every == 0 for (number, _), _ in due):
            time.sleep(self.slow_seconds)
        now = time.time()
        with open(f"{self.folder}/{os.getpid()}", "ab") as file:
            file.write(np.array([(number, now - at) for (number, at), _ in due]).tobytes())

    def delays(self) -> dict[int, float]:
        """Number of each record -> seconds until it first was here."""
        found: dict[int, float] = {}
        for path in self.folder.iterdir():
            for number, delay in np.fromfile(path).reshape(-1, 2):
                found[int(number)] = min(delay, found.get(int(number), delay))
        return found


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What a pipeline promises."""

    is_strong: bool
    exactly_once: bool

    def __str__(self) -> str:
        return f"{'strong' if self.is_strong else 'weak'}, {'exactly once' if self.exactly_once else 'at least once'}"


def topology(pace: Pace, depth: int, sinks: Mapping[Guarantees, Arrivals], tap: int | None = None) -> Topology:
    """Stages one behind the other, once for each kind of guarantees; the sink is behind the last, or behind `tap`."""
    made = Topology()
    made.injector("records", pace)
    for guarantees, arrivals in sinks.items():
        streams = ["records", *(f"{guarantees}: stage {number}" for number in range(1, depth + 1))]
        for number, (before, behind) in enumerate(pairwise(streams), 1):
            stage = Stage(behind, guarantees.is_strong, guarantees.exactly_once)
            made.computation(f"{guarantees}: {number}", stage, {before: _bucket(number)}, [behind])
        made.sink(f"{guarantees}: arrivals", streams[tap or depth], SendSink(arrivals))
    return made


def _bucket(stage: int) -> Callable[[tuple[int, float]], int]:
    """A record's key at a stage: neighbours at one stage are far apart at the next."""
    return lambda record: record[0] * 7**stage % 10_007 % KEYS


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took."""

    delays: list[float]
    """Seconds of each record, in order, without those of the warm-up."""
    processor: float
    """Seconds of processor time, of this process and all that it started."""
    epochs: int


def run(
    rate: int,
    seconds: float,
    depth: int,
    guarantees: Guarantees,
    straggler_delay: float = 1.0,
    slow: tuple[int, float] = (0, 0.0),
) -> Run:
    """One run at a pace. Raises `AssertionError` if a record did not come out."""
    count = int(rate * seconds)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        arrivals = Arrivals(_folder(home, "arrivals"), *slow)
        options = RunOptions(f"{home}/checkpoint", straggler_delay=straggler_delay, poll_seconds=0.01)
        before = _processor_seconds()
        result = SparkRunner().run_topology(topology(Pace(rate, count), depth, {guarantees: arrivals}), options)
        processor = _processor_seconds() - before
        delays = arrivals.delays()
    return Run(measured(delays, count), processor, result.epochs)


def side_by_side(rate: int, seconds: float, depth: int, tap: int) -> list[tuple[float, float]]:
    """Delay of each record through strong and through weak stages of one pipeline, so in the same epochs."""
    count = int(rate * seconds)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        strong, weak = (Arrivals(_folder(home, name)) for name in ("strong", "weak"))
        sinks = {Guarantees(is_strong, exactly_once=True): to for is_strong, to in ((True, strong), (False, weak))}
        options = RunOptions(f"{home}/checkpoint", poll_seconds=0.01)
        SparkRunner().run_topology(topology(Pace(rate, count), depth, sinks, tap), options)
        return list(zip(measured(strong.delays(), count), measured(weak.delays(), count), strict=True))


def _folder(home: str, name: str) -> Path:
    folder = Path(home) / name
    folder.mkdir()
    return folder


def measured(delays: dict[int, float], count: int) -> list[float]:
    """Delays in order, without the warm-up. Raises `AssertionError` if a record did not come out."""
    assert sorted(delays) == list(range(count)), "records are missing"
    return [delays[number] for number in range(count // 4, count)]


def _processor_seconds() -> float:
    """Of this process and all below it, those that have ended included."""
    total: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(stat.parent.name)
        total[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        children.setdefault(int(fields[1]), []).append(number)

    def below(process: int) -> Iterator[float]:
        yield total.get(process, 0.0)
        for child in children.get(process, ()):
            yield from below(child)

    return sum(below(os.getpid()))
