"""Events a second, ours beside other systems: `python -m benchmarks.throughput`.

In each round every system runs each workload once, one after the other; each result is held against the expected one.
The first round only warms up, and so does a tiny run before each measured one: Spark ends Python workers that have been
idle for a minute. Slow systems get the first part of the same events, in the same density.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from benchmarks.dataset import Dataset, datasets
from benchmarks.generator import Plan
from benchmarks.measurement import Measurement, timed
from benchmarks.peak import PeakMemory
from benchmarks.peers.loop import LOOP
from benchmarks.peers.peer import Outcome, Peer, able
from benchmarks.peers.registry import OURS, PEERS
from benchmarks.report import console, print_table, rounded, save
from benchmarks.result import canonical, difference
from benchmarks.session import spark_processes, start_own_session
from benchmarks.workload import WORKLOADS, Workload

Measurements = dict[str, dict[str, Measurement]]
"""Workload name -> peer name -> what was measured."""
_TINY = 2_000


class WrongResultError(Exception):
    """A system computed something else."""


def main(
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 5,
    events: Annotated[int | None, typer.Option(help="events for every system")] = None,
    workload: Annotated[list[str] | None, typer.Option(help="W1 to W5, W7 to W9; several times for several")] = None,
    peer: Annotated[list[str] | None, typer.Option(help="systems whose name contains this")] = None,
    own_session: Annotated[
        bool, typer.Option(help="in the session that ours opens by itself; not for Spark's")
    ] = False,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/throughput.json"),
) -> None:
    """Run the workloads on all systems and compare."""
    chosen = [WORKLOADS[name] for name in workload or WORKLOADS]
    named = [known for known in PEERS if not peer or any(part.lower() in known.name.lower() for part in peer)]
    peers = able(named)
    if own_session:
        _use_own_session(peers)
    measurements = _measure(chosen, peers, runs, events)
    for each in chosen:
        _print(each, measurements[each.name])
    save(output, _figures(measurements, runs))


def _use_own_session(peers: list[Peer]) -> None:
    if others := [peer.name for peer in peers if peer.processes is spark_processes and peer not in OURS]:
        raise typer.BadParameter(
            f"{others} would run in a session that is made for ours; leave them out, or the option"
        )
    start_own_session()


def _measure(chosen: list[Workload], peers: list[Peer], runs: int, events: int | None) -> Measurements:
    entries = [
        (each, peer, events or peer.events_for(each.name))
        for each in chosen
        for peer in peers
        if each.name in peer.runs
    ]
    sizes = [size for _, _, size in entries]
    measurements: Measurements = {each.name: {} for each in chosen}
    for each, peer, size in entries:
        measurements[each.name][peer.name] = Measurement(peer.name, size, note=peer.note)
    with datasets(Plan(events=max([*sizes, _TINY])), [*sizes, _TINY]) as data:
        expected = _Expected()
        for each, peer, size in entries:
            _run("warm-up", each, peer, data[size if peer.warm_whole else _TINY], expected)
        for number in range(1, runs + 1):
            for each, peer, size in entries:
                peer.runs[each.name](data[_TINY])
                with PeakMemory(peer.processes()) as peak:
                    seconds = _run(f"run {number} of {runs}", each, peer, data[size], expected)
                measurements[each.name][peer.name].took(seconds, peak.megabytes())
    return measurements


class _Expected:
    """The right results, computed once by the plain loop."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, int], pa.Table] = {}

    def of(self, workload: Workload, dataset: Dataset) -> pa.Table:
        place = workload.name, dataset.events
        if place not in self._results:
            self._results[place] = canonical(workload, _outcome(LOOP, workload, dataset).result)
        return self._results[place]


def _run(label: str, workload: Workload, peer: Peer, dataset: Dataset, expected: _Expected) -> float:
    """Seconds of a run. Raises `WrongResultError` when its result is not the expected one."""
    outcome = _outcome(peer, workload, dataset)
    wrong = difference(workload, expected.of(workload, dataset), canonical(workload, outcome.result))
    if wrong:
        raise WrongResultError(f"{peer.name} differs from the plain loop on {dataset.events:,} events\n{wrong}")
    console.print(f"{label}  {workload.name}  {peer.name}: {dataset.events:,} events in {outcome.seconds:.2f} s")
    return outcome.seconds


def _outcome(peer: Peer, workload: Workload, dataset: Dataset) -> Outcome:
    """Of one run; a process of its own has taken the time itself."""
    result, seconds = timed(lambda: peer.runs[workload.name](dataset))
    return result if isinstance(result, Outcome) else Outcome(result, seconds)


def _print(workload: Workload, measured: dict[str, Measurement]) -> None:
    names = [peer.name for peer in OURS]
    ours = [measured[name] for name in names if name in measured]
    rows = []
    for each in measured.values():
        ratios = [rounded(mine.times_faster(each)) if each.name not in names else "" for mine in ours]
        seconds = (min(each.seconds), each.median, max(each.seconds))
        rows.append(
            [
                each.name,
                f"{each.events:,}",
                rounded(each.rate / 1000),
                " ".join(map(rounded, seconds)),
                _memory(each),
                *ratios,
            ]
        )
    headings = [f"× {mine.name.removeprefix('Headrace ')}" for mine in ours]
    notes = [f"{each.name}: {each.note}" for each in measured.values()]
    notes.append("× bounded: how many times as fast as the system in that line our bounded run is; and so on")
    columns = ["system", "events", "thousand/s", "seconds: least, median, most", "peak MB", *headings]
    print_table(f"{workload.name}: {workload.title}", columns, rows, "\n".join(notes))


def _memory(measured: Measurement) -> str:
    return ", ".join(f"{kind} {megabytes:,.0f}" for kind, megabytes in sorted(measured.megabytes.items())) or "–"


def _figures(measurements: Measurements, runs: int) -> dict[str, object]:
    return {
        "benchmark": "throughput",
        "runs": runs,
        "workloads": {
            workload: {
                each.name: {
                    "events": each.events,
                    "seconds": each.seconds,
                    "rate": each.rate,
                    "megabytes": each.megabytes,
                    "note": each.note,
                }
                for each in measured.values()
            }
            for workload, measured in measurements.items()
        },
    }


if __name__ == "__main__":
    typer.run(main)
