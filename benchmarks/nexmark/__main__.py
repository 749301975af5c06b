"""Nexmark, ours beside Beam's direct runner: `python -m benchmarks.nexmark --runs 5`.

In each round every system runs each query once, one after the other, and each result is held against DuckDB's. The
first round only warms up, and so does a tiny run before each measured one. Beam gets the first part of the same events,
in the same density. Reading is part of the time, checking is not.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.measurement import Measurement, timed
from benchmarks.nexmark.dataset import Dataset, datasets
from benchmarks.nexmark.direct import on_headrace, run_with
from benchmarks.nexmark.generator import Plan
from benchmarks.nexmark.ours import bounded, streamed
from benchmarks.nexmark.query import QUERIES, Query
from benchmarks.nexmark.reference import Expected
from benchmarks.nexmark.system import System
from benchmarks.report import console, print_table, rounded, save
from benchmarks.result import canonical, difference

BOUNDED = System("Headrace bounded", bounded, 1_000_000, warm_whole=True, note="local[2], durable checkpoint")
STREAMED = System(
    "Headrace streamed", streamed, 1_000_000, note="local[2], twenty files, an epoch each, durable checkpoint"
)
BEAM = System(
    "Beam",
    partial(run_with, ["--runner=FnApiRunner"]),
    100_000,
    slow=("q4", "q6", "q9"),
    note="2.77, FnApiRunner in one process, bounded, nothing durable",
)
LOCAL = System(
    "Headrace, Beam program in memory",
    partial(on_headrace, "LocalRunner"),
    100_000,
    note="Beam's program unchanged, HeadraceRunner in one process, nothing durable",
)
ON_SPARK = System(
    "Headrace, Beam program on Spark",
    partial(on_headrace, "SparkRunner"),
    1_000_000,
    warm_whole=True,
    note="Beam's program unchanged, HeadraceRunner on local[2], the checkpoint goes with the run",
)
SYSTEMS = (BOUNDED, STREAMED, BEAM, LOCAL, ON_SPARK)
_TINY = 2_000


class WrongResultError(Exception):
    """A system computed something else."""


def main(
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 5,
    query: Annotated[list[str] | None, typer.Option(help="q0 to q12; several times for several")] = None,
    events: Annotated[int | None, typer.Option(min=_TINY, help="events for ours")] = None,
    beam_events: Annotated[int | None, typer.Option(min=_TINY, help="events for Beam")] = None,
    system: Annotated[list[str] | None, typer.Option(help="systems whose name contains this")] = None,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/nexmark.json"),
) -> None:
    """Run the queries on all systems and compare."""
    chosen = [QUERIES[name] for name in query or QUERIES]
    systems = [known for known in SYSTEMS if not system or any(part.lower() in known.name.lower() for part in system)]
    entries = [
        (each, known, (beam_events if known is BEAM else events) or known.events_for(each))
        for each in chosen
        for known in systems
    ]
    measured = _measure(entries, runs)
    _print(chosen, systems, measured)
    save(output, _figures(chosen, systems, measured, runs))


Entries = list[tuple[Query, System, int]]
Measurements = dict[tuple[str, str], Measurement]
"""By the names of query and system."""


def _measure(entries: Entries, runs: int) -> Measurements:
    sizes = {size for _, _, size in entries} | {_TINY}
    measured = {(query.name, system.name): Measurement(system.name, size) for query, system, size in entries}
    expected = _Checked(Expected())
    with datasets(Plan(events=max(sizes)), sizes) as data:
        for query, system, size in entries:
            expected.run("warm-up", query, system, data[size if system.warm_whole else _TINY])
        for number in range(1, runs + 1):
            for query, system, size in entries:
                system.run(query, data[_TINY])()
                seconds = expected.run(f"run {number} of {runs}", query, system, data[size])
                measured[query.name, system.name].seconds.append(seconds)
    return measured


class _Checked:
    """Runs whose results are held against the right ones."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected

    def run(self, label: str, query: Query, system: System, dataset: Dataset) -> float:
        """Seconds of a run. Raises `WrongResultError` when its result is not the expected one."""
        table, seconds = timed(lambda: system.run(query, dataset))
        wrong = difference(query, self._expected.of(query, dataset), canonical(query, table()))
        if wrong:
            raise WrongResultError(f"{system.name} differs from DuckDB on {dataset.events:,} events\n{wrong}")
        console.print(f"{label}  {query.name}  {system.name}: {dataset.events:,} events in {seconds:.2f} s")
        return seconds


def _print(chosen: list[Query], systems: list[System], measured: Measurements) -> None:
    rows = []
    for query in chosen:
        of = {system.name: measured[query.name, system.name] for system in systems}
        figures = [f"{rounded(each.rate / 1000)} ({rounded(each.median)} s)" for each in of.values()]
        rows.append([f"{query.name} {query.title}", *figures, *_ratios(of)])
    ratios = [f"× {system.name.removeprefix('Headrace ')}" for system in systems if system is not BEAM]
    columns = ["query", *(system.name for system in systems), *(ratios if BEAM in systems else [])]
    notes = [f"{system.name}: {_sizes(chosen, system, measured)} events; {system.note}" for system in systems]
    notes.append(
        "thousand events a second (seconds), medians; ×: how many times as fast as Beam, the median over rounds"
    )
    print_table("Nexmark", columns, rows, "\n".join(notes))


def _sizes(chosen: list[Query], system: System, measured: Measurements) -> str:
    sizes = sorted({measured[query.name, system.name].events for query in chosen}, reverse=True)
    return " or ".join(f"{size:,}" for size in sizes)


def _ratios(of: dict[str, Measurement]) -> list[str]:
    beam = of.get(BEAM.name)
    return [rounded(each.times_faster(beam)) for each in of.values() if each is not beam] if beam else []


def _figures(chosen: list[Query], systems: list[System], measured: Measurements, runs: int) -> dict[str, object]:
    def figures(query: Query, system: System) -> dict[str, object]:
        each = measured[query.name, system.name]
        return {"events": each.events, "seconds": each.seconds, "rate": each.rate, "note": system.note}

    of_queries = {query.name: {system.name: figures(query, system) for system in systems} for query in chosen}
    return {"benchmark": "nexmark", "runs": runs, "queries": of_queries}


if __name__ == "__main__":
    typer.run(main)
