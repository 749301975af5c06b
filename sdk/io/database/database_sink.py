"""What: a sink that writes a collection to a table of a database exactly once, with a transaction for each epoch.

The rows of an epoch are part of its commit; after the commit the driver writes them in one transaction, which also
moves the sink's mark in the table `headrace_epochs` (see `sdk.io.epoch_sink`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain
from secrets import randbits
from typing import TypeAlias, cast

from headrace.lowlevel.coders.coder import PickleCoder
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.sdk.functions.changelog import ChangeKind
from headrace.sdk.io.database.statements import MAKE_MARKS, MARKS, Connection, Cursor, Dialect, Statements
from headrace.sdk.io.epoch_sink import EpochSink, Mark, Run, WriteMode, changes_of, check_mode, net_of, row_of
from headrace.sdk.transforms.core.write import Write

Connect: TypeAlias = Callable[[], Connection]
"""A function that opens a connection of DB-API 2."""


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
    headrace.sdk.io.database.database_sink.DatabaseWriteError: ...
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
            for probe in self._statements(dialect).probes(self._mode == "append"):
                cursor.execute(probe)
        try:
            self.stored("")
        except DatabaseWriteError:
            with self._transaction(f"a table for the epochs is missing and cannot be made by {MAKE_MARKS!r}") as opened:
                opened[1].execute(MAKE_MARKS)
        self._require_transactions()

    def _require_transactions(self) -> None:
        """Raise `DatabaseWriteError` if a statement is not taken back by a rollback."""
        probe = f"probe-{randbits(62):x}"
        failure = f"table {MARKS!r} cannot be written; nothing has run"
        with suppress(_TakenBack), self._transaction(failure) as (dialect, cursor):
            _move(dialect, cursor, probe, None, Mark(0, 0))
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

    def stored(self, sink: str) -> Mark | None:
        """See `EpochSink`."""
        with self._transaction(f"table {MARKS!r} cannot be read; nothing has run") as (dialect, cursor):
            return _mark(dialect, cursor, sink)

    def write(self, run: Run, epoch: int, receipts: Sequence[bytes]) -> None:
        """See `EpochSink`. Raises `DatabaseWriteError`."""
        parts = [cast("tuple[str | None, list[tuple[object, ...]]]", self._coder.decode(each)) for each in receipts]
        rows = list(chain.from_iterable(rows for _, rows in parts))
        kinds = [ChangeKind(kind) for kind in chain.from_iterable(kinds or "" for kinds, _ in parts)]
        failure = (
            f"epoch {epoch} was not written to table {self._table!r}; it is committed, and is written when the program "
            "is started again"
        )
        with self._transaction(failure) as (dialect, cursor):
            # Another driver waits here, and then reads what this one has left.
            cursor.execute(f"UPDATE {MARKS} SET epoch = epoch WHERE sink = {dialect.parameters(1, 1)[0]}", (run.sink,))
            before = _mark(dialect, cursor, run.sink)
            if run.must_write(before, epoch, self.destination):
                _move(dialect, cursor, run.sink, before, Mark(run.number, epoch))
                self._apply(self._statements(dialect), cursor, kinds, rows)

    def _apply(
        self, statements: Statements, cursor: Cursor, kinds: Sequence[ChangeKind], rows: Sequence[tuple[object, ...]]
    ) -> None:
        if self._mode == "append":
            cursor.executemany(statements.insert(), rows)
        elif self._keys:
            self._replace(statements, cursor, kinds, rows)
        else:
            for kind, row in zip(kinds, rows, strict=True):
                # Databases have no common statement that deletes one of several equal rows.
                again = 1 if kind is ChangeKind.INSERT else _deleted(statements, cursor, row) - 1
                if again > 0:
                    cursor.executemany(statements.insert(), [row] * again)

    def _replace(
        self, statements: Statements, cursor: Cursor, kinds: Sequence[ChangeKind], rows: Sequence[tuple[object, ...]]
    ) -> None:
        positions = [self._columns.index(key) for key in self._keys]
        keys = [tuple(row[position] for position in positions) for row in rows]
        net = net_of(kinds or None, cast("list[Hashable]", keys))

        def by_key(position: int) -> str:
            # Transactions that take the locks of rows in one order never wait for each other.
            return repr(keys[position])

        put = sorted(net.put, key=by_key)
        replaced = not statements.dialect.on_conflict
        gone = sorted([*net.taken, *(put if replaced else ())], key=by_key)
        if gone:
            cursor.executemany(statements.delete(), [keys[position] for position in gone])
        if put:
            statement = statements.insert() if replaced else statements.upsert()
            cursor.executemany(statement, [rows[position] for position in put])

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
                    connection.rollback()
                    raise
        except (HeadraceError, _TakenBack):
            raise
        except Exception as error:
            raise DatabaseWriteError(f"{failure}: {type(error).__name__}: {str(error).strip()}") from error


def _mark(dialect: Dialect, cursor: Cursor, sink: str) -> Mark | None:
    [parameter] = dialect.parameters(1, 1)
    cursor.execute(f"SELECT run, epoch FROM {MARKS} WHERE sink = {parameter}", (sink,))
    row = cursor.fetchone()
    return None if row is None else Mark(int(cast(int, row[0])), int(cast(int, row[1])))


def _move(dialect: Dialect, cursor: Cursor, sink: str, before: Mark | None, after: Mark) -> None:
    run, epoch, name = dialect.parameters(1, 3)
    if before is None:
        statement = f"INSERT INTO {MARKS} (run, epoch, sink) VALUES ({run}, {epoch}, {name})"
    else:
        statement = f"UPDATE {MARKS} SET run = {run}, epoch = {epoch} WHERE sink = {name}"
    cursor.execute(statement, (after.run, after.epoch, sink))


def _deleted(statements: Statements, cursor: Cursor, row: Sequence[object]) -> int:
    """Delete all rows that are equal to one; returns how many there were."""
    cursor.execute(*statements.delete_equal(row))
    if cursor.rowcount < 0:
        raise ValueError("the module does not count the rows that it deletes; give keys=[...]")
    return cursor.rowcount


def _check_names(connect: object, table: object, columns: object) -> None:
    if not callable(connect):
        raise TypeError(f"connect must be a function that opens a connection, got {connect!r:.200}")
    if not isinstance(table, str) or not all(table.split(".")):
        raise TypeError(f"table must be the name of a table, got {table!r:.200}")
    named = isinstance(columns, Sequence) and all(isinstance(name, str) and name for name in columns)
    if isinstance(columns, str) or not columns or not named:
        raise TypeError(f"columns must be a list of names, got {columns!r:.200}")


class WriteToDatabase(Write):
    """Writes elements as rows of a table, with one transaction for each epoch, exactly once.

    The transaction also keeps the epoch's number, in the table `headrace_epochs` of the same database, which is made if
    it is missing. The rows of an epoch pass through its commit and the driver's memory.

    Args:
        connect: Function that opens a connection of any DB-API 2 module, such as
            `lambda: psycopg.connect("dbname=shop")`. It runs on the driver, once for each epoch with rows. The
            connection must not commit each statement by itself.
        table: Name of the table, with its schema before a dot. It must exist.
        columns: Names of the columns that are written, as the database has them. Elements are dicts, `Row`s, named
            tuples or dataclasses with these fields, or plain tuples with a value for each. A missing field is null.
        mode: `append` adds a row for each element. `upsert` gives the row with an element's key its values, or
            adds it; of several elements of an epoch with one key the last one counts. With `changelog` elements are
            `Change`s (`ToChangelog`): an insertion puts a row in, by key if there are keys, and a deletion takes the
            row with its key out, or without keys one row that is equal.
        keys: Names of the columns whose values are a row's key. SQLite and PostgreSQL need a unique constraint on them.
        sink: A name of this sink that stays the same when a run begins anew on an empty checkpoint. The newer run then
            takes its predecessor's place, and the predecessor can write nothing more. By default each run that begins
            anew has a name of its own, and a row in `headrace_epochs`.
        paramstyle: How the module writes parameters (PEP 249); by default as it says itself.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: Mode, keys and columns do not fit together.

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
        super().__init__(DatabaseSink(connect, table, columns, mode, keys, sink, paramstyle))
