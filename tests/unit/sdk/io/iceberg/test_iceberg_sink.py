"""Iceberg tables as sinks: modes, types, partitions, snapshots, marks, other writers, wrong arguments, S3."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

import headrace as beam
from headrace.io import EpochsLostError
from headrace.io.iceberg import IcebergError, WriteToIceberg
from headrace.lowlevel import StepError
from headrace.lowlevel.records.record import Batch
from headrace.runners.local import LocalRunner
from headrace.sdk.io.iceberg import iceberg_sink
from headrace.sdk.io.iceberg.iceberg_table import TableAddress
from headrace.utils.timestamp import Timestamp
from tests import s3
from tests.faults.crashes.tableworlds import staged
from tests.unit.sdk.io.sourcefiles import OneByOne

SCHEMA = pa.schema([("product", pa.string()), ("amount", pa.int64())])
NAME = "shop.sales"


class Lake:
    """A catalog in SQLite, and a place for tables."""

    def __init__(self, folder, warehouse=None, **properties):
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": warehouse or f"file://{folder}",
            **properties,
        }

    def table(self):
        return load_catalog(**self.properties).load_table(NAME)

    def rows(self):
        return sorted(self.table().scan().to_arrow().to_pylist(), key=repr)

    def pairs(self):
        return sorted((row["product"], row["amount"]) for row in self.rows())

    def add(self, *pairs):
        """What another program adds."""
        rows = [{"product": product, "amount": amount} for product, amount in pairs]
        self.table().append(pa.Table.from_pylist(rows, SCHEMA))

    def make(self, schema, **arguments):
        catalog = load_catalog(**self.properties)
        catalog.create_namespace_if_not_exists("shop")
        return catalog.create_table(NAME, schema, **arguments)

    def writing(self, schema=SCHEMA, **arguments):
        return WriteToIceberg(NAME, schema, catalog_properties=self.properties, **arguments)

    def sink(self, schema=SCHEMA, anew=True, **arguments):
        made = self.writing(schema, **arguments).sink()
        made.begin(anew)
        return made


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def deliver(made, epoch, *elements):
    receipts = staged(made, epoch, *elements)
    made.deliver(epoch, receipts)
    return receipts


class TestModes:
    def test_each_epoch_is_a_snapshot_with_the_files_of_its_tasks(self, lake):
        with beam.Pipeline(LocalRunner(scheduler=OneByOne())) as pipeline:
            read = pipeline | beam.Create([("tea", 1), beam.Row(product="mate"), {"product": "tea", "amount": 1}])
            read | lake.writing(sink="sales")
        assert lake.rows() == [
            {"product": "mate", "amount": None},
            {"product": "tea", "amount": 1},
            {"product": "tea", "amount": 1},
        ]
        summaries = [snapshot.summary for snapshot in lake.table().snapshots()]
        assert [(each["headrace-sink"], each["headrace-epoch"]) for each in summaries] == [
            ("sales", str(epoch)) for epoch in (1, 2, 3)
        ]

    def test_the_last_element_of_a_key_counts(self, lake):
        made = lake.sink(mode="upsert", keys=["product"])
        lake.add(("tea", 1), ("mate", 1))
        deliver(made, 1, ("coffee", 7), ("tea", 2), ("coffee", 8))
        assert lake.pairs() == [("coffee", 8), ("mate", 1), ("tea", 2)]

    def test_keys_of_several_columns(self, lake):
        made = lake.sink(mode="upsert", keys=["product", "amount"])
        deliver(made, 1, ("tea", 1), ("tea", 2), ("mate", 1))
        deliver(made, 2, ("tea", 1), ("mate", 2))
        assert lake.pairs() == [("mate", 1), ("mate", 2), ("tea", 1), ("tea", 2)]

    def test_a_key_of_an_epoch_of_many_is_found_by_all_its_columns(self, lake):
        """Each column alone has the values of the keys in many rows that stay."""
        made = lake.sink(mode="upsert", keys=["product", "amount"])
        everything = [(f"p{product}", amount) for product in range(60) for amount in range(60)]
        deliver(made, 1, *everything)
        made = lake.sink(mode="changelog", keys=["product", "amount"])
        deliver(made, 1, *(("-", pair) for pair in everything if (int(pair[0][1:]) + pair[1]) % 3))
        assert lake.pairs() == sorted(pair for pair in everything if (int(pair[0][1:]) + pair[1]) % 3 == 0)

    @pytest.mark.parametrize("number", [3, 300])
    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (pa.int32(), lambda n: n - 5),
            (pa.float64(), lambda n: n / 8),
            (pa.string(), lambda n: f"'{n}\"\n\\"),
            (pa.binary(), lambda n: b"\x00" + bytes([n % 256, n // 256])),
            (pa.decimal128(10, 2), lambda n: Decimal(n) / 4),
            (pa.date32(), lambda n: date(1960, 1, 1) + timedelta(n)),
            (pa.timestamp("us"), lambda n: datetime(1960, 1, 1) + timedelta(n, 0, n)),
            (pa.timestamp("us", "UTC"), lambda n: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(n, 0, n)),
        ],
        ids=lambda given: str(given) if isinstance(given, pa.DataType) else "",
    )
    def test_keys_of_all_types(self, lake, kind, value, number):
        """More keys than pyiceberg compares one by one with a file's bounds are compared by their own."""
        made = lake.sink(pa.schema([("key", kind), ("amount", pa.int64())]), mode="upsert", keys=["key"])
        deliver(made, 1, *((value(n), 1) for n in range(number)))
        deliver(made, 2, *((value(n), 2) for n in range(1, number + 1)))
        found = {row["key"]: row["amount"] for row in lake.table().scan().to_arrow().to_pylist()}
        assert found == {value(n): 2 if n else 1 for n in range(number + 1)}
        assert lake.table().scan().count() == number + 1

    def test_an_epoch_by_key_is_one_snapshot_that_leaves_other_files_alone(self, lake):
        made = lake.sink(mode="upsert", keys=["product"])
        lake.add(("a", 1), ("b", 1))
        lake.add(("y", 1), ("z", 1))
        [other] = [task.file.file_path for task in lake.table().scan(row_filter="product = 'z'").plan_files()]
        deliver(made, 1, ("b", 2), ("c", 2))
        assert lake.pairs() == [("a", 1), ("b", 2), ("c", 2), ("y", 1), ("z", 1)]
        assert len(lake.table().snapshots()) == 3
        assert other in [task.file.file_path for task in lake.table().scan().plan_files()]

    def test_manifests_of_replaced_files_do_not_gather(self, lake):
        made = lake.sink(mode="upsert", keys=["product"])
        for epoch in range(1, 8):
            deliver(made, epoch, ("tea", epoch))
        assert lake.pairs() == [("tea", 7)]
        # That of the new file, and that of the one that it replaces, for readers of changes.
        assert len(lake.table().current_snapshot().manifests(lake.table().io)) == 2

    def test_an_epoch_with_new_keys_only_is_an_append(self, lake):
        made = lake.sink(mode="upsert", keys=["product"])
        for epoch in range(1, 4):
            deliver(made, epoch, (f"tea {epoch}", epoch))
        assert [snapshot.summary.operation.value for snapshot in lake.table().snapshots()] == ["append"] * 3

    def test_changes_by_key(self, lake):
        made = lake.sink(mode="changelog", keys=["product"])
        deliver(made, 1, ("+", ("tea", 1)), ("+", ("mate", 1)), ("-", ("tea", 1)), ("+", ("tea", 2)))
        assert lake.pairs() == [("mate", 1), ("tea", 2)]
        deliver(made, 2, ("-", ("mate", 1)), ("-", ("tea", 2)), ("+", ("tea", 3)), ("-", ("never", 0)))
        assert lake.pairs() == [("tea", 3)]
        deliver(made, 3, ("-", ("never", 0)))
        deliver(made, 4, ("-", ("tea", 3)))
        assert lake.pairs() == []

    def test_all_snapshots_but_the_newest_may_expire(self, lake):
        made = lake.sink(mode="upsert", keys=["product"])
        receipts = deliver(made, 1, ("tea", 1))
        lake.add(("mate", 1))
        lake.table().maintenance.expire_snapshots().older_than(datetime(2100, 1, 1)).commit()
        assert len(lake.table().snapshots()) == 1
        lake.sink(mode="upsert", keys=["product"], anew=False).deliver(1, receipts)
        assert lake.pairs() == [("mate", 1), ("tea", 1)]
        assert len(lake.table().snapshots()) == 1

    @pytest.mark.parametrize(("before", "after"), [("append", "upsert"), ("upsert", "append"), ("changelog", "upsert")])
    def test_an_epoch_of_another_mode(self, lake, before, after):
        """It is named as long as it cannot be written; rows by key can."""
        modes = {mode: {"mode": mode, "keys": [] if mode == "append" else ["product"]} for mode in (before, after)}
        change = ("+", ("tea", 1)) if before == "changelog" else ("tea", 1)
        receipts = staged(lake.sink(**modes[before]), 1, change)
        made = lake.sink(anew=False, **modes[after])
        if before != "changelog":
            with pytest.raises(IcebergError, match=rf"epoch 1 was not .* with mode='{before}.* with the old mode"):
                made.deliver(1, receipts)
            made = lake.sink(anew=False, **modes[before])
        made.deliver(1, receipts)
        assert lake.pairs() == [("tea", 1)]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_unsigned_numbers_keep_their_values(lake, bits):
    """Iceberg's types have signs, so a column is as wide as its values need."""
    schema = pa.schema([("n", pa.type_for_alias(f"uint{bits}"))])
    for _ in range(2):
        with beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | beam.Create([{"n": 2**bits - 1}]) | lake.writing(schema)
    assert [row["n"] for row in lake.rows()] == [2**bits - 1] * 2


