"""Combining by columns on Spark: a driver stops with windows open in segments, and the next one goes on with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.local.executor import Crash
from headrace.runners.spark import SparkRunner
from tests.faults.crashes import test_column_computations_survive as raw
from tests.faults.crashes.test_vectorized_grouping_survives import (
    LIMIT,
    Dies,
    Rows,
    general_way,
    of_sinks,
    segments,
    told,
    topology,
)

pytestmark = pytest.mark.spark


def test_a_driver_that_stops_goes_on_with_open_windows(spark: SparkSession, tmp_path: Path) -> None:
    whole: Rows = {}
    # Early panes follow from what comes in an epoch, so all runs have the same ones.
    size = LIMIT
    with general_way():
        expected = LocalRunner().run_topology(topology(whole), RunOptions(max_records_per_epoch=size))
    rows: Rows = {}
    options = RunOptions(str(tmp_path), max_records_per_epoch=size)
    with pytest.raises(Crash):
        SparkRunner(spark, intervals=2, steps=Dies(2)).run_topology(topology(rows), options)
    assert segments(tmp_path)
    options = RunOptions(str(tmp_path), intervals=3, max_records_per_epoch=size)
    result = SparkRunner(spark, intervals=2).run_topology(topology(rows), options)
    assert of_sinks(rows) == of_sinks(whole)
    assert told(result) == told(expected)
    assert not segments(tmp_path)


def test_a_driver_that_stops_goes_on_with_timers_by_columns(spark: SparkSession, tmp_path: Path) -> None:
    whole: raw.Rows = {}
    expected = raw.life(whole, tmp_path / "by record", raw.FixedSize(0), raw.BySums())
    rows: raw.Rows = {}
    options = RunOptions(str(tmp_path / "found"), max_records_per_epoch=raw.LIMIT)
    with pytest.raises(Crash):
        SparkRunner(spark, intervals=2, steps=Dies(2)).run_topology(raw.topology(rows, raw.BySumsOfColumns()), options)
    assert raw.stored(tmp_path / "found")["segments"]
    options = RunOptions(str(tmp_path / "found"), intervals=3, max_records_per_epoch=raw.LIMIT)
    result = SparkRunner(spark, intervals=2).run_topology(raw.topology(rows, raw.BySumsOfColumns()), options)
    assert expected is not None and result.counters["sums"] == expected.counters["sums"]
    assert raw.of_sink(rows) == raw.of_sink(whole)
    assert not raw.stored(tmp_path / "found")["segments"]
