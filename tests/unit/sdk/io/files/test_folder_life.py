"""The life of a folder that is read for ever: files appear, vanish, come back and are replaced; each is read once."""

from __future__ import annotations

import gzip
import logging
import os
import pickle
import random
import shutil
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel import Batch, CallSink, MemorySplit
from headrace.lowlevel.coders.coder import PLAIN
from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import MIN_TIMESTAMP, SECOND
from headrace.runners.local import LocalRunner
from headrace.sdk.io.files import seen_files
from headrace.sdk.io.files.directory_injector import DirectoryInjector
from headrace.sdk.io.files.file_source import FileInjector
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.filesystem import DirectoryListing, MatchedFile, match
from headrace.sdk.io.files.pieces import FileFormat, FileReading, MissingFileError
from headrace.sdk.io.files.seen_files import Seen, SeenFiles
from tests.depth import seeds
from tests.unit.sdk.io.sourcefiles import write


class Names(FileFormat):
    """A format of which each file is one element, its path, in up to three pieces of which the last two are empty."""

    def is_divided(self, file):
        return False

    def cut(self, file, offset, records):
        os.stat(file.path)
        rows = [] if offset else [file.path]
        pieces = 1 + file.size % 3
        return MemorySplit(Batch(rows, [0] * len(rows))), 1, offset + 1 if offset + 1 < pieces else None


