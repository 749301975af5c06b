"""What executors must have: a task is asked, and each answer has its sentence."""

from __future__ import annotations

from errno import ENOSPC
from pathlib import Path
from typing import cast

import cloudpickle
import pytest

from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.messages import unpack
from headrace.runners.spark.jobs import executor_checks
from headrace.runners.spark.jobs.executor_checks import Reached, complaint_of, reached
from headrace.runners.spark.jobs.stage_function import messages_of

NAME = "leases/00000000000000000001"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setenv("HEADRACE_STATE_STORES", str(tmp_path / "stores"))
    made = ObjectStore(tmp_path / "place")
    made.put(NAME, b"this driver")
    return made


def test_a_shared_folder_will_do(store: ObjectStore) -> None:
    assert complaint_of(reached(store, NAME), store, NAME) == ""


def test_a_folder_of_the_same_name_is_another_one(store: ObjectStore, tmp_path: Path) -> None:
    """As on another machine: nothing is there, or something else is."""
    elsewhere = ObjectStore(tmp_path / "elsewhere")
    assert "is not shared by driver and executors" in complaint_of(reached(elsewhere, NAME), store, NAME)
    elsewhere.put(NAME, b"another driver")
    assert "is not shared by driver and executors" in complaint_of(reached(elsewhere, NAME), store, NAME)


def test_a_store_that_does_not_answer(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    said = complaint_of(reached(ObjectStore("s3://bucket/place", patience=0.5), NAME), store, NAME)
    assert "the executors cannot read the checkpoint" in said and "nothing has been read" in said


def test_no_place_for_state_stores(store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_STATE_STORES", str(tmp_path / "file"))
    said = complaint_of(reached(store, NAME), store, NAME)
    assert "no folder for state stores" in said and "spark.executorEnv.HEADRACE_STATE_STORES" in said


class Unloadable:
    """A store that cannot be made in another process, as one whose function for credentials is not there."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return getattr, (object(), "keys")  # type: ignore[return-value]  # an error where it is unpickled


def test_a_store_that_another_process_cannot_open(store: ObjectStore) -> None:
    look = executor_checks._Reach(cloudpickle.dumps(Unloadable()), NAME)
    (message,) = messages_of(look(iter(())))
    found = Reached(*cast("tuple[None, str, str]", unpack(message[3])))
    assert "the executors cannot read the checkpoint" in complaint_of(found, store, NAME)
    assert "AttributeError: 'object' object has no attribute 'keys'" in found.unreadable


def test_a_full_disk(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(dir: Path) -> None:
        raise OSError(ENOSPC, "No space left on device", str(dir))

    monkeypatch.setattr(executor_checks, "TemporaryFile", full)
    said = complaint_of(reached(store, NAME), store, NAME)
    assert "no folder for state stores: OSError: [Errno 28] No space left on device" in said


def test_what_cannot_be_read_is_said_first(store: ObjectStore) -> None:
    assert "because of this" in complaint_of(Reached(None, "because of this", "and this"), store, NAME)
