"""What: a sink that writes a collection to a table of a database exactly once, with a transaction for each epoch.

The rows of an epoch are part of its commit; after the commit the driver writes them in one transaction, which also
moves the sink's mark in the table `headrace_epochs` (see `sdk.io.epoch_sink`). SQL statements are in the dialect and
with the placeholders of a DB-API module.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from secrets import randbits
from typing import Protocol, TypeAlias, cast

from headrace.lowlevel.coders.coder import PickleCoder
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.sdk.functions.changelog import ChangeKind
from headrace.sdk.io.epoch_sink import EpochSink, Run, SinkMark, WriteMode, changes_of, check_mode, net_of, row_of
from headrace.sdk.transforms.core.low_level import Write

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


Connect: TypeAlias = Callable[[], Connection]
"""A function that opens a connection of DB-API 2."""
_Work: TypeAlias = tuple[str, Sequence[Values]]
"""A statement, and the rows of parameters for which it is executed."""

_WAITS = (0.1, 1.0, 5.0)
"""Seconds between attempts to write an epoch, after errors that may pass."""
_log = logging.getLogger(__name__)


class DatabaseWriteError(HeadraceError, RuntimeError):
    """A database could not be written. Its cause is the error of the database's module.

    >>> import sqlite3
    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     def connect():
    ...         return sqlite3.connect(f"{folder}/points.db")
    ...     _ = connect().execute("CREATE TABLE points (team TEXT, points INTEGER CHECK (points < 10))")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         rows = pipeline | beam.Create([("red", 12)])
    ...         _ = rows | beam.io.WriteToDatabase(connect, "points", ["team", "points"])
    Traceback (most recent call last):
      ...
    headrace.sdk.io.database.DatabaseWriteError: ...
    """


class _TakenBack(Exception):  # no error: it ends a transaction that is not to be committed
    """Lets a transaction be rolled back."""


@named("DatabaseSink")
class DatabaseSink(EpochSink):
    """Writes each epoch in a transaction. Arguments as of `WriteToDatabase`."""

    _coder = PickleCoder()

    def __init__(
        self,
        connect: Connect,
        table: str,
        columns: Sequence[str],
        mode: WriteMode,
        keys: Sequence[str],
        sink: str | None,
        paramstyle: str | None,
    ) -> None:
        super().__init__(sink)
        self._connect: Connect | None = connect
        self._table = table
        self._columns, self._keys, self._mode = tuple(columns), tuple(keys), mode
        self._paramstyle = paramstyle

    def __getstate__(self) -> dict[str, object]:
        """The connection stays on the driver."""
        return {**super().__getstate__(), "_connect": None}

    # In the task

    def rows(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes:
        """See `EpochSink`; the receipt contains the rows."""
        kinds, values = changes_of(batch.values) if self._mode == "changelog" else (None, batch.values)
        rows = [row_of(value, self._columns, self._keys) for value in values]
        return self._coder.encode((None if kinds is None else "".join(kinds), rows))

    # On the driver

    def prepare(self) -> None:
        """Make the table of marks, and check that the statements fit the table. Raises `DatabaseWriteError`."""
        with self._transaction(f"table {self._table!r} cannot be written; nothing has run") as (dialect, cursor):
            for probe in self._statements(dialect).probes(self._mode == "changelog"):
                cursor.execute(probe, (0,))
        try:
            self.stored("")
        except DatabaseWriteError:
            with self._transaction(
                f"table {MARKS!r} can neither be read nor made by {MAKE_MARKS!r} (connect() must open a connection "
                "each time); nothing has run"
            ) as opened:
                opened[1].execute(MAKE_MARKS)
        self._require_transactions()

    def _require_transactions(self) -> None:
        """Raise `DatabaseWriteError` if a statement is not taken back by a rollback."""
        probe = f"probe-{randbits(62):x}"
        failure = f"table {MARKS!r} cannot be written; nothing has run"
        with suppress(_TakenBack), self._transaction(failure) as (dialect, cursor):
            _move(dialect, cursor, probe, None, SinkMark(0, 0))
            raise _TakenBack
        if self.stored(probe) is None:
            return
        with self._transaction(failure) as (dialect, cursor):
            cursor.execute(f"DELETE FROM {MARKS} WHERE sink = {dialect.parameters(1, 1)[0]}", (probe,))
        raise DatabaseWriteError(
            f"table {self._table!r} cannot be written exactly once; nothing has run: connect() gives a connection that "
            "commits each statement by itself, so a crash could leave a part of an epoch; turn autocommit off "
            "(sqlite3: leave isolation_level out)"
        )

    @property
    def destination(self) -> str:
        """See `EpochSink`."""
        return f"table {self._table!r}"

    def stored(self, sink: str) -> SinkMark | None:
        """See `EpochSink`."""
        with self._transaction(f"table {MARKS!r} cannot be read; nothing has run") as (dialect, cursor):
            return _mark(dialect, cursor, sink)

    def write(self, run: Run, epoch: int, receipts: Sequence[bytes]) -> bool:
        """See `EpochSink`. Raises `DatabaseWriteError`."""
        parts = [cast("tuple[str | None, list[Values]]", self._coder.decode(each)) for each in receipts]
        rows = list(chain.from_iterable(rows for _, rows in parts))
        kinds = [ChangeKind(kind) for kind in chain.from_iterable(kinds or "" for kinds, _ in parts)]
        for wait in (*_WAITS, None):
            try:
                self._write(run, epoch, kinds, rows)
                break
            except DatabaseWriteError as error:
                if not _is_passing(error.__cause__):
                    raise DatabaseWriteError(f"{error}{self._refused(kinds, rows)}") from error.__cause__
                if wait is None:
                    raise
                # The mark says whether a commit without an answer was made.
                _log.warning("%s; trying again in %g s", error, wait)
                time.sleep(wait)
        return True

    def _write(self, run: Run, epoch: int, kinds: Sequence[ChangeKind], rows: Sequence[Values]) -> None:
        failure = (
            f"writing epoch {epoch} to table {self._table!r} failed; it is committed, and is written when the program "
            "is started again, unless the table has it"
        )
        with self._transaction(failure) as (dialect, cursor):
            # Another driver waits here, and then reads what this one has left.
            cursor.execute(f"UPDATE {MARKS} SET epoch = epoch WHERE sink = {dialect.parameters(1, 1)[0]}", (run.sink,))
            before = _mark(dialect, cursor, run.sink)
            if run.must_write(before, epoch, self.destination):
                _move(dialect, cursor, run.sink, before, SinkMark(run.number, epoch))
                for statement, each in self._work(self._statements(dialect), cursor, kinds, rows):
                    _execute(cursor, statement, each)

    def _refused(self, kinds: Sequence[ChangeKind], rows: Sequence[Values]) -> str:
        """What to add to a message: which row the database refuses by itself, as tried and taken back."""
        refused: Values | None = None
        with suppress(_TakenBack, DatabaseWriteError), self._transaction("not shown") as (dialect, cursor):
            with suppress(Exception):
                for statement, each in self._work(self._statements(dialect), cursor, kinds, rows):
                    for refused in each:
                        cursor.execute(statement, refused)
                    refused = None
            raise _TakenBack
        if refused is None:
            return ""
        return (
            f"; refused is {refused!r:.200}: change the table so that it takes such a row, or let connect() teach "
            "the module the types of its values"
        )

    def _work(
        self, statements: Statements, cursor: Cursor, kinds: Sequence[ChangeKind], rows: Sequence[Values]
    ) -> Iterator[_Work]:
        """Statements with the rows that each is to be executed for, by the cursor and before the next one is taken."""
        if self._mode == "append":
            yield statements.insert(), rows
        elif self._keys:
            yield from self._by_key(statements, kinds, rows)
        else:
            yield from _without_keys(statements, cursor, kinds, rows)

    def _by_key(self, statements: Statements, kinds: Sequence[ChangeKind], rows: Sequence[Values]) -> Iterator[_Work]:
        positions = [self._columns.index(key) for key in self._keys]
        keys = [tuple(row[position] for position in positions) for row in rows]
        net = net_of(kinds or None, cast("list[Hashable]", keys))

        def by_key(position: int) -> str:
            # Transactions that take the locks of rows in one order never wait for each other.
            return repr(keys[position])

        put = sorted(net.put, key=by_key)
        replaced = not statements.dialect.on_conflict
        gone = sorted([*net.taken, *(put if replaced else ())], key=by_key)
        yield statements.delete(), [keys[position] for position in gone]
        yield statements.insert() if replaced else statements.upsert(), [rows[position] for position in put]

    def _statements(self, dialect: Dialect) -> Statements:
        return Statements(dialect, self._table, self._columns, self._keys)

    @contextmanager
    def _transaction(self, failure: str) -> Iterator[tuple[Dialect, Cursor]]:
        """A transaction that is committed at its end. Raises `DatabaseWriteError` for errors of the database."""
        assert self._connect is not None, "the driver has the function"
        try:
            with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
                try:
                    yield Dialect.of(connection, self._paramstyle), cursor
                    connection.commit()
                except BaseException:
                    # A connection that is lost would tell of that only.
                    with suppress(Exception):
                        connection.rollback()
                    raise
        except (HeadraceError, _TakenBack):
            raise
        except Exception as error:
            raise DatabaseWriteError(f"{failure}: {type(error).__name__}: {str(error).strip()}") from error


def _mark(dialect: Dialect, cursor: Cursor, sink: str) -> SinkMark | None:
    [parameter] = dialect.parameters(1, 1)
    cursor.execute(f"SELECT run, epoch FROM {MARKS} WHERE sink = {parameter}", (sink,))
    row = cursor.fetchone()
    return None if row is None else SinkMark(int(cast(int, row[0])), int(cast(int, row[1])))


def _move(dialect: Dialect, cursor: Cursor, sink: str, before: SinkMark | None, after: SinkMark) -> None:
    run, epoch, name = dialect.parameters(1, 3)
    if before is None:
        statement = f"INSERT INTO {MARKS} (run, epoch, sink) VALUES ({run}, {epoch}, {name})"
    else:
        statement = f"UPDATE {MARKS} SET run = {run}, epoch = {epoch} WHERE sink = {name}"
    cursor.execute(statement, (after.run, after.epoch, sink))


def _execute(cursor: Cursor, statement: str, rows: Sequence[Values]) -> None:
    if len(rows) == 1:
        # Not all modules count the rows of `executemany`.
        cursor.execute(statement, rows[0])
    elif rows:
        cursor.executemany(statement, rows)


def _without_keys(
    statements: Statements, cursor: Cursor, kinds: Sequence[ChangeKind], rows: Sequence[Values]
) -> Iterator[_Work]:
    """Put rows in, and take equal ones out. Raises `ValueError` for a row that is not there to be taken out.

    Values that are equal in the database need not have equal texts, so what is put in comes first.
    """
    texts = list(map(repr, rows))
    row_of_text = dict(zip(texts, rows, strict=True))
    net = Counter(dict.fromkeys(texts, 0))
    for kind, text in zip(kinds, texts, strict=True):
        net[text] += 1 if kind is ChangeKind.INSERT else -1
    yield statements.insert(), [row_of_text[text] for text in net.elements()]
    for text, count in net.items():
        if count < 0:
            yield from _taken_out(statements, cursor, row_of_text[text], -count)


def _taken_out(statements: Statements, cursor: Cursor, row: Values, count: int) -> Iterator[_Work]:
    # Databases have no common statement that deletes some of several equal rows.
    statement, parameters = statements.delete_equal(row)
    yield statement, [tuple(parameters)]
    if cursor.rowcount < 0:
        raise ValueError("the module does not count the rows that it deletes; give keys=[...]")
    if cursor.rowcount < count:
        raise ValueError(
            f"a change takes out the row {row!r:.200}, but the table has no row that is equal: another program has "
            "changed it, or the type of a column changes values (real, numeric with few digits, char); put the row in, "
            "or give keys=[...]"
        )
    yield statements.insert(), [row] * (cursor.rowcount - count)


def _is_passing(error: BaseException | None) -> bool:
    """Whether an error is of the database's operation: a deadlock, a lock, a connection that was lost."""
    return any(cls.__name__ == "OperationalError" for cls in type(error).__mro__)


