"""Every transcript as a pipeline on Spark, in all its bundlings: many in one pipeline, which spares jobs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.spark import SparkRunner
from tests.transcripts.pipelines import moves_wall_time, play_as_pipeline
from tests.transcripts.transcript import transcripts

pytestmark = pytest.mark.spark
ALL = transcripts()


def test_all_but_those_about_wall_time(spark: SparkSession) -> None:
    together = [each for each in ALL if not moves_wall_time(each)]
    assert len(together) > 40
    play_as_pipeline(together, SparkRunner(spark))


def test_wall_time(spark: SparkSession) -> None:
    together = list(filter(moves_wall_time, ALL))
    assert len(together) > 10
    play_as_pipeline(together, SparkRunner(spark))
