"""What a system under comparison is to the benchmark: a name, and a function for each workload that it can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.dataset import Dataset
from benchmarks.report import console
from benchmarks.result import Result


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run in a process of its own came to: its result, and the time that was taken there."""

    result: Result
    seconds: float


Run = Callable[[Dataset], Result | Outcome]
"""Reads the dataset's files, computes, and brings the result into this process, columns in the workload's order."""


def nothing_lacking() -> str | None:
    """A system that runs in this environment can always run."""
    return None


def no_processes() -> list[int]:
    """A system that runs in the benchmark's own process has no memory that could be told from the benchmark's."""
    return []


@dataclass(frozen=True, slots=True)
class Peer:
    """A system, and how it runs each workload."""

    name: str
    runs: Mapping[str, Run]
    """Workload name -> the run."""
    events: int
    """How many events it gets by default: as many as it works through in some ten seconds."""
    warm_whole: bool = False
    """Whether all its events warm it up, not just a few: where the JVM's compiler has something to learn from them."""
    note: str = ""
    """How it runs, for the table."""
    lacking: Callable[[], str | None] = nothing_lacking
    """Why it cannot run here, with the remedy, or None."""
    processes: Callable[[], list[int]] = no_processes
    """Ids of the processes that it runs in, with everything that they start; the benchmark's own is not one of them."""
    fewer: Mapping[str, int] = field(default_factory=dict)
    """Workload name -> how many events it gets by default there, where that is not `events`."""

    def events_for(self, workload: str) -> int:
        """How many events it gets by default."""
        return self.fewer.get(workload, self.events)


def able(peers: list[Peer]) -> list[Peer]:
    """Those that can run here; of each other one a line says why it is left out."""
    lacking = {peer.name: peer.lacking() for peer in peers}
    for name, remedy in lacking.items():
        if remedy:
            console.print(f"left out: {name}, {remedy}")
    return [peer for peer in peers if not lacking[peer.name]]
