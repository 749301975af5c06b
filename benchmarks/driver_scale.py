"""What the driver does in an epoch, by the number of tasks: `python -m benchmarks.driver_scale`.

The driver is the real one, with a checkpoint in a directory; its executor answers every epoch with made reports, as if
each task of each level had worked on its interval: a delta file, a load, and for every computation counters, a size, a
hold, now and then a timer on the wall clock. Making the reports, which tasks do elsewhere, is not counted. Processor
time, over as many epochs as lie between two collections of garbage, so that each has its part of that and of snapshots.
"""

from __future__ import annotations

import cProfile
import gc
import pstats
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Annotated

import typer

from benchmarks.report import console, print_table, rounded, save
from headrace.lowlevel import BaseInjector, Computation, Delivery, Topology
from headrace.lowlevel.checkpoint import DeltaFile, FileChain, SnapshotOrder, SnapshotParts
from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.intervals.balancer import Load
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.metric import TypedMetricName
from headrace.lowlevel.metric_cells import CounterCell
from headrace.runners.engine.background_calls import PendingCall, PlainCall, Release
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.driver.checkpoint_journal import open_checkpoint
from headrace.runners.engine.driver.driver import Driver
from headrace.runners.engine.messages import (
    DRIVER,
    EpochSpec,
    Message,
    MessageKind,
    Sender,
    TaskReport,
    consumed_sum,
    pack_report,
    sent_sums,
)
from headrace.runners.engine.options import RunOptions

TASKS = (20, 200, 2_000)
_WARM = 3
_COUNTED = 32
"""Epochs between two collections of garbage."""
_LEVELS = 4
_SECOND = 1_000_000


@dataclass
class Answering:
    """The `Executor`: answers an epoch with reports, and adds up the processor time of all else."""

    topology: Topology
    parallelism: int
    clock: ManualClock
    seconds: list[float] = field(default_factory=list)
    """Processor time of the driver in each epoch, from one call to the next."""
    profile: cProfile.Profile | None = None
    _since: float = 0.0

    def splits(self) -> int:
        """Return one for each task."""
        return self.parallelism

    def running_step(self) -> str:
        """Return nothing: no code of a step runs."""
        return ""

    def run(self, spec: EpochSpec, splits: Sequence[tuple[str, Split]], messages: Sequence[Message]) -> list[Message]:
        """Return the reports of all tasks; the time that this takes is not the driver's."""
        self.seconds.append(time.process_time() - self._since)
        gc.disable()
        if self.profile is not None:
            self.profile.disable()
        self.clock.sleep(_SECOND)
        reports = self._reports(spec)
        gc.collect()
        gc.enable()
        if self.profile is not None and spec.epoch > _WARM:
            self.profile.enable()
        self._since = time.process_time()
        return reports

    def _reports(self, spec: EpochSpec) -> list[Message]:
        levels = self.topology.levels()
        reading = [Sender(0, task, f"{spec.epoch:x}-0-{task:x}", epoch=spec.epoch) for task in range(spec.tasks)]
        # Each task sends to one task of the next level.
        reports = [
            TaskReport(sender, sent_sums=sent_sums(sender, [(1, sender.index)]), greatest={"in": spec.clock})
            for sender in reading
        ]
        for report in reports:
            report.add_counters("in", {"records": 10})
        before = reading
        for level, names in enumerate(levels, 1):
            made = [self._report(spec, level, sender, names) for sender in before]
            reports += made
            before = [report.sender for report in made]
        return [(report.sender.index, DRIVER, MessageKind.REPORT, pack_report(report)) for report in reports]

    def _report(self, spec: EpochSpec, level: int, source: Sender, names: Sequence[str]) -> TaskReport:
        """The report of a task of a keyed level that got something from one task before it."""
        task = source.index
        sender = Sender(level, task, f"{spec.epoch:032x}{level:x}{task:04x}", epoch=spec.epoch)
        sent = sent_sums(sender, [(level + 1, task)]) if level < len(spec.intervals) else {}
        heard = consumed_sum([source], (level, task)) if spec.has_many_tasks else 0
        consumed = [] if spec.has_many_tasks else [source]
        report = TaskReport(sender, consumed, sent_sums=sent if spec.has_many_tasks else {}, consumed_sum=heard)
        (interval,) = spec.intervals[level].owned(task)
        number = interval.number
        report.deltas[number] = DeltaFile(spec.epoch, sender.token, 100_000)
        report.loads[number] = Load(10, 1_000_000, 0.01)
        for at, name in enumerate(names):
            report.add_counters(name, {"records": 10, "timers": 2})
            report.metrics[name] = {TypedMetricName("counter", "mine", "seen"): CounterCell(10)}
            report.sizes[name] = 40_000
            report.watermarks[name] = spec.clock - 10 * _SECOND
            report.holds[name, number] = (spec.clock - task, b"key %d" % task, "window")
            if at % 10 == 0:
                report.wall_timers[name, number] = spec.clock + 3600 * _SECOND
        return report

    def rearrange(self, before: Mapping[int, IntervalMap], after: Mapping[int, IntervalMap]) -> None:
        """Do nothing."""

    def committed(self, epoch: int, records: int) -> None:
        """Do nothing."""

    def abandoned(self, epoch: int) -> None:
        """Raise: the reports fit together."""
        raise RuntimeError(f"epoch {epoch} was given up")

    def snapshots(self, orders: Sequence[tuple[SnapshotOrder, FileChain]]) -> Callable[[], list[SnapshotParts] | None]:
        """Return references to snapshots as ordered."""
        snapshots = [SnapshotParts(order, (("first", 1),), 1_000_000) for order, _ in orders]
        return lambda: snapshots

    def begin_release(self, release: Release) -> PendingCall:
        """Release at once."""
        return PlainCall(release, self.clock)

    def prepare(self, topology: Topology) -> tuple[Topology, Callable[[], None]]:
        """Do nothing."""
        return topology, lambda: None

    def close(self, at_once: bool = False) -> None:
        """Do nothing."""


