from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import textwrap
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

import headrace as beam
from headrace.lowlevel.storage.object_store import ObjectStorage, ObjectStore, PlaceError, StoreError


def test_what_is_put_is_there(store: ObjectStorage) -> None:
    assert store.get("a/b") is None
    store.put("a/b", b"1")
    store.put("a/b", b"2")
    assert store.get("a/b") == b"2"
    store.delete("a/b")
    store.delete("a/b")
    assert store.get("a/b") is None


def test_an_empty_object_and_one_of_several_parts(store: ObjectStorage) -> None:
    # obstore sends more than 5 MiB in parts.
    large = os.urandom(6 << 20)
    store.put("large", large)
    store.put("empty", b"")
    assert store.get("large") == large
    assert store.get("empty") == b""


def test_a_name_is_given_once(store: ObjectStorage) -> None:
    assert store.put_if_absent("log/1", b"first")
    assert not store.put_if_absent("log/1", b"second")
    assert store.get("log/1") == b"first"
    store.delete("log/1")
    assert store.put_if_absent("log/1", b"third")


def test_listing_is_sorted_and_by_folder(store: ObjectStorage) -> None:
    for path in ("log/2", "log/10", "log/1/x", "logs/1", "other"):
        store.put(path, b"")
    assert store.list("log") == ["log/1/x", "log/10", "log/2"]
    assert store.list("nothing") == []


def test_listing_more_than_one_page() -> None:
    store = ObjectStore("memory://")
    names = [f"a/{number:05}" for number in range(2500)]
    for name in reversed(names):
        store.put(name, b"")
    assert store.list("a") == names


def test_emptiness(store: ObjectStorage) -> None:
    assert store.is_empty()
    store.put("a/b/c", b"")
    assert not store.is_empty()
    store.delete("a/b/c")
    assert store.is_empty()


def test_looking_does_not_make_the_directory(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "none")
    assert store.get("a") is None
    assert store.list("a") == []
    assert store.is_empty()
    store.delete("a")
    assert not (tmp_path / "none").exists()


def test_a_folder_goes_with_its_last_object(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    store.put("deltas/1/x", b"")
    store.delete("deltas/1/x")
    assert not (tmp_path / "deltas").exists()
    store.put("deltas/1/x", b"")
    assert store.get("deltas/1/x") == b""


def test_local_writes_reach_the_disk_with_the_folders_that_lead_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    folders: list[str] = []

    def fsync(descriptor: int) -> None:
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if place.is_dir():
            folders.append(os.path.relpath(place, root))
        else:
            assert list(root.glob("write#*")), "the name comes when the contents are on the disk"
            synced.append(place.read_text())

    monkeypatch.setattr(os, "fsync", fsync)
    root = tmp_path / "not" / "there"
    store = ObjectStore(root)
    store.put("deltas/1/x", b"x")
    assert synced == ["x"]
    assert folders == ["../..", "..", "deltas/1", "deltas", "."], "the root and what leads to it were made"
    for write in (store.put_if_absent, store.put):
        store.delete("deltas/1/x")
        synced.clear(), folders.clear()
        write("deltas/1/x", b"y")
        assert (synced, folders) == (["y"], ["deltas/1", "deltas", "."])
    for path, reached in (("deltas/1/y", ["deltas/1"]), ("deltas/2/x", ["deltas/2", "deltas"])):
        folders.clear()
        store.put(path, b"x")
        assert folders == reached, "what is known to be there is left out"
    folders.clear()
    assert not store.put_if_absent("deltas/2/x", b"")
    assert folders == ["deltas/2"], "who is told that a name is taken may rely on that"


def test_what_a_crash_left_of_a_write_is_never_listed_and_goes_with_what_is_younger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore(tmp_path)

    def dies(before: str, after: str) -> None:
        monkeypatch.setattr(os, "unlink", lambda path: None)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "link", dies)
        store.put_if_absent("log/1", b"1")
    monkeypatch.undo()
    left = list(tmp_path.glob("write#*"))
    assert len(left) == 1 and left[0].read_bytes() == b"1"
    assert store.is_empty() and store.list("log") == []
    os.utime(left[0], ns=(0, 10**18))
    store.put("log/1", b"2")
    os.utime(tmp_path / "log/1", ns=(0, 10**18))
    store.delete("log/1")
    assert left[0].exists(), "it is no older than what was deleted: its writer may be at work"
    store.put("log/2", b"3")
    store.delete("log/2")
    assert not list(tmp_path.iterdir())