def _check_names(connect: object, table: object, columns: object) -> None:
    if not callable(connect) or hasattr(connect, "cursor"):
        # A text may have a password in it.
        raise TypeError(f"connect must be a function that opens a connection, got a value of {type(connect)}")
    if not isinstance(table, str) or not all(table.split(".")):
        raise TypeError(f"table must be the name of a table, got {table!r:.200}")
    named = isinstance(columns, Sequence) and all(isinstance(name, str) and name for name in columns)
    if isinstance(columns, str) or not columns or not named:
        raise TypeError(f"columns must be a list of names, got {columns!r:.200}")
    if isinstance(columns, Sequence) and len(set(columns)) < len(columns):
        raise ValueError(f"columns names a column twice: {columns!r:.200}")


class WriteToDatabase(Write):
    """Writes elements as rows of a table, with one transaction for each epoch, exactly once.

    The transaction also keeps the epoch's number, in the table `headrace_epochs` of the same database, which is made if
    it is missing. The rows of an epoch pass through its commit and the driver's memory.

    Args:
        connect: Function that opens a connection of any DB-API 2 module, such as
            `lambda: psycopg.connect("dbname=shop")`. It runs on the driver, once for each epoch with rows, and again
            after errors that may pass. The connection must not commit each statement by itself.
        table: Name of the table, with its schema before a dot. It must exist.
        columns: Names of the columns that are written, as the database has them. Elements are dicts, `Row`s, named
            tuples or dataclasses with these fields, or plain tuples with a value for each. A missing field is null.
        mode: `append` adds a row for each element. `upsert` gives the row with an element's key its values, or
            adds it; of several elements of an epoch with one key the last one counts. With `changelog` elements are
            `Change`s (`ToChangelog`): an insertion puts a row in, by key if there are keys, and a deletion takes the
            row with its key out, or without keys one row that is equal and must be there.
        keys: Names of the columns whose values are a row's key. SQLite and PostgreSQL need a unique constraint on them.
        sink: A name of this sink that stays the same when a run begins anew on an empty checkpoint. The newer run then
            takes its predecessor's place, and the predecessor can write nothing more. By default each run that begins
            anew has a name of its own, and a row in `headrace_epochs`.
        paramstyle: How the module writes parameters (PEP 249); by default as it says itself.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: Mode, keys and columns do not fit together, or the parameter style is none.

    >>> import sqlite3, tempfile
    >>> import headrace as beam
    >>> file = tempfile.mkdtemp() + "/shop.db"
    >>> sqlite3.connect(file).execute("CREATE TABLE totals (product text PRIMARY KEY, amount integer)").close()
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     totals = pipeline | beam.Create([("tea", 3), ("tea", 4)]) | beam.CombinePerKey(sum)
    ...     _ = totals | beam.io.WriteToDatabase(
    ...         lambda: sqlite3.connect(file), "totals", ["product", "amount"], mode="upsert", keys=["product"]
    ...     )
    >>> sqlite3.connect(file).execute("SELECT * FROM totals").fetchall()
    [('tea', 7)]
    """

    def __init__(
        self,
        connect: Connect,
        table: str,
        columns: Sequence[str],
        *,
        mode: WriteMode = "append",
        keys: Sequence[str] = (),
        sink: str | None = None,
        paramstyle: str | None = None,
    ) -> None:
        _check_names(connect, table, columns)
        check_mode(mode, keys, columns)
        if paramstyle is not None:
            check_paramstyle(paramstyle, f"paramstyle is {paramstyle!r:.80}, which no module has")
        super().__init__(DatabaseSink(connect, table, columns, mode, keys, sink, paramstyle))
