"""A workload's input on disk: the same events as one file, as many, and as many and an end for unbounded queries."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.generator import SCHEMA, Plan, clicks, generate, lines, split, write
from benchmarks.workload import SENTINEL

FILE_EVENTS = 50_000
"""Events in each of a row of files: a million events make twenty."""
_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Files:
    """The same rows twice, in order of arrival."""

    one: Path
    """All in one Parquet file."""
    many: Path
    """A folder of several."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Events on disk, in order of arrival."""

    events: int
    plan: Plan
    one: Path
    """All events in one Parquet file."""
    many: Path
    """A folder of files of `FILE_EVENTS` events; by modification time they are in order of arrival."""
    ended: Path
    """The same, and a last file with one event of the key `SENTINEL`, a day after the rest."""
    clicks: Files
    """Clicks on these events, in as many files."""
    lines: Files
    """The events as lines of text."""


@contextmanager
def datasets(plan: Plan, sizes: list[int]) -> Iterator[dict[int, Dataset]]:
    """For each size, the first that many events of the plan, written to a temporary folder."""
    events = generate(plan)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        yield {size: _write(plan, events.slice(0, size), Path(folder) / str(size)) for size in set(sizes)}


def _write(plan: Plan, events: pa.Table, folder: Path) -> Dataset:
    end = pa.table([[SENTINEL], [0], [plan.start + plan.span + _DAY]], names=SCHEMA.names).cast(SCHEMA)
    parts = -(-events.num_rows // FILE_EVENTS)
    shown = _write_files(events, parts, folder)
    write([*split(events, parts), end], folder / "ended")
    return Dataset(
        events.num_rows,
        plan,
        shown.one,
        shown.many,
        folder / "ended",
        _write_files(clicks(plan, events), parts, folder / "clicks"),
        _write_files(lines(events), parts, folder / "lines"),
    )


def _write_files(rows: pa.Table, parts: int, folder: Path) -> Files:
    [one] = write([rows], folder / "one")
    write(split(rows, parts), folder / "many")
    return Files(one, folder / "many")
