"""Columns keep the types of their source, through the steps that are known to keep them, in all epochs."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from fastavro import parse_schema, writer

import headrace as beam
from headrace import col
from headrace.io.delta import ReadFromDelta, WriteToDelta
from headrace.io.iceberg import ReadFromIceberg, WriteToIceberg
from headrace.lowlevel import StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.columns.source_columns import source_columns
from headrace.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from tests.unit.sdk.io.iceberg.test_iceberg_sink import NAME, Lake
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne

RECORD = pa.struct({"x": pa.int8(), "y": pa.list_(pa.string())})
INSTANTS = [datetime.datetime(2024, 1, day, 5, 6, 7, 8, tzinfo=datetime.UTC) for day in (1, 2, 3)]
KINDS = {
    "id": pa.array([1, 2, 3], pa.int16()),
    "money": pa.array([None, Decimal("1.25"), Decimal("1234567.80")], pa.decimal128(12, 2)),
    "tiny": pa.array([None, 1, -3], pa.int8()),
    "ratio": pa.array([None, 0.5, 0.1], pa.float32()),
    "nanos": pa.array([None, 1, 1_000_000_001], pa.timestamp("ns", "UTC")),
    "text": pa.array([None, None, "late"]),
    "map": pa.array([None, [("a", 1)], []], pa.map_(pa.string(), pa.int16())),
    "large": pa.array([None, 2**64 - 1, 2**63], pa.uint64()),
    "coded": pa.array([None, "a", "b"]).dictionary_encode(),
    "record": pa.array(
        [None, {"x": 1, "y": ["a"]}, {"x": 2, "y": None}], pa.struct({"x": pa.int8(), "y": pa.list_(pa.string())})
    ),
    "list": pa.array([None, [Decimal("1.5")], []], pa.list_(pa.decimal128(5, 1))),
}
TABLE = pa.table(KINDS)


def parquet(folder, table=TABLE, name="in"):
    """A file for each row."""
    (folder / name).mkdir(exist_ok=True)
    for row in range(table.num_rows):
        pq.write_table(table.slice(row, 1), folder / name / f"{row}.parquet")
    return beam.io.ReadFromParquet(f"{folder}/{name}/*")


def by_day(folder):
    for row, day in enumerate(("2024-01-01", "2024-01-02", "2024-01-03")):
        place = folder / "in" / f"day={day}"
        place.mkdir(parents=True)
        pq.write_table(TABLE.slice(row, 1), place / "0.parquet")
    return beam.io.ReadFromParquet(
        folder / "in",
        partition_by={
            "day": "date32",
        },
    )


def run(steps, *sinks):
    """Runs sources, steps and sinks in several epochs."""
    with beam.Pipeline(LocalRunner(scheduler=OneByOne())) as pipeline:
        rows = steps(pipeline)
        for number, sink in enumerate(sinks):
            _ = rows | f"Sink{number}" >> sink


def written(folder, steps):
    """The table that is written to Parquet files, and equals what a function gets; all have one schema."""
    tables = []
    run(
        steps,
        beam.io.WriteToParquet(f"{folder}/out/"),
        beam.io.WriteToTables(lambda epoch, table: tables.append(table)),
    )
    files = sorted((folder / "out").iterdir())
    assert len({str(pq.read_schema(path)) for path in files}) == 1
    found = pa.concat_tables([pq.ParquetFile(path).read() for path in files])
    # Equal values with other dictionaries are no equal columns to Arrow.
    taken = pa.concat_tables(tables).unify_dictionaries()
    assert found.cast(taken.schema).unify_dictionaries().equals(taken)
    return found


def plain(schema):
    """A schema without what formats keep beside it."""
    return pa.schema([field.remove_metadata() for field in schema])


@pytest.mark.parametrize(
    "steps",
    [
        lambda rows: rows,
        lambda rows: rows | beam.Filter(lambda row: print(end="") is None),
        lambda rows: rows | beam.WindowInto(GlobalWindows()) | beam.Reshuffle(),
        lambda rows: rows | beam.Map(lambda row: row),
        lambda rows: rows | beam.Map(lambda row: TimestampedValue(row, row["id"])),
        lambda rows: rows | beam.Select(*TABLE.column_names),
        lambda rows: rows | beam.Select(*[col(name) for name in TABLE.column_names]),
        lambda rows: (
            rows | beam.Filter(col.id < 9) | beam.Select(*TABLE.column_names) | beam.Filter(lambda row: row.id)
        ),
    ],
    ids=["none", "function", "shuffle", "same", "timestamps", "select", "expressions", "chain"],
)
def test_steps_keep_the_types(tmp_path, steps):
    found = written(tmp_path, lambda pipeline: steps(pipeline | parquet(tmp_path)))
    assert plain(found.schema) == TABLE.schema
    assert found.sort_by("id").to_pylist() == TABLE.to_pylist()


def test_named_fields_keep_their_types(tmp_path):
    def steps(pipeline):
        rows = pipeline | parquet(tmp_path)
        made = rows | beam.Map(
            lambda row: {"n": row["tiny"], "next": row["id"] + 1, "x": row["money"], "id": row["id"]}
        )
        return made | beam.Select("x", "n", "id", further="next", length=lambda row: len(str(row)))

    found = written(tmp_path, steps)
    fields = {"x": pa.decimal128(12, 2), "n": pa.int8(), "id": pa.int16(), "further": pa.int64(), "length": pa.int64()}
    assert plain(found.schema) == pa.schema(fields)
    assert found["n"].to_pylist() == [None, 1, -3] and found["further"].to_pylist() == [2, 3, 4]


def test_a_field_of_a_field_keeps_its_type(tmp_path):
    rows = beam.Pipeline("LocalRunner") | parquet(tmp_path)
    made = rows | beam.Map(lambda row: {"x": row["record"]["x"], "y": row["record"]["none"], "z": row["id"]["none"]})
    assert source_columns(made) == pa.schema({"x": pa.int8(), "y": pa.null(), "z": pa.null()})


def test_types_do_not_depend_on_whether_functions_are_watched(tmp_path, monkeypatch):
    """A debugger has functions called that are translated to columns otherwise."""
    monkeypatch.setenv("HEADRACE_CALL_FUNCTIONS", "1")
    rows = beam.Pipeline("LocalRunner") | parquet(tmp_path)
    made = rows | beam.Map(lambda row: {"x": row["tiny"], "y": row["text"]})
    assert source_columns(made) == pa.schema({"x": pa.int8(), "y": pa.string()})


def test_any_other_function_ends_the_search(tmp_path):
    def changed(row):
        row["tiny"] = 1000
        return row

    found = written(
        tmp_path, lambda pipeline: pipeline | parquet(tmp_path, TABLE.select(["id", "tiny"])) | beam.Map(changed)
    )
    assert plain(found.schema) == pa.schema({"id": pa.int64(), "tiny": pa.int64()})


def test_branches_have_a_common_schema(tmp_path):
    more = pa.table({"id": pa.array([300_000], pa.int32()), "tiny": pa.array([4], pa.int8()), "note": ["x"]})

    def steps(pipeline):
        few = pipeline | "Few" >> parquet(tmp_path, TABLE.select(["id", "tiny", "text"]))
        return (few, pipeline | "More" >> parquet(tmp_path, more, "more")) | beam.Flatten()

    found = written(tmp_path, steps)
    fields = {"id": pa.int32(), "tiny": pa.int8(), "text": pa.string(), "note": pa.string()}
    assert plain(found.schema) == pa.schema(fields)
    assert found.sort_by("id")["note"].to_pylist() == [None, None, None, "x"]


def test_a_branch_of_unknown_types_leaves_them_open(tmp_path):
    pipeline = beam.Pipeline("LocalRunner")
    known = pipeline | parquet(tmp_path)
    half = known | beam.Select("id", tiny=col.tiny + 1)
    unknown = known | beam.Map(lambda row: dict(row))
    assert source_columns((known | "Plain" >> beam.Select("id", "tiny"), half) | beam.Flatten()) == pa.schema(
        {"id": pa.int16(), "tiny": pa.null()}
    )
    assert source_columns((known, unknown) | "Both" >> beam.Flatten()) is None


@pytest.mark.parametrize("as_rows", [False, True])
def test_columns_that_name_folders(tmp_path, as_rows):
    found = written(tmp_path, lambda pipeline: pipeline | by_day(tmp_path))
    assert plain(found.schema) == TABLE.schema.append(pa.field("day", pa.date32()))
    assert found.select(TABLE.column_names).to_pylist() == TABLE.to_pylist()


def test_partitions_are_written_with_the_types(tmp_path):
    sink = beam.io.WriteToParquet(f"{tmp_path}/out/", partition_by=["tiny"])
    run(lambda pipeline: pipeline | parquet(tmp_path), sink)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) == 3
    assert all(plain(pq.read_schema(path)) == TABLE.drop_columns(["tiny"]).schema for path in files)


def test_windows_are_written_with_the_types(tmp_path):
    def steps(pipeline):
        rows = pipeline | parquet(tmp_path) | beam.Map(lambda row: TimestampedValue(row, row["id"]))
        return rows | beam.WindowInto(FixedWindows(1))

    assert plain(written(tmp_path, steps).schema) == TABLE.schema


def test_a_later_file_widens_the_types_in_the_first_epoch_only(tmp_path):
    for number, kind in enumerate([pa.int8(), pa.int64(), pa.int8()]):
        pq.write_table(pa.table({"n": pa.array([100 ** (number % 2 + 1)], kind)}), tmp_path / f"{number}.parquet")
    source = beam.io.ReadFromParquet(f"{tmp_path}/*.parquet")
    with beam.Pipeline(LocalRunner()) as pipeline:
        _ = pipeline | source | beam.io.WriteToParquet(f"{tmp_path}/out/")
    assert {pq.read_schema(path).field("n").type for path in (tmp_path / "out").iterdir()} == {pa.int64()}
    with pytest.raises(StepError, match=r"(?s)10000.*columns are those of the first epoch of this run \(n: int8\)"):
        run(lambda pipeline: pipeline | source, beam.io.WriteToParquet(f"{tmp_path}/other/"))


def test_a_column_that_came_with_the_last_file(tmp_path):
    pq.write_table(pa.table({"n": [1]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"n": [2], "note": ["x"]}), tmp_path / "1.parquet")
    found = written(tmp_path, lambda pipeline: pipeline | beam.io.ReadFromParquet(f"{tmp_path}/*.parquet"))
    assert found.to_pylist() == [{"n": 1, "note": None}, {"n": 2, "note": "x"}]


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_of_which_one_file_knows_no_type(tmp_path, first):
    files = [pa.table({"n": pa.nulls(2)}), pa.table({"n": pa.array([1], pa.int8())})]
    for number, table in enumerate([files[first], files[1 - first]]):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    found = written(tmp_path, lambda pipeline: pipeline | beam.io.ReadFromParquet(f"{tmp_path}/*.parquet"))
    assert plain(found.schema) == pa.schema({"n": pa.int8()})
    assert sorted(found["n"].to_pylist(), key=str) == [1, None, None]


INNER_WITHOUT_NULLS = {
    "struct": (pa.struct([pa.field("x", pa.int8(), nullable=False)]), {"x": 1}, {"x": None}),
    "missing": (pa.struct([pa.field("x", pa.int8(), nullable=False), ("y", pa.int8())]), {"x": 1}, {"y": 1}),
    "list": (pa.list_(pa.field("item", pa.int8(), nullable=False)), [1], [None]),
    "map": (pa.map_(pa.string(), pa.field("value", pa.int8(), nullable=False)), [("a", 1)], [("a", None)]),
}


@pytest.mark.parametrize("name", INNER_WITHOUT_NULLS)
def test_a_null_within_a_value_where_the_source_has_none(tmp_path, name):
    """Nulls are in the first epoch, or come later; Arrow would write them, or fail without a name."""
    kind, fits, other = INNER_WITHOUT_NULLS[name]
    pq.write_table(pa.table({"id": [1, 2], "it": pa.array([fits, fits], kind)}), tmp_path / "in.parquet")

    def at(first):
        def change(row):
            if row["id"] >= first:
                row["it"] = other
            return True

        return beam.io.ReadFromParquet(f"{tmp_path}/in.parquet") | beam.Filter(change)

    if name != "map":
        found = written(tmp_path, lambda pipeline: pipeline | at(1))
        assert [set(row["it"]) >= set(other) for row in found.to_pylist()] == [True, True]
    with pytest.raises(StepError, match=r"(?s)there may be no nulls|would have no 'x'"):
        run(lambda pipeline: pipeline | at(2), beam.io.WriteToParquet(f"{tmp_path}/other/"))


def test_a_column_without_nulls_may_get_some_in_the_first_epoch(tmp_path):
    for number, field in enumerate([pa.field("n", pa.int8(), nullable=False), pa.field("n", pa.int8())] * 2):
        values = [None if field.nullable and number == 1 else 1]
        pq.write_table(pa.table({"n": values}, pa.schema([field])), tmp_path / f"{number}.parquet")
    with beam.Pipeline(LocalRunner()) as pipeline:
        source = beam.io.ReadFromParquet(f"{tmp_path}/*.parquet")
        _ = pipeline | source | beam.io.WriteToParquet(f"{tmp_path}/out/")
    assert all(pq.read_schema(path).field("n").nullable for path in (tmp_path / "out").iterdir())


def test_from_delta(tmp_path):
    table = TABLE.select(["id", "money", "tiny", "ratio", "text", "map", "record", "list"]).append_column(
        "at", pa.array(INSTANTS)
    )
    write_deltalake(f"{tmp_path}/table", table.slice(0, 1))
    write_deltalake(f"{tmp_path}/table", table.slice(1), mode="append")
    found = written(tmp_path, lambda pipeline: pipeline | ReadFromDelta(f"{tmp_path}/table"))
    assert plain(found.schema) == table.schema
    assert found.sort_by("id").to_pylist() == table.to_pylist()


OPAQUE = {"columns": lambda rows: rows, "values": lambda rows: rows | beam.Map(lambda row: dict(sorted(row.items())))}


@pytest.mark.parametrize("steps", OPAQUE.values(), ids=OPAQUE)
def test_to_delta(tmp_path, steps):
    table = TABLE.drop_columns(["nanos", "large", "coded"]).append_column("at", pa.array(INSTANTS))
    run(lambda pipeline: steps(pipeline | parquet(tmp_path, table)), WriteToDelta(f"{tmp_path}/table", table.schema))
    found = written(tmp_path, lambda pipeline: pipeline | ReadFromDelta(f"{tmp_path}/table"))
    assert plain(found.schema) == table.schema
    assert found.sort_by("id").to_pylist() == table.to_pylist()


@pytest.mark.parametrize("steps", OPAQUE.values(), ids=OPAQUE)
def test_to_iceberg(tmp_path, steps):
    lake, table = Lake(tmp_path), TABLE.select(["money", "ratio", "text"]).append_column("at", pa.array(INSTANTS))
    table = table.append_column("n", pa.array([1, 2, 3], pa.int32()))
    sink = WriteToIceberg(NAME, table.schema, catalog_properties=lake.properties)
    run(lambda pipeline: steps(pipeline | parquet(tmp_path, table)), sink)
    found = lake.table().scan().to_arrow().sort_by("n")
    assert found.to_pylist() == table.to_pylist()
    assert found.schema.field("money").type == pa.decimal128(12, 2) and found.schema.field("ratio").type == pa.float32()


def test_from_iceberg(tmp_path):
    lake = Lake(tmp_path)
    table = pa.table(
        {"n": pa.array([1, 2, 3], pa.int32()), "money": KINDS["money"], "ratio": KINDS["ratio"], "text": KINDS["text"]}
    )
    table = table.append_column("at", pa.array(INSTANTS))
    lake.make(table.schema)
    for row in range(3):
        lake.table().append(table.slice(row, 1))
    source = ReadFromIceberg(NAME, catalog_properties=lake.properties)
    found = written(tmp_path, lambda pipeline: pipeline | source)
    assert found.sort_by("n").cast(table.schema).to_pylist() == table.to_pylist()
    assert plain(found.schema) == plain(lake.table().schema().as_arrow())


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "float"}]}
DAYS, CLOCKS = [each.date() for each in INSTANTS[1:]], [each.time() for each in INSTANTS[1:]]
AVRO = {
    "id": ("int", [1, 2, 3], pa.int32()),
    "money": (
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        KINDS["money"].to_pylist(),
        pa.decimal128(12, 2),
    ),
    "ratio": ("float", KINDS["ratio"].to_pylist(), pa.float32()),
    "text": ("string", [None, None, "late"], pa.string()),
    "kind": ({"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, [None, "A", "B"], pa.string()),
    "map": ({"type": "map", "values": "int"}, [None, {"a": 1}, {}], pa.map_(pa.string(), pa.int32())),
    "record": (
        {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "float"}]},
        [None, {"x": 0.5}, {"x": 1.0}],
        pa.struct({"x": pa.float32()}),
    ),
    "list": ({"type": "array", "items": "int"}, [None, [1], []], pa.list_(pa.int32())),
    "fixed": ({"type": "fixed", "name": "Two", "size": 2}, [None, b"ab", b"cd"], pa.binary(2)),
    "day": ({"type": "int", "logicalType": "date"}, [None, *DAYS], pa.date32()),
    "clock": (
        {"type": "long", "logicalType": "time-micros"},
        [None, *CLOCKS],
        pa.time64("us"),
    ),
    "at": ({"type": "long", "logicalType": "timestamp-micros"}, [None, *INSTANTS[1:]], pa.timestamp("us", "UTC")),
    "either": (["int", "string"], [None, 1, 2], pa.int64()),
}


def test_from_avro(tmp_path):
    kinds = {name: kind if isinstance(kind, list) else ["null", kind] for name, (kind, _, _) in AVRO.items()}
    kinds["either"] = ["null", "int", "string"]
    schema = parse_schema(
        {"type": "record", "name": "Row", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    )
    rows = [{name: values[row] for name, (_, values, _) in AVRO.items()} for row in range(3)]
    # In the first file nothing is null whose type only its values tell.
    rows[0]["either"] = 5
    for number, row in enumerate(rows):
        with open(tmp_path / f"{number}.avro", "wb") as file:
            writer(file, schema, [row])
    found = written(tmp_path, lambda pipeline: pipeline | beam.io.ReadFromAvro(f"{tmp_path}/*.avro"))
    assert plain(found.schema) == pa.schema({name: kind for name, (_, _, kind) in AVRO.items()})
    assert found.to_pylist() == [
        {**row, "map": row["map"] and [*row["map"].items()] if row["map"] != {} else []} for row in rows
    ]


@pytest.mark.parametrize("dtype", [None, {"id": "int16", "money": "float32"}], ids=["inferred", "stated"])
def test_from_csv(tmp_path, dtype):
    (tmp_path / "in.csv").write_text("id,money,text\n1,0.5,\n2,1.5,\n3,,late\n")
    source = beam.io.ReadFromCsv(f"{tmp_path}/in.csv", dtype={"text": "string", **(dtype or {})}, na_values=[""])
    found = written(tmp_path, lambda pipeline: pipeline | source)
    numbers = (pa.int16(), pa.float32()) if dtype else (pa.int64(), pa.float64())
    assert plain(found.schema) == pa.schema({"id": numbers[0], "money": numbers[1], "text": pa.string()})
    assert found["text"].to_pylist() == [None, None, "late"]


def test_of_a_source_with_dead_letters(tmp_path):
    parquet(tmp_path)
    source = beam.io.ReadFromParquet(f"{tmp_path}/in/*", timestamp="id")
    good, bad = beam.Pipeline("LocalRunner") | source.with_exception_handling()
    assert source_columns(good) == TABLE.schema
    assert source_columns(bad) is None


def test_a_source_that_cannot_be_read_declares_nothing(tmp_path):
    (tmp_path / "in.parquet").write_text("damaged")
    (tmp_path / "in.avro").write_text("damaged")
    (tmp_path / "in.csv").write_text("a,a\n")
    pipeline = beam.Pipeline("LocalRunner")
    for number, source in enumerate(
        [
            beam.io.ReadFromParquet(f"{tmp_path}/*.parquet"),
            beam.io.ReadFromAvro(f"{tmp_path}/*.avro"),
            beam.io.ReadFromCsv(f"{tmp_path}/*.csv"),
            beam.io.ReadFromParquet(f"{tmp_path}/none*", validate=False),
            beam.io.ReadFromText(f"{tmp_path}/in.csv"),
        ]
    ):
        assert source_columns(pipeline | f"Read{number}" >> source) is None


def test_a_stated_schema_wins(tmp_path):
    stated = pa.schema({"tiny": pa.int64(), "id": pa.float64()})
    sink = beam.io.WriteToParquet(f"{tmp_path}/out/", stated)
    run(lambda pipeline: pipeline | parquet(tmp_path) | beam.Select("id", "tiny"), sink)
    assert {str(pq.read_schema(path)) for path in (tmp_path / "out").iterdir()} == {str(stated)}


def test_a_folder_that_is_empty_at_first(tmp_path):
    (tmp_path / "in").mkdir()

    def until(paths):
        number = len(paths)
        if number < TABLE.num_rows:
            pq.write_table(TABLE.slice(number, 1), tmp_path / "in" / "_new")
            (tmp_path / "in" / "_new").rename(tmp_path / "in" / f"{number}.parquet")
        return number == TABLE.num_rows

    source = beam.io.ReadFromParquet(f"{tmp_path}/in/*", continuous=True, interval=0, until=until)
    found = written(tmp_path, lambda pipeline: pipeline | source)
    assert plain(found.schema) == TABLE.schema
    assert found.to_pylist() == TABLE.to_pylist()


@pytest.mark.faults
@pytest.mark.parametrize("step", ["commit", "committed", "deliver", "delivered"])
def test_a_restart_keeps_the_types(tmp_path, step):
    source = parquet(tmp_path)

    def write(scheduler):
        options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
        with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
            _ = pipeline | source | beam.Select(*TABLE.column_names) | beam.io.WriteToParquet(f"{tmp_path}/out/")

    with pytest.raises(Crash):
        write(CrashAt(step))
    # The types of the run count, whatever its first file is now.
    pq.write_table(
        TABLE.slice(0, 1).cast(TABLE.schema.set(2, pa.field("tiny", pa.int64()))), tmp_path / "in" / "0.parquet"
    )
    write(OneByOne())
    files = sorted((tmp_path / "out").iterdir())
    assert all(plain(pq.read_schema(path)) == TABLE.schema for path in files)
    assert pa.concat_tables([pq.ParquetFile(path).read() for path in files]).to_pylist() == TABLE.to_pylist()
