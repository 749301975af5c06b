"""Changes of Delta tables: with a change data feed and without, bounded and as they come, through crashes."""

from __future__ import annotations

import json
import random
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import headrace as beam
from headrace import RowChange, RowOperation
from headrace.io.delta import DeltaError, ReadFromDelta, WriteToDelta
from headrace.lowlevel import CallSink
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne, all_rows

FEED = {"delta.enableChangeDataFeed": "true"}
both = pytest.mark.parametrize("feed", [FEED, None], ids=["feed", "files"])
OPERATIONS = {
    "insert": RowOperation.INSERT,
    "update_postimage": RowOperation.UPDATE,
    "delete": RowOperation.DELETE,
    "update_preimage": RowOperation.DELETE,
}


def rows(**columns):
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def orders(place, feed, **options):
    """Version 0: three rows in two partitions."""
    write_deltalake(place, rows(id=[1, 2, 3], shop=["a", "a", "b"], amount=[1, 2, 3]), configuration=feed, **options)
    return DeltaTable(place)


def read(*given, **options):
    """The changes of a table, each as a tuple, with their event times."""
    return [change for change, _ in all_rows(ReadFromDelta(*given, changes=True, **options))]


def plain(changes):
    """Changes without whether a row put in is an update; ordered."""
    told = [
        (change.sequence, "-" if change.operation is RowOperation.DELETE else "+", change.before or change.after)
        for change in changes
    ]
    return sorted(told, key=str)


