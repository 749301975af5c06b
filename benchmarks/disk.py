"""How many bytes a key of state and a timer takes, in a checkpoint and on a host: `python -m benchmarks.disk`.

The state of a key is 100 bytes, and is written anew in every epoch. The checkpoint is one of the local runner, which
writes the same files as Spark; the state store is LMDB's, as each host has one.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

import typer

import headrace as beam
from benchmarks.memory import MIB
from benchmarks.report import print_table
from headrace.coders import BytesCoder
from headrace.lowlevel import BoundedInjector, CheckpointView
from headrace.lowlevel.state.state_store import Delta
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import EpochProgress
from headrace.runners.spark.statestore.lmdb_store import LmdbStateStore
from headrace.sdk.transforms.core.low_level import Read
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer

STATE_BYTES = 100
FAR = 10**15
"""The time of each timer, microseconds UTC: far ahead of the records."""


class Keep(beam.DoFn):
    """Writes the state and sets the timer of each element's key."""

    STATE = ReadModifyWriteStateSpec("state", BytesCoder())
    TIMER = TimerSpec("timer", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        state: Any = beam.DoFn.StateParam(STATE),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> Iterator[object]:
        state.write(random.Random(element[1]).randbytes(STATE_BYTES))
        timer.set(FAR / 1e6)
        yield from ()

    @on_timer(TIMER)
    def fire(self) -> Iterator[object]:
        yield from ()


def main(
    keys: Annotated[int, typer.Option(help="how many")] = 10_000,
    epochs: Annotated[int, typer.Option(help="how often each is written")] = 40,
    intervals: Annotated[int, typer.Option(help="key intervals")] = 2,
) -> None:
    """Measure a checkpoint while it is written, after the end of the run, and a state store."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        most, end, live = _checkpoint(Path(home) / "checkpoint", keys, epochs, intervals)
        rows: list[tuple[str, int]] = [
            ("checkpoint, at most", most),
            ("checkpoint of the finished run", end),
            ("files of its last commit", live),
            ("state store, written once", _store(Path(home) / "once", keys, 1, 1)),
            ("state store, written in 20 parts", _store(Path(home) / "parts", keys, 20, 1)),
            ("state store, written 20 times", _store(Path(home) / "again", keys, 1, 20)),
        ]
    table = [[name, f"{size / MIB:,.1f}", f"{size / keys:,.0f}"] for name, size in rows]
    print_table(f"{keys:,} keys of {STATE_BYTES} bytes and a timer", ["", "MiB", "bytes a key"], table)


def _checkpoint(folder: Path, keys: int, epochs: int, intervals: int) -> tuple[int, int, int]:
    """The greatest size, the size after the end, and the bytes of the files that the last commit names."""
    sizes: list[int] = []

    def note(progress: EpochProgress) -> None:
        sizes.append(_bytes(folder))

    options = PipelineOptions(checkpoint=str(folder), max_records_per_epoch=keys, progress=note, intervals=intervals)
    rows = [((f"key {number % keys}", number), number) for number in range(keys * epochs)]
    with beam.Pipeline("LocalRunner", options) as pipeline:
        _ = pipeline | Read(BoundedInjector(rows, max_delay=0)) | beam.ParDo(Keep())
    return max(sizes), _bytes(folder), sum(file.size for file in CheckpointView.of(folder).files())


def _store(folder: Path, keys: int, parts: int, times: int) -> int:
    """The size of a state store's file after so many transactions."""
    store = LmdbStateStore(folder)
    for time in range(times):
        for part in range(parts):
            names = [blake2b(b"%d" % key, digest_size=16).digest() for key in range(part, keys, parts)]
            store.apply(
                Delta(
                    keys={name: b"skey %d" % number for number, name in enumerate(names)},
                    cells={(name, b""): random.Random(time).randbytes(STATE_BYTES) for name in names},
                    marks={(name, 0, "timer"): FAR for name in names},
                )
            )
    store.close()
    return _bytes(folder)


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    typer.run(main)
