"""The article's numbers on Spark: every example on every input, in one pipeline."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.spark import SparkRunner
from tests.article import Article, Outcomes

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession) -> Outcomes:
    return Outcomes.of(SparkRunner(spark, intervals=2))


class TestArticle(Article):
    """Each number of the text."""
