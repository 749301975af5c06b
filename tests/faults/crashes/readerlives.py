"""A program that reads what grows, and is killed: rows of tables of lakes, files of a folder, records of a topic."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import headrace as beam
from headrace.io import ReadFromJson, kafka_values
from headrace.io.delta import ReadFromDelta
from headrace.io.iceberg import ReadFromIceberg
from headrace.io.kafka import ReadFromKafka
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.files.file_source import DirectoryInjector
from headrace.sdk.io.kafka.injector import KafkaInjector
from headrace.sdk.io.versioned.table_versions import TableInjector
from tests.faults.crashes.tablelives import Deadly, Steps
from tests.faults.crashes.tableworlds import SqliteWorld
from tests.kafkacluster import Cluster

SCHEMA = pa.schema([("name", pa.string()), ("amount", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
SIZE = 10
"""Rows of a version: an epoch ends within one."""
FOLLOWING = {"timestamp": "at", "max_delay": 0, "continuous": True, "interval": 0.01}


@dataclass
class Growing(ABC):
    """What is read, in versions of some rows, and what names each version."""

    connector = ""
    folder: Path
    versions: list[int] = field(default_factory=list)

    def grow(self) -> None:
        """A version with rows that no other one has."""
        number = len(self.versions)
        rows = [{"name": name, "amount": amount, "at": number} for name, amount in _rows(number)]
        self.versions.append(self.append(number, rows))

    def rows(self) -> Counter[tuple[str, int]]:
        """Those of all versions."""
        return Counter(row for number in range(len(self.versions)) for row in _rows(number))

    @abstractmethod
    def append(self, number: int, rows: list[dict[str, Any]]) -> int:
        """Make a version; returns what names it."""

    @abstractmethod
    def reading(self, first: int, until: int | None) -> Any:
        """Rows from a version on, to another one or without end."""


def _rows(number: int) -> list[tuple[str, int]]:
    return [(f"version {number}", number * SIZE + each) for each in range(SIZE)]


def _columns(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([row | {"at": datetime.fromtimestamp(row["at"], UTC)} for row in rows], SCHEMA)


class GrowingDelta(Growing):
    """A table of Delta Lake."""

    connector = "ReadFromDelta"

    def append(self, number: int, rows: list[dict[str, Any]]) -> int:
        from deltalake import DeltaTable, write_deltalake

        write_deltalake(self.folder / "in", _columns(rows), mode="append")
        return DeltaTable(self.folder / "in").version()

    def reading(self, first: int, until: int | None) -> Any:
        return ReadFromDelta(self.folder / "in", first, until_version=until, **FOLLOWING)


class ChangingDelta(GrowingDelta):
    """A table of Delta Lake whose new rows are changed at once, read as changes."""

    connector = "ReadFromDelta(changes=True)"
    configuration: ClassVar[dict[str, str | None] | None] = None

    def append(self, number: int, rows: list[dict[str, Any]]) -> int:
        from deltalake import DeltaTable, write_deltalake

        write_deltalake(self.folder / "in", _columns(rows), mode="append", configuration=self.configuration)
        DeltaTable(self.folder / "in").update(
            updates={"name": "name || ' changed'"}, predicate=f"name = 'version {number}'"
        )
        return DeltaTable(self.folder / "in").version()

    def rows(self) -> Counter[tuple[str, int]]:
        """Rows as they came, those that were taken back, and those in their place; of the first version the last."""
        return Counter(
            (name.format(row), amount)
            for number in range(len(self.versions))
            for row, amount in _rows(number)
            for name in ("{} changed", *(["{}", "- {}"] if number else []))
        )

    def reading(self, first: int, until: int | None) -> Any:
        changes = ReadFromDelta(
            self.folder / "in", first, until_version=until, changes=True, continuous=True, interval=0.01
        )
        return changes | beam.Map(
            lambda change: change.after or {**change.before, "name": f"- {change.before['name']}"}
        )


class FeedingDelta(ChangingDelta):
    """The same with a change data feed."""

    configuration: ClassVar[dict[str, str | None] | None] = {"delta.enableChangeDataFeed": "true"}


class GrowingIceberg(Growing):
    """A table of Iceberg, in a catalog of SQLite."""

    connector = "ReadFromIceberg"

    @property
    def catalog(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}"}

    def append(self, number: int, rows: list[dict[str, Any]]) -> int:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog(**self.catalog)
        catalog.create_namespace_if_not_exists("world")
        table = catalog.create_table_if_not_exists("world.rows", SCHEMA)
        table.append(_columns(rows))
        snapshot = table.current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    def reading(self, first: int, until: int | None) -> Any:
        return ReadFromIceberg("world.rows", first, until_snapshot=until, catalog_properties=self.catalog, **FOLLOWING)


class GrowingFolder(Growing):
    """Files of lines, of which each is renamed into its place when it is complete."""

    connector = "ReadFromJson"

    def append(self, number: int, rows: list[dict[str, Any]]) -> int:
        made = self.folder / f"_{number}.json"
        made.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        made.rename(self.folder / f"{number}.json")
        return number

    def reading(self, first: int, until: int | None) -> Any:
        ended = None if until is None else lambda paths: len(paths) > until
        reader = ReadFromJson(self.folder / "*.json", until=ended, **FOLLOWING)
        return reader | beam.Map(lambda row: {"name": row.name, "amount": row.amount})


class GrowingTopic(Growing):
    """A topic with four partitions, at the broker whose address the file `address` has."""

    connector = "ReadFromKafka"

    @property
    def broker(self) -> Cluster:
        return Cluster((self.folder / "address").read_text())

    @property
    def topic(self) -> str:
        return self.folder.as_posix().replace("/", ".").strip(".")

    def append(self, number: int, rows: list[dict[str, Any]]) -> int:
        sent = [(row["amount"] % 4, None, json.dumps(row), 1000 * (1 + number)) for row in rows]
        self.broker.send(self.topic, sent)
        return number

    def reading(self, first: int, until: int | None) -> Any:
        settings = {"max_delay": 0, "look_interval": 0.01, "bounded": until is not None}
        reader = ReadFromKafka(self.broker.config, [self.topic], value_deserializer=kafka_values.json(), **settings)
        return reader | beam.Values()


GROWING: dict[str, Callable[[Path], Growing]] = {
    "delta": GrowingDelta,
    "delta changes": ChangingDelta,
    "delta feed": FeedingDelta,
    "iceberg": GrowingIceberg,
    "json": GrowingFolder,
    "kafka": GrowingTopic,
}


@dataclass(frozen=True)
class ReaderLife:
    """One life of a driver, which reads from a version on, to another one or without end."""

    source: str
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
            for injector in (DirectoryInjector, KafkaInjector, TableInjector):
                moments.around(patched, injector, "plan")
            world = SqliteWorld(Path(self.folder), moments, patched)
            runner = LocalRunner(scheduler=Steps(moments), intervals=2, parallelism=2)
            with beam.Pipeline(runner, options) as pipeline:
                read = pipeline | GROWING[self.source](Path(self.folder)).reading(self.first, self.until)
                read | beam.Map(lambda row: (row["name"], row["amount"])) | "Out" >> world.writing("append")
