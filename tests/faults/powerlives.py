"""Lives of a pipeline that writes files of one kind, each of which may end by a loss of power."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

import headrace as beam
from headrace.lowlevel import CallSink, Topology
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.runners.local.executor import Scheduler
from headrace.testing.test_stream import TestStream
from headrace.transforms.window import FixedWindows, TimestampedValue
from tests.faults.power import Power
from tests.schedulers import RandomScheduler

WINDOW, COUNT = 30, 18
Make = Callable[[str], beam.PTransform]
SINKS: dict[str, Make] = {
    "text": lambda prefix: beam.io.WriteToText(prefix, ".txt", windowed_writes=False),
    "gzip": lambda prefix: beam.io.WriteToText(prefix, ".txt.gz", windowed_writes=False),
    "json": lambda prefix: beam.io.WriteToJson(prefix, windowed_writes=False),
    "csv": lambda prefix: beam.io.WriteToCsv(prefix, windowed_writes=False),
    "parquet": lambda prefix: beam.io.WriteToParquet(prefix, file_name_suffix=".parquet", windowed_writes=False),
    "folders": lambda prefix: beam.io.WriteToParquet(
        prefix, file_name_suffix=".parquet", partition_by=["key"], windowed_writes=False
    ),
    "ended": lambda prefix: beam.io.WriteToJson(prefix, windowed_writes=False),
    "ended folders": lambda prefix: beam.io.WriteToParquet(
        prefix, file_name_suffix=".parquet", partition_by=["key"], windowed_writes=False
    ),
    "windows": lambda prefix: beam.io.WriteToJson(prefix),
    "elsewhere": lambda prefix: beam.io.Write(CallSink(partial(_take, elsewhere(Path(prefix).parents[1])))),
}
"""Every way to write files, by name, some only when the input has ended; and a system with a power of its own."""

TEXTS = {"text", "gzip", "elsewhere"}
"""Those that get lines."""


def elements(seed: int, count: int = COUNT) -> list[tuple[str, int, int]]:
    """(key, number, second), in the order in which they come."""
    random = Random(f"power {seed}")
    made = [("abc"[random.randrange(3)], number, random.randrange(5 * count)) for number in range(count)]
    return sorted(made, key=lambda element: element[2] + random.randrange(20))


def expected(seed: int, count: int = COUNT) -> list[str]:
    """Lines of the sums, recomputed."""
    sums: dict[tuple[str, int], int] = {}
    for key, number, second in elements(seed, count):
        at = key, second // WINDOW * WINDOW
        sums[at] = sums.get(at, 0) + number
    return sorted(line(key, start, total) for (key, start), total in sums.items())


def line(key: str, start: int, total: int) -> str:
    return f"{key} {start} {total}"


class Draws:
    """Numbers that come out otherwise in each life: what was delivered and is run again is not the same."""

    random = Random(0)

    @classmethod
    def next(cls) -> int:
        return cls.random.randrange(10**6)


def topology(seed: int, sink: str, out: Path, count: int = COUNT) -> Topology:
    """Sums of keys in windows into files."""
    pipeline = beam.Pipeline("LocalRunner")
    sums = (
        pipeline
        | _stream(elements(seed, count), Random(f"stream {seed}"))
        | beam.WindowInto(FixedWindows(WINDOW))
        | beam.CombinePerKey(sum)
    )
    named = sums | beam.Map(_as_text if sink in TEXTS else _as_record)
    # The stream ends, which a collection of a test's stream does not say.
    named.is_bounded = sink.startswith("ended")
    _ = named | SINKS[sink](f"{out}/part")
    return pipeline.topology()


def elsewhere(disk: Path) -> Path:
    """Where the system is that loses nothing."""
    return disk.with_name("elsewhere")


def _take(place: Path, epoch: int, rows: list[tuple[object, int]]) -> None:
    data = json.dumps(sorted(value for value, _ in rows))
    place.mkdir(exist_ok=True)
    file = place / f"{epoch}"
    assert not file.exists() or file.read_text() == data, "a repeated delivery differs"
    file.write_text(data)


def _as_record(pair: tuple[str, int], window=beam.DoFn.WindowParam) -> dict[str, object]:
    return {"key": pair[0], "start": int(window.start), "total": pair[1], "drawn": Draws.next()}


def _as_text(pair: tuple[str, int], window=beam.DoFn.WindowParam) -> str:
    return f"{line(pair[0], int(window.start), pair[1])} {Draws.next()}"


def _stream(its: list[tuple[str, int, int]], random: Random) -> TestStream:
    stream, at, watermark = TestStream(), 0, 0
    while at < len(its):
        some = its[at : at + random.randint(1, 8)]
        at += len(some)
        stream = stream.add_elements([TimestampedValue((key, number), second) for key, number, second in some])
        oldest = min((second for *_, second in its[at:]), default=10**6)
        if oldest > watermark:
            stream, watermark = stream.advance_watermark_to(oldest), oldest
    return stream.advance_watermark_to_infinity()


def delivered(disk: Path) -> list[str]:
    """What a reader finds."""
    out = disk / "out"
    if (other := elsewhere(disk)).exists():
        return sorted(_undrawn(each) for path in other.iterdir() for each in json.loads(path.read_text()))
    files = [path for path in out.rglob("*") if path.is_file()] if out.exists() else []
    seen = [path for path in files if not any(part.startswith(("_", ".")) for part in path.relative_to(out).parts)]
    return sorted(each for path in seen for each in _lines(path))


def _undrawn(text: str) -> str:
    return text.rpartition(" ")[0]


def _lines(path: Path) -> Iterable[str]:
    rows: Iterable[dict[str, object]]
    if path.suffix in (".txt", ".gz"):
        data = path.read_bytes()
        return map(_undrawn, (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines())
    if path.suffix == ".json":
        rows = map(json.loads, path.read_text().splitlines())
    elif path.suffix == ".csv":
        rows = csv.DictReader(path.read_text().splitlines())
    else:
        rows = pq.ParquetFile(path).read().to_pylist()
        if "=" in path.parent.name:
            rows = [{"key": path.parent.name.partition("=")[2], **row} for row in rows]
    return [line(str(row["key"]), int(str(row["start"])), int(str(row["total"]))) for row in rows]


class _Steps(RandomScheduler):
    """Steps of the protocol are moments at which the power may go."""

    def __init__(self, seed: int, power: Power) -> None:
        super().__init__(seed)
        self._power = power

    def bundle_size(self, epoch: int, limit: int) -> int:
        return limit

    def step(self, name: str, epoch: int) -> None:
        self._power.moment(name.partition(" task")[0])


def run(seed: int, sink: str, disk: Path, count: int = COUNT, scheduler: Scheduler | None = None) -> None:
    """A driver and its tasks."""
    runner = LocalRunner(scheduler=scheduler, intervals=2, parallelism=2)
    runner.run_topology(topology(seed, sink, disk / "out", count), RunOptions(checkpoint=str(disk / "checkpoint")))


def life(seed: int, sink: str, disk: Path, power: Power, number: int = 0) -> None:
    """One life of a driver and its tasks, the `number`-th; `Crash` if the power went."""
    Draws.random = Random(number)
    fsync, os.fsync = os.fsync, power.fsync
    try:
        run(seed, sink, disk, scheduler=_Steps(seed, power))
        power.end()
    finally:
        os.fsync = fsync
        power.restore()


def dies(seed: int, sink: str, disk: Path, power: Power, number: int = 0) -> bool:
    """Whether the power went during a life, and not just after it."""
    try:
        life(seed, sink, disk, power, number)
    except Crash:
        return True
    return False
