"""A host without room for state stores, or with a damaged one: the next attempt at the task may fare better."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from headrace.lowlevel.user_errors import failed_step
from headrace.runners.engine.messages import DRIVER, Message, MessageKind, pack, unpack
from headrace.runners.spark.statestore.disk_full import StateDiskError
from headrace.runners.spark.statestore.lmdb_store import LmdbStateStore
from headrace.runners.spark.statestore.store_cache import ROOT_VARIABLE
from headrace.runners.spark.worker.host import SparkHost
from tests.stores import DictStore


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkHost:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    return SparkHost(DictStore(), "run")


def failure(error: Exception) -> Message:
    return (0, DRIVER, MessageKind.FAILURE, pack(error))


def test_early_attempts_fail_and_late_ones_report(host: SparkHost) -> None:
    full = failure(StateDiskError("cannot write the state store /there"))
    for attempt in (0, 1):
        host.begin(attempt)
        with pytest.raises(StateDiskError, match="/there"):
            list(host.finish([full]))
    host.begin(2)
    (reported,) = host.finish([full])
    assert isinstance(unpack(reported[3]), StateDiskError)


def test_other_failures_are_reported_at_once(host: SparkHost) -> None:
    host.begin(0)
    assert list(host.finish([failure(ValueError("of user code"))])) == [failure(ValueError("of user code"))]


def full_disk() -> StateDiskError:
    error = StateDiskError("cannot write")
    error.__cause__ = lmdb.Error("mdb_txn_commit: No space left on device")
    return error


@pytest.mark.parametrize(
    ("error", "is_damage"),
    [(lmdb.CorruptedError("a page"), True), (ValueError("of user code"), False), (full_disk(), False)],
)
def test_a_store_that_lmdb_cannot_read_is_made_anew(host: SparkHost, error: Exception, is_damage: bool) -> None:
    def failing_task() -> Iterator[Message]:
        store = host.state_store("count", 1, 0, 1, None)
        assert isinstance(store, LmdbStateStore)
        folders.append(store.path)
        step_error = failed_step(error, "count", b"key", None)
        step_error.__cause__ = error
        host.failed(step_error)
        yield failure(step_error)

    folders: list[Path] = []
    host.begin(0)
    assert len(list(host.finish(failing_task()))) == 1
    assert folders[0].exists() is not is_damage
