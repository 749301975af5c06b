"""Delta tables as sinks: modes, types, partitions, versions, marks, other writers, wrong arguments, object stores."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from shutil import rmtree

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake

import headrace as beam
from headrace.io.delta import DeltaError, ReadFromDelta, WriteToDelta
from headrace.lowlevel import StepError
from headrace.runners.local import LocalRunner
from headrace.sdk.io.delta import delta_sink, delta_table
from headrace.sdk.io.delta.delta_table import TableLocation
from headrace.utils.timestamp import Timestamp
from tests import s3
from tests.faults.crashes.tableworlds import staged
from tests.unit.sdk.io.sourcefiles import OneByOne

SCHEMA = pa.schema([("product", pa.string()), ("amount", pa.int64())])


def sink(place, schema=SCHEMA, anew=True, **arguments):
    made = WriteToDelta(place, schema, **arguments).sink()
    made.begin(anew)
    return made


def rows(place, **options):
    return sorted(DeltaTable(place, **options).to_pyarrow_table().to_pylist(), key=repr)


def pairs(place, **options):
    return sorted((row["product"], row["amount"]) for row in rows(place, **options))


def deliver(made, epoch, *elements):
    receipts = staged(made, epoch, *elements)
    made.deliver(epoch, receipts)
    return receipts


def deliver_after(monkeypatch, zombie, successor, receipts, then=lambda: None):
    """Deliver an epoch by a driver whose successor delivers it, and more, once the driver has looked at the table."""
    opened, successors = TableLocation.opened, [successor]

    def late(*arguments):
        table = opened(*arguments)
        if successors:
            successors.pop().deliver(1, receipts)
            then()
        return table

    monkeypatch.setattr(TableLocation, "opened", late)
    zombie.deliver(1, receipts)
    assert not successors


class TestModes:
    def test_each_epoch_is_a_version_with_the_files_of_its_tasks(self, tmp_path):
        place = str(tmp_path)
        with beam.Pipeline(LocalRunner(scheduler=OneByOne())) as pipeline:
            read = pipeline | beam.Create([("tea", 1), beam.Row(product="mate"), {"product": "tea", "amount": 1}])
            read | WriteToDelta(place, SCHEMA)
        table = DeltaTable(place)
        assert rows(place) == [
            {"product": "mate", "amount": None},
            {"product": "tea", "amount": 1},
            {"product": "tea", "amount": 1},
        ]
        # The table itself is made by version 0.
        assert table.version() == 3
        assert len(table.file_uris()) == 3

    def test_the_last_element_of_a_key_counts_and_other_columns_stay(self, tmp_path):
        write_deltalake(tmp_path, pa.table({"product": ["tea"], "amount": [1], "note": ["green"]}))
        made = sink(tmp_path, mode="upsert", keys=["product"])
        deliver(made, 1, ("coffee", 7), ("tea", 2), ("coffee", 8))
        assert pairs(tmp_path) == [("coffee", 8), ("tea", 2)]
        assert rows(tmp_path)[1]["note"] == "green"

    def test_changes_by_key(self, tmp_path):
        made = sink(tmp_path, mode="changelog", keys=["product"])
        deliver(made, 1, ("+", ("tea", 1)), ("+", ("mate", 1)), ("-", ("tea", 1)), ("+", ("tea", 2)))
        assert pairs(tmp_path) == [("mate", 1), ("tea", 2)]
        deliver(made, 2, ("-", ("mate", 1)), ("-", ("tea", 2)), ("+", ("tea", 3)), ("-", ("never", 0)))
        assert pairs(tmp_path) == [("tea", 3)]

    def test_an_epoch_that_changes_nothing_moves_the_mark_too(self, tmp_path):
        made = sink(tmp_path, mode="changelog", keys=["product"])
        deliver(made, 1, ("+", ("tea", 1)))
        receipts = deliver(made, 2, ("-", ("mate", 1)))
        write_deltalake(tmp_path, pa.table({"product": ["mate"], "amount": [1]}), mode="append")
        made.deliver(2, receipts)
        assert pairs(tmp_path) == [("mate", 1), ("tea", 1)]

    @pytest.mark.parametrize("mode", ["append", "upsert"])
    def test_an_epoch_of_a_program_that_knew_fewer_columns(self, tmp_path, mode):
        keys = ["product"] if mode == "upsert" else []
        receipts = staged(sink(tmp_path, mode=mode, keys=keys), 1, ("tea", 1))
        DeltaTable(tmp_path).alter.add_columns([Field("note", "string")])
        sink(tmp_path, None, anew=False, mode=mode, keys=keys).deliver(1, receipts)
        assert rows(tmp_path) == [{"product": "tea", "amount": 1, "note": None}]

    def test_names_that_need_quotes(self, tmp_path):
        schema = pa.schema([('a "key"', pa.string()), ("Total amount", pa.int64())])
        made = sink(tmp_path, schema, mode="upsert", keys=['a "key"'])
        deliver(made, 1, ("tea", 1))
        deliver(made, 2, ("tea", 2))
        assert rows(tmp_path) == [{'a "key"': "tea", "Total amount": 2}]

    @pytest.mark.parametrize(("before", "after"), [("append", "upsert"), ("upsert", "append"), ("changelog", "upsert")])
    def test_an_epoch_of_another_mode(self, tmp_path, before, after):
        """It is named as long as it cannot be written; rows by key can."""
        modes = {mode: {"mode": mode, "keys": [] if mode == "append" else ["product"]} for mode in (before, after)}
        change = ("+", ("tea", 1)) if before == "changelog" else ("tea", 1)
        receipts = staged(sink(tmp_path, **modes[before]), 1, change)
        made = sink(tmp_path, anew=False, **modes[after])
        if before != "changelog":
            with pytest.raises(DeltaError, match=rf"epoch 1 was not .* with mode='{before}.* with the old mode"):
                made.deliver(1, receipts)
            made = sink(tmp_path, anew=False, **modes[before])
        made.deliver(1, receipts)
        assert pairs(tmp_path) == [("tea", 1)]


class TestFiles:
    def test_partitions(self, tmp_path):
        schema = pa.schema([("day", pa.date32()), ("shop", pa.string()), ("open", pa.bool_()), ("amount", pa.int64())])
        made = sink(tmp_path, schema, partition_by=["day", "shop", "open"])
        days = [date(2024, 1, 2), None]
        elements = [(day, shop, True, n) for n, (day, shop) in enumerate((d, s) for d in days for s in ("a/b %x", "ü"))]
        deliver(made, 1, *elements)
        found = [tuple(row.values()) for row in rows(tmp_path)]
        assert sorted(found, key=repr) == sorted(elements, key=repr)
        [one] = (
            DeltaTable(tmp_path)
            .to_pyarrow_table(filters=[("shop", "=", "ü"), ("day", "=", date(2024, 1, 2))])
            .to_pylist()
        )
        assert one["amount"] == 1
        # A table that exists says itself how it is partitioned.
        deliver(sink(tmp_path, None), 1, elements[0])
        assert len(rows(tmp_path)) == 5

    def test_what_is_written_to_a_local_url_is_kept(self, tmp_path, monkeypatch):
        """Data files before the commit of the epoch, the log after it, as those of a path."""
        kept = []
        for module in (delta_table, delta_sink):
            monkeypatch.setattr(module, "keep_files", lambda system, paths: kept.extend(paths))
        deliver(sink(f"file://{tmp_path}/table"), 1, ("tea", 1))
        log = f"{tmp_path}/table/_delta_log"
        assert [kept[0], kept[2]] == [f"{log}/{version:020d}.json" for version in range(2)]
        assert kept[1].startswith(f"{tmp_path}/table/part-")

    def test_types(self, tmp_path):
        schema = pa.schema(
            [
                ("at", pa.timestamp("us", "UTC")),
                ("day", pa.date32()),
                ("price", pa.float64()),
                ("few", pa.int32()),
                ("tags", pa.list_(pa.string())),
            ]
        )
        element = {"at": Timestamp(7), "day": date(2024, 1, 2), "price": float("nan"), "few": 3, "tags": ["a"]}
        deliver(sink(tmp_path, schema), 1, element, {"price": 1.5})
        [written] = [row for row in rows(tmp_path) if row["few"]]
        assert written["at"] == datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)
        assert (written["day"], written["tags"]) == (date(2024, 1, 2), ["a"])
        statistics = pa.table(DeltaTable(tmp_path).get_add_actions(flatten=True)).to_pylist()[0]
        assert (statistics["num_records"], statistics["max.few"], statistics["null_count.at"]) == (2, 3, 1)

    @pytest.mark.parametrize(
        ("kind", "greatest"),
        [
            (pa.uint8(), 2**8 - 1),
            (pa.uint16(), 2**16 - 1),
            (pa.uint32(), 2**32 - 1),
            (pa.uint64(), 2**64 - 1),
            (pa.list_(pa.uint8()), [2**8 - 1]),
            (pa.struct([("n", pa.uint32())]), {"n": 2**32 - 1}),
        ],
    )
    def test_unsigned_numbers_keep_their_values(self, tmp_path, kind, greatest):
        """Delta's types have signs, so a column is as wide as its values need."""
        schema = pa.schema([("n", kind), ("day", pa.date32())])
        for _ in range(2):
            with beam.Pipeline(LocalRunner()) as pipeline:
                pipeline | beam.Create([{"n": greatest}]) | WriteToDelta(tmp_path, schema)
        assert [row["n"] for row in rows(tmp_path)] == [greatest] * 2

    def test_a_table_whose_type_is_as_wide_as_the_unsigned_one_stays(self, tmp_path):
        """0.1.0 has made such tables."""
        write_deltalake(tmp_path, pa.table({"n": pa.array([1], pa.int8())}))
        made = sink(tmp_path, pa.schema([("n", pa.uint8())]))
        deliver(made, 1, {"n": 127})
        assert sorted(row["n"] for row in rows(tmp_path)) == [1, 127]
        with pytest.raises(ValueError, match=r"255 \(int\) does not fit in column 'n' of type int8"):
            deliver(made, 2, {"n": 255})

    @pytest.mark.parametrize("other", ["nan", "inf"])
    def test_numbers_that_no_bound_covers(self, tmp_path, other):
        """Readers leave a file out by its bounds; both numbers are greater than all others."""
        deliver(sink(tmp_path, pa.schema([("price", pa.float64())])), 1, (1.5,), (float(other),))
        [statistics] = pa.table(DeltaTable(tmp_path).get_add_actions(flatten=True)).to_pylist()
        assert statistics.get("max.price") is None

    def test_a_table_that_is_removed_meanwhile(self, tmp_path):
        made = sink(tmp_path / "table")
        receipts = staged(made, 1, ("tea", 1))
        rmtree(tmp_path / "table")
        with pytest.raises(DeltaError, match=r"epoch 1 was not written to .*; it is committed, and is written when"):
            made.deliver(1, receipts)

    def test_files_of_failed_attempts_are_not_seen_and_vacuum_takes_them(self, tmp_path):
        made = sink(tmp_path)
        staged(made, 1, ("never", 0))
        deliver(made, 1, ("tea", 1))
        assert pairs(tmp_path) == [("tea", 1)]
        assert len(list(tmp_path.glob("part-*.parquet"))) == 2
        table = DeltaTable(tmp_path)
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
        assert len(list(tmp_path.glob("part-*.parquet"))) == 1

    def test_marks_do_not_expire(self, tmp_path):
        keeping = {"delta.setTransactionRetentionDuration": "interval 0 seconds"}
        DeltaTable.create(tmp_path, SCHEMA, configuration=keeping)
        receipts = deliver(sink(tmp_path), 1, ("tea", 1))
        DeltaTable(tmp_path).create_checkpoint()
        sink(tmp_path, anew=False).deliver(1, receipts)
        assert DeltaTable(tmp_path).version() == 1

    def test_files_that_were_removed_before_they_were_added(self, tmp_path):
        made = sink(tmp_path)
        receipts = staged(made, 1, ("tea", 1))
        [file] = tmp_path.glob("part-*.parquet")
        file.unlink()
        again = sink(tmp_path, anew=False)
        with pytest.raises(DeltaError, match=r"1 of 1 data files of committed epoch 1 are gone .* as VACUUM does"):
            again.deliver(1, receipts)
        assert DeltaTable(tmp_path).version() == 0


