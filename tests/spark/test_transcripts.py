"""Every transcript as a pipeline on Spark; those that do not move wall time in one pipeline, which spares jobs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.spark import SparkRunner
from tests.transcripts.pipelines import moves_wall_time, play_as_pipeline
from tests.transcripts.transcript import Transcript, transcripts

pytestmark = pytest.mark.spark
ALL = list(transcripts())


def test_all_but_those_about_wall_time(spark: SparkSession) -> None:
    together = [each for each in ALL if not moves_wall_time(each)]
    assert len(together) > 40
    play_as_pipeline(together, SparkRunner(spark))


@pytest.mark.parametrize("transcript", list(filter(moves_wall_time, ALL)), ids=lambda each: each.name.replace(" ", "_"))
def test_wall_time(spark: SparkSession, transcript: Transcript) -> None:
    play_as_pipeline([transcript], SparkRunner(spark))
