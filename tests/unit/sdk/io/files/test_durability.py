"""Files that sinks write: on the disk before anybody relies on them, of the size that was staged, and a consumer's."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel import Batch, CheckpointError
from headrace.lowlevel.storage import directory_sync
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.files.file_sink import EpochFileSink
from headrace.sdk.io.text.text_writers import TextWriter
from headrace.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from headrace.transforms.window import FixedWindows
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne

WRITER = TextWriter(b"\n", None, None, "auto")
ROW = {"day": "monday", "n": 1}
WRITERS = {
    "text": lambda prefix: beam.io.WriteToText(prefix),
    "json": lambda prefix: beam.io.WriteToJson(prefix),
    "csv": lambda prefix: beam.io.WriteToCsv(prefix),
    "parquet": lambda prefix: beam.io.WriteToParquet(prefix),
    "partitioned": lambda prefix: beam.io.WriteToParquet(prefix, partition_by=["day"]),
}


def sink_of(folder: Path, **kwargs: object) -> EpochFileSink:
    return EpochFileSink(f"{folder}/out", ".txt", WRITER, **kwargs)


def staged(sink, *texts: str, epoch: int = 7) -> list[bytes]:
    return [sink.stage(Batch([text], [0]), epoch, number, f"t{number}") for number, text in enumerate(texts)]


def visible(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What is brought to the disk, in order."""
    seen: list[Path] = []
    really = directory_sync.fsync

    def fsync(place: Path) -> None:
        really(place)
        seen.append(Path(place))

    monkeypatch.setattr(directory_sync, "fsync", fsync)
    return seen


class TestOnTheDisk:
    @pytest.mark.parametrize("format_", WRITERS)
    def test_what_is_staged_and_every_new_name_on_the_way_to_it(self, tmp_path, synced, format_):
        sink = WRITERS[format_](f"{tmp_path}/new/folder/out").sink()
        sink.stage(Batch([ROW], [0]), 1, 0, "t")
        hidden = tmp_path / "new" / "folder" / "_unfinished"
        (file,) = hidden.iterdir()
        assert synced.index(file) < synced.index(hidden)
        assert {hidden, hidden.parent, hidden.parent.parent, tmp_path} <= set(synced)

    @pytest.mark.parametrize("format_", WRITERS)
    def test_what_is_delivered_where_it_comes_from_and_where_it_goes(self, tmp_path, synced, format_):
        sink = WRITERS[format_](f"{tmp_path}/out").sink()
        receipts = [sink.stage(Batch([ROW] * 3, [0] * 3), 1, number, f"t{number}") for number in range(4)]
        synced.clear()
        sink.deliver(1, receipts)
        (folder,) = {path.parent for path in tmp_path.rglob("out-*")}
        assert synced.count(folder) == synced.count(tmp_path / "_unfinished") == 1
        # A folder's name is in the one above, and lasts before anything is moved to it.
        assert folder == tmp_path or synced.index(tmp_path) < synced.index(folder)

    def test_many_folders_are_each_synced_once(self, tmp_path, synced):
        sink = beam.io.WriteToParquet(f"{tmp_path}/out", partition_by=["day", "n"]).sink()
        rows = [{"day": day, "n": n, "x": 1} for day in range(3) for n in range(10)]
        receipt = sink.stage(Batch(rows, [0] * len(rows)), 1, 0, "t")
        synced.clear()
        sink.deliver(1, [receipt])
        made = {path for path in tmp_path.rglob("*") if path.is_dir()} | {tmp_path}
        inner = {tmp_path, *(path for path in tmp_path.iterdir() if path.name != "_unfinished")}
        assert (len(made), len(inner)) == (35, 4)
        assert [place for place in made if synced.count(place) != 1] == []
        # What is moved into a folder that a loss of power takes back is gone with it.
        assert max(map(synced.index, inner)) < min(map(synced.index, made - inner))

    def test_also_what_an_earlier_life_renamed_without_syncing_it(self, tmp_path, synced):
        receipts = staged(sink_of(tmp_path), "a")
        sink_of(tmp_path).deliver(7, receipts)
        synced.clear()
        sink_of(tmp_path).deliver(7, receipts)
        assert tmp_path in synced

    def test_files_of_many_windows_are_each_synced_and_their_folder_once(self, tmp_path, synced):
        windowed = beam.Pipeline(LocalRunner()) | beam.Create([1]) | beam.WindowInto(FixedWindows(60))
        windowed | beam.io.WriteToText(f"{tmp_path}/out")
        sink = windowed.pipeline.steps[-1].transform.sink()
        sink.stage(Batch([("x", (0, 60_000_000, pane, False)) for pane in range(5)], [0] * 5), 7, 0, "t")
        assert len([path for path in synced if path.parent.name == "_unfinished"]) == 5
        assert synced.count(tmp_path / "_unfinished") == 1

    def test_later_files_cost_one_sync_more_each_and_no_more_folders(self, tmp_path, synced):
        sink = sink_of(tmp_path / "deep" / "below")
        staged(sink, "a")
        synced.clear()
        staged(sink, "b")
        assert [path.name for path in synced] == ["out-000007-0-t0.txt", "_unfinished"]

    def test_a_run_syncs_before_it_commits(self, tmp_path, monkeypatch):
        order = []
        really = directory_sync.fsync
        monkeypatch.setattr(directory_sync, "fsync", lambda place: (really(place), order.append(str(place)))[0])
        options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
        with beam.Pipeline(LocalRunner(), options) as pipeline:
            pipeline | beam.Create(["a"]) | beam.io.WriteToText(f"{tmp_path}/out/part")
        hidden = str(tmp_path / "out" / "_unfinished")
        commit = next(number for number, place in enumerate(order) if place.startswith(f"{tmp_path}/checkpoint/log"))
        assert order.index(hidden) < commit < order.index(str(tmp_path / "out"), commit)


