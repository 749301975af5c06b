"""What a process that is killed leaves in the file that Spark has given to it."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.runners.spark.statestore.store_cache import ROOT_VARIABLE
from headrace.runners.spark.worker.last_step import MARK, LastStep, noted_step, notes_folder


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of this process, as Spark's worker makes it."""
    monkeypatch.setenv("PYTHON_FAULTHANDLER_DIR", str(tmp_path))
    was_enabled = faulthandler.is_enabled()
    path = tmp_path / str(os.getpid())
    path.touch()
    yield path
    faulthandler.disable()
    if was_enabled:
        faulthandler.enable()


def test_the_newest_step_is_kept_and_a_crash_comes_behind_it(file: Path) -> None:
    words = LastStep()
    words.task_begins()
    assert file.read_text().strip() == ""
    for step in ("Read", "a long name" * 50, "Count\nwords", ""):
        words.step(step)
    assert file.read_text().strip() == f"{MARK}Count words"
    faulthandler.dump_traceback(words._file)
    step, *crash = file.read_text().splitlines()
    assert step.strip() == f"{MARK}Count words" and "most recent call first" in crash[0]


def test_another_task_begins_without_words(file: Path) -> None:
    words = LastStep()
    for _ in range(2):
        words.task_begins()
        assert file.read_text().strip() == ""
        words.step("Read")
        assert file.read_text().strip() == f"{MARK}Read"


def test_a_process_without_a_file_has_no_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = LastStep()
    words.task_begins()
    monkeypatch.setenv("PYTHON_FAULTHANDLER_DIR", str(tmp_path / "is-not-there"))
    words.task_begins()
    words.step("Read")
    assert list(tmp_path.iterdir()) == []


def test_a_crash_after_the_file_is_gone_writes_into_no_other_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = LastStep()
    words.task_begins()
    assert faulthandler.is_enabled()
    file.unlink()
    words.task_begins()
    assert not faulthandler.is_enabled(), "the next file that is opened gets the descriptor"


def test_a_driver_of_the_host_reads_the_step_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    step = LastStep()
    assert noted_step("run") == ""
    step.belongs_to("run")
    assert noted_step("run") == ""
    step.step("Enrich")
    assert noted_step("run") == "Enrich" and noted_step("another") == ""
    step.step(lambda frame=None: "found only in this process")
    assert noted_step("run") == "Enrich"
    (notes_folder("run") / "999999999").write_bytes(b"of a process that is gone")
    assert noted_step("run") == "Enrich"
    assert [note.name for note in notes_folder("run").iterdir()] == [str(os.getpid())]
    step.step("")
    assert noted_step("run") == ""