class Endless(BaseInjector):
    """Has something in every epoch."""

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Nothing to read, as nobody reads."""
        assert isinstance(position, int)
        return Delivery([], position + 1, watermark=position * _SECOND, done=False)


class Enough(Exception):
    """As many epochs as were asked for are committed."""


def driver_seconds(
    tasks: int,
    computations: int,
    profile: cProfile.Profile | None = None,
    levels: int = _LEVELS,
    epochs: int = _COUNTED,
) -> list[float]:
    """Processor time of the driver in each of some epochs, with made reports of so many tasks a level."""
    topology = Topology()
    topology.injector("in", Endless())
    for number in range(computations):
        level, place = divmod(number, computations // levels)
        source = f"c{level - 1}-{place}" if level else "in"
        topology.computation(f"c{level}-{place}", Computation(), {source: str}, [f"c{level}-{place}"])
    clock = ManualClock()
    executor = Answering(topology, tasks, clock, profile=profile)

    def stop(epoch: int) -> None:
        if epoch > _WARM + epochs:
            raise Enough

    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        journal, _ = open_checkpoint(home, topology, clock, "benchmark")
        options = RunOptions(intervals=tasks, progress=lambda progress: stop(progress.epoch))
        with suppress(Enough):
            Driver(topology, executor, journal, clock, options).run()
    return executor.seconds[1 + _WARM :]


def main(
    tasks: Annotated[list[int] | None, typer.Option(help="tasks of a level; may be repeated")] = None,
    computations: Annotated[int, typer.Option(help="in all, on four levels")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="rounds; five for figures to quote")] = 1,
    profiled: Annotated[
        bool, typer.Option("--profile", help="show where the time goes, which takes more of it")
    ] = False,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/driver_scale.json"),
) -> None:
    """Measure each number of tasks in turn."""
    numbers = tasks or list(TASKS)
    found: dict[int, list[list[float]]] = {number: [] for number in numbers}
    for _ in range(rounds):
        for number in numbers:
            profile = cProfile.Profile() if profiled else None
            found[number].append(driver_seconds(number, computations, profile))
            console.print(f"{number} tasks: {1000 * mean(found[number][-1]):.1f} ms an epoch")
            if profile is not None:
                pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    each = {number: median(map(mean, its)) for number, its in found.items()}
    first = each[numbers[0]] / numbers[0]
    rows = [
        [
            f"{number:,}",
            rounded(1000 * seconds),
            rounded(1000 * seconds / number),
            rounded(seconds / number / first),
            rounded(1000 * median(max(its) for its in found[number])),
        ]
        for number, seconds in each.items()
    ]
    print_table(
        f"The driver, {computations} computations on {_LEVELS} levels",
        ["tasks of a level", "ms an epoch", "ms a task", "of the first", "slowest epoch, ms"],
        rows,
    )
    save(output, {"benchmark": "driver_scale", "computations": computations, "seconds": found})


if __name__ == "__main__":
    typer.run(main)
