"""Keys, coders and rows of a program reach the workers and come back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.coders import registry
from headrace.lowlevel import CallSink
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark import SparkRunner
from headrace.transforms.schemas import Join
from tests.unit.lowlevel.coders.keytypes import ROW, Colour, Place, Point, PointCoder, Team

pytestmark = pytest.mark.spark


def test_keys_of_many_types(spark) -> None:
    keys = [Place("Rome", 1), ("Rome", 1), Colour.RED, Team("ajax"), ROW, Point(1, 2), frozenset({Point(3, 4)}), ["a"]]
    before, rows = dict(registry._registered), []
    registry.register_coder(Point, PointCoder)
    try:
        with beam.Pipeline(SparkRunner(spark, intervals=2)) as p:
            pairs = p | beam.Create([(key, 1) for key in keys] * 3).with_output_types(Any)
            summed = pairs | beam.CombinePerKey(sum)
            summed | "Keep" >> beam.io.Write(CallSink(lambda epoch, its: rows.extend(value for value, _ in its)))
    finally:
        registry._registered = before
    assert sorted(map(repr, rows)) == sorted(repr((key, 3)) for key in keys)


def length(word: str) -> int:
    return len(word)


def test_rows_and_checked_elements(spark) -> None:
    rows: list[object] = []
    options = PipelineOptions(["--runtime_type_check"])
    with beam.Pipeline(SparkRunner(spark, intervals=2), options) as p:
        sizes = p | beam.Create(["a", "bb", "cc"]) | beam.Map(length) | beam.Map(lambda size: beam.Row(size=size))
        counted = sizes | beam.GroupBy("size").aggregate_field("size", beam.combiners.CountCombineFn(), "words")
        joined = sizes | "Sizes" >> Join(counted, "size") | beam.Map(lambda row: (row.left.size, row.right.words))
        joined | "Keep" >> beam.io.Write(CallSink(lambda epoch, its: rows.extend(value for value, _ in its)))
    assert sorted(rows) == [(1, 1), (2, 2), (2, 2)]


def test_joined_columns(spark, tmp_path: Path) -> None:
    """Rows of two files, joined on text and a number, by each kind of join."""
    left = {"k": ["a", "b", None, "a"], "n": [1, 2, 3, 1], "x": [0.5, None, 1.5, 2.5]}
    right = {"k": ["a", "a", "c"], "n": [1, 1, 9], "y": [b"1", b"2", b"3"]}
    for name, side in (("left", left), ("right", right)):
        pq.write_table(pa.table(side), tmp_path / f"{name}.parquet")
    found = {how: _joined(spark, tmp_path, how) for how in ("inner", "left", "right", "outer")}
    pairs = {(0.5, b"1"), (0.5, b"2"), (2.5, b"1"), (2.5, b"2")}
    lonely = {(None, None), (1.5, None)}
    expected = {
        "inner": pairs,
        "left": pairs | lonely,
        "right": pairs | {(None, b"3")},
        "outer": pairs | lonely | {(None, b"3")},
    }
    assert found == {how: Counter(rows) for how, rows in expected.items()}


def _joined(spark, folder: Path, how: str) -> Counter[object]:
    rows: list[object] = []
    with beam.Pipeline(SparkRunner(spark, intervals=2)) as p:
        left, right = (p | name >> beam.io.ReadFromParquet(f"{folder}/{name}.parquet") for name in ("left", "right"))
        joined = left | Join(right, ["k", "n"], how)
        pairs = joined | beam.Map(lambda row: (row.left and row.left["x"], row.right and row.right["y"]))
        pairs | "Keep" >> beam.io.Write(CallSink(lambda epoch, its: rows.extend(value for value, _ in its)))
    return Counter(rows)
