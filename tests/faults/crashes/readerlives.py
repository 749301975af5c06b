"""A program that reads a table of a lake as it grows, and is killed: rows of all versions go to a table of SQLite."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as beam
from headrace.io.delta import ReadFromDelta
from headrace.io.iceberg import ReadFromIceberg
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.table_versions import TableInjector
from tests.faults.crashes.tablelives import Deadly, Steps
from tests.faults.crashes.tableworlds import SqliteWorld

SCHEMA = pa.schema([("name", pa.string()), ("amount", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
SIZE = 10
"""Rows of a version: an epoch ends within one."""


@dataclass
class GrowingTable:
    """A table of Delta Lake or Iceberg, and the versions that it has got."""

    name: str
    folder: Path
    versions: list[int] = field(default_factory=list)

    @property
    def connector(self) -> str:
        return f"ReadFrom{self.name.capitalize()}"

    @property
    def catalog(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}"}

    def grow(self) -> None:
        """A version with rows that no other one has."""
        number = len(self.versions)
        at = datetime.fromtimestamp(number, UTC)
        rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, (*row, at), strict=True)) for row in _rows(number)], SCHEMA)
        self.versions.append(self._append_delta(rows) if self.name == "delta" else self._append_iceberg(rows))

    def rows(self) -> Counter[tuple[str, int]]:
        """Those of all versions."""
        return Counter(row for number in range(len(self.versions)) for row in _rows(number))

    def _append_delta(self, rows: pa.Table) -> int:
        from deltalake import DeltaTable, write_deltalake

        write_deltalake(self.folder / "in", rows, mode="append")
        return DeltaTable(self.folder / "in").version()

    def _append_iceberg(self, rows: pa.Table) -> int:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog(**self.catalog)
        catalog.create_namespace_if_not_exists("world")
        table = catalog.create_table_if_not_exists("world.rows", SCHEMA)
        table.append(rows)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id


def _rows(number: int) -> list[tuple[str, int]]:
    return [(f"version {number}", number * SIZE + each) for each in range(SIZE)]


@dataclass(frozen=True)
class ReaderLife:
    """One life of a driver, which reads from a version on, to another one or without end."""

    table: str
    folder: str
    first: int
    checkpoint: str
    until: int | None = None
    dies_at: int | None = None

    def live(self) -> None:
        """Run to the end of the input, or die."""
        moments = Deadly(self.dies_at)
        options = PipelineOptions([f"--checkpoint={self.checkpoint}", "--max_records_per_epoch=16"])
        with pytest.MonkeyPatch.context() as patched:
            moments.around(patched, TableInjector, "plan")
            world = SqliteWorld(Path(self.folder), moments, patched)
            runner = LocalRunner(scheduler=Steps(moments), intervals=2, parallelism=2)
            with beam.Pipeline(runner, options) as pipeline:
                read = pipeline | self._source()
                read | beam.Map(lambda row: (row["name"], row["amount"])) | "Out" >> world.writing("append")

    def _source(self) -> Any:
        arguments: dict[str, Any] = {"timestamp": "at", "max_delay": 0, "continuous": True, "interval": 0.01}
        if self.table == "delta":
            return ReadFromDelta(Path(self.folder) / "in", self.first, until_version=self.until, **arguments)
        catalog = GrowingTable(self.table, Path(self.folder)).catalog
        options = {"catalog_properties": catalog, "until_snapshot": self.until, **arguments}
        return ReadFromIceberg("world.rows", self.first, **options)