class TestFiles:
    def test_partitions(self, lake):
        fields = [
            NestedField(1, "product", StringType(), required=False),
            NestedField(2, "amount", LongType(), required=False),
            NestedField(3, "at", TimestamptzType(), required=False),
        ]
        spec = PartitionSpec(
            PartitionField(3, 1000, DayTransform(), "day"),
            PartitionField(1, 1001, IdentityTransform(), "product"),
            PartitionField(2, 1002, BucketTransform(4), "bucket"),
        )
        lake.make(Schema(*fields), partition_spec=spec)
        elements = [
            ("a/b %x", 1, Timestamp(7)),
            ("ü", 2, Timestamp(100_000)),
            ("ü", 3, Timestamp(100_001)),
            (None,) * 3,
        ]
        deliver(lake.sink(None), 1, *elements)
        assert len(lake.rows()) == 4
        plan = lake.table().scan(row_filter="product = 'ü' and at > '1970-01-02T00:00:00+00:00'")
        assert sorted(plan.to_arrow().column("amount").to_pylist()) == [2, 3]
        assert all("product" in task.file.file_path for task in plan.plan_files())

    def test_types(self, lake):
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
        deliver(lake.sink(schema), 1, element, {"price": 1.5})
        [written] = [row for row in lake.rows() if row["few"]]
        assert written["at"] == datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)
        assert (written["day"], written["tags"]) == (date(2024, 1, 2), ["a"])

    def test_rows_by_key_in_a_table_that_has_changed(self, lake):
        """Other partitions, and a column with another name than in older files."""
        table = lake.make(SCHEMA)
        lake.add(("tea", 1), ("mate", 1))
        with table.update_spec() as update:
            update.add_identity("product")
        with table.update_schema() as update:
            update.rename_column("amount", "count")
        made = lake.sink(None, mode="upsert", keys=["product"])
        deliver(made, 1, ("tea", 2), ("coffee", 2))
        deliver(made, 2, ("tea", 3))
        assert [tuple(row.values()) for row in lake.rows()] == [("coffee", 2), ("mate", 1), ("tea", 3)]

    @pytest.mark.parametrize("mode", ["append", "upsert"])
    def test_manifests_are_merged_if_the_table_says_so(self, lake, mode):
        merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "3"}
        lake.make(SCHEMA, properties=merging)
        made = lake.sink(mode=mode, keys=["product"] if mode == "upsert" else [])
        for epoch in range(1, 10):
            deliver(made, epoch, (f"tea {epoch}", epoch))
        assert len(lake.table().current_snapshot().manifests(lake.table().io)) <= 3
        assert len(lake.rows()) == 9

    def test_what_many_commits_leave_is_cleared_away(self, lake, tmp_path):
        made = lake.sink()
        for epoch in range(1, 110):
            deliver(made, epoch, ("tea", epoch))
        assert len(lake.table().current_snapshot().manifests(lake.table().io)) < 20
        assert len(list(tmp_path.rglob("*.metadata.json"))) < 105
        assert len(lake.rows()) == 109

    def test_files_of_failed_attempts_are_not_seen(self, lake):
        made = lake.sink()
        staged(made, 1, ("never", 0))
        deliver(made, 1, ("tea", 1))
        assert lake.pairs() == [("tea", 1)]

    def test_files_that_were_removed_before_they_were_added(self, lake, tmp_path):
        receipts = staged(made := lake.sink(), 1, ("tea", 1))
        [file] = tmp_path.rglob("data/*.parquet")
        file.unlink()
        with pytest.raises(IcebergError, match=r"epoch 1 was not written .* 1 of 1 data files are gone, such as"):
            made.deliver(1, receipts)
        assert lake.table().current_snapshot() is None

    def test_files_of_another_table(self, lake):
        """They would be removed with it, or with this one."""
        made = WriteToIceberg("shop.other", SCHEMA, catalog_properties=lake.properties).sink()
        made.begin(True)
        receipts = deliver(made, 1, ("tea", 1))
        with pytest.raises(IcebergError, match=r"epoch 1 was not .* its data files belong to another table, such as "):
            lake.sink(anew=False).deliver(1, receipts)
        assert lake.rows() == []

    @pytest.mark.parametrize("properties", [{}, {"write.object-storage.enabled": "true"}, {"write.data.path": "apart"}])
    def test_files_at_other_places_of_the_table(self, lake, tmp_path, properties):
        given = {
            name: f"file://{tmp_path}/{value}" if value == "apart" else value for name, value in properties.items()
        }
        lake.make(SCHEMA, properties=given)
        deliver(lake.sink(), 1, ("tea", 1))
        assert lake.pairs() == [("tea", 1)]

    def test_a_table_that_was_partitioned_anew(self, lake):
        receipts = staged(made := lake.sink(), 1, ("tea", 1))
        with lake.table().update_spec() as update:
            update.add_identity("product")
        with pytest.raises(IcebergError, match="the table was partitioned anew since its data files were written"):
            made.deliver(1, receipts)


