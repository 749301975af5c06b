"""Delta tables as sources: versions, partitions, columns that came later, versions as they appear, what is refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from shutil import rmtree

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import headrace as beam
from headrace.io.delta import DeltaError, ReadFromDelta, WriteToDelta
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.transforms.window import FixedWindows
from tests import s3
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne
from tests.unit.sdk.io.sourcefiles import all_rows as read


def instant(seconds):
    return datetime.fromtimestamp(seconds, UTC)


CONTINUOUS = {"continuous": True, "timestamp": "at", "max_delay": 0}


def write(place, *seconds, **options):
    """Adds a version with rows at some seconds."""
    rows = {"n": list(seconds), "at": pa.array([instant(each) for each in seconds], pa.timestamp("us", "UTC"))}
    write_deltalake(place, pa.table(rows), mode="append", **options)


def stream(place, version=0, until=None, **options):
    return ReadFromDelta(
        place, version, ["n"], timestamp="at", max_delay=0, continuous=True, until_version=until, interval=0, **options
    )


class TestBounded:
    def test_the_newest_version_or_another(self, tmp_path):
        write(tmp_path, 1, 2)
        write(tmp_path, 3)
        DeltaTable(tmp_path).delete("n = 1")
        assert sorted(row["n"] for row, _ in read(ReadFromDelta(tmp_path))) == [2, 3]
        assert sorted(row["n"] for row, _ in read(ReadFromDelta(tmp_path, 1))) == [1, 2, 3]
        got = []
        with beam.Pipeline(LocalRunner()) as pipeline:
            numbers = pipeline | ReadFromDelta(tmp_path, as_rows=True) | beam.Map(lambda row: row.n)
            numbers | beam.io.ForeachEpoch(lambda epoch, found: got.extend(found))
        assert sorted(got) == [2, 3]

    @pytest.mark.parametrize(("limit", "splits"), [(1, 1), (3, 2), (100, 4)])
    def test_in_pieces(self, tmp_path, limit, splits):
        for first in range(0, 20, 5):
            write(tmp_path, *range(first, first + 5))
        found = read(ReadFromDelta(tmp_path, columns=["n"], timestamp="at"), limit, splits)
        assert sorted((row["n"], stamp) for row, stamp in found) == [(n, n * 1_000_000) for n in range(20)]
        assert all(set(row) == {"n"} for row, _ in read(ReadFromDelta(tmp_path, columns=["n"])))

    def test_partitions_of_all_types(self, tmp_path):
        partitions = {
            "day": [date(2024, 1, 2), None],
            "shop": ["a/b %x", "ü"],
            "open": [True, False],
            "at": pa.array([instant(1.5), instant(2)], pa.timestamp("us", "UTC")),
            "n": [1, 2],
        }
        table = pa.table({"amount": [7, 8], **partitions})
        write_deltalake(tmp_path / "theirs", table, partition_by=list(partitions))
        assert sorted((row for row, _ in read(ReadFromDelta(tmp_path / "theirs"))), key=repr) == table.to_pylist()
        with beam.Pipeline(LocalRunner()) as pipeline:
            rows = pipeline | ReadFromDelta(tmp_path / "theirs")
            rows | WriteToDelta(tmp_path / "ours", table.schema, partition_by=list(partitions))
        ours = ReadFromDelta(tmp_path / "ours", columns=["shop", "amount"])
        found = sorted((row for row, _ in read(ours)), key=repr)
        assert found == [{"amount": 7, "shop": "a/b %x"}, {"amount": 8, "shop": "ü"}]

    def test_columns_that_came_later(self, tmp_path):
        write(tmp_path, 1)
        write_deltalake(tmp_path, pa.table({"n": [2], "note": ["x"]}), mode="append", schema_mode="merge")
        found = sorted((row["n"], row["note"]) for row, _ in read(ReadFromDelta(tmp_path)))
        assert found == [(1, None), (2, "x")]
        assert sorted(row["note"] or "" for row, _ in read(ReadFromDelta(tmp_path, columns=["note"]))) == ["", "x"]


class TestContinuous:
    def test_what_each_version_adds(self, tmp_path):
        write(tmp_path, 1, 2)
        injector = stream(tmp_path).injector()
        position, seen = injector.start(), []

        def step():
            nonlocal position
            delivery = injector.plan(position, 100, 1)
            position = delivery.position
            seen.extend(row["n"] for split in delivery.splits for batch in split.read() for row in batch.values)
            return delivery

        assert not step().idle
        assert step().idle
        write(tmp_path, 3)
        DeltaTable(tmp_path).optimize.compact()
        write(tmp_path, 4)
        step()
        assert seen == [1, 2, 3, 4]
        assert step().idle
        # Another driver goes on with the position.
        write(tmp_path, 5)
        injector = stream(tmp_path).injector()
        step()
        assert seen == [1, 2, 3, 4, 5]

    def test_windows_close_as_versions_come(self, tmp_path):
        for second in (0, 5, 10, 15, 20):
            write(tmp_path, second)
        totals = {}
        with beam.Pipeline(LocalRunner(scheduler=OneByOne())) as pipeline:
            keyed = pipeline | stream(tmp_path, until=4) | beam.Map(lambda row: ("n", row["n"]))
            sums = keyed | beam.WindowInto(FixedWindows(10)) | beam.CombinePerKey(sum)
            sums | beam.io.ForeachEpoch(lambda epoch, found: totals.setdefault(epoch, found))
        assert [total for epoch in sorted(totals) for _, total in totals[epoch]] == [5, 25, 20]
        assert len(totals) > 1

    @pytest.mark.parametrize("step", ["commit", "deliver", "delivered"])
    def test_from_table_to_table_whenever_the_driver_dies(self, tmp_path, step):
        for second in range(6):
            write(tmp_path / "in", second)

        def run(scheduler):
            options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
                rows = pipeline | stream(tmp_path / "in", until=5)
                rows | WriteToDelta(tmp_path / "out", pa.schema([("n", pa.int64())]))

        with pytest.raises(Crash):
            run(CrashAt(step))
        write(tmp_path / "in", 6)
        run(OneByOne())
        assert sorted(DeltaTable(tmp_path / "out").to_pyarrow_table().column("n").to_pylist()) == list(range(6))

    def test_a_version_that_deletes_ends_the_run(self, tmp_path):
        write(tmp_path, 1, 2)
        DeltaTable(tmp_path).delete("n = 1")
        injector = stream(tmp_path).injector()
        with pytest.raises(DeltaError, match=r"version 1 of .* deletes or changes rows \(DELETE\).*version=1"):
            injector.plan(injector.start(), 100, 1)
        assert [row["n"] for row, _ in read(stream(tmp_path, 1, until=1))] == [2]

    def test_a_version_whose_files_are_gone(self, tmp_path):
        for second in range(3):
            write(tmp_path, second)
        DeltaTable(tmp_path).optimize.compact()
        DeltaTable(tmp_path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        message = r"^data file part-\S+ of \S+ is gone, as VACUUM .*delta.deletedFileRetentionDuration"
        for source in (ReadFromDelta(tmp_path, 1), stream(tmp_path, 1, until=2)):
            with pytest.raises(DeltaError, match=message):
                read(source)
        assert sorted(row["n"] for row, _ in read(ReadFromDelta(tmp_path))) == [0, 1, 2]

    def test_a_version_whose_entry_is_gone(self, tmp_path):
        for second in range(3):
            write(tmp_path, second)
        DeltaTable(tmp_path).create_checkpoint()
        injector = stream(tmp_path).injector()
        position = injector.plan(injector.start(), 1, 1).position
        (tmp_path / "_delta_log" / f"{1:020d}.json").unlink()
        with pytest.raises(DeltaError, match=r"version 1 of .* is gone from its log.*delta.logRetentionDuration"):
            stream(tmp_path, 2).injector().plan(position, 100, 1)

    @pytest.mark.parametrize("versions", [1, 4, 9])
    @pytest.mark.parametrize("is_restarted", [True, False])
    def test_a_table_that_was_made_anew(self, tmp_path, versions, is_restarted):
        """Its versions have the numbers of those that were read, or of those that would be read next."""
        place = tmp_path / "table"
        for second in range(4):
            write(place, second)
        injector = stream(place).injector()
        position = injector.plan(injector.start(), 100, 1).position
        rmtree(place)
        for second in range(versions):
            write(place, 100 + second)
        if is_restarted:
            injector = stream(place, 0).injector()
        elif versions < 5:
            # Nothing new is there yet.
            assert not injector.plan(position, 100, 1).splits
            for second in range(5):
                write(place, 200 + second)
        with pytest.raises(DeltaError, match=r"is not the table that this run has read: .* on an empty checkpoint"):
            injector.plan(position, 100, 1)

    def test_a_version_that_was_read_in_part_of_a_table_that_was_made_anew(self, tmp_path):
        place = tmp_path / "table"
        write(place, 1, 2)
        injector = ReadFromDelta(place).injector()
        position = injector.plan(injector.start(), 1, 1).position
        rmtree(place)
        write(place, 3, 4)
        with pytest.raises(DeltaError, match="is not the table that this run has read"):
            ReadFromDelta(place).injector().plan(position, 1, 1)


class TestRefused:
    def test_arguments(self, tmp_path):
        write(tmp_path, 1)
        for arguments, error, message in [
            ({"continuous": True}, ValueError, "give timestamp and max_delay"),
            ({"until_version": 3}, ValueError, "until_version is for continuous=True only"),
            ({"until_version": 3, "version": 4, **CONTINUOUS}, ValueError, "until_version is 3, before version 4"),
            ({"interval": -1, **CONTINUOUS}, ValueError, "interval is -1 s; give 0 or more seconds"),
            ({"interval": "long", **CONTINUOUS}, TypeError, "cannot interpret 'long' of type str as a Duration"),
            ({"version": "1"}, TypeError, "version must be the number of a version, 0 or greater, got '1'"),
            ({"version": True}, TypeError, "version must be the number of a version, 0 or greater, got True"),
            ({"until_version": -1, **CONTINUOUS}, TypeError, "until_version must be the number of a version, 0 or gre"),
            ({"columns": "n"}, TypeError, r"columns must be a list of columns, got text; write \['n'\]"),
            ({"storage_options": 5}, TypeError, "storage_options must be a dict of names and texts"),
            ({"columns": ["m"]}, ValueError, r"has no column 'm'; it has \['n', 'at'\]"),
            ({"timestamp": "then"}, ValueError, "has no column 'then'"),
            ({"version": 7}, DeltaError, "cannot be read at version 7; nothing has run"),
        ]:
            with pytest.raises(error, match=message):
                ReadFromDelta(tmp_path, **arguments)
        with pytest.raises(TypeError, match="ReadFromDelta takes the folder of a table, got 5"):
            ReadFromDelta(5)
        with pytest.raises(DeltaError, match="cannot be read as a Delta table; nothing has run"):
            ReadFromDelta(tmp_path / "none")

    def test_deletion_vectors(self, tmp_path):
        write(tmp_path, 1, 2)
        entry = tmp_path / "_delta_log" / f"{1:020d}.json"
        vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
        add = {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
        entry.write_text(json.dumps({"add": {**add, "deletionVector": vector}}))
        injector = stream(tmp_path, 0).injector()
        with pytest.raises(DeltaError, match=r"version 1 of .* has deletion vectors.*REORG TABLE"):
            injector.plan(injector.start(), 100, 1)

    def test_deletion_vectors_of_a_snapshot(self, tmp_path, monkeypatch):
        DeltaTable.create(
            tmp_path, pa.schema([("n", pa.int64())]), configuration={"delta.enableDeletionVectors": "true"}
        )
        assert read(ReadFromDelta(tmp_path)) == []
        monkeypatch.setattr(
            DeltaTable, "deletion_vectors", lambda table: [pa.RecordBatch.from_pydict({"filepath": ["x"]})]
        )
        with pytest.raises(DeltaError, match=r"version 0 of .* has deletion vectors"):
            read(ReadFromDelta(tmp_path))

    def test_column_mapping(self, tmp_path):
        DeltaTable.create(tmp_path, pa.schema([("n", pa.int64())]))
        entry = tmp_path / "_delta_log" / f"{0:020d}.json"
        entry.write_text(
            entry.read_text().replace('"configuration":{}', '"configuration":{"delta.columnMapping.mode":"name"}')
        )
        with pytest.raises(DeltaError, match="has column mapping, which is not supported; nothing was read"):
            ReadFromDelta(tmp_path)


def test_an_object_store():
    server, process = s3.start()
    try:
        place, options = server.new_place(), server.environment
        write(place, 1, 2, storage_options=options)
        write(place, 3, storage_options=options)
        assert [row["n"] for row, _ in read(stream(place, 0, until=1, storage_options=options))] == [1, 2, 3]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
