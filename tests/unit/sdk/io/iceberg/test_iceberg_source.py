"""Iceberg tables as sources: snapshots, columns that came later or were renamed, snapshots as they appear, refusals."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.types import StringType

import headrace as beam
from headrace.io.iceberg import IcebergError, ReadFromIceberg, WriteToIceberg
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from tests.unit.sdk.io.iceberg.test_iceberg_sink import NAME, Lake
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne
from tests.unit.sdk.io.sourcefiles import all_rows as read

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])

CONTINUOUS = {"timestamp": "at", "max_delay": 0, "continuous": True}


@pytest.fixture
def lake(tmp_path):
    made = Lake(tmp_path)
    made.make(SCHEMA)
    return made


def rows_at(*seconds):
    return pa.table({"n": list(seconds), "at": [datetime.fromtimestamp(each, UTC) for each in seconds]}, schema=SCHEMA)


def reading(lake, *arguments, **options):
    return ReadFromIceberg(NAME, *arguments, catalog_properties=lake.properties, **options)


def stream(lake, *arguments, until=None):
    options = {**CONTINUOUS, "interval": 0, "until_snapshot": until}
    return reading(lake, *arguments, columns=["n"], **options)


def numbers(source):
    return sorted(row["n"] for row, _ in read(source))


class TestBounded:
    def test_the_newest_snapshot_or_another(self, lake):
        assert numbers(reading(lake)) == []
        lake.table().append(rows_at(1, 2))
        first = lake.table().current_snapshot().snapshot_id
        lake.table().append(rows_at(3))
        lake.table().delete("n = 1")
        assert numbers(reading(lake)) == [2, 3]
        assert numbers(reading(lake, first)) == [1, 2]
        got = []
        with beam.Pipeline(LocalRunner()) as pipeline:
            found = pipeline | reading(lake, as_rows=True) | beam.Map(lambda row: row.n)
            found | beam.io.ForeachEpoch(lambda epoch, elements: got.extend(elements))
        assert sorted(got) == [2, 3]

    @pytest.mark.parametrize(("limit", "splits"), [(1, 1), (3, 2), (100, 4)])
    def test_in_pieces(self, lake, limit, splits):
        for first in range(0, 20, 5):
            lake.table().append(rows_at(*range(first, first + 5)))
        found = read(reading(lake, columns=["n"], timestamp="at"), limit, splits)
        assert sorted((row["n"], stamp) for row, stamp in found) == [(n, n * 1_000_000) for n in range(20)]
        assert all(set(row) == {"n"} for row, _ in found)

    @pytest.mark.parametrize(
        ("columns", "timestamp", "are_read"),
        [(["n"], None, ["n"]), (["n"], "at", ["n", "at"]), (["at", "n"], None, ["n", "at"]), ([], None, ["n"])],
    )
    def test_only_columns_that_are_used_are_read(self, lake, monkeypatch, columns, timestamp, are_read):
        projected = []

        class Scan(ArrowScan):
            def __init__(self, metadata, io, schema, *arguments):
                projected.append(list(schema.column_names))
                super().__init__(metadata, io, schema, *arguments)

        lake.table().append(rows_at(1, 2))
        monkeypatch.setattr("pyiceberg.io.pyarrow.ArrowScan", Scan)
        found = read(reading(lake, columns=columns, timestamp=timestamp))
        assert projected == [are_read]
        assert [list(row) for row, _ in found] == [columns] * 2

    def test_columns_that_came_later_or_have_other_names(self, lake):
        lake.table().append(rows_at(1))
        first = lake.table().current_snapshot().snapshot_id
        with lake.table().update_schema() as update:
            update.add_column("note", StringType())
            update.rename_column("n", "number")
        assert [(row["number"], row["note"]) for row, _ in read(reading(lake))] == [(1, None)]
        assert [list(row) for row, _ in read(reading(lake, first))] == [["n", "at"]]


class TestContinuous:
    def test_what_each_snapshot_appends(self, lake):
        injector = stream(lake).injector()
        position, seen = injector.start(), []

        def step():
            nonlocal position
            delivery = injector.plan(position, 100, 1)
            position = delivery.position
            seen.extend(row["n"] for split in delivery.splits for batch in split.read() for row in batch.values)
            return delivery

        assert step().idle
        lake.table().append(rows_at(1, 2))
        assert not step().idle
        lake.table().append(rows_at(3))
        lake.table().append(rows_at(4))
        step()
        assert seen == [1, 2, 3, 4]
        assert step().idle
        # Another driver goes on with the position, of which the snapshot has expired.
        lake.table().append(rows_at(5))
        lake.table().maintenance.expire_snapshots().older_than(datetime(2100, 1, 1)).commit()
        injector = stream(lake).injector()
        with pytest.raises(IcebergError, match=r"what follows snapshot \d+ of shop.sales is no longer known"):
            step()

    def test_to_a_snapshot_which_is_the_last(self, lake):
        ids = []
        for second in range(4):
            lake.table().append(rows_at(second))
            ids.append(lake.table().current_snapshot().snapshot_id)
        for first, last, found in [(0, 2, [0, 1, 2]), (1, 2, [0, 1, 2]), (2, 2, [0, 1, 2]), (0, 3, [0, 1, 2, 3])]:
            source = stream(lake, ids[first], until=ids[last])
            assert source.is_bounded
            assert numbers(source) == found
            assert sorted(row["n"] for row, _ in read(source, 1)) == found
        assert not stream(lake, ids[0]).is_bounded
        for first, last in [(2, 1), (3, 0)]:
            with pytest.raises(IcebergError, match=rf"snapshot {ids[last]} of shop.sales does not come after snapshot"):
                stream(lake, ids[first], until=ids[last])
        # The table is taken back behind it, so the way to the newest does not lead there.
        lake.table().manage_snapshots().rollback_to_snapshot(ids[1]).commit()
        with pytest.raises(IcebergError, match="Name an until_snapshot that the table has kept"):
            stream(lake, ids[0], until=ids[2])

    @pytest.mark.parametrize("step", ["commit", "deliver", "delivered"])
    def test_from_table_to_table_whenever_the_driver_dies(self, lake, step, tmp_path):
        for second in range(6):
            lake.table().append(rows_at(second))

        def run(scheduler):
            options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
                rows = pipeline | reading(lake, columns=["n"])
                rows | WriteToIceberg("shop.out", pa.schema([("n", pa.int64())]), catalog_properties=lake.properties)

        with pytest.raises(Crash):
            run(CrashAt(step))
        # The run goes on with the snapshot with which it began.
        lake.table().append(rows_at(6))
        run(OneByOne())
        out = ReadFromIceberg("shop.out", catalog_properties=lake.properties)
        assert numbers(out) == list(range(6))

    def test_a_snapshot_that_deletes_ends_the_run(self, lake):
        lake.table().append(rows_at(1, 2))
        first = lake.table().current_snapshot().snapshot_id
        lake.table().delete("n = 1")
        injector = stream(lake, first).injector()
        with pytest.raises(IcebergError, match=r"deletes or changes rows \(overwrite\).*snapshot_id=\d+"):
            injector.plan(injector.start(), 100, 1)
        after = stream(lake, lake.table().current_snapshot().snapshot_id).injector()
        delivery = after.plan(after.start(), 100, 1)
        assert [row["n"] for split in delivery.splits for batch in split.read() for row in batch.values] == [2]

    def test_deletes_by_value_are_refused(self, lake, monkeypatch):
        """As Flink writes them; pyiceberg cannot make such a table, so this is what it says of one."""

        def refuse(*arguments):
            raise ValueError("PyIceberg does not yet support equality deletes")

        lake.table().append(rows_at(1))
        monkeypatch.setattr("pyiceberg.table.DataScan.plan_files", refuse)
        with pytest.raises(
            IcebergError, match=r"snapshot \d+ of shop.sales cannot be read; nothing .* equality deletes"
        ):
            numbers(reading(lake))

    def test_a_file_that_is_gone(self, lake, tmp_path):
        lake.table().append(rows_at(1))
        [file] = tmp_path.rglob("data/*.parquet")
        file.unlink()
        with pytest.raises(IcebergError, match=r"\.parquet cannot be read; nothing of it is committed"):
            numbers(reading(lake))


def test_arguments(lake):
    for options, error, message in [
        ({"continuous": True}, ValueError, "give timestamp and max_delay"),
        ({"columns": ["m"]}, ValueError, r"shop.sales has no column 'm'; it has \['n', 'at'\]"),
        ({"timestamp": "then"}, ValueError, "has no column 'then'"),
        ({"until_snapshot": 7}, ValueError, "until_snapshot is for continuous=True with snapshot_id only"),
        ({"until_snapshot": 7, **CONTINUOUS}, ValueError, "with snapshot_id only, which says where to begin"),
        ({"snapshot_id": 7}, IcebergError, "shop.sales has no snapshot 7; nothing has run"),
    ]:
        with pytest.raises(error, match=message):
            reading(lake, **options)
    with pytest.raises(TypeError, match="table must be namespace and name"):
        ReadFromIceberg("sales")
    with pytest.raises(IcebergError, match=r"shop.none cannot be read as an Iceberg table; nothing has run"):
        ReadFromIceberg("shop.none", catalog_properties=lake.properties)
