"""Spark's own progress is on the disk before a micro-batch that it describes is kept."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.spark.dataframe import injectors
from headrace.runners.spark.dataframe.injectors import QueryProgress


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is synced, in order."""
    found: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: found.append(Path(os.readlink(f"/proc/self/fd/{file}")).name))
    return found


def test_files_and_then_folders_once_each_as_they_change(tmp_path: Path, synced: list[str]) -> None:
    root = tmp_path / "spark"
    (root / "offsets").mkdir(parents=True)
    (root / "offsets" / "0").write_text("a")
    progress = QueryProgress(f"file://{root}")
    progress.sync()
    assert synced[0] == "0" and sorted(synced[1:]) == sorted([tmp_path.name, "spark", "offsets"])
    synced.clear()
    progress.sync()
    assert synced == []
    (root / "offsets" / "1").write_text("b")
    progress.sync()
    assert synced == ["1", "offsets"]


def test_other_stores_keep_it_themselves(synced: list[str]) -> None:
    QueryProgress("s3a://bucket/folder").sync()
    QueryProgress("/not/there").sync()
    assert synced == []


def test_a_batch_is_kept_when_its_offsets_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str]
) -> None:
    wanted = SimpleNamespace(max_delay=None, timestamp=None, tolerant=False)
    store = ObjectStore(tmp_path / "checkpoint")
    store.put("streams/x/spark/offsets/0", b"what Spark says")
    writer = SimpleNamespace(start=lambda: None)
    writer.foreachBatch = lambda take: SimpleNamespace(option=lambda name, value: writer)
    frame = SimpleNamespace(writeStream=writer, sparkSession=SimpleNamespace(conf=SimpleNamespace()))
    frame.sparkSession.conf = SimpleNamespace(get=lambda name, default: "x", set=lambda name, value: None)
    injector = injectors.StreamInjector(frame, store, "streams/x", wanted, injectors.StreamOptions())  # type: ignore[arg-type]  # a stand-in for a DataFrame
    injector._begin(0)
    synced.clear()

    def stage(*_: object) -> list[object]:
        assert "0" in synced and "offsets" in synced
        return []

    monkeypatch.setattr(injectors, "stage", stage)
    injector._take(frame, 0)  # type: ignore[arg-type]  # a stand-in for a DataFrame
    assert list(injector._staged) == [0]
