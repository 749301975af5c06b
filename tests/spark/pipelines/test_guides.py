"""The pages that need a Spark session, run with one: see `tests/unit/docs/test_guides.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pages import needs_spark, pages, run_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def few_tasks(spark: SparkSession) -> Iterator[None]:
    """Spark's own streams would have 200 tasks for four lines."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.unset("spark.sql.shuffle.partitions")


@pytest.mark.usefixtures("few_tasks")
@pytest.mark.parametrize("page", list(filter(needs_spark, pages())), ids=lambda page: page.stem)
def test_a_page_is_true(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_RUNNER", "local")
    monkeypatch.chdir(tmp_path)
    run_page(page.read_text(encoding="utf-8"), str(page), on_spark=True)
