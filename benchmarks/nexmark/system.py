"""What a system under comparison is to the benchmark: a name, and how it runs a query."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import pyarrow as pa

from benchmarks.nexmark.dataset import Dataset
from benchmarks.nexmark.query import Query

Run = Callable[[Query, Dataset], Callable[[], pa.Table]]
"""Runs a query until its rows are in this process, or in files; what it returns makes a table of them."""


@dataclass(frozen=True, slots=True)
class System:
    """A system, and what it gets."""

    name: str
    run: Run
    events: int
    """How many events it gets by default."""
    slow: Collection[str] = field(default=())
    """Names of queries for which it gets but a fifth."""
    warm_whole: bool = False
    """Whether all its events warm it up, not just a few: where the JVM's compiler has something to learn from them."""
    note: str = ""
    """How it runs, for the table."""

    def events_for(self, query: Query) -> int:
        """How many events it gets for a query by default."""
        return self.events // 5 if query.name in self.slow else self.events