@pytest.fixture
def late(monkeypatch):
    """Lets another program act between the look at the table and the commit."""

    def act(*actions):
        load, left = TableAddress.load, list(actions)

        def loaded(address):
            table = load(address)
            if left:
                left.pop(0)()
            return table

        monkeypatch.setattr(TableAddress, "load", loaded)
        return left

    return act


class TestOtherWriters:
    @pytest.mark.parametrize("mode", ["append", "upsert"])
    def test_the_commit_is_taken(self, lake, late, mode):
        made = lake.sink(mode=mode, keys=["product"] if mode == "upsert" else ())
        receipts = staged(made, 1, ("tea", 1))
        left = late(lambda: lake.add(("mate", 1)))
        made.deliver(1, receipts)
        assert not left
        assert lake.pairs() == [("mate", 1), ("tea", 1)]

    @pytest.mark.parametrize("mode", ["append", "upsert", "changelog"])
    def test_the_epoch_is_written_by_a_successor_at_the_same_time(self, lake, late, mode):
        keys = () if mode == "append" else ["product"]
        zombie = lake.sink(mode=mode, keys=keys)
        receipts = staged(zombie, 1, ("tea", 1) if mode != "changelog" else ("+", ("tea", 1)))
        successor = lake.sink(mode=mode, keys=keys, anew=False)
        left = late(lambda: successor.deliver(1, receipts))
        zombie.deliver(1, receipts)
        assert not left
        assert lake.pairs() == [("tea", 1)]

    def test_others_are_faster_again_and_again(self, lake, late, monkeypatch):
        receipts = staged(made := lake.sink(), 1, ("tea", 1))
        monkeypatch.setattr(iceberg_sink, "_ATTEMPTS", 2)
        late(*[lambda: lake.add(("mate", 1))] * 2)
        with pytest.raises(IcebergError, match=r"epoch 1 was not written .*; it is committed.* were faster 2 times"):
            made.deliver(1, receipts)


