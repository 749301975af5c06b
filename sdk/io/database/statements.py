"""SQL statements for a table, in the dialect and with the placeholders of a DB-API module."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

_CONFLICT = ("sqlite3", "psycopg", "psycopg2", "pg8000")
"""Modules of databases with `INSERT … ON CONFLICT … DO UPDATE`."""
_STYLES = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}", "named": ":{}"}
"""Parameter style of PEP 249 -> placeholder of the parameter with number {}."""
_BACKTICKS = ("pymysql", "MySQLdb", "mysql", "mariadb")
"""Modules of databases that quote names with backticks."""
Values: TypeAlias = tuple[object, ...]
"""The values of a row, in the order of the columns."""
MARKS = "headrace_epochs"
"""Name of the table that keeps the epochs of sinks."""
MAKE_MARKS = (
    f"CREATE TABLE IF NOT EXISTS {MARKS} (sink varchar(200) PRIMARY KEY, run bigint NOT NULL, epoch bigint NOT NULL)"
)


class Cursor(Protocol):
    """A cursor of DB-API 2 (PEP 249)."""

    @property
    def rowcount(self) -> int:
        """Number of rows that the newest statement changed; -1 if the module does not count them."""

    def execute(self, operation: str, parameters: Sequence[object] = ..., /) -> object:
        """Execute a statement."""

    def executemany(self, operation: str, parameters: Sequence[Sequence[object]], /) -> object:
        """Execute a statement for each list of parameters."""

    def fetchone(self) -> Sequence[object] | None:
        """The next row."""

    def close(self) -> object:
        """Close the cursor."""


class Connection(Protocol):
    """A connection of DB-API 2 (PEP 249)."""

    def cursor(self) -> Cursor:
        """A new cursor."""

    def commit(self) -> object:
        """Commit the transaction."""

    def rollback(self) -> object:
        """Give the transaction up."""

    def close(self) -> object:
        """Close the connection."""


def module_of(connection: object) -> str:
    """Name of the DB-API module that a connection comes from, also of a subclass; else that of its class."""
    names = [cls.__module__.partition(".")[0].lstrip("_") for cls in type(connection).__mro__]
    return next((name for name in names if hasattr(sys.modules.get(name), "paramstyle")), names[0])


def check_paramstyle(style: object, problem: str) -> None:
    """Raise `ValueError`, with the problem, for what is no parameter style of PEP 249."""
    if style not in _STYLES:
        raise ValueError(f"{problem}; give paramstyle, one of {', '.join(_STYLES)}")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between databases, as far as it matters here."""

    placeholder: str
    """Placeholder of the parameter with number {}."""
    quote: str
    on_conflict: bool
    """Whether an upsert is `INSERT … ON CONFLICT`; otherwise a deletion and an insertion."""

    @classmethod
    def of(cls, connection: object, paramstyle: str | None = None) -> Dialect:
        """The dialect of a connection, by its module. Raises `ValueError` if the module says no parameter style.

        >>> import sqlite3
        >>> Dialect.of(sqlite3.connect(":memory:"))
        Dialect(placeholder='?', quote='"', on_conflict=True)
        """
        # A pool of SQLAlchemy lends the connections of a module inside its own.
        name = module_of(getattr(connection, "driver_connection", connection))
        style = paramstyle or getattr(sys.modules.get(name), "paramstyle", None)
        check_paramstyle(style, f"module {name!r} of the connection does not say how its parameters are written")
        return cls(_STYLES[str(style)], "`" if name in _BACKTICKS else '"', name in _CONFLICT)

    def name(self, name: str) -> str:
        """A quoted name."""
        quoted = self.quote + name.replace(self.quote, 2 * self.quote) + self.quote
        return quoted.replace("%", "%%") if self.placeholder == "%s" else quoted

    def table(self, path: str) -> str:
        """A quoted name of a table, with its schema before a dot."""
        return ".".join(map(self.name, path.split(".")))

    def parameters(self, first: int, count: int) -> list[str]:
        """The placeholders of parameters from a number on."""
        return [self.placeholder.format(number) for number in range(first, first + count)]


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements for a table."""

    dialect: Dialect
    path: str
    columns: Sequence[str]
    keys: Sequence[str]

    def insert(self) -> str:
        """Add a row: a parameter for each column."""
        values = ", ".join(self.dialect.parameters(1, len(self.columns)))
        return f"{self._into} VALUES ({values})"

    def upsert(self) -> str:
        """Add a row, or replace the values of the row with its key; for databases with `ON CONFLICT`."""
        return f"{self.insert()} {self._conflict}"

    def delete(self) -> str:
        """Delete the rows with a key: a parameter for each key column."""
        names = map(self.dialect.name, self.keys)
        parameters = self.dialect.parameters(1, len(self.keys))
        return f"{self._from} WHERE " + " AND ".join(map("{} = {}".format, names, parameters))

    def delete_equal(self, row: Sequence[object]) -> tuple[str, list[object]]:
        """Delete all rows that are equal to one, and the parameters."""
        given = [value for value in row if value is not None]
        parameters = iter(self.dialect.parameters(1, len(given)))
        names = map(self.dialect.name, self.columns)
        terms = [
            f"{name} IS NULL" if value is None else f"{name} = {next(parameters)}"
            for name, value in zip(names, row, strict=True)
        ]
        return f"{self._from} WHERE {' AND '.join(terms)}", given

    def probes(self, takes_out: bool) -> list[str]:
        """Statements that fail if the table, a column or a unique key is missing; with parameter 0 they do nothing."""
        names = self._names(self.columns)
        # Some modules read %% in a name as % only in statements with parameters.
        where = f"WHERE 1 = {self.dialect.parameters(1, 1)[0]}"
        nothing = f"{self._into} SELECT {names} FROM {self.dialect.table(self.path)} {where}"
        by_conflict = bool(self.keys) and self.dialect.on_conflict
        delete = f"{self._from} {where}"
        deletes = takes_out or (self.keys and not by_conflict)
        return [f"{nothing} {self._conflict}" if by_conflict else nothing, *([delete] if deletes else [])]

    @property
    def _into(self) -> str:
        return f"INSERT INTO {self.dialect.table(self.path)} ({self._names(self.columns)})"

    @property
    def _from(self) -> str:
        return f"DELETE FROM {self.dialect.table(self.path)}"

    @property
    def _conflict(self) -> str:
        others = [self.dialect.name(name) for name in self.columns if name not in self.keys]
        action = f"UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}" if others else "NOTHING"
        return f"ON CONFLICT ({self._names(self.keys)}) DO {action}"

    def _names(self, names: Sequence[str]) -> str:
        return ", ".join(map(self.dialect.name, names))
