"""Text that a file has as numbers of a dictionary is read so, and nobody can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.io.parquet.parquet_source import encoded_columns
from headrace.transforms.window import FixedWindows

ROWS = 3_000
NAMES = ["UA", None, "ÅÅ", ""]
TABLE = pa.table(
    {
        "few": [NAMES[row % 4] for row in range(ROWS)],
        "large": pa.array([f"name {row % 7}" for row in range(ROWS)], pa.large_string()),
        "many": [f"name {row}" for row in range(ROWS)],
        "number": [row % 4 for row in range(ROWS)],
        "list": [[NAMES[row % 4]] for row in range(ROWS)],
        "coded": pa.array([f"{row % 3}" for row in range(ROWS)]).dictionary_encode(),
        "at": pa.array([row * 1_000_000 for row in range(ROWS)], pa.timestamp("us", "UTC")),
    }
)


@pytest.fixture(scope="module", params=["dictionary", "plain", "one group of two"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with two row groups."""
    file = str(tmp_path_factory.mktemp("encoded") / "rows.parquet")
    if request.param != "one group of two":
        pq.write_table(TABLE, file, row_group_size=ROWS // 2, use_dictionary=request.param == "dictionary")
        return file
    changed = TABLE.set_column(
        0, "few", pa.array([*TABLE["few"].to_pylist()[: ROWS // 2], *TABLE["many"].to_pylist()[ROWS // 2 :]])
    )
    pq.write_table(changed, file, row_group_size=ROWS // 2)
    return file


def test_columns_are_chosen_by_what_the_row_groups_have(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "rows.parquet", row_group_size=ROWS // 2)
    with pq.ParquetFile(tmp_path / "rows.parquet") as file:
        assert encoded_columns(file, [0, 1], TABLE.column_names) == ["few", "large"]
        assert encoded_columns(file, [], TABLE.column_names) == []
        assert encoded_columns(file, [1], ["number", "few"]) == ["few"]


def test_rows_are_those_of_the_file(path: str) -> None:
    found: list[Any] = []
    with beam.Pipeline("LocalRunner") as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(path)
        _ = rows | beam.io.WriteToTables(lambda _, table: found.extend(table.to_pylist()))
    expected = pq.read_table(path).to_pylist()
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_what_is_written_has_the_types_of_the_file(path: str, tmp_path: Path) -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(path)
        _ = rows | beam.Filter(lambda row: row["number"] > 0) | beam.io.WriteToParquet(str(tmp_path / "out"))
    written = pa.concat_tables(map(pq.read_table, sorted(tmp_path.glob("out*"))))
    original = pq.read_table(path)
    assert written.schema.types == original.schema.types
    expected = original.filter(pa.compute.greater(original["number"], 0)).to_pylist()
    assert sorted(written.to_pylist(), key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("most", [None, 700])
def test_keys_are_those_of_the_file(path: str, most: int | None) -> None:
    found: list[Any] = []
    options = PipelineOptions([], max_records_per_epoch=most)
    with beam.Pipeline("LocalRunner", options=options) as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(path, timestamp="at", as_rows=True)
        windowed = rows | beam.WindowInto(FixedWindows(600))
        summed = windowed | beam.GroupBy("few", "large").aggregate_field("number", sum, "sum")
        _ = summed | beam.io.WriteToTables(lambda _, table: found.extend(table.to_pylist()))
    sums: dict[tuple[object, ...], int] = {}
    for row in pq.read_table(path).to_pylist():
        group = row["few"], row["large"], int(row["at"].timestamp()) // 600
        sums[group] = sums.get(group, 0) + row["number"]
    assert sorted(((row["few"], row["large"], row["sum"]) for row in found), key=repr) == sorted(
        ((few, large, total) for (few, large, _), total in sums.items()), key=repr
    )


def test_lists_are_those_of_the_file(path: str) -> None:
    found: list[Any] = []
    with beam.Pipeline("LocalRunner") as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(path, as_rows=True)
        # No row has the first entry of the dictionary any more.
        pairs = rows | beam.Filter(lambda row: row.number > 0) | beam.Map(lambda row: (row.few, row.large))
        lists = pairs | beam.GroupByKey() | beam.MapTuple(lambda few, names: {"few": few, "names": sorted(names)})
        _ = lists | beam.io.WriteToTables(lambda _, table: found.extend(table.to_pylist()))
    lists_of: dict[object, list[str]] = {}
    for row in pq.read_table(path, filters=[("number", ">", 0)]).to_pylist():
        lists_of.setdefault(row["few"], []).append(row["large"])
    assert {row["few"]: row["names"] for row in found} == {few: sorted(names) for few, names in lists_of.items()}
    assert len(found) == len(lists_of)