class TestOtherWriters:
    @pytest.mark.parametrize("mode", ["append", "upsert"])
    def test_the_version_is_taken(self, tmp_path, monkeypatch, mode):
        """Another program writes between the look at the table and the commit."""
        made = sink(tmp_path, mode=mode, keys=["product"] if mode == "upsert" else ())
        opened, others = TableLocation.opened, [("mate", 1)]

        def late(*arguments):
            table = opened(*arguments)
            if others:
                product, amount = others.pop()
                write_deltalake(tmp_path, pa.table({"product": [product], "amount": [amount]}), mode="append")
            return table

        monkeypatch.setattr(TableLocation, "opened", late)
        deliver(made, 1, ("tea", 1))
        assert not others
        assert pairs(tmp_path) == [("mate", 1), ("tea", 1)]

    @pytest.mark.parametrize("mode", ["append", "upsert", "changelog"])
    def test_the_epoch_is_written_by_a_successor_at_the_same_time(self, tmp_path, monkeypatch, mode):
        keys = () if mode == "append" else ["product"]
        zombie = sink(tmp_path, mode=mode, keys=keys)
        change = ("tea", 1) if mode != "changelog" else ("+", ("tea", 1))
        receipts = staged(zombie, 1, change)
        successor = sink(tmp_path, mode=mode, keys=keys, anew=False)
        deliver_after(monkeypatch, zombie, successor, receipts)
        assert pairs(tmp_path) == [("tea", 1)]

    @pytest.mark.parametrize("mode", ["append", "upsert"])
    def test_what_was_deleted_since_does_not_come_back(self, tmp_path, monkeypatch, mode):
        """The same data file, added twice, would be one file; but not after it was removed."""
        keys = () if mode == "append" else ["product"]
        zombie = sink(tmp_path, mode=mode, keys=keys)
        receipts = staged(zombie, 1, ("tea", 1))
        successor = sink(tmp_path, mode=mode, keys=keys, anew=False)
        deliver_after(monkeypatch, zombie, successor, receipts, lambda: DeltaTable(tmp_path).delete("product = 'tea'"))
        assert pairs(tmp_path) == []

    def test_others_are_faster_again_and_again(self, tmp_path, monkeypatch):
        made = sink(tmp_path, mode="upsert", keys=["product"])
        opened = TableLocation.opened

        def late(*arguments):
            table = opened(*arguments)
            write_deltalake(tmp_path, pa.table({"product": ["mate"], "amount": [1]}), mode="append")
            return table

        monkeypatch.setattr(TableLocation, "opened", late)
        monkeypatch.setattr(delta_sink, "_ATTEMPTS", 2)
        with pytest.raises(DeltaError, match=r"epoch 1 was not written .*; it is committed.* were faster 2 times"):
            deliver(made, 1, ("tea", 1))


