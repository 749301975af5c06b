"""Signed checkpoints on Spark: worker processes have the key, and nothing that Spark shows has it."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import CheckpointError
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.storage.signed_store import SignedStore
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.runners.spark import SparkRunner
from headrace.runners.spark.dataframe.injectors import FrameInjector
from headrace.sdk.io.dataframe import DataFrameInjector
from tests.spark.dataframe.test_dataframe_sources import Stop, counting, keyed

pytestmark = pytest.mark.spark

KEY = "a key for the tests only"


def test_a_signed_run_from_a_dataframe_stopped_and_started_again(spark: SparkSession, tmp_path: Path) -> None:
    wanted = DataFrameInjector(keyed(spark, 500), "at", None)
    topology, rows = counting(wanted)

    def stop(progress: EpochProgress) -> None:
        raise Stop

    options = {"checkpoint": str(tmp_path), "checkpoint_key": KEY, "max_records_per_epoch": 300}
    with pytest.raises(Stop):
        SparkRunner(spark, intervals=2).run_topology(topology, RunOptions(**options, progress=stop))
    with pytest.raises(CheckpointError, match=r"headrace in .* is signed, and no key was given"):
        SparkRunner(spark).run_topology(topology, RunOptions(str(tmp_path)))
    SparkRunner(spark).run_topology(topology, RunOptions(**options))
    assert Counter(key for (key, _), _ in set(rows)) == Counter(i % 7 for i in range(500))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("sources" in path.parts for path in files)
    assert all(path.read_bytes().startswith(b"HEADSIGN") for path in files)
    _key_is_not_shown(spark, tmp_path, wanted)


def _key_is_not_shown(spark: SparkSession, place: Path, wanted: DataFrameInjector) -> None:
    store = SignedStore(ObjectStore(place), KEY)
    assert Checkpoint.read(store).manifest is not None
    (folder,) = (path.relative_to(place) for path in place.glob("sources/*"))
    # A split travels as a row, and rows of small epochs as a property of the job, which Spark logs.
    split = FrameInjector(wanted.frame, store, str(folder), wanted).plan((0, 0), 10, 1).splits[0]
    configuration = str(spark.sparkContext.getConf().getAll()).encode()
    for shown in (pickle.dumps(split), configuration):
        assert KEY.encode() not in shown and store._key("x") not in shown
