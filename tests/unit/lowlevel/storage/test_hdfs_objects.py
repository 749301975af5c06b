"""A checkpoint in HDFS: one writer gets a name, and a NameNode that does not answer is no empty directory.

`HEADRACE_TEST_HDFS=hdfs://host:port/folder` runs the same on a NameNode, with what Arrow needs in the environment.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable

import pytest
from obstore.exceptions import AlreadyExistsError

import headrace as beam
from headrace.lowlevel.checkpoint.inspection.checkpoint_view import CheckpointView
from headrace.lowlevel.storage import object_store
from headrace.lowlevel.storage.hdfs_objects import TEMPORARY, HdfsObjects, hdfs_objects
from headrace.lowlevel.storage.object_store import ObjectStore, PlaceError
from tests.namenode import NameNode

REAL = os.environ.get("HEADRACE_TEST_HDFS")
URL = "hdfs://namenode:8020/user/ann/state"


@pytest.fixture
def node() -> NameNode:
    return NameNode()


@pytest.fixture(params=["in memory", *([REAL] if REAL else [])])
def objects(request: pytest.FixtureRequest, node: NameNode) -> HdfsObjects:
    if request.param == "in memory":
        return HdfsObjects(node.system(), "/user/ann/state")
    return hdfs_objects(f"{request.param}/{secrets.token_hex(8)}")


@pytest.fixture
def opened(objects: HdfsObjects, monkeypatch: pytest.MonkeyPatch) -> Callable[[], ObjectStore]:
    monkeypatch.setattr(object_store, "hdfs_objects", lambda *_: objects)
    return lambda: ObjectStore(URL)


def test_names_are_given_once(opened: Callable[[], ObjectStore]) -> None:
    store = opened()
    assert store.is_empty() and store.get("headrace") is None and store.list("log") == []
    assert (store.put_if_absent("log/1", b"a"), store.put_if_absent("log/1", b"b")) == (True, False)
    assert store.get("log/1") == b"a"
    assert not store.is_empty()
    assert store.describe() == URL


def test_objects_are_replaced_listed_and_deleted(opened: Callable[[], ObjectStore]) -> None:
    store = opened()
    for name in ("deltas/1/0-a", "deltas/10/0-a", "deltas/1/0-b", "deltas/1/0-a", "headrace"):
        store.put(name, name.encode())
    store.put_if_absent("sources/ab/cd", b"")
    assert store.list("") == ["deltas/1/0-a", "deltas/1/0-b", "deltas/10/0-a", "headrace", "sources/ab/cd"]
    assert store.list("deltas/1") == ["deltas/1/0-a", "deltas/1/0-b"]
    assert store.get("sources/ab/cd") == b""
    for name in ("deltas/1/0-a", "sources/ab/cd", "sources/ab/cd", "nothing/there"):
        store.delete(name)
    assert store.list("") == ["deltas/1/0-b", "deltas/10/0-a", "headrace"]


def test_of_many_writers_one_gets_the_name(objects: HdfsObjects, opened: Callable[[], ObjectStore]) -> None:
    won: list[tuple[int, int]] = []

    def write(writer: int) -> None:
        store = opened()
        won.extend((n, writer) for n in range(10) if store.put_if_absent(f"log/{n}", str(writer).encode()))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for n, _ in won) == list(range(10))
    store = opened()
    assert all(store.get(f"log/{n}") == str(writer).encode() for n, writer in won)
    assert store.list("") == sorted(f"log/{n}" for n in range(10))


def test_a_namenode_that_does_not_answer_is_no_empty_checkpoint(node: NameNode) -> None:
    waited: list[float] = []
    objects = HdfsObjects(node.system(), "/state", 60, waited.append)
    objects.put("log/1", b"a", mode="create")
    node.is_down = True
    for use in (lambda: objects.get("log/1"), lambda: list(objects.list("log")), lambda: objects.delete("log/1")):
        waited.clear()
        with pytest.raises(OSError, match="does not answer"):
            use()
        assert 30 <= sum(waited) <= 60


def test_a_namenode_that_is_started_again_is_waited_for(node: NameNode) -> None:
    def wait(seconds: float) -> None:
        node.is_down = seconds < 5

    objects = HdfsObjects(node.system(), "/state", 60, wait)
    for use in (
        lambda: objects.put("log/1", b"a", mode="create"),
        lambda: objects.put("deltas/1", b"b"),
        lambda: list(objects.list()),
        lambda: objects.get("log/1"),
        lambda: objects.delete("deltas/1"),
    ):
        node.is_down = True
        use()
    assert [entry["path"] for chunk in objects.list() for entry in chunk] == ["log/1"]


@pytest.mark.parametrize("first", [True, False])
def test_a_rename_whose_answer_was_lost_is_told_from_one_that_was_not_done(node: NameNode, first: bool) -> None:
    objects = HdfsObjects(node.system(), "/state", 60, lambda _: None)
    if not first:
        objects.put("log/1", b"of another", mode="create")
    rename, lost = node._rename, [True, False]

    def losing(src: str, dest: str) -> None:
        if lost[0] and not lost[1]:
            lost[1] = True
            raise OSError(255, "lost on the way there")
        rename(src, dest)
        if lost[0]:
            lost[0] = False
            raise OSError(255, "lost on the way back")

    node._rename = losing  # type: ignore[method-assign]  # one answer is lost
    if first:
        objects.put("log/1", b"mine", mode="create")
    else:
        with pytest.raises(AlreadyExistsError):
            objects.put("log/1", b"mine", mode="create")
    assert lost == [False, True]
    assert objects.get("log/1").bytes() == (b"mine" if first else b"of another")


def test_what_a_crash_leaves_is_no_object_and_goes(node: NameNode) -> None:
    objects = HdfsObjects(node.system(), "/state")
    objects.put("log/1", b"a", mode="create")
    node.create_dir(f"/state/{TEMPORARY}aa", True)
    node.entries[f"/state/{TEMPORARY}aa/+object"] = b"unfinished"
    node.entries[f"/state/{TEMPORARY}bb"] = b"unfinished"
    for name in (f"/state/{TEMPORARY}aa/+object", f"/state/{TEMPORARY}bb", f"/state/{TEMPORARY}aa"):
        node.changed[name] = 0.0
    assert [entry["path"] for chunk in objects.list() for entry in chunk] == ["log/1"]
    for n in range(64):
        objects.put(f"deltas/{n}", b"")
        objects.delete(f"deltas/{n}")
    assert not [name for name in node.entries if TEMPORARY in name]
    assert objects.get("log/1").bytes() == b"a"


def test_two_drivers_exclude_each_other_and_a_run_goes_on(opened: Callable[[], ObjectStore]) -> None:
    def run(argument: str) -> None:
        with beam.Pipeline("LocalRunner", argv=[f"--checkpoint={URL}", argument]) as pipeline:
            _ = pipeline | beam.Create(range(100)) | beam.Map(lambda n: (n % 3, n)) | beam.CombinePerKey(sum)

    run("--max_records_per_epoch=10")
    first = CheckpointView.of(opened()).manifest
    run("--max_records_per_epoch=20")
    assert first is not None and first.epoch >= 10
    assert len(opened().list("leases")) == 2


def test_without_java_the_error_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(url: str, patience: float) -> HdfsObjects:
        raise OSError("Unable to load libjvm: libjvm.so: cannot open shared object file")

    monkeypatch.setattr(object_store, "hdfs_objects", no_library)
    with pytest.raises(PlaceError, match=r"cannot open hdfs://.*: Unable to load libjvm; install Java and Hadoop"):
        ObjectStore(URL)


def test_a_move_onto_a_file_is_not_one_step(node: NameNode) -> None:
    """Which is why an object that must not be replaced is a folder."""
    objects = HdfsObjects(node.system(), "/state")
    objects.put("deltas/1", b"old")
    seen: list[bool] = []
    node.between = lambda: seen.append("/state/deltas/1" in node.entries)
    objects.put("deltas/1", b"new")
    assert seen == [False]
