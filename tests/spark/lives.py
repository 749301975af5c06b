"""A program that is killed by SIGKILL at a chosen point: `python -m tests.spark.lives PLACE OUT [KILL EPOCH]`.

KILL is a step of the protocol, or `task`: then a task kills the driver while the epoch's job runs. With `stop-` before
it the driver is only stopped, by SIGSTOP, until somebody lets it go on. Whatever the sinks
get goes to the folder OUT, a file for each sink and epoch.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, Record, Timer, Topology
from headrace.runners.engine.options import RunOptions

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

    def __init__(self, killer: Callable[[Record], None] | None = None) -> None:
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
    def process_record(self, record: Record, context: Context) -> None:
        assert isinstance(record.value, Minute)
        context.state = (context.state or 0) + record.value.seconds
        context.produce("totals", (context.key, context.state))


def topology(out: Path, killer: Callable[[Record], None] | None = None) -> Topology:
    made = Topology()
    rows = [(Visit(i % 5, i), (i * 37) % 700) for i in range(ROWS)]
    made.injector("visits", BoundedInjector(rows, max_delay=200))
    made.computation("per minute", PerMinute(killer), {"visits": lambda visit: visit.page}, ["minutes"])
    made.computation("total", Total(), {"minutes": lambda minute: minute.page % 2}, ["totals"])
    for stream in ("minutes", "totals"):
        made.sink(stream, stream, CallSink(write(out, stream)))
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

    def __init__(self, name: str, epoch: int, number: signal.Signals = signal.SIGKILL) -> None:
        self._at = (name, epoch)
        self._number = number

    def bundle_size(self, epoch: int, limit: int) -> int:
        return limit

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == self._at:
            os.kill(os.getpid(), self._number)


class KillDriver:
    """Kills the driver from inside a task, when a record comes that only this epoch has."""

    def __init__(self, driver: int, epoch: int) -> None:
        self._driver = driver
        self._seconds = (epoch - 1) * OPTIONS["max_records_per_epoch"] + 3

    def __call__(self, record: Record) -> None:
        assert isinstance(record.value, Visit)
        if record.value.seconds == self._seconds:
            os.kill(self._driver, signal.SIGKILL)


def main(place: str, out: str, kill: str = "never", epoch: str = "0") -> None:
    from headrace.runners.spark import SparkRunner

    killer = KillDriver(os.getpid(), int(epoch)) if kill == "task" else None
    number = signal.SIGSTOP if kill.startswith("stop-") else signal.SIGKILL
    runner = SparkRunner(intervals=2, steps=KillAt(kill.removeprefix("stop-"), int(epoch), number))
    runner.run_topology(topology(Path(out), killer), RunOptions(place, max_records_per_epoch=16))


if __name__ == "__main__":
    main(*sys.argv[1:])
