"""Whether cost follows from what is to be done, and from nothing else: `python -m benchmarks.scale`.

- `events`: time of a record for 10⁵, 10⁶ and 10⁷ events, what a run of next to nothing takes taken off; and the peak
  memory of the Python workers on the largest.
- `keys`: the same for a million events of 10², 10⁴ and 10⁶ keys, beside the plain loop: more keys are more results,
  so the loop tells how much more there is to do.
- `idle`: an almost empty epoch with a million keys stored that it does not touch, beside one with none.
- `timers`: an almost empty epoch that fires ten timers of a million, beside one that fires ten of ten.
- `cores`: the same work with one core and with two, each in sessions of their own.

`events`, `keys` and `cores` take any workload, by Python functions or (`--columns`) by columns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.alarms import Alarms
from benchmarks.dataset import Dataset, datasets
from benchmarks.floor import System, in_turn
from benchmarks.generator import Plan
from benchmarks.measurement import Measurement, timed
from benchmarks.memory import MIB, workers_peak
from benchmarks.peers.headrace import BOUNDED
from benchmarks.peers.headrace_columns import COLUMNS_BOUNDED
from benchmarks.peers.loop import LOOP
from benchmarks.peers.peer import Run
from benchmarks.report import console, print_table, rounded, save
from benchmarks.result import canonical, difference
from benchmarks.session import CORES, CORES_VARIABLE, start_own_session
from benchmarks.tiny_epoch import TinyEpochs
from benchmarks.workload import WORKLOADS, Workload

_TINY = 1_000
_LOOP = ", plain loop"
Seconds = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Work:
    """A workload, and which way it is run."""

    workload: Workload
    columns: bool = False

    @property
    def name(self) -> str:
        """Of the workload."""
        return self.workload.name

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.name} by columns" if self.columns else self.name

    @property
    def run(self) -> Run:
        """Runs it once on a dataset."""
        return (COLUMNS_BOUNDED if self.columns else BOUNDED).runs[self.name]


def main(
    part: Annotated[list[str] | None, typer.Option(help="events, keys, idle, timers, cores; may be repeated")] = None,
    runs: Annotated[int, typer.Option(min=1, help="rounds; five for figures to quote")] = 5,
    events: Annotated[int, typer.Option(help="the most events")] = 10_000_000,
    keys: Annotated[int, typer.Option(help="the most keys, idle keys and timers")] = 1_000_000,
    workload: Annotated[str, typer.Option(help="of events, keys and cores")] = "W3",
    columns: Annotated[bool, typer.Option("--columns", help="the same by columns instead of Python functions")] = False,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/scale.json"),
) -> None:
    """Measure the parts asked for, or all."""
    work = Work(WORKLOADS[workload], columns)
    parts: dict[str, Callable[[], dict[str, object]]] = {
        "events": lambda: by_events(work, runs, events),
        "keys": lambda: by_keys(work, runs, events // 10, keys),
        "idle": lambda: with_idle_keys(runs, keys),
        "timers": lambda: with_timers(runs, keys),
        "cores": lambda: by_cores(work, runs, events // 10),
    }
    start_own_session()
    figures = {name: parts[name]() for name in part or parts}
    save(output, {"benchmark": "scale", "runs": runs, "workload": work.title, "parts": figures})


def by_events(work: Work, runs: int, most: int) -> dict[str, object]:
    """Time of a record for a hundredth, a tenth and all of the events."""
    sizes = [most // 100, most // 10, most]
    with datasets(Plan(events=most), [_TINY, *sizes]) as data:
        seconds = _in_rounds(work, runs, {f"{size:,} events": (data[size], data[_TINY]) for size in sizes})
    peak = workers_peak() / MIB
    _print_each(f"{work.title}: time of a record", seconds)
    console.print(f"Python workers: {peak:,.0f} MiB together at their peaks (aim: less than 600)")
    return {"seconds of a record": seconds, "peak of the workers, MiB": peak}


def by_keys(work: Work, runs: int, events: int, most: int) -> dict[str, object]:
    """Time of a record for few keys and many."""
    numbers = [max(1, most // 10_000), most // 100, most]
    found: Seconds = {}
    for number in numbers:
        with datasets(Plan(events=events, keys=number), [_TINY, events]) as data:
            found |= _in_rounds(work, runs, {f"{number:,} keys": (data[events], data[_TINY])})
    _print_each(f"{work.title}: time of a record, {events:,} events", found)
    return {"seconds of a record": found}


def _in_rounds(work: Work, runs: int, cases: dict[str, tuple[Dataset, Dataset]]) -> Seconds:
    """Seconds of a record, with those of a run of next to nothing taken off; results are checked."""
    run, workload, found = work.run, work.workload, Seconds()
    expected = {name: canonical(workload, LOOP.runs[workload.name](data)) for name, (data, _) in cases.items()}
    for number in range(-1, runs):
        for name, (data, tiny) in cases.items():
            _, start = timed(partial(run, tiny))
            result, seconds = timed(partial(run, data))
            _, plain = timed(partial(LOOP.runs[workload.name], data))
            if wrong := difference(workload, expected[name], canonical(workload, result)):
                raise RuntimeError(f"{name}: not what the plain loop gives\n{wrong}")
            if number >= 0:
                found.setdefault(name, []).append((seconds - start) / data.events)
                found.setdefault(f"{name}{_LOOP}", []).append(plain / data.events)
            console.print(f"run {number + 1} of {runs}  {name}: {seconds:.2f} s, of which start {start:.2f}")
    return found


def _print_each(title: str, seconds: Seconds) -> None:
    first = next(iter(seconds.values()))
    plain = seconds[next(name for name in seconds if name.endswith(_LOOP))]
    rows = [
        [
            name,
            rounded(1e6 * median(its)),
            f"× {rounded(median(its) / median(plain if name.endswith(_LOOP) else first))}",
        ]
        for name, its in seconds.items()
    ]
    print_table(title, ["", "µs a record", "of its first"], rows)


def with_idle_keys(runs: int, keys: int) -> dict[str, object]:
    """An almost empty epoch with and without other keys stored."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        before = Path(home) / "idle.parquet"
        table = pa.table({"key": [f"idle-{number}" for number in range(keys)], "value": [0] * keys})
        pq.write_table(table, before)
        return _beside(
            "An almost empty epoch",
            [TinyEpochs("nothing else stored"), TinyEpochs(f"{keys:,} idle keys stored", before=before)],
            runs,
        )


