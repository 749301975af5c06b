"""Options that the command line of a test run gives to its pipelines."""

from __future__ import annotations

import pytest

from headrace.options.pipeline_options import StandardOptions
from headrace.testing.test_pipeline import TestPipeline


def test_a_pipeline_has_the_options_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.argv", ["pytest", "-q", "--test-pipeline-options=--output=there --runner=LocalRunner --dry"]
    )
    pipeline = TestPipeline()
    assert pipeline.get_pipeline_options().view_as(StandardOptions).runner == "LocalRunner"
    assert pipeline.get_option("output") == "there"
    assert pipeline.get_option("out") is None
    assert (pipeline.get_option("dry", bool_option=True), pipeline.get_option("wet", bool_option=True)) == (True, False)
    assert pipeline.get_full_options_as_args(input="in", verbose=True, none=None, quiet=False) == [
        "--output=there",
        "--runner=LocalRunner",
        "--dry",
        "--input=in",
        "--verbose",
    ]


def test_options_for_all_pipelines_of_a_test_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["pytest"])
    monkeypatch.setattr(TestPipeline, "pytest_test_pipeline_options", "--output='a b'")
    assert TestPipeline(additional_pipeline_args=["--more"]).options_list == ["--output=a b", "--more"]
    monkeypatch.setattr(TestPipeline, "pytest_test_pipeline_options", None)
    assert TestPipeline().options_list == []
