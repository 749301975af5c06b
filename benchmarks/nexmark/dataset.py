"""Events on disk: as one Parquet file, and as twenty."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.generator import split, write
from benchmarks.nexmark.generator import Plan, generate

FILES = 20


@dataclass(frozen=True, slots=True)
class Dataset:
    """Events on disk, in order of arrival."""

    plan: Plan
    """Of all events, of which these are the first."""
    events: int
    one: Path
    """All in one file."""
    many: Path
    """A folder of `FILES` files."""

    @property
    def file_events(self) -> int:
        """Events in each of the files but perhaps the last."""
        return -(-self.events // FILES)


@contextmanager
def datasets(plan: Plan, sizes: Iterable[int]) -> Iterator[dict[int, Dataset]]:
    """For each size the first that many events of the plan, written to a temporary folder.

    So every system has as many events in a second, and as many of each kind.
    """
    events = generate(plan)
    with tempfile.TemporaryDirectory(prefix="headrace-nexmark-") as folder:
        yield {size: _write(plan, events.slice(0, size), Path(folder) / str(size)) for size in set(sizes)}


def _write(plan: Plan, events: pa.Table, folder: Path) -> Dataset:
    [one] = write([events], folder / "one")
    write(split(events, FILES), folder / "many")
    return Dataset(plan, events.num_rows, one, folder / "many")