class TestSizes:
    def test_a_staged_file_that_was_cut_is_not_delivered(self, tmp_path):
        sink = sink_of(tmp_path)
        receipts = staged(sink, "whole", "whole too")
        (tmp_path / "_unfinished" / "out-000007-1-t1.txt").write_text("wh")
        with pytest.raises(OSError, match=r"out-000007-1-t1.txt of committed epoch 7 has 2 bytes, but 10 were staged"):
            sink.deliver(7, receipts)
        assert visible(tmp_path) == ["_unfinished/out-000007-0-t0.txt", "_unfinished/out-000007-1-t1.txt"]

    def test_a_delivered_file_that_its_reader_has_changed_is_left(self, tmp_path, caplog):
        receipts = staged(sink_of(tmp_path), "a")
        sink_of(tmp_path).deliver(7, receipts)
        (tmp_path / "out-000007-00000.txt").write_text("read: a")
        sink_of(tmp_path).deliver(7, receipts)
        assert (tmp_path / "out-000007-00000.txt").read_text() == "read: a"
        (record,) = caplog.records
        assert "1 of 1 files of committed epoch 7 have changed in size since their delivery" in record.message


class TestTakenByAReader:
    def test_a_delivery_that_is_repeated_goes_on_and_says_so_once(self, tmp_path, caplog):
        receipts = staged(sink_of(tmp_path), "a", "b", "c")
        sink_of(tmp_path).deliver(7, receipts)
        for number in range(2):
            (tmp_path / f"out-000007-0000{number}.txt").unlink()
        sink_of(tmp_path).deliver(7, receipts)
        (record,) = caplog.records
        told = "2 of 3 files of committed epoch 7 were delivered and no longer exist, such as "
        assert record.message.startswith(f"{told}{tmp_path}/out-000007-00000.txt")
        assert visible(tmp_path) == ["out-000007-00002.txt"]

    def test_what_is_gone_before_it_was_ever_delivered_is_an_error(self, tmp_path):
        sink = sink_of(tmp_path)
        sink.begin(anew=True)
        receipts = staged(sink, "a")
        (tmp_path / "_unfinished" / "out-000007-0-t0.txt").unlink()
        with pytest.raises(FileNotFoundError, match=r"1 of 1 files of committed epoch 7 were removed before they were"):
            sink.deliver(7, receipts)

    def test_also_if_another_file_has_its_name(self, tmp_path):
        (tmp_path / "out-000007-00000.txt").write_text("another")
        sink = sink_of(tmp_path)
        sink.begin(anew=True)
        receipts = staged(sink, "a")
        (tmp_path / "_unfinished" / "out-000007-0-t0.txt").unlink()
        with pytest.raises(FileNotFoundError, match="were removed before they were delivered"):
            sink.deliver(7, receipts)
        assert visible(tmp_path) == ["out-000007-00000.txt"]

    def test_a_driver_that_was_replaced_takes_nothing_from_its_successor(self, tmp_path):
        zombie, successor = sink_of(tmp_path), sink_of(tmp_path)
        receipts = staged(zombie, "a")
        successor.begin(anew=False)
        successor.deliver(7, receipts)
        later = staged(successor, "b", epoch=8)
        zombie.deliver(7, receipts)
        successor.deliver(8, later)
        assert visible(tmp_path) == ["out-000007-00000.txt", "out-000008-00000.txt"]

    @pytest.mark.parametrize("windowed", [False, True])
    @pytest.mark.parametrize("step", ["run level 0 task 0", "commit", "committed", "deliver", "delivered"])
    def test_a_crash_anywhere_with_a_reader_who_moves_files_away(self, tmp_path, step, windowed):
        taken: dict[str, str] = {}

        def take():
            for path in (tmp_path / "out").glob("part-*"):
                assert path.name not in taken, "a file that was taken has come back"
                taken[path.name] = path.read_text()
                path.unlink()

        class Taking(OneByOne):
            def step(self, name, epoch):
                take()

        class Crashing(CrashAt):
            def step(self, name, epoch):
                take()
                super().step(name, epoch)

        def attempt(scheduler):
            options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as p:
                numbers = p | beam.Create(range(8))
                if windowed:
                    mode = AccumulationMode.DISCARDING
                    each = beam.WindowInto(FixedWindows(60), trigger=Repeatedly(AfterCount(1)), accumulation_mode=mode)
                    numbers = numbers | each
                numbers | beam.io.WriteToText(f"{tmp_path}/out/part")

        with pytest.raises(Crash):
            attempt(Crashing(step))
        take()
        attempt(Taking())
        take()
        assert sorted(int(line) for text in taken.values() for line in text.split()) == list(range(8))
        assert visible(tmp_path / "out") == []


