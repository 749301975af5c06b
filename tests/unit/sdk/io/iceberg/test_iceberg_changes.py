"""Changes of Iceberg tables: of every kind of snapshot, bounded and as they come, through crashes."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask

import headrace as beam
from headrace import RowOperation
from headrace.io.iceberg import IcebergError, ReadFromIceberg
from headrace.lowlevel import CallSink
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.iceberg.iceberg_changes import IcebergChangesInjector
from headrace.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from headrace.transforms.window import GlobalWindows
from tests.unit.sdk.io.iceberg.test_iceberg_sink import NAME, Lake
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne, all_rows

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("shop", pa.string()), ("amount", pa.int64())])


@pytest.fixture
def lake(tmp_path):
    made = Lake(tmp_path)
    made.make(SCHEMA)
    return made


def rows(*each):
    return pa.table(
        {name: list(values) for name, values in zip(SCHEMA.names, zip(*each, strict=True), strict=True)}, SCHEMA
    )


def reading(lake, *arguments, **options):
    return ReadFromIceberg(NAME, *arguments, catalog_properties=lake.properties, changes=True, **options)


def told(source):
    """Each change as the number of its snapshot, '+' or '-', and the row."""
    return sorted(
        (change.sequence[0], "-" if change.before else "+", *(change.before or change.after).values())
        for change, _ in all_rows(source)
    )


def newest(lake):
    return lake.table().current_snapshot().snapshot_id


def change_at_random(lake, rng):
    table, key, amount = lake.table(), rng.randrange(6), rng.randrange(9)
    match rng.randrange(4):
        case 0:
            table.append(rows((10 + amount, "a", amount)))
        case 1:
            table.delete(f"id = {key}")
        case 2:
            table.upsert(rows((key, "b", amount), (key + 1, "a", amount)), join_cols=["id"])
        case _:
            table.overwrite(rows((key, "c", amount)), overwrite_filter=f"amount > {amount}")


class TestChanges:
    def test_of_every_kind_of_snapshot(self, lake):
        lake.table().append(rows((1, "a", 1), (2, "a", 2), (3, "b", 3)))
        first = newest(lake)
        lake.table().append(rows((4, "b", 4)))
        second = newest(lake)
        lake.table().delete("id = 1")
        lake.table().delete("shop = 'b'")
        lake.table().overwrite(rows((2, "a", 20)), overwrite_filter="id = 2")
        found = told(reading(lake, first))
        number = [snapshot.sequence_number for snapshot in lake.table().snapshots()]
        assert found[:3] == [(number[0], "+", 1, "a", 1), (number[0], "+", 2, "a", 2), (number[0], "+", 3, "b", 3)]
        rest = [each[1:] for each in found[3:]]
        changed = [("+", 4, "b", 4), ("-", 1, "a", 1), ("-", 3, "b", 3), ("-", 4, "b", 4), ("-", 2, "a", 2)]
        # A deletion of a file and one of a part of a file are two snapshots.
        assert sorted(rest) == sorted([*changed, ("+", 2, "a", 20)])
        assert rest[:2] == changed[:2] and rest[-1] == ("+", 2, "a", 20)
        kinds = {change.operation for change, _ in all_rows(reading(lake, first)) if change.sequence[0] == number[0]}
        assert kinds == {RowOperation.READ}
        assert [each[1:] for each in told(reading(lake, first, snapshot=False, until_snapshot=second))] == rest[:1]
        assert [each[1:] for each in told(reading(lake))] == [("+", 2, "a", 20)]

    @pytest.mark.parametrize(("limit", "splits"), [(1, 1), (100, 4)])
    def test_the_rows_left_are_those_of_the_table(self, tmp_path, limit, splits):
        for seed in range(4):
            (tmp_path / str(seed)).mkdir()
            lake, rng, net = Lake(tmp_path / str(seed)), random.Random(seed), Counter()
            lake.make(SCHEMA)
            lake.table().append(rows((1, "a", 1), (2, "a", 2), (3, "b", 3)))
            first = newest(lake)
            for _ in range(6):
                change_at_random(lake, rng)
            for change, _ in all_rows(reading(lake, first), limit, splits):
                net[tuple((change.before or change.after).values())] += 1 if change.before is None else -1
            assert +net == Counter(tuple(row.values()) for row in lake.table().scan().to_arrow().to_pylist())
            assert min(net.values()) >= 0

    def test_event_times_and_columns(self, lake):
        lake.table().append(rows((1, "a", 1), (2, "a", 2)))
        first = newest(lake)
        lake.table().delete("id = 1")
        commits = [1000 * snapshot.timestamp_ms for snapshot in lake.table().snapshots()]
        found = all_rows(reading(lake, first, columns=["id"], as_rows=True))
        assert [stamp for _, stamp in found] == [commits[0]] * 2 + [commits[-1]]
        assert found[-1][0].before == beam.Row(id=1)
        assert sorted(stamp for _, stamp in all_rows(reading(lake, first, timestamp="amount"))) == [
            1_000_000,
            1_000_000,
            2_000_000,
        ]

    def test_deletes_by_position(self, lake, tmp_path, monkeypatch):
        """Pyiceberg reads such files, but writes none, so a scan is given one."""
        lake.table().append(rows((1, "a", 1), (2, "a", 2)))
        lake.table().append(rows((3, "b", 3)))
        first = newest(lake)
        lake.table().delete("id = 3")
        data = lake.table().scan().plan_files()[0]
        columns = {"file_path": [data.file.file_path], "pos": pa.array([0], pa.int64())}
        pq.write_table(pa.table(columns), tmp_path / "deletes.parquet")
        deletes = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=str(tmp_path / "deletes.parquet"),
            file_format=FileFormat.PARQUET,
            record_count=1,
            file_size_in_bytes=(tmp_path / "deletes.parquet").stat().st_size,
        )
        planned = IcebergChangesInjector.files_of

        def with_deletes(self, at, scan):
            found = planned(self, at, scan)
            return [FileScanTask(found[0].file, {deletes})] if scan.snapshot_id != first else found

        monkeypatch.setattr(IcebergChangesInjector, "files_of", with_deletes)
        found = told(reading(lake, first, snapshot=False))
        assert [each[1:] for each in found] == [("-", 1, "a", 1), ("-", 3, "b", 3)]

    def test_arguments_and_tables_without_snapshots(self, lake):
        assert told(reading(lake)) == []
        assert reading(lake).is_bounded
        assert reading(lake).arrow_schema() is None
        assert not reading(lake, continuous=True).is_bounded
        with pytest.raises(ValueError, match="until_snapshot is for continuous=True with snapshot_id only"):
            reading(lake, until_snapshot=7)
        with pytest.raises(IcebergError, match="has no snapshot 7"):
            reading(lake, 7)


class TestStream:
    def test_a_table_that_is_changed_while_it_is_read(self, lake):
        lake.table().append(rows((1, "a", 1), (2, "b", 2)))
        injector = reading(lake, continuous=True, interval=0).injector()
        position, found = injector.start(), []

        def step():
            nonlocal position
            delivery = injector.plan(position, 100, 1)
            position = delivery.position
            found.extend(change for split in delivery.splits for batch in split.read() for change in batch.values)
            return delivery

        step()
        assert step().idle
        lake.table().upsert(rows((2, "b", 7)), join_cols=["id"])
        step()
        assert [(each.operation, (each.before or each.after)["amount"]) for each in found[2:]] == [
            (RowOperation.DELETE, 2),
            (RowOperation.INSERT, 7),
        ]
        # Another driver goes on with the position.
        lake.table().delete("id = 1")
        injector = reading(lake, continuous=True, interval=0).injector()
        step()
        assert [each.before for each in found[4:]] == [{"id": 1, "shop": "a", "amount": 1}]

    @pytest.mark.parametrize("step", ["commit", "deliver", "delivered"])
    def test_sums_that_follow_whenever_the_driver_dies(self, lake, tmp_path, step):
        log, eager = {}, Repeatedly(AfterCount(1))
        lake.table().append(rows((1, "a", 1), (2, "a", 2), (3, "b", 3)))
        first = newest(lake)
        lake.table().upsert(rows((1, "b", 5), (4, "c", 6)), join_cols=["id"])
        lake.table().delete("id = 3")

        def run(scheduler):
            options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
                changes = pipeline | reading(lake, first) | beam.FromRowChanges(key="id")
                windowed = changes | beam.WindowInto(
                    GlobalWindows(), eager, AccumulationMode.ACCUMULATING_AND_RETRACTING
                )
                sums = windowed | beam.Map(lambda row: (row["shop"], row["amount"])) | beam.CombinePerKey(sum)
                _ = sums | beam.ToChangelog() | beam.io.Write(CallSink(lambda epoch, got: log.setdefault(epoch, got)))

        with pytest.raises(Crash):
            run(CrashAt(step))
        run(OneByOne())
        net = Counter()
        for got in log.values():
            for change, _ in got:
                net[change.value] += 1 if change.kind == "+" else -1
        assert +net == {("a", 2): 1, ("b", 5): 1, ("c", 6): 1}
