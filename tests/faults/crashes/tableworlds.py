"""Tables that runs write to, for tests that crash inside the writing: places of a crash, and what is there."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.io import WriteToDatabase
from headrace.io.delta import WriteToDelta
from headrace.io.iceberg import WriteToIceberg
from headrace.lowlevel import Batch
from headrace.runners.local import Crash

COLUMNS = ["name", "amount"]


class Places:
    """Counts the moments before and after some calls, and crashes at one of them."""

    def __init__(self) -> None:
        self.passed = 0
        self.crash_at: int | None = None

    def reset(self, crash_at: int | None = None) -> None:
        self.passed, self.crash_at = 0, crash_at

    def pass_by(self, what: str) -> None:
        self.passed += 1
        if self.passed == self.crash_at:
            raise Crash(what)

    def around(self, monkeypatch: Any, owner: object, name: str) -> None:
        """Make a method a place, before and after."""
        inner = getattr(owner, name)

        def call(*args: object, **kwargs: object) -> object:
            self.pass_by(f"before {name}")
            result = inner(*args, **kwargs)
            self.pass_by(f"after {name}")
            return result

        monkeypatch.setattr(owner, name, call)


class SqliteWorld:
    """A table of SQLite; each statement and each commit is a place."""

    name = "sqlite"

    def __init__(self, folder: Path, places: Places, monkeypatch: Any) -> None:
        self._file = folder / "table.db"
        self._places = places
        self.clear()

    def clear(self) -> None:
        self._file.unlink(missing_ok=True)
        with closing(sqlite3.connect(self._file)) as connection:
            connection.execute("CREATE TABLE rows (name text, amount integer)")
            connection.execute("CREATE TABLE totals (name text PRIMARY KEY, amount integer)")

    def connect(self) -> sqlite3.Connection:
        places = self._places

        class Cursor(sqlite3.Cursor):
            def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
                places.pass_by(statement)
                return super().execute(statement, *parameters)

            def executemany(self, statement: str, parameters: Any) -> sqlite3.Cursor:
                places.pass_by(statement)
                return super().executemany(statement, parameters)

        class Connection(sqlite3.Connection):
            def cursor(self, *args: Any) -> Any:
                return Cursor(self)

            def commit(self) -> None:
                places.pass_by("before commit")
                super().commit()
                places.pass_by("after commit")

        return sqlite3.connect(self._file, factory=Connection)

    def writing(self, mode: str) -> WriteToDatabase:
        table, keys = ("rows", []) if mode == "append" else ("totals", ["name"])
        return WriteToDatabase(self.connect, table, COLUMNS, mode=mode, keys=keys, sink=mode)  # type: ignore[arg-type]  # a test's text

    def rows(self, mode: str) -> Counter[tuple[str, int]]:
        with closing(sqlite3.connect(self._file)) as connection:
            return Counter(connection.execute(f"SELECT * FROM {'rows' if mode == 'append' else 'totals'}").fetchall())


class DeltaWorld:
    """Tables of Delta Lake on the disk; each data file and each version is a place."""

    name = "delta"

    def __init__(self, folder: Path, places: Places, monkeypatch: Any) -> None:
        from deltalake import DeltaTable
        from deltalake.table import TableMerger

        from headrace.sdk.io.delta.data_files import DataFiles

        self._folder = folder / "delta"
        places.around(monkeypatch, DataFiles, "_write")
        places.around(monkeypatch, DeltaTable, "create_write_transaction")
        places.around(monkeypatch, TableMerger, "execute")

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def writing(self, mode: str) -> Any:
        schema = pa.schema([("name", pa.string()), ("amount", pa.int64())])
        keys = [] if mode == "append" else ["name"]
        place = self._folder / mode
        place.mkdir(parents=True, exist_ok=True)
        return WriteToDelta(place, schema, mode=mode, keys=keys, sink=mode)  # type: ignore[arg-type]  # a test's text

    def rows(self, mode: str) -> Counter[tuple[str, int]]:
        from deltalake import DeltaTable

        rows = DeltaTable(self._folder / mode).to_pyarrow_table().to_pylist()
        return Counter((row["name"], row["amount"]) for row in rows)


class IcebergWorld:
    """Tables of Iceberg on the disk, in a catalog of SQLite; each data file and each commit is a place."""

    name = "iceberg"

    def __init__(self, folder: Path, places: Places, monkeypatch: Any) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        from headrace.sdk.io.iceberg import iceberg_sink

        self._folder, self._number = folder, 0
        places.around(monkeypatch, iceberg_sink, "written_files")
        places.around(monkeypatch, SqlCatalog, "commit_table")
        self.clear()

    def clear(self) -> None:
        self._number += 1
        place = self._folder / str(self._number)
        place.mkdir()
        self.properties = {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}"}

    def writing(self, mode: str) -> Any:
        schema = pa.schema([("name", pa.string()), ("amount", pa.int64())])
        keys = [] if mode == "append" else ["name"]
        options = {"catalog_properties": self.properties, "keys": keys, "sink": mode}
        return WriteToIceberg(f"world.{mode}", schema, mode=mode, **options)  # type: ignore[arg-type]  # a test's text

    def rows(self, mode: str) -> Counter[tuple[str, int]]:
        from pyiceberg.catalog import load_catalog

        found = load_catalog(**self.properties).load_table(f"world.{mode}").scan().to_arrow().to_pylist()
        return Counter((row["name"], row["amount"]) for row in found)


WORLDS: dict[str, Callable[[Path, Places, Any], Any]] = {
    "delta": DeltaWorld,
    "iceberg": IcebergWorld,
    "sqlite": SqliteWorld,
}


def staged(sink: Any, epoch: int, *elements: object) -> list[bytes]:
    """The receipts of an epoch with elements, as its commit has them."""
    receipts = [sink.stage(Batch(list(elements), [0] * len(elements)), epoch, 0, f"t{epoch}"), sink.held()]
    return [receipt for receipt in receipts if receipt is not None]
