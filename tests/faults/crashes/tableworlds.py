"""Tables that runs write to, for tests that crash inside the writing: places of a crash, and what is there."""

from __future__ import annotations

import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.io import WriteToDatabase
from headrace.io.delta import WriteToDelta
from headrace.io.iceberg import WriteToIceberg
from headrace.lowlevel import Batch
from headrace.runners.local import Crash

COLUMNS = ["name", "amount"]


class Places:
    """Numbers the moments before and after some calls, from 1, and dies at one of them."""

    def __init__(self, crash_at: int | None = None) -> None:
        self.reset(crash_at)

    @property
    def passed(self) -> int:
        """The number of moments so far."""
        return len(self.names)

    def reset(self, crash_at: int | None = None) -> None:
        """Begin to count anew."""
        self.names: list[str] = []
        self.crash_at = crash_at

    def pass_by(self, what: str) -> None:
        """A moment has come."""
        self.names.append(what)
        if self.passed == self.crash_at:
            self.die(what)

    def die(self, what: str) -> None:
        """Crash, in memory."""
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


class DatabaseWorld(ABC):
    """Tables of a database; each statement and each commit is a place."""

    name: str
    connector: str

    def __init__(self, folder: Path, places: Places, monkeypatch: Any) -> None:
        self._folder, self.places = folder, places

    @abstractmethod
    def connect(self) -> Any:
        """A connection as a sink gets it."""

    def clear(self) -> None:
        """Empty tables."""
        keys = {"rows": "", "totals": "PRIMARY KEY"}
        with self._apart() as cursor:
            cursor.execute("DROP TABLE IF EXISTS headrace_epochs")
            for table, key in keys.items():
                cursor.execute(f"DROP TABLE IF EXISTS {table}")
                cursor.execute(f"CREATE TABLE {table} (name varchar(20) {key}, amount integer)")

    def writing(self, mode: str) -> WriteToDatabase:
        table, keys = ("rows", []) if mode == "append" else ("totals", ["name"])
        return WriteToDatabase(self.connect, table, COLUMNS, mode=mode, keys=keys, sink=mode)  # type: ignore[arg-type]  # a test's text

    def rows(self, mode: str) -> Counter[tuple[str, int]]:
        with self._apart() as cursor:
            cursor.execute(f"SELECT * FROM {'rows' if mode == 'append' else 'totals'}")
            return Counter(map(tuple, cursor.fetchall()))

    @contextmanager
    def _apart(self) -> Iterator[Any]:
        """A cursor for the test itself, at whose statements nobody dies."""
        places, self.places = self.places, Places()
        try:
            with closing(self.connect()) as connection:
                yield connection.cursor()
                connection.commit()
        finally:
            self.places = places


class SqliteWorld(DatabaseWorld):
    """A file of SQLite."""

    name, connector = "sqlite", "WriteToDatabase, SQLite"

    def connect(self) -> sqlite3.Connection:
        places = self.places

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

        return sqlite3.connect(self._folder / "table.db", factory=Connection)


class PostgresWorld(DatabaseWorld):
    """A database of PostgreSQL, whose address the file `address` in the world's folder has."""

    name, connector = "postgres", "WriteToDatabase, PostgreSQL"

    def connect(self) -> Any:
        import psycopg

        places = self.places

        class Cursor(psycopg.Cursor[Any]):
            def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
                places.pass_by(str(query))
                return super().execute(query, *args, **kwargs)

            def executemany(self, query: Any, *args: Any, **kwargs: Any) -> None:
                places.pass_by(str(query))
                super().executemany(query, *args, **kwargs)

        class Connection(psycopg.Connection[Any]):
            def commit(self) -> None:
                places.pass_by("before commit")
                super().commit()
                places.pass_by("after commit")

        return Connection.connect((self._folder / "address").read_text(), cursor_factory=Cursor)


class DeltaWorld:
    """Tables of Delta Lake on the disk; each data file and each version is a place."""

    name, connector = "delta", "WriteToDelta"

    def __init__(self, folder: Path, places: Places, monkeypatch: Any) -> None:
        from deltalake import DeltaTable
        from deltalake.table import TableMerger

        from headrace.sdk.io.delta.delta_table import DataFiles

        self._folder, self.places = folder / "delta", places
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

    name, connector = "iceberg", "WriteToIceberg"

    def __init__(self, folder: Path, places: Places, monkeypatch: Any) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        from headrace.sdk.io.iceberg import iceberg_sink

        self._folder, self.places, self._number = folder, places, len(list(folder.glob("iceberg-*")))
        places.around(monkeypatch, iceberg_sink, "written_files")
        places.around(monkeypatch, SqlCatalog, "commit_table")

    def clear(self) -> None:
        self._number += 1
        self._place.mkdir()

    @property
    def _place(self) -> Path:
        return self._folder / f"iceberg-{self._number}"

    @property
    def properties(self) -> dict[str, str]:
        """Of the catalog."""
        return {
            "type": "sql",
            "uri": f"sqlite:///{self._place}/catalog.db",
            "warehouse": f"file://{self._place}",
        }

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
    "postgres": PostgresWorld,
    "sqlite": SqliteWorld,
}


def new_world(name: str, folder: Path, request: pytest.FixtureRequest, monkeypatch: Any) -> Any:
    """A world with empty tables, in a new folder. PostgreSQL is at the address that the fixture `address` gives."""
    address = None
    if name == "postgres":
        pytest.importorskip("psycopg")
        address = request.getfixturevalue("address")
    return settled(WORLDS[name], folder, monkeypatch, address)


def settled(kind: Callable[[Path, Places, Any], Any], folder: Path, monkeypatch: Any, address: str | None) -> Any:
    """An empty world in a new folder, which has a file with the address of its server, if it has one."""
    folder.mkdir(parents=True)
    if address is not None:
        (folder / "address").write_text(address)
    made = kind(folder, Places(), monkeypatch)
    made.clear()
    return made


def staged(sink: Any, epoch: int, *elements: object) -> list[bytes]:
    """The receipts of an epoch with elements, as its commit has them."""
    receipts = [sink.stage(Batch(list(elements), [0] * len(elements)), epoch, 0, f"t{epoch}"), sink.held()]
    return [receipt for receipt in receipts if receipt is not None]