def test_a_write_whose_temporary_file_was_swept_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, replace, swept = ObjectStore(tmp_path), os.replace, []

    def slow(before: str, after: str) -> None:
        if not swept:
            swept.append(before)
            os.unlink(before)
        replace(before, after)

    monkeypatch.setattr(os, "replace", slow)
    store.put("a/b", b"1")
    assert swept and store.get("a/b") == b"1"


def test_a_directory_that_was_there_is_never_made_again(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "place")
    store.put("a", b"1")
    sent = pickle.loads(pickle.dumps(store))
    shutil.rmtree(tmp_path / "place")
    for each in (store, sent):
        for write in (each.put, each.put_if_absent):
            with pytest.raises(
                StoreError, match=r"cannot write .*/place/a/b: .*/place was there and is gone, so it was removed, is"
            ):
                write("a/b", b"2")
    assert not (tmp_path / "place").exists()
    assert store.get("a") is None and store.list("") == []


def test_places_can_be_written_in_several_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ObjectStore("a dir").put("x", b"1")
    for place in (tmp_path / "a dir", f"file://{tmp_path}/a%20dir"):
        assert ObjectStore(place).get("x") == b"1"
        assert ObjectStore(place).describe() == str(tmp_path / "a dir")


def test_another_process_opens_the_same_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = ObjectStore("relative")
    store.put("x", b"1")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert pickle.loads(pickle.dumps(store)).get("x") == b"1"


def test_a_cloud_store_needs_nothing_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    store = pickle.loads(pickle.dumps(ObjectStore("s3://bucket/prefix")))
    assert store.describe() == "s3://bucket/prefix"


def test_a_memory_store_stays_in_its_process() -> None:
    with pytest.raises(
        StoreError, match=r"memory:// store exists in one process only.*give the checkpoint a directory"
    ):
        pickle.dumps(ObjectStore("memory://"))


def test_a_forked_process_is_told_instead_of_hanging(tmp_path: Path) -> None:
    said = _in_subprocess(
        """
        import os, signal
        store = ObjectStore(sys.argv[1])
        store.put("a", b"1")
        if os.fork():
            os.wait()
        else:
            signal.alarm(10)
            try:
                store.get("a")
            except StoreError as error:
                print(error, flush=True)
            os._exit(0)
        """,
        tmp_path,
    )
    assert "was forked from one that already used a checkpoint store" in said
    assert "start processes with the method 'spawn'" in said


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "place of the checkpoint is empty"),
        (None, "place of the checkpoint is None; give a directory or a URL as text"),
        (b"state", "place of the checkpoint is b'state'; give a directory or a URL as text"),
        ("nonsense://x", r"a checkpoint cannot be at nonsense://x, as nonsense://"),
    ],
)
def test_a_place_that_is_none(place: Any, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        ObjectStore(place)


def test_a_file_where_a_directory_belongs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write .*/file/log/1: .*; choose a directory"):
        ObjectStore(tmp_path / "file").put("log/1", b"")
    with pytest.raises(StoreError, match=r"cannot open .*/file: .*; choose a directory"):
        ObjectStore(tmp_path / "file").list("log")
    with pytest.raises(StoreError, match=r"cannot write .*/file/deeper/log/1: "):
        ObjectStore(tmp_path / "file" / "deeper").put_if_absent("log/1", b"")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOENT, "no such file or directory; choose a place in which a directory can be made"),
        (errno.EACCES, "permission denied; give this user the right to read and write there, or choose another place"),
        (errno.EROFS, "read-only file system; choose a place that can be written to"),
        (errno.EIO, "input/output error; choose a place in which a directory can be made"),
    ],
)
def test_a_place_where_no_directory_can_be_made_comes_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    store = ObjectStore(tmp_path / "state")
    monkeypatch.setattr(os, "mkdir", fails)
    with pytest.raises(PlaceError, match=rf"cannot write .*/state/log/1: {said}$"):
        store.put("log/1", b"")