def with_timers(runs: int, timers: int) -> dict[str, object]:
    """An almost empty epoch that fires ten timers, of few that there are and of many."""
    systems: list[System] = [Alarms("no other timers", 0), Alarms(f"{timers:,} timers that are not due", timers)]
    return _beside("An epoch that fires ten timers", systems, runs)


def _beside(title: str, systems: list[System], runs: int) -> dict[str, object]:
    measured: list[Measurement] = in_turn(systems, max(2, 3 * runs))
    first = measured[0]
    rows = [[each.name, rounded(1000 * each.median), f"× {rounded(1 / each.times_faster(first))}"] for each in measured]
    print_table(title, ["", "median ms", "of the first"], rows)
    return {each.name: each.seconds for each in measured}


def by_cores(work: Work, runs: int, events: int) -> dict[str, object]:
    """The same with one core and with all, in processes that take turns."""
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        for cores in (1, CORES):
            found.setdefault(f"{cores}", []).append(_with_cores(work, events, cores))
    one, all_of_them = found["1"], found[f"{CORES}"]
    ratio = median(few / many for few, many in zip(one, all_of_them, strict=True))
    rows = [[f"local[{cores}]", rounded(median(its))] for cores, its in found.items()]
    print_table(f"{work.title}, {events:,} events", ["", "seconds"], rows, f"{CORES} cores: × {rounded(ratio)}")
    return {"seconds": found, "ratio": ratio}


_CHILD = "import sys; from benchmarks.scale import run_once; run_once(*sys.argv[1:])"


def _with_cores(work: Work, events: int, cores: int) -> float:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        place = f"{home}/seconds.json"
        command = [sys.executable, "-c", _CHILD, work.name, "columns" if work.columns else "", str(events), place]
        subprocess.run(command, check=True, env={**os.environ, CORES_VARIABLE: str(cores)})
        return float(json.loads(Path(place).read_text()))


def run_once(workload: str, columns: str, events: str, place: str) -> None:
    """In a process of its own: a warm run, and the second one's seconds into a file; by columns if that says so."""
    start_own_session()
    run, size = Work(WORKLOADS[workload], columns == "columns").run, int(events)
    with datasets(Plan(events=size), [size]) as data:
        run(data[size])
        _, seconds = timed(lambda: run(data[size]))
    Path(place).write_text(json.dumps(seconds))


if __name__ == "__main__":
    typer.run(main)