def merged(table, **columns):
    merge = table.merge(rows(**columns), "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def change_at_random(place, rng):
    table, key = DeltaTable(place), rng.randrange(6)
    match rng.randrange(6):
        case 0:
            table.update(updates={"amount": f"amount + {rng.randrange(3)}"}, predicate=f"id = {key}")
        case 1:
            table.delete(f"id = {key}")
        case 2:
            merged(table, id=[key, key + 1], shop=["b", "a"], amount=[rng.randrange(9), rng.randrange(9)])
        case 3:
            table.optimize.compact()
        case 4:
            write_deltalake(place, rows(id=[key], shop=["c"], amount=[7]), mode="overwrite")
        case _:
            table.delete()


class TestChanges:
    @both
    def test_of_every_operation(self, tmp_path, feed):
        orders(tmp_path, feed, partition_by=["shop"]).update(updates={"amount": "amount + 10"}, predicate="id = 1")
        DeltaTable(tmp_path).delete("id = 2")
        merged(DeltaTable(tmp_path), id=[3, 4], shop=["b", "b"], amount=[3, 40])
        DeltaTable(tmp_path).delete("shop = 'b'")

        def row(key, shop, amount):
            return {"id": key, "shop": shop, "amount": amount}

        expected = [((0, 1), "+", row(1, "a", 1)), ((0, 1), "+", row(2, "a", 2)), ((0, 1), "+", row(3, "b", 3))]
        expected += [((1, 0), "-", row(1, "a", 1)), ((1, 1), "+", row(1, "a", 11)), ((2, 0), "-", row(2, "a", 2))]
        # Merging writes row 3 as it was: the feed says so, and the files do not differ in it.
        same = [((3, 0), "-", row(3, "b", 3)), ((3, 1), "+", row(3, "b", 3))] if feed else []
        expected += [*same, ((3, 1), "+", row(4, "b", 40))]
        expected += [((4, 0), "-", row(3, "b", 3)), ((4, 0), "-", row(4, "b", 40))]
        found = read(tmp_path, 0)
        assert plain(found) == sorted(expected, key=str)
        assert {each.operation for each in found if each.sequence[0] == 0} == {RowOperation.READ}
        assert plain(read(tmp_path, 2, until_version=3, snapshot=False)) == [
            each for each in plain(found) if each[0][0] == 3
        ]

    def test_as_deltalake_reads_the_feed(self, tmp_path):
        for seed in range(8):
            place, rng = tmp_path / str(seed), random.Random(seed)
            orders(place, FEED)
            for _ in range(6):
                change_at_random(place, rng)
            theirs = Counter()
            feed = DeltaTable(place).load_cdf(starting_version=1, allow_out_of_range=True)
            for row in pa.table(feed).to_pylist():
                is_put_in = OPERATIONS[row["_change_type"]] is not RowOperation.DELETE
                theirs[row["_commit_version"], row["id"], row["shop"], row["amount"]] += 1 if is_put_in else -1
            ours = Counter()
            for each in read(place, 0, snapshot=False):
                row = each.before or each.after
                ours[each.sequence[0], *row.values()] += 1 if each.before is None else -1
            # Deltalake tells a row that an overwriting version has put in again as deleted and inserted.
            assert {k: n for k, n in ours.items() if n} == {k: n for k, n in theirs.items() if n}, f"seed {seed}"

    @both
    @pytest.mark.parametrize(("limit", "splits"), [(1, 1), (3, 2), (100, 4)])
    def test_the_rows_left_are_those_of_the_table(self, tmp_path, feed, limit, splits):
        for seed in range(6):
            place, rng, net = tmp_path / str(seed), random.Random(seed), Counter()
            orders(place, feed, partition_by=["shop"] if seed % 2 else None)
            for _ in range(6):
                change_at_random(place, rng)
            for change, _ in all_rows(ReadFromDelta(place, 0, changes=True), limit, splits):
                net[tuple((change.before or change.after).values())] += 1 if change.before is None else -1
            table = pa.table(DeltaTable(place).to_pyarrow_table())
            assert +net == Counter(tuple(row.values()) for row in table.to_pylist()), f"seed {seed}"
            assert min(net.values()) >= 0

    def test_event_times_columns_and_rows(self, tmp_path):
        orders(tmp_path, FEED).update(updates={"amount": "9"}, predicate="id = 1")
        commits = [1000 * each["timestamp"] for each in reversed(DeltaTable(tmp_path).history())]
        found = all_rows(ReadFromDelta(tmp_path, 0, ["id"], as_rows=True, changes=True))
        assert [(each.sequence[0], stamp) for each, stamp in found] == [(0, commits[0])] * 3 + [(1, commits[1])] * 2
        assert {(each.before or each.after) for each, _ in found} == {beam.Row(id=1), beam.Row(id=2), beam.Row(id=3)}
        by_column = all_rows(ReadFromDelta(tmp_path, 0, ["id"], timestamp="amount", changes=True))
        assert sorted(stamp // 1_000_000 for _, stamp in by_column) == [1, 1, 2, 3, 9]

    @both
    def test_a_column_that_came_later(self, tmp_path, feed):
        orders(tmp_path, feed)
        added = rows(id=[4], shop=["a"], amount=[4], note=["x"])
        write_deltalake(tmp_path, added, mode="append", schema_mode="merge")
        DeltaTable(tmp_path).update(updates={"note": "'y'"}, predicate="id = 1")
        found = [each.before or each.after for each in read(tmp_path, 1, snapshot=False)]
        assert sorted((row["id"], row["note"] or "") for row in found) == [(1, ""), (1, "y")]

    def test_the_files_of_a_version_are_needed(self, tmp_path):
        orders(tmp_path, None).delete("id = 1")
        log = tmp_path / "_delta_log" / f"{1:020d}.json"
        entry = log.read_text()
        lines = [json.loads(line) for line in entry.splitlines()]
        for line in lines:
            if "add" in line:
                line["add"]["deletionVector"] = {
                    "storageType": "u",
                    "pathOrInlineDv": "ab",
                    "sizeInBytes": 1,
                    "cardinality": 1,
                }
        log.write_text("\n".join(map(json.dumps, lines)))
        source = ReadFromDelta(tmp_path, 0, changes=True, until_version=1)
        with pytest.raises(DeltaError, match=r"version 1 of .* has deletion vectors"):
            all_rows(source)
        log.write_text(entry)
        for file in tmp_path.glob("part-*"):
            file.unlink()
        with pytest.raises(DeltaError, match="is gone, as VACUUM removes"):
            all_rows(source)

    def test_partitions_of_removed_files_are_needed(self, tmp_path):
        orders(tmp_path, None, partition_by=["shop"]).delete("id = 1")
        log = tmp_path / "_delta_log" / f"{1:020d}.json"
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            line.get("remove", {}).pop("partitionValues", None)
        log.write_text("\n".join(map(json.dumps, lines)))
        with pytest.raises(DeltaError, match="does not say which partitions its removed files were in"):
            read(tmp_path, 0)

    def test_arguments(self, tmp_path):
        orders(tmp_path, None)
        with pytest.raises(ValueError, match="interval is -1"):
            ReadFromDelta(tmp_path, changes=True, continuous=True, interval=-1)
        assert not ReadFromDelta(tmp_path, changes=True, continuous=True).is_bounded
        assert ReadFromDelta(tmp_path, changes=True).is_bounded
        assert ReadFromDelta(tmp_path, changes=True, timestamp="id").arrow_schema() is None


class TestStream:
    def test_a_table_that_is_changed_while_it_is_read(self, tmp_path):
        orders(tmp_path, None)
        injector = ReadFromDelta(tmp_path, 0, changes=True, continuous=True, interval=0).injector()
        position, found = injector.start(), []

        def step():
            nonlocal position
            delivery = injector.plan(position, 100, 1)
            position = delivery.position
            found.extend(change for split in delivery.splits for batch in split.read() for change in batch.values)
            return delivery

        step()
        assert step().idle
        DeltaTable(tmp_path).update(updates={"amount": "7"}, predicate="id = 3")
        DeltaTable(tmp_path).optimize.compact()
        step()
        assert [each[:2] for each in plain(found[3:])] == [((1, 0), "-"), ((1, 1), "+")]
        assert step().idle
        # Another driver goes on with the position.
        DeltaTable(tmp_path).delete("id = 3")
        injector = ReadFromDelta(tmp_path, 0, changes=True, continuous=True, interval=0).injector()
        step()
        newest = DeltaTable(tmp_path).version()
        deleted = {"id": 3, "shop": "b", "amount": 7}
        assert found[5:] == [RowChange(RowOperation.DELETE, deleted, None, (newest, 0))]

    @both
    @pytest.mark.parametrize("step", ["commit", "deliver", "delivered"])
    def test_sums_that_follow_whenever_the_driver_dies(self, tmp_path, feed, step):
        place, rng, log = tmp_path / "table", random.Random(step), {}
        orders(place, feed)
        for _ in range(8):
            change_at_random(place, rng)
        merged(DeltaTable(place), id=[1, 8], shop=["a", "b"], amount=[5, 6])

        def run(scheduler):
            options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
                changes = pipeline | ReadFromDelta(place, 0, changes=True)
                windowed = changes | beam.FromRowChanges(key="id") | EAGER
                sums = windowed | beam.Map(lambda row: (row["shop"], row["amount"])) | beam.CombinePerKey(sum)
                _ = sums | beam.ToChangelog() | beam.io.Write(CallSink(lambda epoch, got: log.setdefault(epoch, got)))

        with pytest.raises(Crash):
            run(CrashAt(step))
        run(OneByOne())
        net = Counter()
        for got in log.values():
            for change, _ in got:
                net[change.value] += 1 if change.kind == "+" else -1
        expected = Counter()
        for row in pa.table(DeltaTable(place).to_pyarrow_table()).to_pylist():
            expected[row["shop"]] += row["amount"]
        assert +net == Counter(dict.fromkeys(expected.items(), 1))

    @pytest.mark.parametrize("step", ["commit", "deliver", "delivered"])
    def test_from_table_to_table_by_key_whenever_the_driver_dies(self, tmp_path, step):
        place, out, rng = tmp_path / "table", tmp_path / "out", random.Random(f"table {step}")
        orders(place, FEED)
        for _ in range(8):
            change_at_random(place, rng)
        merged(DeltaTable(place), id=[1, 8], shop=["a", "b"], amount=[5, 6])
        totals = pa.schema([pa.field("shop", pa.string(), False), ("amount", pa.int64())])

        def run(scheduler):
            options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
                windowed = pipeline | ReadFromDelta(place, 0, changes=True) | beam.FromRowChanges(key="id") | EAGER
                sums = windowed | beam.Map(lambda row: (row["shop"], row["amount"])) | beam.CombinePerKey(sum)
                _ = sums | beam.ToChangelog() | WriteToDelta(out, totals, mode="changelog", keys=["shop"])

        with pytest.raises(Crash):
            run(CrashAt(step))
        run(OneByOne())
        expected = Counter()
        for row in pa.table(DeltaTable(place).to_pyarrow_table()).to_pylist():
            expected[row["shop"]] += row["amount"]
        found = pa.table(DeltaTable(out).to_pyarrow_table()).to_pylist()
        assert sorted((row["shop"], row["amount"]) for row in found) == sorted(expected.items())


EAGER = beam.WindowInto(
    beam.window.GlobalWindows(),
    trigger=beam.transforms.trigger.Repeatedly(beam.transforms.trigger.AfterCount(1)),
    accumulation_mode=beam.transforms.trigger.AccumulationMode.ACCUMULATING_AND_RETRACTING,
)
