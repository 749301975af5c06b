"""Processor time of a pipeline that waits, with a million keys of state: `python -m benchmarks.idle`.

Processes hand over records of as many keys, which are counted with durable state; then nothing comes. What the driver,
Java and the Python workers take from then on is the cost of waiting. The goal is less than a hundredth of a core.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.memory import processes
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import start_own_session
from benchmarks.tiny_epoch import RunningCount
from headrace.lowlevel import CallSink, InjectorProcess, ProcessInjector, Topology
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.runners.spark import SparkRunner

_HANDOVER = 100_000
_PATIENCE_SECONDS = 600.0
Seconds = dict[str, float]
"""Kind of process -> seconds of processor time."""


class Waiting:
    """A run of ours that has counted so many keys, and waits for more."""

    def __init__(self, home: str, keys: int) -> None:
        self._keys, self._home = keys, home
        self._read = 0
        self._loaded = threading.Event()
        self._process = InjectorProcess.open(f"{home}/records", "loader")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        for first in range(0, keys, _HANDOVER):
            self._process.write([(f"key-{key}", 0) for key in range(first, min(first + _HANDOVER, keys))])
        if not self._loaded.wait(_PATIENCE_SECONDS):
            raise TimeoutError(f"of {keys} records {self._read} were read")

    def _run(self) -> None:
        topology = Topology()
        topology.injector("records", ProcessInjector(f"{self._home}/records", ["loader"]))
        topology.computation("count", RunningCount(), {"records": lambda key: key}, ["counts"])
        topology.sink("counts", "counts", CallSink(lambda epoch, rows: None))
        options = RunOptions(f"{self._home}/checkpoint", progress=self._note)
        SparkRunner().run_topology(topology, options)

    def _note(self, progress: EpochProgress) -> None:
        self._read = progress.records_in
        if self._read >= self._keys:
            self._loaded.set()

    def close(self) -> None:
        """Let the run end."""
        self._process.close()
        self._thread.join()


def spent(seconds: float) -> Seconds:
    """What each kind of process takes in so many seconds."""
    before = _by_kind()
    time.sleep(seconds)
    return {kind: taken - before.get(kind, 0.0) for kind, taken in _by_kind().items()}


def _by_kind() -> Seconds:
    found: Seconds = {}
    for process in processes():
        found[process.kind] = found.get(process.kind, 0.0) + process.seconds
    return found


def main(
    keys: Annotated[int, typer.Option(help="keys with state")] = 1_000_000,
    runs: Annotated[int, typer.Option(min=1, help="spans of time")] = 5,
    seconds: Annotated[float, typer.Option(help="how long a span is")] = 30.0,
    settle: Annotated[float, typer.Option(help="seconds after loading that do not count")] = 30.0,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/idle.json"),
) -> None:
    """Load, then look at what waiting takes; and at what the session takes without a run."""
    start_own_session()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        waiting = Waiting(home, keys)
        console.print(f"{keys:,} keys are stored")
        time.sleep(settle)
        with_run = [spent(seconds) for _ in range(runs)]
        waiting.close()
    time.sleep(settle)
    without = [spent(seconds) for _ in range(runs)]
    measured = {"waiting": with_run, "no run": without}
    rows = []
    for name, spans in measured.items():
        for kind in sorted({kind for span in spans for kind in span}):
            shares = sorted(100 * span.get(kind, 0.0) / seconds for span in spans)
            rows.append([f"{name}: {kind}", *(rounded(shares[at]) for at in (0, len(shares) // 2, -1))])
        totals = sorted(100 * sum(span.values()) / seconds for span in spans)
        rows.append([f"{name}: all", *(rounded(totals[at]) for at in (0, len(totals) // 2, -1))])
    print_table(f"An idle pipeline with {keys:,} keys", ["% of a core", "least", "median", "most"], rows)
    save(output, {"benchmark": "idle", "keys": keys, "seconds": seconds, "processor seconds": measured})


if __name__ == "__main__":
    typer.run(main)
