"""An endless pipeline for tests of alerts, which misbehaves for as long as a file of some name is in a folder.

The folder is in the environment variable `MISBEHAVIOUR`; the files are `step`, `sink`, `slow`, `silent`, `crash`,
`crash later`, `bad` and `late`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, MemorySplit
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import SECOND
from headrace.sdk.transforms.core.low_level import Source
from headrace.transforms.window import FixedWindows

FOLDER = Path(os.environ.get("MISBEHAVIOUR", ""))
BEGAN = time.monotonic()


def asked(name: str) -> bool:
    """Whether the pipeline is to misbehave in this way."""
    return (FOLDER / name).exists()


def hang(name: str) -> None:
    """Return once nobody wants that any more."""
    while asked(name):
        time.sleep(0.05)


class Ticks(BaseInjector):
    """A record ten times a second, with the time as its timestamp."""

    def start(self) -> object:
        return 0

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        now = time.time_ns() // 1000
        if asked("silent") or now - int(str(position)) < SECOND // 10:
            return Delivery([], position, max(0, int(str(position))), idle=True)
        stamps = [now, *([now - 3600 * SECOND] if asked("late") else [])]
        return Delivery([MemorySplit(Batch([("a", 1)] * len(stamps), stamps))], now, now)


class ReadTicks(Source):
    """An endless source."""

    is_bounded = False

    def injector(self) -> BaseInjector:
        return Ticks()


def enrich(row: tuple[str, int]) -> tuple[str, int]:
    hang("step")
    if asked("crash") or (asked("crash later") and time.monotonic() - BEGAN > 4):
        raise RuntimeError("as it was asked to")
    return row


def check(row: tuple[str, int]) -> tuple[str, int]:
    if asked("bad"):
        raise ValueError("a bad record")
    return row


def write(epoch: int, rows: object) -> None:
    hang("sink")
    if asked("slow"):
        time.sleep(1)


def pipeline() -> beam.Pipeline:
    """The pipeline."""
    made = beam.Pipeline("LocalRunner")
    rows = made | "Ticks" >> ReadTicks() | "Enrich" >> beam.Map(enrich)
    good, _ = rows | "Check" >> beam.Map(check).with_exception_handling()
    sums = good | beam.WindowInto(FixedWindows(1)) | "Sum" >> beam.CombinePerKey(sum)
    _ = sums | "Out" >> beam.io.Write(CallSink(write))
    return made