def test_a_name_that_is_too_long_and_a_url_that_is_none_come_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(PlaceError, match=r"cannot open .*: file name too long; choose a shorter one$"):
        ObjectStore(tmp_path / ("x" * 300)).list("log")
    with pytest.raises(PlaceError, match=r"cannot open s3://: .*; correct the URL or the settings of its store$"):
        ObjectStore("s3://")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(StoreError, match=r"cannot write .*/log/1: no space left on device; free some space"):
        ObjectStore(tmp_path).put_if_absent("log/1", b"x")


def _in_subprocess(code: str, directory: Path) -> str:
    program = (
        "import sys\nfrom headrace.lowlevel.storage.object_store import ObjectStore, StoreError\n"
        + textwrap.dedent(code)
    )
    done = subprocess.run([sys.executable, "-c", program, str(directory)], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_write_that_does_not_fit_leaves_the_old_object(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    store.put("log/1", b"old")
    said = _in_subprocess(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        store = ObjectStore(sys.argv[1])
        for write, path in ((store.put, "log/1"), (store.put_if_absent, "log/2")):
            try:
                write(path, bytes(5000))
            except StoreError as error:
                print(error)
        """,
        tmp_path,
    )
    assert said.count("file too large; raise the limit on file sizes") == 2
    assert f"{tmp_path}/log/2" in said
    assert store.list("log") == ["log/1"]
    assert store.get("log/1") == b"old"


def test_a_directory_without_permission_is_named() -> None:
    # Not tmp_path: its parents let nobody else through, and to root nothing is forbidden.
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o755)
        closed = Path(open_to_all) / "closed"
        closed.mkdir(mode=0o555)
        said = _in_subprocess(
            """
            import os
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            try:
                ObjectStore(sys.argv[1]).put_if_absent("log/1", b"")
            except StoreError as error:
                print(error)
            """,
            closed,
        )
    assert said.startswith(f"cannot write {closed}/log/1: permission denied; give this user the right to read and")


def _race(directory: Path, racer: int, names: int, start: Barrier, results: multiprocessing.Queue[object]) -> None:
    store = ObjectStore(directory)
    won = []
    for name in range(names):
        start.wait()
        if store.put_if_absent(f"log/{name}", b"%d " % racer * 2000):
            won.append(name)
    results.put((racer, won))


@pytest.mark.parametrize("racers", [4])
def test_of_racing_processes_exactly_one_gets_each_name(tmp_path: Path, racers: int) -> None:
    names = 150
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(racers), context.Queue()
    processes = [context.Process(target=_race, args=(tmp_path, i, names, start, results)) for i in range(racers)]
    for process in processes:
        process.start()
    won = dict(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(timeout=60)
    winners = {name: racer for racer, taken in won.items() for name in taken}
    assert sum(map(len, won.values())) == len(winners) == names
    store = ObjectStore(tmp_path)
    for name, racer in winners.items():
        assert store.get(f"log/{name}") == b"%d " % racer * 2000
    assert sum(bool(taken) for taken in won.values()) > 1, "nobody raced"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP])
def test_a_directory_without_hard_links_is_refused_before_anything_runs(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the volumes of Databricks are, whose FUSE does not implement link(2)."""

    def link(source: str, target: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    ran: list[int] = []
    pipeline = beam.Pipeline("LocalRunner", argv=[f"--checkpoint={tmp_path}"])
    _ = pipeline | beam.Create([1]) | beam.Map(ran.append)
    with pytest.raises(StoreError, match=r"the file system there has no hard links, .* choose a directory on a disk"):
        pipeline.run()
    assert not ran