class TestWrongInput:
    def test_no_table_and_no_schema(self, lake):
        with pytest.raises(
            IcebergError, match=r"shop.sales cannot be written as an Iceberg table; nothing has run: NoS"
        ):
            lake.sink(None)

    def test_a_table_that_does_not_fit(self, lake):
        lake.make(pa.schema([("other", pa.int64())]))
        with pytest.raises(
            IcebergError, match=r"nothing has run: the table has no column 'product', it has \['other'\]"
        ):
            lake.sink()

    @pytest.mark.parametrize(
        ("schema", "options", "message"),
        [
            (SCHEMA, {"mode": "upsert", "keys": ["product"]}, "leaves out column 'tags' of the table, whose values wo"),
            (None, {"mode": "upsert", "keys": ["tags"]}, "keys names column 'tags' of type large_list<.*name columns"),
        ],
    )
    def test_a_table_that_does_not_fit_rows_by_key(self, lake, schema, options, message):
        lake.make(pa.schema([*SCHEMA, pa.field("tags", pa.list_(pa.string()))]))
        with pytest.raises(IcebergError, match=f"nothing has run: .*{message}"):
            lake.sink(schema, **options)

    def test_a_table_of_a_format_that_pyiceberg_does_not_write(self, lake):
        place = Path(lake.make(SCHEMA).metadata_location.removeprefix("file://"))
        metadata = json.loads(place.read_text())
        place.write_text(json.dumps({**metadata, "format-version": 3, "next-row-id": 0}))
        with pytest.raises(IcebergError, match="nothing has run: it has version 3 of Iceberg's format, and pyiceberg"):
            lake.sink()

    def test_a_table_that_is_dropped_meanwhile(self, lake):
        made = lake.sink()
        receipts = staged(made, 1, ("tea", 1))
        load_catalog(**lake.properties).drop_table(NAME)
        with pytest.raises(IcebergError, match=r"epoch 1 was not written to .*; it is committed.*NoSuchTableError"):
            made.deliver(1, receipts)

    def test_a_number_that_equals_nothing_is_no_key(self, lake):
        schema = pa.schema([("amount", pa.float64())])
        message = r"1 elements have no value for the key 'amount'.*'amount': nan"
        with pytest.raises(StepError, match=message), beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | beam.Create([(1.0,), (float("nan"),)]) | lake.writing(schema, mode="upsert", keys=["amount"])
        assert lake.table().current_snapshot() is None

    @pytest.mark.parametrize(
        ("element", "message"),
        [
            ({"product": "tea", "prize": 3}, "elements have a field 'prize', but the columns are"),
            (("tea", "much"), "does not fit the schema"),
            ((None, 3), "1 elements have no value for the key 'product'"),
        ],
    )
    def test_elements_that_do_not_fit_commit_nothing(self, lake, element, message):
        with pytest.raises(StepError, match=message), beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | beam.Create([element]) | lake.writing(mode="upsert", keys=["product"])
        assert lake.table().current_snapshot() is None

    @pytest.mark.parametrize(
        ("arguments", "options", "error", "message"),
        [
            (("sales",), {}, TypeError, "table must be namespace and name, such as 'shop.sales', got 'sales'"),
            ((NAME, {"a": int}), {}, TypeError, "schema must be a pyarrow.Schema"),
            ((NAME, pa.schema([])), {}, ValueError, "the schema has no columns"),
            ((NAME,), {"catalog_properties": {"token": 5}}, TypeError, "catalog_properties must .*, but 'token' is a "),
            ((NAME,), {"mode": "changelog"}, ValueError, r"mode='changelog' puts rows in .*: keys=\[...\]"),
            ((NAME, SCHEMA), {"mode": "upsert", "keys": ["day"]}, ValueError, "keys names column 'day'"),
            ((NAME,), {"mode": "upsert", "keys": "day"}, TypeError, r"keys must be a list .* write \['day'\]"),
        ],
    )
    def test_arguments(self, arguments, options, error, message):
        with pytest.raises(error, match=message):
            WriteToIceberg(*arguments, **options)

    def test_without_the_package(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
        with pytest.raises(ImportError, match=r"pip install 'headrace\[iceberg\]'"):
            WriteToIceberg(NAME, SCHEMA)

    def test_nothing_is_imported_before_it_is_used(self):
        program = "import sys, headrace, headrace.io.iceberg; sys.exit('pyiceberg' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_object_store(tmp_path):
    server, process = s3.start()
    try:
        reached = {
            "s3.endpoint": server.url,
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "s3.region": "us-east-1",
        }
        lake = Lake(tmp_path, server.new_place(), **reached)
        made = lake.sink()
        receipts = deliver(made, 1, ("tea", 1))
        lake.sink(anew=False).deliver(1, receipts)
        deliver(made, 2, ("mate", 2))
        assert lake.pairs() == [("mate", 2), ("tea", 1)]
        assert not list(tmp_path.rglob("*.parquet"))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_table_that_is_made_anew_while_the_run_goes_on(lake):
    sink = lake.sink()
    sink.deliver(1, [sink.stage(Batch([("tea", 3)], [0]), 1, 0, "a")])
    load_catalog(**lake.properties).drop_table(NAME)
    lake.make(SCHEMA)
    with pytest.raises(EpochsLostError, match=r"epoch 2 is committed, .* this run has written epoch 1 there"):
        sink.deliver(2, [sink.stage(Batch([("jam", 4)], [0]), 2, 0, "b")])
    assert lake.pairs() == []