@dataclass
class Life:
    """A folder, a source that reads it, and a model of what it should have read."""

    random: random.Random
    folder: Path
    store: ObjectStore = field(default_factory=lambda: ObjectStore("memory://"))
    read: list[str] = field(default_factory=list)
    must: set[str] = field(default_factory=set)
    """Paths that a look has found, and that were there until they were read."""
    may: set[str] = field(default_factory=set)
    """Paths that were there at some time."""
    greatest_commit: int = 0

    def __post_init__(self) -> None:
        self.injector = self.anew()
        self.position = self.injector.start()

    def anew(self) -> DirectoryInjector:
        times = FileTimes(True) if self.random.random() < 0.5 else None
        reading = FileReading(f"{self.folder}/**/*.txt", None, times, interval=0.0, allow_missing=True)
        injector = DirectoryInjector(Names(), reading)
        injector.store_in(SourceObjects(self.store, "sources/a"))
        return injector

    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.txt"))

    def appear(self) -> None:
        for _ in range(self.random.choice([1, 1, 3, 40])):
            name = self.random.choice(["", "a/", "b/", "a/c/"]) + f"{self.random.randrange(400)}.txt"
            staged = self.folder.parent / "staged"
            staged.write_text("x" * self.random.randrange(9))
            # Old and new times, equal ones, and a clock that was set back.
            os.utime(staged, (0, self.random.choice([0, 5, 5, 10**9, time.time(), time.time() + 10**6])))
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(path)

    def vanish(self) -> None:
        for path in self.random.sample(self.files(), len(self.files()) // 3):
            path.unlink()

    def archive_and_return(self) -> None:
        if self.folder.exists():
            away = self.folder.parent / "away"
            self.folder.rename(away)
            if self.random.random() < 0.5:
                self.deliver()
            away.rename(self.folder)

    def deleted(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def restart(self) -> None:
        self.injector = self.anew()

    def deliver(self) -> None:
        """One epoch, which may be planned again, and may be lost by a crash."""
        there = {str(path) for path in self.files()}
        self.may |= there
        limit = self.random.choice([1, 3, 1000])
        delivery = self.injector.plan(self.position, limit, 2)
        if self.random.random() < 0.1:
            delivery = self.injector.plan(self.position, limit, 2)
        if self.random.random() < 0.05:
            self.restart()
            return
        self.read += [row for split in delivery.splits for batch in split.read() for row in batch.values]
        if delivery.idle:
            self.must |= there
        else:
            encoded = PLAIN.encode(delivery.position)
            self.greatest_commit = max(self.greatest_commit, len(encoded))
            self.position = PLAIN.decode(encoded)
            self.injector.committed(self.position)


@pytest.mark.faults
def test_each_path_is_read_once(tmp_path, monkeypatch):
    """Whatever happens in the folder; with runs that become full soon."""
    monkeypatch.setattr(seen_files, "TAIL", 8)
    for seed in seeds(quick=6, full=2000):
        life = Life(random.Random(seed), tmp_path / str(seed) / "in")
        life.folder.mkdir(parents=True)
        steps = [life.appear, life.vanish, life.archive_and_return, life.deleted, life.restart]
        for _ in range(60):
            life.random.choices([*steps, life.deliver], [4, 1, 1, 0.2, 1, 8])[0]()
        life.must.clear()
        while not life.must and life.files():
            life.deliver()
        assert len(life.read) == len(set(life.read)), "read twice"
        assert life.must <= set(life.read) <= life.may
        kept = set(life.store.list("sources"))
        named = {f"sources/a/{name}" for name, _ in life.position[2][1]}
        assert named <= kept
        # Those of the commit before, and of epochs that a crash has lost after the last start.
        assert len(kept - named) < 40


def test_positions_do_not_grow_and_runs_are_few():
    files = SeenFiles(SourceObjects.in_memory())
    seen = Seen()
    sizes = []
    for number in range(300):
        batch = [MatchedFile(f"/in/{number}-{each}.json", each, number) for each in range(100)]
        seen = files.added(seen, batch)
        sizes.append(len(PLAIN.encode(seen.plain())))
        if number % 50 == 0:
            assert files.find(seen, ["/in/none", batch[3].path]) == {batch[3].path: (3, number)}
    assert max(sizes) < 24_000
    assert max(sizes[150:]) < 1.2 * max(sizes[:150])
    assert len(seen.runs) < 25
    assert len(files.paths(seen)) == 30_000
    again = SeenFiles(files.objects)
    assert len(again.find(seen, [f"/in/{number}-7.json" for number in range(300)])) == 300


def test_positions_of_release_0_1_are_read(tmp_path):
    paths = [write(tmp_path / f"{name}.txt", "") for name in "abcd"]
    injector = DirectoryInjector(Names(), FileReading(f"{tmp_path}/*.txt", None, FileTimes(True)))
    delivery = injector.plan((((paths[1], 0, 0, 0),), (paths[0], paths[1]), 7), 100, 1)
    (split,) = delivery.splits
    assert [row for batch in split.read() for row in batch.values] == paths[1:]
    assert delivery.watermark > 7
    assert not injector.plan(delivery.position, 100, 1).splits
    bounded = FileInjector(Names(), FileReading(f"{tmp_path}/*.txt"))
    delivery = bounded.plan((((paths[1], 0, 0, 0),), (), -5), 100, 1)
    assert delivery.done
    assert [row for split in delivery.splits for batch in split.read() for row in batch.values] == paths[1:2]


def test_a_list_of_many_files_is_not_in_each_commit(tmp_path):
    paths = [write(tmp_path / f"{number:04}.txt", "") for number in range(700)]
    injector = FileInjector(Names(), FileReading(f"{tmp_path}/*.txt"))
    position, read, sizes = injector.start(), [], []
    while True:
        delivery = injector.plan(position, 50, 2)
        assert injector.plan(position, 50, 2).position == delivery.position
        position = delivery.position
        sizes.append(len(PLAIN.encode(position)))
        read += [row for split in delivery.splits for batch in split.read() for row in batch.values]
        if delivery.done:
            break
    assert read == paths
    assert max(sizes) < 300


class TestListing:
    def look(self, listing: DirectoryListing) -> list[str]:
        return sorted(Path(file.path).name for file in listing.look())

    def test_a_folder_that_has_not_changed_is_not_read_again(self, tmp_path, monkeypatch):
        for number in range(50):
            write(tmp_path / f"{number}.txt", "")
        os.utime(tmp_path, (0, 1000))
        now = 2_000_000_000_000_000_000
        listing = DirectoryListing(f"{tmp_path}/*.txt", lambda: now)
        assert len(self.look(listing)) == 50
        reads = []
        scan = os.scandir
        monkeypatch.setattr(os, "scandir", lambda folder: reads.append(folder) or scan(folder))
        assert self.look(listing) == []
        assert not reads
        # What a file system does that does not tell changes: it is found all the same, later.
        write(tmp_path / "new.txt", "")
        os.utime(tmp_path, (0, 1000))
        assert self.look(listing) == []
        now += 11_000_000_000
        assert self.look(listing) == ["new.txt"]

    def test_a_change_at_the_time_of_the_look_is_not_missed(self, tmp_path):
        listing = DirectoryListing(f"{tmp_path}/*.txt")
        for number in range(5):
            stamp = tmp_path.stat().st_mtime_ns
            write(tmp_path / f"{number}.txt", "")
            os.utime(tmp_path, ns=(stamp, stamp))
            assert self.look(listing) == [f"{number}.txt"]

    def test_only_new_files_are_examined(self, tmp_path, monkeypatch):
        listing = DirectoryListing(f"{tmp_path}/**/*.txt")
        for number in range(100):
            write(tmp_path / str(number % 3) / f"{number}.txt", "")
        assert len(self.look(listing)) == 100
        write(tmp_path / "1" / "new.txt", "")
        stats = []
        stat = os.stat
        monkeypatch.setattr(os, "stat", lambda path, **options: stats.append(path) or stat(path, **options))
        assert self.look(listing) == ["new.txt"]
        assert len([path for path in stats if str(path).endswith(".txt")]) == 1

    def test_a_name_that_is_not_utf_8(self, tmp_path):
        (tmp_path / os.fsdecode(b"\xff.txt")).write_text("")
        with pytest.raises(ValueError, match=r"has the name b'\\xff.txt', which is not UTF-8; rename it"):
            DirectoryListing(f"{tmp_path}/*.txt").look()
        assert DirectoryListing(f"{tmp_path}/*.csv").look() == []


class TestWhatIsSaid:
    def source(self, folder: Path, **options: object) -> DirectoryInjector:
        return DirectoryInjector(Names(), FileReading(f"{folder}/*.txt", None, None, 0.0, **options))

    def test_a_file_that_was_replaced(self, tmp_path, caplog):
        path = write(tmp_path / "a.txt", "one")
        injector = self.source(tmp_path)
        position = injector.plan(injector.start(), 100, 1).position
        write(tmp_path / "staged", "other")
        (tmp_path / "staged").rename(path)
        with caplog.at_level(logging.WARNING):
            assert injector.plan(position, 100, 1).idle
        assert f"{path} was read before and has changed since; a path is read once" in caplog.text

    def test_a_file_that_is_written_to_after_it_was_read(self, tmp_path, caplog):
        """Such as a log: its folder does not change then, and its new lines were passed over in silence."""
        injector = DirectoryInjector(Names(), FileReading(f"{tmp_path}/*.txt", None, None, interval=0.0))
        position = injector.start()

        def look() -> int:
            nonlocal position
            caplog.clear()
            position = injector.plan(position, 100, 1).position
            return caplog.text.count("was read before and has changed since")

        for name in "ab":
            os.utime(write(tmp_path / f"{name}.txt", "one"), (5, 5))
        assert [look(), look()] == [0, 0]
        with (tmp_path / "a.txt").open("a") as file:
            file.write("two!")
        assert [look(), look()] == [1, 0]
        (tmp_path / "b.txt").write_text("One")
        assert [look(), look()] == [1, 0]
        # As by what copies a file, and sets its time back then.
        os.utime(tmp_path / "b.txt", (3, 3))
        (tmp_path / "a.txt").rename(tmp_path / "archived")
        assert look() == 0

    def test_a_file_that_comes_back_as_it_was(self, tmp_path, caplog):
        path = Path(write(tmp_path / "a.txt", "one"))
        injector = self.source(tmp_path)
        position = injector.plan(injector.start(), 100, 1).position
        path.rename(tmp_path / "away")
        assert injector.plan(position, 100, 1).idle
        (tmp_path / "away").rename(path)
        with caplog.at_level(logging.WARNING):
            assert injector.plan(position, 100, 1).idle
        assert not caplog.text

    @pytest.mark.parametrize("continuous", [False, True])
    def test_a_link_to_a_folder_above_leads_nowhere(self, tmp_path, continuous):
        """Each file was read some forty times, once for each way around; with two such links a look did not end."""
        folder, other = tmp_path / "in" / "hour", tmp_path / "other"
        folder.mkdir(parents=True)
        other.mkdir()
        (folder / "a.txt").write_text("1")
        (other / "b.txt").write_text("2")
        for name, target in {"up": "..", "self": ".", "all": str(tmp_path / "in"), "other": "../../other"}.items():
            (folder / name).symlink_to(target)
        (other / "around").symlink_to(folder)
        (folder / "gone.txt").symlink_to("nothing")
        (folder / "again.txt").symlink_to("a.txt")
        pattern = f"{tmp_path}/in/**/*.txt"
        found = DirectoryListing(pattern).look() if continuous else match(pattern)
        names = ["hour/a.txt", "hour/again.txt", "hour/other/b.txt"]
        assert sorted(file.path for file in found) == [f"{tmp_path}/in/{name}" for name in names]

    def test_a_folder_that_may_not_be_read_is_no_empty_one(self, tmp_path, monkeypatch):
        (tmp_path / "closed").mkdir()
        scanned = os.scandir

        def refuse(path):
            if str(path).endswith("closed"):
                raise PermissionError(13, "Permission denied", str(path))
            return scanned(path)

        monkeypatch.setattr(os, "scandir", refuse)
        for look in (DirectoryListing(f"{tmp_path}/**/*.txt").look, partial(match, f"{tmp_path}/**/*.txt")):
            with pytest.raises(PermissionError, match="closed"):
                look()

    def test_a_folder_that_is_removed(self, tmp_path, caplog):
        write(tmp_path / "in" / "a.txt", "one")
        injector = self.source(tmp_path / "in")
        position = injector.plan(injector.start(), 100, 1).position
        shutil.rmtree(tmp_path / "in")
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert injector.plan(position, 100, 1).idle
        assert caplog.text.count(f"no folder is at {tmp_path}/in/*.txt; its files are read when it is there") == 1


class TestMissingFiles:
    """A file that was listed and is gone."""

    def rows(self, source: beam.PTransform) -> list[object]:
        rows: list[object] = []
        with beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | source | beam.io.Write(CallSink(lambda _, its: rows.extend(its)))
        return [value for value, _ in rows]

    @pytest.mark.parametrize("continuous", [False, True])
    @pytest.mark.parametrize("ending", ["txt", "gz"])
    def test_it_is_named_with_the_way_on(self, tmp_path, monkeypatch, continuous, ending):
        kept, gone = (write(tmp_path / f"{name}.txt", "a\n") for name in "ab")
        options = {"continuous": True, "until": len, "interval": 0.01} if continuous else {}
        if ending == "gz":
            # Such a file is opened by the task only, others also when they are cut.
            options["compression_type"] = "gzip"
            for path in (kept, gone):
                Path(path).write_bytes(gzip.compress(b"a\n"))
        cut = beam.io.ReadFromText.file_format

        def removing(source):
            made = cut(source)
            inner = made.cut

            def remove(file, offset, records):
                if file.path == gone and ending == "txt":
                    Path(gone).unlink(missing_ok=True)
                found = inner(file, offset, records)
                Path(gone).unlink(missing_ok=True)
                return found

            made.cut = remove
            return made

        monkeypatch.setattr(beam.io.ReadFromText, "file_format", removing)
        with pytest.raises(Exception, match=f"{gone} is gone: it was found, and removed before") as caught:
            self.rows(beam.io.ReadFromText(f"{tmp_path}/*.txt", **options))
        assert "allow_missing=True" in str(caught.value)
        Path(gone).write_bytes(Path(kept).read_bytes())
        source = beam.io.ReadFromText(f"{tmp_path}/*.txt", allow_missing=True, **options)
        assert self.rows(source) == ["a"]

    def test_an_error_of_a_file_that_is_there_stays_as_it_is(self, tmp_path):
        write(tmp_path / "a.gz", "no gzip")
        with pytest.raises(Exception, match="Not a gzipped file"):
            self.rows(beam.io.ReadFromText(f"{tmp_path}/a.gz", allow_missing=True))
        assert issubclass(MissingFileError, ValueError)
        error = MissingFileError(MatchedFile("/in/a.csv", 7, 5))
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


class TestTimesOfWaitingFiles:
    """A folder whose watermark follows the times of its files, one piece an epoch."""

    def source(self, folder: Path) -> tuple[DirectoryInjector, object]:
        injector = DirectoryInjector(Names(), FileReading(f"{folder}/*.txt", None, FileTimes(True), interval=0.0))
        return injector, injector.start()

    def file(self, path: Path, seconds: float, size: int = 0) -> None:
        os.utime(write(path, "x" * size), (seconds, seconds))

    def test_a_begun_file_of_the_far_future_does_not_move_the_watermark(self, tmp_path: Path) -> None:
        self.file(tmp_path / "a.txt", time.time() + 10**8, size=2)
        injector, position = self.source(tmp_path)
        begun = injector.plan(position, 1, 1)
        assert (len(begun.splits), begun.watermark) == (1, MIN_TIMESTAMP)
        self.file(tmp_path / "b.txt", 50)
        for _ in range(3):
            begun = injector.plan(begun.position, 1, 1)
        assert begun.watermark == 50 * SECOND

    def test_a_waiting_file_that_is_replaced_waits_at_its_new_time(self, tmp_path: Path) -> None:
        for name, seconds in (("c", 5), ("a", 10), ("b", 50)):
            self.file(tmp_path / f"{name}.txt", seconds)
        injector, position = self.source(tmp_path)
        delivery = injector.plan(position, 1, 1)
        self.file(tmp_path / "new", 200)
        (tmp_path / "new").rename(tmp_path / "a.txt")
        read = []
        for _ in range(2):
            delivery = injector.plan(delivery.position, 1, 1)
            (split,) = delivery.splits
            read += [Path(value).name for batch in split.read() for value in batch.values]
            assert delivery.watermark <= 200 * SECOND
            if read == ["b.txt"]:
                assert delivery.watermark >= 50 * SECOND
        assert read == ["b.txt", "a.txt"]


def test_a_file_that_was_passed_over_is_read_when_it_comes_back(tmp_path: Path) -> None:
    folder, away, now = tmp_path / "in", tmp_path / "away.txt", [0.0]
    for name in ("a.txt", "b.txt"):
        write(folder / name, "")
    reading = FileReading(f"{folder}/*.txt", None, None, interval=1.0, allow_missing=True)
    injector = DirectoryInjector(Names(), reading, now=lambda: now[0])
    first = injector.plan(injector.start(), 1, 1)
    (folder / "b.txt").rename(away)
    passed = injector.plan(first.position, 1, 1)
    assert (len(first.splits), len(passed.splits)) == (1, 0)
    away.rename(folder / "b.txt")
    now[0] += 2
    (split,) = injector.plan(passed.position, 1, 1).splits
    assert [Path(value).name for batch in split.read() for value in batch.values] == ["b.txt"]


def test_a_folder_that_is_misspelt_is_refused_when_built(tmp_path):
    """A run over nothing would replace the files of an earlier one."""
    with pytest.raises(FileNotFoundError, match=r"no folder is at '.*/ordrs/\*\.csv'; correct it, or give validate"):
        beam.io.ReadFromText(f"{tmp_path}/ordrs/*.csv", continuous=True)
    beam.io.ReadFromText(f"{tmp_path}/ordrs/*.csv", continuous=True, validate=False)
    (tmp_path / "orders").mkdir()
    beam.io.ReadFromText(f"{tmp_path}/orders/*.csv", continuous=True)
