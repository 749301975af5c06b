"""A program that is killed or stopped at a point: `python -m tests.spark.lives PLACE OUT [POINT EPOCH [SIGNAL]]`.

POINT is a step of the protocol; or `task` or `total`: then a task of the first or second level sends the driver the
signal while the epoch's job runs; or `delivering`: when one sink has the epoch and the other one has not; or
`recovering`: before the first delivery of this life. What the sinks get goes to the folder OUT, a file for each sink
and epoch, and the time of each commit to the file OUT.commits.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, Record, Timer, Topology
from headrace.runners.engine.options import EpochProgress, RunOptions

Killer = Callable[[Record], None]
"""Is told of every record of a level, and may do harm."""
Deliver = Callable[[int, list[tuple[object, int]]], None]
Killing = Callable[[str, Deliver], Deliver]
"""Makes of what a sink does something that does harm, too."""
ROWS = 160
OPTIONS = {"max_records_per_epoch": 16}


class Visit(NamedTuple):
    """A value whose class is the main program's own."""

    page: int
    seconds: int


class Minute(NamedTuple):
    page: int
    minute: int
    visits: int
    seconds: int


class PerMinute(Computation):
    """Visits of each page and minute; emits when the watermark has passed the minute."""

    def __init__(self, killer: Killer | None = None) -> None:
        self._killer = killer

    def initial_state(self) -> object:
        return {}

    def process_record(self, record: Record, context: Context) -> None:
        if self._killer is not None:
            self._killer(record)
        visit, state = record.value, context.state
        assert isinstance(visit, Visit) and isinstance(state, dict)
        minute = record.timestamp // 60
        old = state.get(minute, Minute(visit.page, minute, 0, 0))
        state[minute] = Minute(visit.page, minute, old.visits + 1, old.seconds + visit.seconds)
        context.set_timer(str(minute), minute * 60 + 60)
        context.hold(min(state) * 60)

    def process_timer(self, timer: Timer, context: Context) -> None:
        state = context.state
        assert isinstance(state, dict)
        minute = state.pop(int(timer.tag))
        context.produce("minutes", minute, minute.minute * 60)
        if state:
            context.hold(min(state) * 60)
        else:
            context.release()


class Total(Computation):
    """Seconds of each group of pages so far."""

    def __init__(self, killer: Killer | None = None) -> None:
        self._killer = killer

    def process_record(self, record: Record, context: Context) -> None:
        assert isinstance(record.value, Minute)
        if self._killer is not None:
            self._killer(record)
        context.state = (context.state or 0) + record.value.seconds
        context.produce("totals", (context.key, context.state))


def visits() -> list[tuple[object, int]]:
    """The input: visits and their timestamps."""
    return [(Visit(i % 5, i), (i * 37) % 700) for i in range(ROWS)]


def topology(
    out: Path, killer: Killer | None = None, totals: Killer | None = None, sink: Killing | None = None
) -> Topology:
    """All of it; a killer sees the records of a level, or wraps the deliveries to sinks."""
    made = Topology()
    made.injector("visits", BoundedInjector(visits(), max_delay=200))
    made.computation("per minute", PerMinute(killer), {"visits": lambda visit: visit.page}, ["minutes"])
    made.computation("total", Total(totals), {"minutes": lambda minute: minute.page % 2}, ["totals"])
    for stream in ("minutes", "totals"):
        deliver = write(out, stream)
        made.sink(stream, stream, CallSink(deliver if sink is None else sink(stream, deliver)))
    return made


def write(out: Path, sink: str) -> Callable[[int, list[tuple[object, int]]], None]:
    """What a sink does: a file an epoch; the file `differs` says if a repeated delivery is not the same."""

    def deliver(epoch: int, rows: list[tuple[object, int]]) -> None:
        path = out / f"{sink}-{epoch}.json"
        text = json.dumps(sorted(rows))
        if path.exists() and path.read_text() != text:
            (out / "differs").write_text(path.name)
        path.write_text(text)

    return deliver


class KillAt:
    """Kills this process at a step, or sends it another signal."""

    def __init__(self, name: str, epoch: int, number: int = signal.SIGKILL) -> None:
        self._at = (name, epoch)
        self._signal = number

    def bundle_size(self, epoch: int, limit: int) -> int:
        return limit

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == self._at:
            os.kill(os.getpid(), self._signal)


class KillDriver:
    """Kills the driver from inside a task, when a record comes that only this epoch has."""

    def __init__(self, fatal: Callable[[object], bool], number: int, once: Path) -> None:
        self._driver, self._fatal, self._signal, self._once = os.getpid(), fatal, number, once

    def __call__(self, record: Record) -> None:
        if self._fatal(record.value) and not self._once.exists():
            self._once.touch()
            os.kill(self._driver, self._signal)


class KillSink:
    """Kills this process when the first sink has an epoch; or, in epoch 0, before the first delivery of all."""

    def __init__(self, epoch: int, number: int) -> None:
        self._epoch, self._signal = epoch, number

    def __call__(self, sink: str, deliver: Deliver) -> Deliver:
        def killing(epoch: int, rows: list[tuple[object, int]]) -> None:
            if not self._epoch:
                os.kill(os.getpid(), self._signal)
            deliver(epoch, rows)
            if epoch == self._epoch:
                os.kill(os.getpid(), self._signal)

        return killing


def visit_of(epoch: int) -> Callable[[object], bool]:
    """Whether a visit is one in the midst of an epoch."""
    return lambda value: (
        isinstance(value, Visit) and value.seconds == (epoch - 1) * OPTIONS["max_records_per_epoch"] + 3
    )


def minute_of(epoch: int, known: Path) -> Callable[[object], bool]:
    """Whether a minute is one that only this epoch puts out; `known` has what an undisturbed run does."""
    (first, _), *_ = json.loads((known / f"minutes-{epoch}.json").read_text())
    return lambda value: isinstance(value, Minute) and list(value) == first


def main(place: str, out: str, point: str = "never", epoch: str = "0", number: str = str(int(signal.SIGKILL))) -> None:
    from headrace.runners.spark import SparkRunner

    at, sent, once = int(epoch), int(number), Path(f"{out}.{point}-{epoch}")
    killer = KillDriver(visit_of(at), sent, once) if point == "task" else None
    totals = KillDriver(minute_of(at, Path(f"{out}.expected")), sent, once) if point == "total" else None
    sink = KillSink(at, sent) if point in ("delivering", "recovering") else None
    commits = Path(f"{out}.commits")

    def committed(progress: EpochProgress) -> None:
        with commits.open("a") as file:
            file.write(f"{progress.epoch} {time.time()}\n")

    options = RunOptions(place, max_records_per_epoch=16, progress=committed)
    runner = SparkRunner(intervals=2, steps=KillAt(point, at, sent))
    runner.run_topology(topology(Path(out), killer, totals, sink), options)


if __name__ == "__main__":
    main(*sys.argv[1:])
