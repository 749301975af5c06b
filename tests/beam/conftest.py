"""Beam's pipelines run in memory in these tests, unless a test takes the fixture `runner`, which also is Spark."""

from __future__ import annotations

import pytest

from headrace.runners.beam import HeadraceRunner

collect_ignore = ["thirdparty/programs"]
"""Programs with packages that the checkout does not have."""


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_RUNNER", "local")


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def runner(request: pytest.FixtureRequest) -> HeadraceRunner:
    """Beam's runner in memory, and on the one Spark session of the tests."""
    if request.param == "local":
        return HeadraceRunner("LocalRunner")
    from headrace.runners.spark import SparkRunner

    return HeadraceRunner(SparkRunner(request.getfixturevalue("spark"), intervals=2))
