"""Beam pipelines of these tests run in memory where a test does not say otherwise."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_RUNNER", "local")
