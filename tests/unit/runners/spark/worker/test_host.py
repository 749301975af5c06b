"""A host without room for copies of state: Spark may try the task elsewhere before the run ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.runners.engine.epoch import DRIVER, Kind, Row, pack, unpack
from headrace.runners.spark.copies import ROOT_VARIABLE
from headrace.runners.spark.host import SparkHost
from headrace.runners.spark.room import CopyError
from tests.stores import DictStore


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkHost:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    return SparkHost(DictStore(), "run")


def failure(error: Exception) -> Row:
    return (0, DRIVER, Kind.FAILURE, pack(error))


def test_early_attempts_fail_and_late_ones_report(host: SparkHost) -> None:
    full = failure(CopyError("cannot write the copy of state /there"))
    for attempt in (0, 1):
        host.begin(attempt)
        with pytest.raises(CopyError, match="/there"):
            list(host.finish([full]))
    host.begin(2)
    (reported,) = host.finish([full])
    assert isinstance(unpack(reported[3]), CopyError)


def test_other_failures_are_reported_at_once(host: SparkHost) -> None:
    host.begin(0)
    assert list(host.finish([failure(ValueError("of user code"))])) == [failure(ValueError("of user code"))]