class TestWrongInput:
    def test_no_table_and_no_schema(self, tmp_path):
        with pytest.raises(ValueError, match=r"there is no Delta table at .*/none; give a schema, and it is made"):
            WriteToDelta(tmp_path / "none")

    @pytest.mark.parametrize(
        ("schema", "options", "message"),
        [
            (
                pa.schema([("price", pa.int64())]),
                {},
                r"the table has no column 'price', it has \['product', 'amount'\]",
            ),
            (pa.schema([("amount", pa.string())]), {}, "column 'amount' has type int64 in the table and string in the"),
            (SCHEMA, {"partition_by": ["product"]}, r"partitioned by \[\], and partition_by is \['product'\]"),
            (pa.schema([("amount", pa.int64())]), {}, "column 'product' of the table must have values"),
        ],
    )
    def test_a_table_that_does_not_fit(self, tmp_path, schema, options, message):
        DeltaTable.create(tmp_path, pa.schema([SCHEMA.field(0).with_nullable(False), SCHEMA.field(1)]))
        with pytest.raises(DeltaError, match=rf"cannot be written; nothing has run: .*{message}"):
            sink(tmp_path, schema, **options)

    def test_a_table_with_constraints(self, tmp_path):
        DeltaTable.create(tmp_path, SCHEMA)
        DeltaTable(tmp_path).alter.add_constraint({"positive": "amount > 0"})
        with pytest.raises(DeltaError, match="column mapping or constraints, which files that tasks write do not heed"):
            sink(tmp_path)

    @pytest.mark.parametrize("rule", ["delta.generationExpression", "delta.invariants"])
    @pytest.mark.parametrize("mode", ["append", "upsert"])
    def test_a_table_with_rules_for_a_column(self, tmp_path, rule, mode):
        amount = Field("amount", "long", metadata={rule: "1"})
        DeltaTable.create(tmp_path, Schema([Field("product", "string"), amount]))
        with pytest.raises(DeltaError, match=rf"nothing has run: .* a rule for column 'amount' \({rule}\)"):
            sink(tmp_path, mode=mode, keys=["product"] if mode == "upsert" else [])

    def test_a_table_that_only_takes_new_rows(self, tmp_path):
        DeltaTable.create(tmp_path, SCHEMA, configuration={"delta.appendOnly": "true"})
        with pytest.raises(DeltaError, match=r"nothing has run: mode='upsert' replaces rows, .* \(delta.appendOnly\)"):
            sink(tmp_path, mode="upsert", keys=["product"])
        deliver(sink(tmp_path), 1, ("tea", 1))
        assert pairs(tmp_path) == [("tea", 1)]

    def test_a_table_that_changes_meanwhile(self, tmp_path):
        made = sink(tmp_path)
        deliver(made, 1, ("tea", 1))
        write_deltalake(tmp_path, pa.table({"other": [1]}), mode="overwrite", schema_mode="overwrite")
        with pytest.raises(DeltaError, match=r"epoch 2 was not written to .*; it is committed.*no column 'product'"):
            deliver(made, 2, ("tea", 2))

    @pytest.mark.parametrize(
        ("element", "message"),
        [
            ({"product": "tea", "prize": 3}, "elements have a field 'prize', but the columns are"),
            (("tea", "much"), "does not fit the schema"),
            ((None, 3), "1 elements have no value for the key 'product', .* such as {'product': None, 'amount': 3}"),
        ],
    )
    def test_elements_that_do_not_fit_commit_nothing(self, tmp_path, element, message):
        with pytest.raises(StepError, match=message), beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | beam.Create([element]) | WriteToDelta(tmp_path, SCHEMA, mode="upsert", keys=["product"])
        assert DeltaTable(tmp_path).version() == 0

    def test_a_number_that_equals_nothing_is_no_key(self, tmp_path):
        schema = pa.schema([("amount", pa.float64())])
        message = r"1 elements have no value for the key 'amount'.*'amount': nan"
        with pytest.raises(StepError, match=message), beam.Pipeline(LocalRunner()) as pipeline:
            rows = pipeline | beam.Create([(1.0,), (float("nan"),)])
            rows | WriteToDelta(tmp_path, schema, mode="upsert", keys=["amount"])
        assert DeltaTable(tmp_path).version() == 0

    def test_columns_of_elements_that_are_no_columns_of_the_table(self, tmp_path):
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"product": ["tea"], "prize": [3]}), tmp_path / "in.parquet")
        with pytest.raises(StepError, match="elements have a field 'prize'"), beam.Pipeline(LocalRunner()) as pipeline:
            read = pipeline | beam.io.ReadFromParquet(tmp_path / "in.parquet")
            read | WriteToDelta(tmp_path / "table", SCHEMA)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ((5,), TypeError, "WriteToDelta takes the folder of a table, got 5"),
            (("t", {"a": int}), TypeError, "schema must be a pyarrow.Schema"),
            (
                ("t", pa.schema([("n", pa.int64()), ("a", pa.month_day_nano_interval())])),
                ValueError,
                "^column 'a' has type month_day_nano_interval, which Delta does not have$",
            ),
            (
                ("t", pa.schema([("at", pa.timestamp("us", "Europe/Oslo"))])),
                ValueError,
                r"^column 'at' has type timestamp\[us, tz=Europe/Oslo\], .* use pa.timestamp\('us', 'UTC'\)$",
            ),
            (
                ("t", pa.schema([("at", pa.timestamp("ns"))])),
                ValueError,
                r"^column 'at' has type timestamp\[ns\], .* use pa.timestamp\('us', 'UTC'\)$",
            ),
        ],
    )
    def test_arguments(self, tmp_path, monkeypatch, arguments, error, message):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(error, match=message):
            WriteToDelta(*arguments)

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"partition_by": "product"}, TypeError, r"partition_by must be a list .* write \['product'\]"),
            ({"partition_by": ["day"]}, ValueError, "partition_by names column 'day', but the columns are"),
            ({"partition_by": ["amount", "product"]}, ValueError, "partition_by takes all columns"),
            ({"mode": "changelog"}, ValueError, r"mode='changelog' puts rows in .*: keys=\[...\]"),
            ({"keys": 5}, TypeError, "keys must be a list of columns, got 5"),
            ({"partition_by": 5}, TypeError, "partition_by must be a list of columns, got 5"),
            ({"schema": pa.schema([])}, ValueError, "the schema has no columns"),
            ({"storage_options": "secret"}, TypeError, "must be a dict of names and texts, got an object of type str$"),
            ({"storage_options": {"key": 5}}, TypeError, "storage_options must be .*, but 'key' is a int$"),
        ],
    )
    def test_options(self, tmp_path, options, error, message):
        with pytest.raises(error, match=message):
            WriteToDelta(tmp_path / "none", **{"schema": SCHEMA, **options})

    @pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.struct([("a", pa.int32())])])
    def test_keys_that_cannot_be_compared(self, tmp_path, kind):
        with pytest.raises(ValueError, match=r"keys names column 'tag' of type .*; name columns of numbers"):
            WriteToDelta(tmp_path, pa.schema([("tag", kind)]), mode="upsert", keys=["tag"])

    @pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.binary()])
    def test_partitions_of_types_that_have_no_text(self, tmp_path, kind):
        with pytest.raises(ValueError, match=r"partition_by names column 'tag' of type .*; name columns of numbers"):
            WriteToDelta(tmp_path, pa.schema([*SCHEMA, ("tag", kind)]), partition_by=["tag"])

    @pytest.mark.parametrize("use", [WriteToDelta, ReadFromDelta])
    def test_a_store_that_cannot_be_reached(self, use):
        options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
        secret = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret", "max_retries": "0"}
        with pytest.raises(DeltaError, match=r"s3://shop/sales cannot be .* nothing has run: .*error") as raised:
            use("s3://shop/sales", storage_options={**options, **secret})
        assert str(raised.value).isprintable()
        assert "secret" not in str(raised.value)

    def test_without_the_package(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "deltalake", None)
        with pytest.raises(ImportError, match=r"pip install 'headrace\[delta\]'"):
            WriteToDelta("t", SCHEMA)

    def test_nothing_is_imported_before_it_is_used(self):
        program = "import sys, headrace, headrace.io.delta; sys.exit('deltalake' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.fixture(scope="module")
def store():
    server, process = s3.start()
    yield server
    process.kill()
    process.wait()
    process.stdout.close()


class TestObjectStore:
    def test_options_and_the_environment(self, store, monkeypatch):
        options = store.environment
        place = store.new_place()
        made = sink(place, storage_options=options)
        receipts = deliver(made, 1, ("tea", 1))
        sink(place, None, storage_options=options, anew=False).deliver(1, receipts)
        assert pairs(place, storage_options=options) == [("tea", 1)]
        for name, value in options.items():
            monkeypatch.setenv(name, value)
        with beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | beam.Create([("tea", 2), ("mate", 3)]) | WriteToDelta(place, mode="upsert", keys=["product"])
        assert pairs(place) == [("mate", 3), ("tea", 2)]

    def test_two_drivers_at_once(self, store, monkeypatch):
        """The server keeps a name from being taken twice, as S3 does (`If-None-Match`)."""
        place, options = store.new_place(), store.environment
        zombie = sink(place, storage_options=options)
        receipts = staged(zombie, 1, ("tea", 1))
        successor = sink(place, storage_options=options, anew=False)
        deliver_after(monkeypatch, zombie, successor, receipts)
        assert pairs(place, storage_options=options) == [("tea", 1)]
