"""The article's numbers on Spark: every example on every input, in one pipeline."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.spark import SparkRunner
from tests.article import Article, Outcomes
from tests.recorded import ARRIVALS_OF_SHORT, PANES_OF_SHORT, arrivals_of, panes_of, short_pipeline

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession) -> Outcomes:
    return Outcomes.of(SparkRunner(spark, intervals=2))


class TestArticle(Article):
    """Each number of the text."""


def test_a_recorded_run(spark: SparkSession) -> None:
    step = short_pipeline(SparkRunner(spark, intervals=2), record=True).run().recording.step("Totals")
    assert (arrivals_of(step), panes_of(step)) == (ARRIVALS_OF_SHORT, PANES_OF_SHORT)
    assert [move.watermark // 1_000_000 for move in step.watermarks[1:-1]] == [60]
