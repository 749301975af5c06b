"""What a system under comparison is to the benchmark: a name, and a function for each workload that it can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from benchmarks.dataset import Dataset

Run = Callable[[Dataset], pa.Table]
"""Reads the dataset's files, computes, and brings the result into this process, columns in the workload's order."""


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
    fewer: Mapping[str, int] = field(default_factory=dict)
    """Workload name -> how many events it gets by default there, where that is not `events`."""

    def events_for(self, workload: str) -> int:
        """How many events it gets by default."""
        return self.fewer.get(workload, self.events)
