"""How much memory the Python workers take on the largest input: `python -m benchmarks.room`.

Each workload, bounded and streamed, by functions and by columns, runs once, in a process and a session of its own:
what a worker has once had changes what it takes for what follows. Results are those of the plain loop.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

from benchmarks.dataset import Dataset, datasets
from benchmarks.generator import Plan
from benchmarks.memory import MIB, processes
from benchmarks.peers.headrace import BOUNDED, STREAMED
from benchmarks.peers.headrace_columns import COLUMNS_BOUNDED, COLUMNS_STREAMED
from benchmarks.peers.loop import LOOP
from benchmarks.report import console, print_table, save
from benchmarks.result import canonical, difference
from benchmarks.session import CORES
from benchmarks.watched import WatchedWorkers
from benchmarks.workload import WORKLOADS

WAYS = {"bounded": BOUNDED, "streamed": STREAMED}
WAYS |= {"columns, bounded": COLUMNS_BOUNDED, "columns, streamed": COLUMNS_STREAMED}
Figures = dict[str, dict[str, int]]
"""`peaks`: what each worker had at its peaks, added up; `at once`: all at one moment; `driver`: its peak; bytes."""
_CHILD = "import sys; from benchmarks.room import run_once; run_once(*sys.argv[1:])"


def main(
    workload: Annotated[list[str] | None, typer.Option(help="may be repeated; W1 and W3 if not given")] = None,
    way: Annotated[list[str] | None, typer.Option(help="may be repeated; all if not given")] = None,
    events: Annotated[int, typer.Option(help="how many")] = 10_000_000,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/room.json"),
) -> None:
    """Measure each workload that is asked for in each way."""
    if unknown := [each for each in way or () if each not in WAYS]:
        raise typer.BadParameter(f"there is no way {unknown}; take some of {list(WAYS)}")
    found: dict[str, Figures] = {}
    with datasets(Plan(events=events), [events]) as data:
        for name in workload or ["W1", "W3"]:
            for each in way or list(WAYS):
                if name in WAYS[each].runs:
                    found[f"{name} {each}"] = _measured(name, each, data[events])
    _print(found, events)
    save(output, {"benchmark": "room", "events": events, "bytes": found})


def _print(found: dict[str, Figures], events: int) -> None:
    kinds = ("anonymous", "files", "resident", "proportional")
    rows = []
    for name, figures in found.items():
        peaks, once = figures["peaks"], figures["at once"]
        rows.append([name, *(_mib(peaks[kind]) for kind in kinds), _mib(once["anonymous"]), _mib(once["resident"])])
        rows[-1].append(_mib(figures["driver"]["resident"]))
    title = f"{events:,} events: MiB of the workers of {CORES} cores, each at its peaks, added up"
    print_table(title, ["", *kinds, "anonymous at once", "resident at once", "driver"], rows)


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f}"


def _measured(workload: str, way: str, data: Dataset) -> Figures:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        given, place = Path(home) / "dataset", Path(home) / "figures.json"
        given.write_bytes(pickle.dumps(data))
        console.print(f"{workload} {way} …")
        subprocess.run([sys.executable, "-c", _CHILD, workload, way, str(given), str(place)], check=True)
        return cast(Figures, json.loads(place.read_text()))


def run_once(name: str, way: str, given: str, place: str) -> None:
    """In a process of its own: one run, and what its workers took into a file."""
    workload, run = WORKLOADS[name], WAYS[way].runs[name]
    data = cast(Dataset, pickle.loads(Path(given).read_bytes()))
    with WatchedWorkers() as watched:
        result = run(data)
    driver = next(process.peak for process in processes() if process.number == os.getpid())
    expected = canonical(workload, LOOP.runs[name](data))
    if wrong := difference(workload, expected, canonical(workload, result)):
        raise RuntimeError(f"{name} {way}: not what the plain loop gives\n{wrong}")
    figures = {"peaks": asdict(watched.at_peaks()), "at once": asdict(watched.at_once())}
    Path(place).write_text(json.dumps(figures | {"driver": {"resident": driver}}))


if __name__ == "__main__":
    typer.run(main)