class TestAnotherPlace:
    def run(self, folder: Path, checkpoint: Path, monkeypatch, scheduler, prefix="letters/part"):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        with beam.Pipeline(LocalRunner(scheduler=scheduler), PipelineOptions([f"--checkpoint={checkpoint}"])) as p:
            p | beam.Create([*"abcde"]) | beam.io.WriteToText(prefix)

    @pytest.mark.parametrize(("step", "first"), [("deliver", "abc"), ("commit", "ab"), ("delivered", "abc")])
    def test_a_relative_path_and_another_working_directory(self, tmp_path, monkeypatch, caplog, step, first):
        with pytest.raises(Crash):
            self.run(tmp_path / "here", tmp_path / "state", monkeypatch, CrashAt(step))
        self.run(tmp_path / "there", tmp_path / "state", monkeypatch, OneByOne())
        read = {}
        for place in ("here", "there"):
            paths = sorted((tmp_path / place / "letters").glob("part-*"))
            read[place] = "".join(path.read_text().strip() for path in paths)
        assert (tmp_path / "here" / "letters" / "_unfinished").exists() == (step == "commit")
        assert read == {"here": first, "there": "abcde".removeprefix(first)}
        (record,) = caplog.records
        assert record.message == (
            f"files of epoch {len(first)} were staged for {tmp_path}/here/letters/part… and are delivered there; those "
            f"of later epochs go to {tmp_path}/there/letters/part…"
        )

    @pytest.mark.parametrize(
        "content",
        [
            {"place": ["relative/out", ".txt"]},
            {"place": ["/a/../b/out", ".txt"]},
            {"place": ["/tmp/", ".txt"]},
            {"place": ["/tmp/out", "/../x"]},
            {"place": ["/tmp/out\0", ""]},
            {"place": "/tmp/out"},
            {"parts": [["../out-000007-0-t0.txt", 1, "", None]]},
            {"parts": [["out-000008-0-t0.txt", 1, "", None]]},
            {"parts": [["out-000007-0-t0.txt", "1", "", None]]},
            {"parts": [["out-000007-0-t0.txt", None, "", None]]},
            {"parts": [["out-000007-0-t0.txt", 1, "../x=1", None]]},
            {"parts": [["out-000007-0-t0.txt", 1, "", [0, 1, 0, "/"]]]},
            {"parts": [7]},
            {"replaced": [["x"]]},
            {"replaced": None},
            {},
        ],
    )
    def test_a_receipt_that_somebody_else_wrote_moves_nothing(self, tmp_path, content):
        staged(sink_of(tmp_path), "a")
        whole = {"place": [f"{tmp_path}/out", ".txt"], "parts": [], "replaced": []} if content else {}
        with pytest.raises(CheckpointError, match="somebody else wrote it"):
            sink_of(tmp_path).deliver(7, [json.dumps(whole | content).encode()])
        assert visible(tmp_path) == ["_unfinished/out-000007-0-t0.txt"]

    @pytest.mark.parametrize("path", ["secret", "../secret", "out-000001-00000.txt/../secret", "_unfinished/secret"])
    def test_a_receipt_that_somebody_else_wrote_removes_nothing(self, tmp_path, path):
        for name in ("secret", "_unfinished/secret"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("secret")
        (tmp_path / "out-000001-00000.txt").mkdir()
        info = (tmp_path / "secret").stat()
        old = [[path, info.st_size, info.st_mtime_ns]]
        receipt = {"place": [f"{tmp_path}/out", ".txt"], "parts": [], "replaced": old}
        sink_of(tmp_path).deliver(7, [json.dumps(receipt).encode()])
        assert visible(tmp_path) == ["_unfinished/secret", "secret"]

    def test_no_key_of_a_url_is_in_a_receipt(self, monkeypatch):
        from headrace.sdk.io.files.output_files import OutputName

        place = OutputName.of("s3://AKIA:secret@bucket/out?endpoint_override=x&secret_key=y", ".txt")
        assert place == ("s3://bucket/out", ".txt")


def test_nothing_hidden_is_left_by_a_run_that_ends(tmp_path: Path) -> None:
    for name in ("out", "other"):
        with beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | beam.Create(["a"]) | beam.io.WriteToText(f"{tmp_path}/{name}")
    assert visible(tmp_path) == ["other-00000-of-00001", "out-00000-of-00001"]
    assert not (tmp_path / "_unfinished").exists()


def test_what_another_sink_has_hidden_stays(tmp_path: Path) -> None:
    other = EpochFileSink(f"{tmp_path}/out-7", "", WRITER)
    (receipt,) = staged(other, "a", epoch=1)
    with beam.Pipeline(LocalRunner()) as pipeline:
        pipeline | beam.Create(["a"]) | beam.io.WriteToText(f"{tmp_path}/out")
    other.deliver(1, [receipt])
    assert visible(tmp_path) == ["out-00000-of-00001", "out-7-000001-00000"]


def test_a_folder_that_another_run_removes_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.sdk.io.files import filesystem

    really: Callable[[str], object] = filesystem.filesystem_of
    removed = []

    class Removing:
        def __init__(self, system):
            self._system = system

        def __getattr__(self, name):
            return getattr(self._system, name)

        def open_output_stream(self, path, compression=None):
            if len(removed) < 3:
                removed.append(path)
                os.rmdir(os.path.dirname(path))
            return self._system.open_output_stream(path, compression=compression)

    monkeypatch.setattr(filesystem, "filesystem_of", lambda path: (Removing(really(path)[0]), really(path)[1]))
    staged(sink_of(tmp_path), "a")
    assert len(removed) == 3
    assert visible(tmp_path) == ["_unfinished/out-000007-0-t0.txt"]


def test_a_file_system_that_syncs_no_folders_is_taken_as_it_is(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = directory_sync.fsync

    def fsync(place: Path) -> None:
        if place.is_dir():
            raise OSError(22, "Invalid argument")
        really(place)

    monkeypatch.setattr(directory_sync, "fsync", fsync)
    sink_of(tmp_path).deliver(7, staged(sink_of(tmp_path), "a"))
    assert visible(tmp_path) == ["out-000007-00000.txt"]


def test_a_disk_that_fails_to_sync_stops_the_task(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(place: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(directory_sync, "fsync", fails)
    with pytest.raises(OSError, match="Input/output error"):
        staged(sink_of(tmp_path), "a")


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "headrace.sdk.io.files.file_sink")
