"""Tables of databases as sinks, in SQLite, PostgreSQL and DuckDB: modes, marks, replaced drivers, wrong arguments."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest
import sqlalchemy

import headrace as beam
from headrace.io import DatabaseWriteError, EpochsLostError, SinkTakenError, WriteToDatabase
from headrace.lowlevel import Batch, StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.driver.delivery import begin_sinks, held_receipts, joined_receipts
from headrace.runners.engine.driver.delivery import deliver as deliver_all
from headrace.runners.local import LocalRunner
from headrace.sdk.io import database as database_sink
from headrace.sdk.io.database import Dialect, Statements
from headrace.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from headrace.transforms.window import GlobalWindows
from headrace.utils.timestamp import Timestamp
from tests.postgresserver import server_or_skip
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne

COLUMNS = ["product", "amount"]


class Duck:
    """A connection of DuckDB as DB-API has it: its own cursors are further connections."""

    def __init__(self, inner):
        self._inner = inner
        inner.begin()

    def cursor(self):
        return DuckCursor(self._inner)

    def __getattr__(self, name):
        return getattr(self._inner, name)


class DuckCursor:
    rowcount = -1

    def __init__(self, inner):
        self._inner = inner

    def close(self):
        pass

    def __getattr__(self, name):
        return getattr(self._inner, name)


class Database:
    """A table `totals` in a database of its own."""

    def __init__(self, connect, **arguments):
        self.connect, self.arguments = connect, arguments
        self.run("DROP TABLE IF EXISTS totals")
        self.run("DROP TABLE IF EXISTS headrace_epochs")
        self.run("CREATE TABLE totals (product varchar(20) PRIMARY KEY, amount integer, note varchar(20))")
        self.run("CREATE TABLE IF NOT EXISTS sold (product varchar(20), amount integer)")
        self.run("DELETE FROM sold")

    def run(self, statement):
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            rows = cursor.fetchall() if statement.startswith("SELECT") else []
            connection.commit()
            return rows

    def totals(self):
        return sorted(self.run("SELECT product, amount FROM totals"))

    def sold(self):
        return sorted(self.run("SELECT product, amount FROM sold"))

    def writing(self, table="totals", columns=COLUMNS, *, connect=None, **arguments):
        return WriteToDatabase(connect or self.connect, table, columns, **self.arguments, **arguments)

    def sink(self, *target, anew=True, **arguments):
        sink = self.writing(*target, **arguments).sink()
        sink.begin(anew)
        return sink


@pytest.fixture(scope="module")
def address():
    yield from server_or_skip()


@pytest.fixture(params=["sqlite", "duckdb", pytest.param("postgres", marks=pytest.mark.slow)])
def database(request, tmp_path):
    match request.param:
        case "sqlite":
            return Database(lambda: sqlite3.connect(tmp_path / "shop.db"))
        case "duckdb":
            duckdb = pytest.importorskip("duckdb")

            return Database(lambda: Duck(duckdb.connect(tmp_path / "shop.duckdb")), paramstyle="qmark")
        case "postgres":
            psycopg = pytest.importorskip("psycopg")
            address = request.getfixturevalue("address")
            return Database(lambda: psycopg.connect(address))


def deliver(sink, epoch, *elements, token="t"):
    """An epoch with elements, as a driver has it."""
    receipts = [sink.stage(Batch(list(elements), [0] * len(elements)), epoch, 0, token), sink.held()]
    sink.deliver(epoch, [receipt for receipt in receipts if receipt is not None])
    return receipts


class TestModes:
    def test_each_element_is_a_row(self, database):
        with beam.Pipeline(LocalRunner()) as pipeline:
            rows = pipeline | beam.Create([{"product": "tea", "amount": 1}, beam.Row(amount=2), ("tea", 1)])
            rows | database.writing("sold")
        assert sorted(database.run("SELECT * FROM sold"), key=str) == [("tea", 1), ("tea", 1), (None, 2)]

    def test_the_last_element_of_a_key_counts_and_other_columns_stay(self, database):
        database.run("INSERT INTO totals VALUES ('tea', 1, 'green')")
        sink = database.sink(mode="upsert", keys=["product"])
        deliver(sink, 1, ("coffee", 7), ("tea", 2), ("coffee", 8))
        assert database.totals() == [("coffee", 8), ("tea", 2)]
        deliver(sink, 2, ("coffee", 9))
        assert database.totals() == [("coffee", 9), ("tea", 2)]
        if not database.arguments:
            assert database.run("SELECT note FROM totals WHERE product = 'tea'") == [("green",)]

    def test_a_key_that_is_the_whole_row(self, database):
        database.run("INSERT INTO totals (product) VALUES ('tea')")
        deliver(database.sink(columns=["product"], mode="upsert", keys=["product"]), 1, ("tea",), ("mate",))
        assert database.run("SELECT product FROM totals ORDER BY product") == [("mate",), ("tea",)]

    def test_changes_by_key(self, database):
        sink = database.sink(mode="changelog", keys=["product"])
        deliver(sink, 1, ("+", ("tea", 1)), ("+", ("mate", 1)), ("-", ("tea", 1)), ("+", ("tea", 2)))
        assert database.totals() == [("mate", 1), ("tea", 2)]
        deliver(sink, 2, ("-", ("mate", 1)), ("-", ("tea", 2)), ("+", ("tea", 3)), ("-", ("never", 0)))
        assert database.totals() == [("tea", 3)]

    def test_changes_of_bare_rows(self, database):
        if database.arguments:
            with pytest.raises(DatabaseWriteError, match=r"writing epoch 1 to table 'sold' failed.* give keys=\[...\]"):
                deliver(database.sink("sold", mode="changelog"), 1, ("-", ("tea", 1)))
            return
        sink = database.sink("sold", mode="changelog")
        tea, none = ("tea", 1), ("tea", None)
        deliver(sink, 1, ("+", tea), ("+", tea), ("+", none), ("+", tea), ("-", tea))
        assert database.run("SELECT count(*) FROM sold WHERE amount = 1") == [(2,)]
        # Changes of steps before may come in another order.
        deliver(sink, 2, ("-", none), ("-", ("mate", 1)), ("+", ("mate", 1)), ("+", ("mate", 2)), ("-", tea))
        assert database.sold() == [("mate", 2), tea]
        deliver(sink, 3, ("+", ("mate", 2.0)), ("+", none), ("-", ("mate", 2)), ("-", ("mate", 2)))
        assert sorted(database.run("SELECT * FROM sold"), key=str) == [tea, none]

    def test_a_bare_row_that_is_not_there_to_be_taken_out(self, database):
        if database.arguments:
            return
        sink = database.sink("sold", mode="changelog")
        deliver(sink, 1, ("+", ("tea", 1)), ("+", ("tea", 1)))
        with pytest.raises(DatabaseWriteError, match=r"takes out the row \('mate', 1\), but .* give keys=\[...\]"):
            deliver(sink, 2, ("-", ("tea", 1)), ("-", ("mate", 1)))
        with pytest.raises(DatabaseWriteError, match=r"takes out the row \('tea', 1\)"):
            deliver(sink, 2, *[("-", ("tea", 1))] * 3)
        assert database.sold() == [("tea", 1)] * 2

    def test_results_that_are_taken_back(self, database):
        with beam.Pipeline(LocalRunner(scheduler=OneByOne())) as pipeline:
            windowed = beam.WindowInto(
                GlobalWindows(),
                trigger=Repeatedly(AfterCount(1)),
                accumulation_mode=AccumulationMode.ACCUMULATING_AND_RETRACTING,
            )
            sums = pipeline | beam.Create([("oslo", 1), ("rome", 2), ("oslo", 2)]) | windowed | beam.CombinePerKey(sum)
            by_sum = sums | beam.Map(lambda pair: (str(pair[1]), 1)) | "Count" >> beam.CombinePerKey(sum)
            writing = database.writing(mode="changelog", keys=["product"])
            by_sum | beam.ToChangelog() | writing
        assert database.totals() == [("2", 1), ("3", 1)]

    def test_numbers_of_numpy(self, database):
        deliver(database.sink("sold"), 1, {"amount": np.int64(5), "product": np.str_("tea")})
        assert database.sold() == [("tea", 5)]

    def test_an_instant(self, database):
        database.run("DROP TABLE IF EXISTS seen")
        database.run("CREATE TABLE seen (moment timestamp)")
        if "sqlite" in str(type(database.connect())):
            pytest.skip("its module's own conversion of datetimes is deprecated")
        deliver(database.sink("seen", ["moment"]), 1, {"moment": Timestamp(7)})
        assert [row[0].second for row in database.run("SELECT moment FROM seen")] == [7]


class TestExactlyOnce:
    def test_an_epoch_that_comes_again_changes_nothing(self, database):
        sink = database.sink("sold")
        receipts = deliver(sink, 1, ("tea", 1))
        sink.deliver(1, receipts)
        again = database.sink("sold", anew=False)
        again.deliver(1, receipts)
        assert database.sold() == [("tea", 1)]
        assert again.held() == sink.held()
        deliver(again, 2, ("tea", 2))
        # The driver that was replaced does not know of the second epoch.
        with pytest.raises(SinkTakenError, match="epoch 2 of this run is already there"):
            sink.deliver(1, receipts)
        assert database.sold() == [("tea", 1), ("tea", 2)]

    def test_a_run_that_begins_anew_takes_the_place_of_the_other(self, database):
        first = database.sink("sold", sink="sales")
        for epoch in range(1, 4):
            deliver(first, epoch, ("tea", epoch))
        second = database.sink("sold", sink="sales")
        deliver(first, 4, ("tea", 4))
        receipts = deliver(second, 1, ("mate", 1))
        with pytest.raises(
            SinkTakenError,
            match=r"epoch 5 is committed, but was not written to table .sold.: .* the sink's name 'sales'",
        ):
            deliver(first, 5, ("tea", 5))
        database.sink("sold", sink="sales", anew=False).deliver(1, receipts)
        deliver(second, 2, ("mate", 2))
        assert database.sold() == [("mate", 1), ("mate", 2), *(("tea", epoch) for epoch in range(1, 5))]
        assert len(database.run("SELECT * FROM headrace_epochs")) == 1

    def test_sinks_without_a_name_do_not_know_each_other(self, database):
        first, second = database.sink("sold"), database.sink("sold")
        deliver(first, 1, ("tea", 1))
        deliver(second, 1, ("mate", 1))
        deliver(first, 2, ("tea", 2))
        assert database.sold() == [("mate", 1), ("tea", 1), ("tea", 2)]

    def test_the_mark_moves_with_the_rows_or_not_at_all(self, database):
        sink = database.sink(sink="sales")
        deliver(sink, 1, ("tea", 1))
        with pytest.raises(
            DatabaseWriteError,
            match=r"(?s)epoch 2 to table 'totals' failed; it is committed.*refused is \('tea', 2\): change the table",
        ):
            deliver(sink, 2, ("mate", 1), ("tea", 2), ("water", 3))
        assert database.totals() == [("tea", 1)]
        assert [row[2] for row in database.run("SELECT * FROM headrace_epochs")] == [1]
        database.run("DELETE FROM totals WHERE product = 'tea'")
        deliver(sink, 2, ("mate", 1), ("tea", 2))
        assert database.totals() == [("mate", 1), ("tea", 2)]

    def test_a_database_that_was_restored_from_a_backup(self, database):
        sink = database.sink("sold", sink="sales")
        deliver(sink, 1, ("tea", 1))
        deliver(sink, 2, ("tea", 2))
        database.run("UPDATE headrace_epochs SET epoch = 1")
        receipts = [sink.stage(Batch([("tea", 3)], [0]), 3, 0, "t"), sink.held()]
        for late in (sink, database.sink("sold", sink="sales", anew=False)):
            with pytest.raises(
                EpochsLostError,
                match=r"3 is committed, but was not written to .* written epoch 2 .*'sales'.* newest epoch there is 1",
            ):
                late.deliver(3, receipts)
        database.run("UPDATE headrace_epochs SET epoch = 2")
        sink.deliver(3, receipts)
        assert database.sold() == [("tea", 1), ("tea", 2), ("tea", 3)]

    def test_a_backup_without_the_epoch_before_the_newest_commit(self, tmp_path):
        database = Database(lambda: sqlite3.connect(tmp_path / "shop.db"))
        options = PipelineOptions([f"--checkpoint={tmp_path}/state"])

        def life(scheduler):
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
                pipeline | beam.Create([("tea", 1), ("tea", 2), ("tea", 3), ("tea", 4)]) | database.writing("sold")

        with pytest.raises(Crash):
            life(CrashAt("deliver"))
        assert database.sold() == [("tea", 1), ("tea", 2)]
        database.run("UPDATE headrace_epochs SET epoch = 1")
        database.run("DELETE FROM sold WHERE amount = 2")
        with pytest.raises(EpochsLostError, match=r"epoch 3 is .* not written .* has written epoch 2 there"):
            life(OneByOne())
        database.run("UPDATE headrace_epochs SET epoch = 2")
        database.run("INSERT INTO sold VALUES ('tea', 2)")
        life(OneByOne())
        assert database.sold() == [("tea", number) for number in range(1, 5)]

    def test_a_database_that_was_made_anew_or_names_the_predecessor(self, database):
        deliver(database.sink("sold", sink="sales"), 1, ("tea", 1))
        [before] = database.run("SELECT run FROM headrace_epochs")
        sink = database.sink("sold", sink="sales")
        deliver(sink, 1, ("tea", 2))
        for statement in (f"UPDATE headrace_epochs SET run = {before[0]}", "DELETE FROM headrace_epochs"):
            database.run(statement)
            with pytest.raises(EpochsLostError, match=r"written epoch 1 .* none of its epochs is there"):
                deliver(sink, 2, ("tea", 3))

    def test_a_run_that_goes_on_under_another_name_writes_nothing_again(self, database):
        sink = database.sink("sold", sink="sales")
        receipts = deliver(sink, 1, ("tea", 1))
        for name in ("sold", None):
            database.sink("sold", sink=name, anew=False).deliver(1, receipts)
        assert database.sold() == [("tea", 1)]

    def test_of_two_sinks_with_one_name_the_second_can_be_given_another(self, database):
        first, second = database.sink("sold", sink="sales"), database.sink("sold", sink="sales")
        deliver(first, 1, ("tea", 1))
        with pytest.raises(SinkTakenError, match="sinks that write at the same time need different names"):
            deliver(second, 1, ("mate", 1))
        receipts = [second.stage(Batch([("mate", 1)], [0]), 1, 0, "t"), second.held()]
        again = database.sink("sold", sink="mates", anew=False)
        again.deliver(1, receipts)
        deliver(again, 2, ("mate", 2))
        assert database.sold() == [("mate", 1), ("mate", 2), ("tea", 1)]

    def test_epochs_without_rows_write_nothing(self, database):
        sink = database.sink("sold", sink="sales")
        sink.deliver(1, [sink.held()])
        assert sink.stage(Batch([], []), 1, 0, "t") is None
        assert database.run("SELECT * FROM headrace_epochs") == []

    def test_a_sink_of_a_topology_that_is_changed_live_goes_on_with_the_run(self, tmp_path):
        database = Database(lambda: sqlite3.connect(tmp_path / "shop.db"))
        old, new = database.sink("sold"), database.writing("sold").sink()
        before, sinks = held_receipts({"out": ("sold", old)}), {"out": ("sold", new)}
        receipts = joined_receipts(
            joined_receipts(before, begin_sinks(sinks, Activity(1), ["out"])), held_receipts(sinks)
        )
        deliver_all(sinks, 2, receipts, Activity(1))
        assert held_receipts(sinks) == before
        deliver(new, 3, ("tea", 3))
        assert database.sold() == [("tea", 3)]


class TestRaces:
    """Another driver moves the mark after this one has read it."""

    def test_the_mark_has_moved(self, tmp_path):
        database = Database(lambda: sqlite3.connect(tmp_path / "shop.db"))
        connections = [sqlite3.Connection]
        zombie = database.sink(
            "sold", sink="sales", connect=lambda: sqlite3.connect(tmp_path / "shop.db", factory=connections[-1])
        )
        deliver(zombie, 1, ("tea", 1))
        receipts = [zombie.stage(Batch([("tea", 2)], [0]), 2, 0, "t"), zombie.held()]

        class Late(sqlite3.Connection):
            def cursor(self):
                return LateCursor(self)

        class LateCursor(sqlite3.Cursor):
            def execute(self, statement, *parameters):
                if (
                    statement.startswith("UPDATE headrace_epochs SET epoch = epoch")
                    and LateCursor.successor is not None
                ):
                    successor, LateCursor.successor = LateCursor.successor, None
                    successor.deliver(2, receipts)
                return super().execute(statement, *parameters)

        LateCursor.successor = database.sink("sold", sink="sales", anew=False)
        connections.append(Late)
        zombie.deliver(2, receipts)
        assert LateCursor.successor is None
        assert database.sold() == [("tea", 1), ("tea", 2)]


class Unsteady:
    """A connection of SQLite that is lost where `fails` says so."""

    def __init__(self, path, fails):
        self._inner, self._fails = sqlite3.connect(path), fails

    def cursor(self):
        return self._inner.cursor()

    def commit(self):
        if self._fails("before"):
            raise sqlite3.OperationalError("the server has gone away")
        self._inner.commit()
        if self._fails("after"):
            raise sqlite3.OperationalError("the server has gone away")

    def rollback(self):
        raise sqlite3.InterfaceError("not connected")

    def close(self):
        self._inner.close()


class TestOutages:
    @pytest.fixture
    def database(self, tmp_path, monkeypatch):
        monkeypatch.setattr(database_sink, "_WAITS", (0, 0))
        return Database(lambda: sqlite3.connect(tmp_path / "shop.db"))

    def unsteady_sink(self, database, tmp_path, fails):
        """A sink whose connections are steady until it has begun, and from then on fail where `fails` says so."""
        begun = []
        sink = database.sink(
            "sold",
            sink="sales",
            connect=lambda: Unsteady(tmp_path / "shop.db", lambda moment: bool(begun) and fails(moment)),
            paramstyle="qmark",
        )
        begun.append(True)
        return sink

    @pytest.mark.parametrize("where", ["before", "after"])
    def test_an_epoch_is_tried_again_and_written_once(self, database, tmp_path, where, caplog):
        moments = []

        def fails(moment):
            moments.append(moment)
            return moment == where and moments.count(where) < 3

        sink = self.unsteady_sink(database, tmp_path, fails)
        deliver(sink, 1, ("tea", 1))
        assert moments.count(where) == 3
        assert database.sold() == [("tea", 1)]
        assert "trying again" in caplog.text

    def test_an_outage_that_lasts(self, database, tmp_path):
        attempts = []
        sink = self.unsteady_sink(database, tmp_path, lambda _: attempts.append(1) or True)
        message = r"epoch 1 to table 'sold' failed; it is committed.*unless the table has it: .*has gone away$"
        with pytest.raises(DatabaseWriteError, match=message):
            deliver(sink, 1, ("tea", 1))
        assert len(attempts) == 3

    def test_what_does_not_pass_is_not_tried_again(self, database):
        connections = []
        sink = database.sink("totals", connect=lambda: connections.append(1) or database.connect())
        connections.clear()
        with pytest.raises(DatabaseWriteError, match=r"refused is \('tea', \{\}\)"):
            deliver(sink, 1, ("tea", {}))
        # The other one finds the row.
        assert len(connections) == 2
        assert database.totals() == []


class TestWrongInput:
    def test_what_does_not_fit_the_table(self, database):
        for table, columns, arguments in [
            ("nowhere", COLUMNS, {}),
            ("sold", ["product", "price"], {}),
        ]:
            with pytest.raises(DatabaseWriteError, match=r"cannot be written; nothing has run"):
                database.sink(table, columns, **arguments)
        if not database.arguments:
            with pytest.raises(DatabaseWriteError, match=r"cannot be written; nothing has run: .*ON CONFLICT"):
                database.sink("sold", mode="upsert", keys=["product"])

    @pytest.mark.parametrize(
        ("element", "message"),
        [
            ({"product": "tea", "prize": 3}, r"elements have a field 'prize', but the columns are"),
            (("tea",), r"element \('tea',\) has 1 values for the columns"),
            ({"amount": 3}, r"has no value for the key 'product'"),
            ({"product": float("nan"), "amount": 3}, r"has NaN for the key 'product'"),
            (5, r"element 5 of type int has no named fields"),
            ((["tea"], 5), r"element \(\['tea'\], 5\) has a list for the key 'product'"),
        ],
    )
    def test_elements_that_do_not_fit_commit_nothing(self, tmp_path, element, message):
        database = Database(lambda: sqlite3.connect(tmp_path / "shop.db"))
        with pytest.raises(StepError, match=message), beam.Pipeline(LocalRunner()) as pipeline:
            writing = database.writing(mode="upsert", keys=["product"])
            pipeline | beam.Create([element]) | writing
        assert database.totals() == []

    def test_elements_that_are_no_changes(self, tmp_path):
        database = Database(lambda: sqlite3.connect(tmp_path / "shop.db"))
        with pytest.raises(TypeError, match=r"\('tea', 3\) is no change; put ToChangelog\(\) before"):
            deliver(database.sink(mode="changelog", keys=["product"]), 1, ("tea", 3))

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (
                ("postgres://u:secret@h/d", "t", ["a"]),
                TypeError,
                "connect must be a function.*, got a value of .*'str'>$",
            ),
            ((sqlite3.connect(":memory:"), "t", ["a"]), TypeError, "connect must be a function.*sqlite3.Connection'>$"),
            ((print, "t", ["a", "b", "a"]), ValueError, r"columns names a column twice: \['a', 'b', 'a'\]"),
            ((print, "a..b", ["a"]), TypeError, "table must be the name of a table, got 'a..b'"),
            ((print, "t", "a"), TypeError, "columns must be a list of names, got 'a'"),
            ((print, "t", []), TypeError, r"columns must be a list of names, got \[\]"),
        ],
    )
    def test_arguments(self, arguments, error, message):
        with pytest.raises(error, match=message):
            WriteToDatabase(*arguments)

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"mode": "overwrite"}, ValueError, "mode is 'overwrite'; use one of append, upsert, changelog"),
            ({"mode": "upsert", "keys": "a"}, TypeError, r"keys must be a list of columns, got text; write \['a'\]"),
            ({"mode": "upsert", "keys": ["b"]}, ValueError, r"keys names column 'b', but the columns are \['a'\]"),
            ({"mode": "upsert"}, ValueError, r"mode='upsert' replaces .*: keys=\[...\]"),
            ({"keys": ["a"]}, ValueError, "keys have no meaning with mode='append'"),
            (
                {"paramstyle": "?"},
                ValueError,
                r"paramstyle is '\?', which no module has; give paramstyle, one of qmark",
            ),
            ({"sink": ""}, TypeError, "sink must be a name that the destination keeps, got ''"),
        ],
    )
    def test_options(self, options, error, message):
        with pytest.raises(error, match=message):
            WriteToDatabase(print, "t", ["a"], **options)

    def test_a_connection_that_connect_has_given_before(self, tmp_path):
        database = Database(lambda: sqlite3.connect(tmp_path / "shop.db"))
        connection = sqlite3.connect(tmp_path / "shop.db")
        database.connect = lambda: connection
        with pytest.raises(DatabaseWriteError, match=r"\(connect\(\) must open a connection each time\).*closed"):
            database.sink("sold")

    @pytest.mark.slow
    def test_rights_that_are_needed(self, address):
        psycopg = pytest.importorskip("psycopg")
        database = Database(lambda: psycopg.connect(address))
        database.sink()
        database.run("CREATE ROLE clerk LOGIN")
        database.run("GRANT SELECT, INSERT, UPDATE ON headrace_epochs TO clerk")
        database.connect = lambda: psycopg.connect(address.replace("user=postgres", "user=clerk"))
        with closing(psycopg.connect(address, autocommit=True)) as connection:
            connection.execute("GRANT SELECT ON totals TO clerk")
            for right, mode in [("INSERT", "append"), ("UPDATE", "upsert"), ("DELETE", "changelog")]:
                keys = [] if mode == "append" else ["product"]
                with pytest.raises(DatabaseWriteError, match="InsufficientPrivilege"):
                    database.sink(mode=mode, keys=keys)
                connection.execute(f"GRANT {right} ON totals TO clerk")
                database.sink(mode=mode, keys=keys)

    def test_names_with_percent_signs(self, database):
        database.run('DROP TABLE IF EXISTS "50%"')
        database.run('CREATE TABLE "50%" ("%s" varchar(20) PRIMARY KEY, "%%" integer)')
        deliver(database.sink("50%", ["%s", "%%"], mode="upsert", keys=["%s"]), 1, ("tea", 1))
        assert database.run('SELECT * FROM "50%"') == [("tea", 1)]

    def test_a_connection_of_a_pool(self):
        pool = sqlalchemy.create_engine("sqlite://")
        assert Dialect.of(pool.raw_connection()) == Dialect("?", '"', on_conflict=True)

    def test_a_connection_that_commits_each_statement(self, tmp_path):
        database = Database(lambda: sqlite3.connect(tmp_path / "shop.db"))
        database.connect = lambda: sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
        with pytest.raises(DatabaseWriteError, match=r"commits each statement by itself.*turn autocommit off"):
            database.sink("sold")
        assert database.run("SELECT * FROM headrace_epochs") == []

    def test_a_module_that_does_not_say_its_parameter_style(self):
        with pytest.raises(ValueError, match=r"'builtins' of the connection does not say .* one of qmark, format"):
            Dialect.of(5)

    @pytest.mark.parametrize(
        ("style", "statement"),
        [
            ("numeric", 'INSERT INTO "main"."a%b" ("c", "d""e") VALUES (:1, :2)'),
            ("format", 'INSERT INTO "main"."a%%b" ("c", "d""e") VALUES (%s, %s)'),
        ],
    )
    def test_names_are_quoted(self, style, statement):
        assert Statements(Dialect.of(5, style), "main.a%b", ["c", 'd"e'], []).insert() == statement
