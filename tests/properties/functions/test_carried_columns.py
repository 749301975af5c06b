"""Lists, structs, maps, times and durations: a pipeline gives the same by column as one by one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace import col
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.sdk.expressions.batch_view import BatchView, Unable
from headrace.sdk.expressions.element_schema import shape_of_rows
from headrace.sdk.expressions.udf_translation import translate_function
from headrace.sdk.functions.arguments import bind
from headrace.sdk.io.columns.tables import to_dicts
from headrace.testing.test_pipeline import TestPipeline
from headrace.testing.util import assert_that
from tests.depth import examples

LATER = datetime(2024, 5, 1, tzinfo=UTC)
NUMBERS = st.integers(-5, 5)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "list": (pa.list_(pa.int64()), st.lists(NUMBERS | st.none(), max_size=3)),
    "long list": (pa.large_list(pa.string()), st.lists(st.sampled_from(["a", "ß", ""]), max_size=2)),
    "pair": (pa.list_(pa.float64(), 2), st.lists(st.floats(allow_nan=False), min_size=2, max_size=2)),
    "lists": (pa.list_(pa.list_(pa.date32())), st.lists(st.lists(st.just(date(2024, 2, 29)), max_size=2), max_size=2)),
    "struct": (
        pa.struct({"x": pa.int32(), "at": pa.timestamp("us", "UTC")}),
        st.fixed_dictionaries({"x": NUMBERS | st.none(), "at": st.sampled_from([LATER, LATER.replace(day=2)])}),
    ),
    "map": (pa.map_(pa.string(), pa.decimal128(9, 2)), st.lists(st.just(("a", Decimal("1.50"))), max_size=2)),
    "time": (pa.time64("us"), st.times()),
    "second": (pa.time32("s"), st.integers(0, 86_399)),
    "duration": (pa.duration("ms"), st.integers(-(10**6), 10**6)),
    "nanos": (pa.duration("ns"), st.integers(-(10**6), 10**6)),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "filtered": lambda rows: rows | beam.Filter(col.number > 0),
    "selected": lambda rows: rows | beam.Select("carried", twice=col.number * 2),
    "paired": lambda rows: rows | beam.Map(lambda row: (row["number"], row["carried"])),
    "looked at": lambda rows: rows | beam.Map(lambda row: str(row["carried"])),
    "field": lambda rows: rows | beam.Map(lambda row: (row["number"], row["carried"]["x"])),
    "number of items": lambda rows: rows | beam.Map(lambda row: (row["key"], len(row["carried"]))),
    "few items": lambda rows: rows | beam.Filter(lambda row: len(row["carried"]) < 2),
    "later": lambda rows: rows | beam.Filter(lambda row: row["carried"]["at"] > LATER),
    "grouped": lambda rows: rows | beam.Map(lambda row: (row["key"], row["carried"])) | beam.GroupByKey() | _sorted(),
    "listed": lambda rows: rows | beam.Map(lambda row: (row["key"], row["carried"])) | _lists() | _sorted(),
    "rows grouped": lambda rows: rows | beam.GroupBy("key") | _sorted(),
    "latest": lambda rows: rows | beam.Map(lambda row: (row["number"], row["carried"])) | beam.combiners.Count.PerKey(),
    "greatest": lambda rows: rows | beam.Map(lambda row: (row["key"], row["carried"])) | beam.CombinePerKey(max),
    "keyed": lambda rows: rows | beam.Map(lambda row: (row["carried"], row["number"])) | beam.CombinePerKey(sum),
    "counted": lambda rows: rows | beam.Map(lambda row: row["carried"]) | beam.combiners.Count.PerElement(),
    "shuffled": lambda rows: rows | beam.Reshuffle(),
    "present": lambda rows: rows | beam.Filter(col.carried.is_not_null()),
    "windowed": lambda rows: (
        rows
        | beam.Map(lambda row: beam.window.TimestampedValue((row["key"], row["carried"]), row["number"]))
        | beam.WindowInto(beam.window.FixedWindows(2))
        | beam.GroupByKey()
        | _sorted()
    ),
}


def _sorted() -> Any:
    return beam.Map(lambda pair: (pair[0], sorted(map(repr, pair[1]))))


def _lists() -> Any:
    return beam.CombinePerKey(beam.combiners.ToListCombineFn())


@st.composite
def tables(draw: st.DrawFn) -> pa.RecordBatch:
    """A part of a longer table, perhaps an empty one, whose column `carried` has any type."""
    kind, values = TYPES[draw(st.sampled_from(sorted(TYPES)))]
    size = draw(st.integers(0, 6)) + 2
    # Arrow's reader takes no nulls among lists of one size.
    nullable = values | st.none() if draw(st.booleans()) and not pa.types.is_fixed_size_list(kind) else values
    carried = draw(st.lists(nullable, min_size=size, max_size=size))
    numbers = draw(st.lists(NUMBERS, min_size=size, max_size=size))
    columns = {"key": pa.array(["a", "b"] * size).slice(0, size), "number": pa.array(numbers, pa.int64())}
    return pa.RecordBatch.from_pydict({**columns, "carried": pa.array(carried, kind)}).slice(1, size - 2)


def outcome(read: Callable[[Any], Any], way: str) -> object:
    """What comes out, in an order of its own; or the last line of the error."""
    found: list[str] = []
    try:
        with TestPipeline() as pipeline:
            assert_that(WAYS[way](pipeline | "Read" >> read(pipeline)), lambda made: found.extend(map(repr, made)))
    except Exception as error:
        return str(error).strip().rpartition("\n")[2].rpartition("Error: ")[2]
    return sorted(found)


@settings(max_examples=examples(30, 1_000), deadline=None)
@given(tables(), st.sampled_from(sorted(WAYS)))
def test_what_is_carried_as_columns_is_what_is_carried_one_by_one(table: pa.RecordBatch, way: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.Table.from_batches([table]), path := f"{folder}/rows.parquet")
        stored = [to_dicts(batch) for batch in pq.read_table(path).to_batches()]
        rows = [row for part in stored for row in part]
        by_column = outcome(lambda _: beam.io.ReadFromParquet(path), way)
        assert by_column == outcome(lambda _: beam.Create(rows), way)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_carried_column_is_written_as_it_was_read(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, values = TYPES[name]
    column = pa.array([find(values, bool)] * 4, kind)
    table = pa.table({"number": pa.array([0, 1, 2, 3]), "carried": column})
    pq.write_table(table, tmp_path / "in.parquet")
    monkeypatch.setattr(ColumnBatch, "values", property(lambda batch: pytest.fail("values were made")))
    with TestPipeline() as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(str(tmp_path / "in.parquet"))
        _ = rows | beam.Filter(col.number != 2) | beam.io.WriteToParquet(str(tmp_path / "out"))
    (path,) = tmp_path.glob("out-*")
    assert pq.read_table(path).equals(
        pq.read_table(tmp_path / "in.parquet").filter(pa.array([True, True, False, True]))
    )


def test_a_time_of_day_is_refused_as_a_key_in_the_same_words(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([time(1), time(2)])}), path := tmp_path / "in.parquet")
    said = []
    for source in (beam.io.ReadFromParquet(str(path)), beam.Create([{"x": time(1)}])):
        with pytest.raises(StepError) as caught, TestPipeline() as pipeline:
            times = pipeline | source | beam.Map(lambda row: row["x"])
            _ = times | "Count" >> beam.combiners.Count.PerElement()
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "key datetime.time(1, 0) of type time cannot be encoded" in said[0]


WHERE = {"x": 1, "at": LATER, "tags": ["a"], "in": {"y": 2.5}}
NESTED = pa.RecordBatch.from_pydict(
    {
        "where": pa.array([WHERE, {**WHERE, "x": None, "tags": None}]).slice(1),
        "tags": pa.array([["a"], [None, "b"]]).slice(1),
        "maybe": pa.array([None, {"x": 1}]).slice(0, 1),
    }
)
BY_COLUMN = [
    lambda row: row["where"]["x"],
    lambda row: (row["where"]["at"], row["where"]["in"]["y"] + 1, len(row["tags"])),
    lambda row: row["where"].get("x"),
    lambda row: (row["where"], row["tags"]),
]
ONE_BY_ONE = [
    lambda row: row["where"]["tags"],
    lambda row: row["where"]["none"],
    lambda row: row["where"].x,
    lambda row: row["maybe"]["x"],
    lambda row: len(row["where"]),
    lambda row: (row["where"], row["where"]),
]


@pytest.mark.parametrize("number", range(len(BY_COLUMN)))
def test_what_is_taken_of_nested_columns(number: int) -> None:
    assert _by_column(BY_COLUMN[number]) == repr(list(map(BY_COLUMN[number], to_dicts(NESTED))))


@pytest.mark.parametrize("number", range(len(ONE_BY_ONE)))
def test_what_of_nested_columns_is_left_to_python(number: int) -> None:
    with pytest.raises(Unable):
        _by_column(ONE_BY_ONE[number])


def _by_column(function: Callable[[Any], Any]) -> str:
    shape = shape_of_rows(NESTED, as_rows=False)
    through = translate_function(function, bind(function, (), {}))
    assert through is not None
    assert shape is not None
    view = BatchView(
        NESTED, np.zeros(NESTED.num_rows, np.int64), shape, lambda: pytest.fail("windows are not asked for")
    )
    return repr(view.result(through.on_columns(view)).values)
