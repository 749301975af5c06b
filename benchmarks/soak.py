"""Memory over time, of a stream that goes on: `python -m benchmarks.soak --minutes 60`.

Records come at a steady pace, with ids, through two groupings: one whose keys are always the same, and one whose keys
are seen for some seconds and never again, with a sum and an event-time timer each. So what there is to keep stays as
much, and what grows all the same is a leak. At the end every record must be in a sum once.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import linear_regression, median
from typing import Annotated, cast

import typer
from pyspark.sql import SparkSession

from benchmarks.memory import MIB, processes
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import start_session
from headrace.lowlevel import (
    BaseInjector,
    Batch,
    CallSink,
    Computation,
    Context,
    Delivery,
    MemorySplit,
    Record,
    Timer,
    Topology,
)
from headrace.lowlevel.time import SECOND
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.runners.spark import SparkRunner

_KEYS = 1_000
_SPAN = 10 * SECOND
"""For how long a key of the second grouping is seen, microseconds."""


class Beat(BaseInjector):
    """So many records a second, for so long."""

    record_ids = True
    max_delay: int | None = SECOND
    id_slack = 10 * SECOND

    def __init__(self, rate: int, seconds: float) -> None:
        self._rate, self._count = rate, int(rate * seconds)
        self._began: float | None = None

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        assert isinstance(position, int)
        now = time.time()
        self._began = self._began or now
        end = min(self._count, int((now - self._began) * self._rate), position + limit)
        numbers = list(range(position, end))
        times = [int((self._began + number / self._rate) * SECOND) for number in numbers]
        batch = Batch(numbers, times, [b"%d" % number for number in numbers])
        return Delivery([MemorySplit(batch)] if numbers else [], end, done=end == self._count, idle=not numbers)


class Passes(Computation):
    """Counts the records of a key that stays, and passes them on."""

    def process_record(self, record: Record, context: Context) -> None:
        context.state = 1 + cast(int, context.state or 0)
        context.produce("passed", record.value)


class Sums(Computation):
    """Counts the records of a key that comes and goes."""

    def process_record(self, record: Record, context: Context) -> None:
        if not context.state:
            context.set_timer("over", record.timestamp - record.timestamp % _SPAN + 2 * _SPAN)
        context.state = 1 + cast(int, context.state or 0)

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.produce("sums", context.state)
        context.state = None


@dataclass(slots=True)
class Sample:
    """Memory at one time, MiB."""

    minutes: float
    driver: float
    java: float
    heap: float
    """Of Java, what is in use after a collection."""
    workers: float
    """All of them together."""
    largest: float
    """The largest worker."""
    number: int
    """Of workers."""
    checkpoint: float
    epochs: int
    processor: float
    """Seconds since the beginning, of everything."""


_SERIES = ("driver", "java", "heap", "workers", "largest", "checkpoint")


@dataclass(slots=True)
class Watch:
    """Takes samples in a thread."""

    session: SparkSession
    checkpoint: Path
    every: float
    samples: list[Sample] = field(default_factory=list)
    epochs: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> Callable[[], None]:
        """Begin; call what it returns to end."""
        began = time.monotonic()

        def work() -> None:
            while not self._over.wait(self.every):
                self.samples.append(self._sample((time.monotonic() - began) / 60))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()

        def end() -> None:
            self._over.set()
            thread.join()

        return end

    def note(self, progress: EpochProgress) -> None:
        """An epoch is committed."""
        self.epochs = progress.epoch

    def _sample(self, minutes: float) -> Sample:
        heap = self._heap()
        by_kind: dict[str, list[int]] = {"driver": [0], "java": [0], "worker": [0], "other": [0]}
        now = processes()
        for process in now:
            by_kind[process.kind].append(process.resident)
        driver, java, workers = (sum(by_kind[kind]) / MIB for kind in ("driver", "java", "worker"))
        files = _size(self.checkpoint) / MIB
        processor = sum(process.seconds for process in now)
        largest = max(by_kind["worker"]) / MIB
        number = len(by_kind["worker"]) - 1
        return Sample(minutes, driver, java, heap, workers, largest, number, files, self.epochs, processor)

    def _heap(self) -> float:
        java = self.session.sparkContext._jvm
        assert java is not None
        java.System.gc()
        runtime = java.Runtime.getRuntime()
        return float(runtime.totalMemory() - runtime.freeMemory()) / MIB


def _size(folder: Path) -> int:
    """Bytes of the files in and below a folder from which others are taken away meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(place, name).stat().st_size
    return total


def topology(rate: int, seconds: float, passing: int, counted: list[int]) -> Topology:
    """The stream, with `passing` new keys each five seconds; what the sums come to is added to `counted`."""

    def passing_key(number: int) -> int:
        return number // (5 * rate) * 100_000 + number % passing

    made = Topology()
    made.injector("records", Beat(rate, seconds))
    made.computation("passes", Passes(), {"records": lambda number: number % _KEYS}, ["passed"])
    made.computation("sums", Sums(), {"passed": passing_key}, ["sums"])
    made.sink("sums", "sums", CallSink(lambda epoch, rows: counted.append(sum(cast(int, value) for value, _ in rows))))
    return made


def growth(samples: list[Sample], series: str) -> float:
    """MiB an hour, by a straight line through the second half of the samples."""
    half = samples[len(samples) // 2 :]
    slope = linear_regression([each.minutes for each in half], [getattr(each, series) for each in half]).slope
    return slope * 60


def main(
    minutes: Annotated[float, typer.Option(help="how long; an hour for figures to quote")] = 2.0,
    rate: Annotated[int, typer.Option(help="records a second")] = 500,
    passing: Annotated[
        int, typer.Option(help="new keys each 5 s; with 1000, tables of remembered keys are full after ten minutes")
    ] = 97,
    every: Annotated[float, typer.Option(help="seconds between two samples")] = 15.0,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/soak.json"),
) -> None:
    """Run, and watch the memory."""
    session = start_session()
    counted: list[int] = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        watch = Watch(session, Path(home), every)
        options = RunOptions(f"{home}/checkpoint", progress=watch.note)
        end = watch.begin()
        result = SparkRunner().run_topology(topology(rate, minutes * 60, passing, counted), options)
        end()
    read = result.counters["records"]["records"]
    assert sum(counted) == read == int(rate * minutes * 60), (sum(counted), read)
    _print(watch.samples, read, result.epochs)
    asked: dict[str, object] = {"benchmark": "soak", "minutes": minutes, "rate": rate, "passing": passing}
    told = asked | {"records": read, "epochs": result.epochs}
    figures = {series: growth(watch.samples, series) for series in _SERIES}
    save(output, told | {"growth": figures, "samples": [asdict(each) for each in watch.samples]})


def _print(samples: list[Sample], records: int, epochs: int) -> None:
    quarter = max(1, len(samples) // 4)
    starts = [at for at in range(0, 4 * quarter, quarter) if at < len(samples)]
    rows = []
    for series in _SERIES:
        values = [getattr(each, series) for each in samples]
        parts = [rounded(median(values[at : at + quarter])) for at in starts]
        rows.append([series, *parts, rounded(max(values)), f"{growth(samples, series):+.1f}"])
    columns = ["MiB", "1st quarter", "2nd", "3rd", "4th", "most", "MiB/h in the 2nd half"]
    print_table(f"{records:,} records in {epochs:,} epochs", columns, rows, "heap: Java's, in use after a collection")
    console.print("every record was in a sum once")


if __name__ == "__main__":
    typer.run(main)
