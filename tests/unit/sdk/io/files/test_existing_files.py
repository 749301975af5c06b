"""A run that begins anew beside files of an earlier one: replaces them, refuses, or adds to them."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel import Batch, BoundedInjector, StepError, Topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.files import file_sink
from headrace.sdk.io.files.file_sink import EpochFileSink
from headrace.sdk.io.files.output_files import output_of
from headrace.sdk.io.text.text_writers import TextWriter
from headrace.transforms.window import FixedWindows, TimestampedValue
from tests.unit.runners.engine.driver.test_topology_change import Endless
from tests.unit.sdk.io.sourcefiles import Crash, OneByOne

WRITER = TextWriter(b"\n", None, None, "auto")


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "headrace.sdk.io.files.file_sink")


def run(folder, elements, checkpoint=None, scheduler=None, prefix="out", windowed=False, **kwargs):
    options = PipelineOptions([f"--checkpoint={checkpoint}"] if checkpoint else [])
    with beam.Pipeline(LocalRunner(scheduler=scheduler or OneByOne()), options) as pipeline:
        collection = pipeline | beam.Create(elements)
        if windowed:
            timed = collection | beam.Map(lambda element: TimestampedValue(element, len(str(element))))
            collection = timed | beam.WindowInto(FixedWindows(1))
        collection | beam.io.WriteToText(f"{folder}/{prefix}", ".txt", **kwargs)


def read(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in sorted(folder.iterdir()) if path.is_file()}


OTHERS = ["part-old.txt", "out", "out.txt", "out-000001-00000.csv", "out-old-000001-00000.txt", "out-1-00000.txt",
    "out-000001-00000-of-00001.txt", "out-000001-00000.txt.bak", "xout-000001-00000.txt", "out-two-000001-00000.txt",
    "out-7-000001-00000.txt"]  # fmt: skip


class TestReplace:
    def test_files_of_the_earlier_run_and_no_others(self, tmp_path, caplog):
        run(tmp_path, ["abcde", *"abcd"])
        for name in OTHERS:
            (tmp_path / name).write_text(name)
        caplog.clear()
        run(tmp_path, ["x", "y"])
        found = read(tmp_path)
        assert {name: found.pop(name) for name in OTHERS} == {name: name for name in OTHERS}
        assert found == {"out-00000-of-00002.txt": "x", "out-00001-of-00002.txt": "y"}
        (record,) = caplog.records
        assert record.message == (
            "this run began anew, so its files replace those of an earlier run (5, such as "
            f"{tmp_path}/out-00000-of-00005.txt); if_exists says what happens to such files"
        )

    @pytest.mark.parametrize("first", [False, True])
    def test_in_windows_or_not(self, tmp_path, first):
        run(tmp_path, ["a", "bb", "ccc"], windowed=first)
        run(tmp_path, ["x"], windowed=not first)
        assert list(read(tmp_path).values()) == ["x"]

    def test_in_folders_by_columns(self, tmp_path):
        def write(rows):
            with beam.Pipeline(LocalRunner()) as pipeline:
                writing = beam.io.WriteToParquet(f"{tmp_path}/", file_name_suffix=".parquet", partition_by=["day", "n"])
                pipeline | beam.Create(rows) | writing

        write([{"day": day, "n": day, "x": 1} for day in range(3)])
        others = ["day=0/part-000001-00000.parquet", "day=0/n=0/other.parquet", "part-000001-00000.parquet"]
        for name in others:
            (tmp_path / name).write_text("")
        write([{"day": 1, "n": 1, "x": 1}])
        files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
        assert files == sorted([*others, "day=1/n=1/part-00000-of-00001.parquet"])

    def test_by_nothing_if_there_is_none(self, tmp_path):
        run(tmp_path, ["a", "b"])
        run(tmp_path, [])
        assert read(tmp_path) == {}

    def test_not_before_there_is_something_that_takes_their_place(self, tmp_path):
        run(tmp_path, ["a", "b"])
        with pytest.raises(StepError, match="ZeroDivisionError"), beam.Pipeline(LocalRunner()) as pipeline:
            wrong = pipeline | beam.Create([0]) | beam.Map(lambda number: 1 / number)
            wrong | beam.io.WriteToText(f"{tmp_path}/out", ".txt")
        assert read(tmp_path) == {"out-00000-of-00002.txt": "a", "out-00001-of-00002.txt": "b"}

    def test_not_by_a_run_that_goes_on(self, tmp_path, caplog):
        run(tmp_path / "out", ["old"])
        run(tmp_path / "out", ["a", "b"], tmp_path / "state")
        caplog.clear()
        run(tmp_path / "out", ["a", "b"], tmp_path / "state")
        assert not caplog.records
        assert read(tmp_path / "out") == {"out-00000-of-00002.txt": "a", "out-00001-of-00002.txt": "b"}

    @pytest.mark.parametrize("windowed", [False, True])
    @pytest.mark.parametrize("epoch", [1, 2])
    @pytest.mark.parametrize("step", ["plan", "run level 0 task 0", "commit", "committed", "deliver", "delivered"])
    def test_a_crash_anywhere(self, tmp_path, step, epoch, windowed):
        class CrashOnce(OneByOne):
            crashed = False

            def step(self, name, at):
                if (name, at) == (step, epoch) and not self.crashed:
                    self.crashed = True
                    raise Crash(name)

        out, state = tmp_path / "out", tmp_path / "state"
        run(out, [*"abcdefgh"], windowed=windowed)
        run(tmp_path / "whole", [*"xyz"], windowed=windowed)
        scheduler = CrashOnce()
        with pytest.raises(Crash):
            run(out, [*"xyz"], state, scheduler, windowed=windowed)
        found = read(out).values()
        assert set("".join("".join(found).split())) in (set("abcdefgh"), set(), set("x"), set("xy"), set("xyz"))
        run(out, [*"xyz"], state, scheduler, windowed=windowed)
        assert read(out) == read(tmp_path / "whole")
        assert not (out / "_unfinished").exists()

    def test_what_a_crashed_run_has_staged(self, tmp_path):
        sink = EpochFileSink(f"{tmp_path}/out", ".txt", WRITER)
        sink.stage(Batch(["lost"], [0]), 99, 0, "0123456789abcdef")
        run(tmp_path, ["a"])
        assert read(tmp_path) == {"out-00000-of-00001.txt": "a"}
        assert not (tmp_path / "_unfinished").exists()

    def test_a_driver_that_was_replaced_removes_nothing_of_its_successor(self, tmp_path):
        run(tmp_path, [*"abc"])
        zombie, successor = (EpochFileSink(f"{tmp_path}/out", ".txt", WRITER) for _ in range(2))
        first = [zombie.begin(anew=True), zombie.stage(Batch(["x"], [0]), 1, 0, "t")]
        successor.begin(anew=False)
        successor.deliver(1, first)
        successor.deliver(2, [successor.stage(Batch(["y"], [0]), 2, 0, "t")])
        with pytest.raises(FileNotFoundError, match="were removed before they were delivered"):
            zombie.deliver(1, first)
        assert read(tmp_path) == {"out-000001-00000.txt": "x", "out-000002-00000.txt": "y"}

    def test_a_clock_too_coarse_to_tell_old_from_new_takes_nothing_away(self, tmp_path):
        (tmp_path / "out-000001-00000.txt").write_text("a\n")
        old = (tmp_path / "out-000001-00000.txt").stat()
        sink = EpochFileSink(f"{tmp_path}/out", ".txt", WRITER)
        first = [sink.begin(anew=True), sink.stage(Batch(["b"], [0]), 1, 0, "t")]
        sink.deliver(1, first)
        os.utime(tmp_path / "out-000001-00000.txt", ns=(old.st_atime_ns, old.st_mtime_ns))
        sink.deliver(1, first)
        assert read(tmp_path) == {"out-000001-00000.txt": "b"}

    def test_what_the_pipeline_reads_is_not_replaced(self, tmp_path):
        run(tmp_path, ["a", "b"])
        for build in (
            lambda p, path: p | beam.io.ReadFromText(path) | beam.io.WriteToText(f"{tmp_path}/out", ".txt"),
            lambda p, path: (
                p | beam.Create([1]) | beam.io.WriteToText(f"{tmp_path}/out", ".txt"),
                p | beam.io.ReadFromText(path) | beam.Map(print),
            ),
        ):
            for pattern in (
                str(tmp_path),
                f"{tmp_path}/*",
                f"{tmp_path}/out-00001-of-00002.txt",
                f"file://{tmp_path}/o*",
            ):
                pipeline = beam.Pipeline(LocalRunner())
                build(pipeline, pattern)
                with pytest.raises(StepError, match=r"FileExistsError: .*but it is also read by '.*if_exists be 'app"):
                    pipeline.run()
        assert read(tmp_path) == {"out-00000-of-00002.txt": "a", "out-00001-of-00002.txt": "b"}
        with beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | beam.io.ReadFromText(f"{tmp_path}/*.txt") | beam.io.WriteToText(f"{tmp_path}/out", ".csv")
        assert sorted("".join(text.split()) for name, text in read(tmp_path).items() if ".csv" in name) == ["ab"]


class TestError:
    def test_refused_before_anything_is_read(self, tmp_path, monkeypatch):
        run(tmp_path, ["a", "b"])
        read_ones = []
        with pytest.raises(StepError) as caught:
            run(tmp_path, (read_ones.append(one) or one for one in "xy"), tmp_path / "state", if_exists="error")
        assert caught.value.step == "WriteToText"
        assert str(caught.value).splitlines()[-1] == (
            f"FileExistsError: 2 files are left of an earlier run, such as {tmp_path}/out-00000-of-00002.txt, and the "
            "results of a run that begins with an empty checkpoint would stand beside them; remove them, write "
            "elsewhere, or let if_exists be 'replace' or 'append'"
        )
        assert read(tmp_path) == {"out-00000-of-00002.txt": "a", "out-00001-of-00002.txt": "b"}
        # Nothing has begun: the next attempt is refused as well.
        with pytest.raises(StepError, match="FileExistsError"):
            run(tmp_path, ["x"], tmp_path / "state", if_exists="error")

    @pytest.mark.parametrize("step", ["commit", "committed", "deliver"])
    def test_not_for_what_the_run_itself_has_written(self, tmp_path, step):
        class CrashAtFirst(OneByOne):
            def step(self, name, at):
                if (name, at) == (step, 1):
                    raise Crash

        out = tmp_path / "out"
        with pytest.raises(Crash):
            run(out, ["a", "b"], tmp_path / "state", CrashAtFirst(), if_exists="error")
        for _ in range(2):
            run(out, ["a", "b"], tmp_path / "state", if_exists="error")
        assert read(out) == {"out-00000-of-00002.txt": "a", "out-00001-of-00002.txt": "b"}

    def test_files_of_others_are_none_of_an_earlier_run(self, tmp_path):
        for name in OTHERS:
            (tmp_path / name).write_text(name)
        run(tmp_path, ["a"], if_exists="error")
        assert read(tmp_path)["out-00000-of-00001.txt"] == "a"


class TestAppend:
    @pytest.mark.parametrize("windowed", [False, True])
    def test_every_run_has_names_of_its_own(self, tmp_path, windowed):
        for _ in range(3):
            run(tmp_path, ["a", "b"], windowed=windowed, if_exists="append")
        found = read(tmp_path)
        assert len(found) == (3 if windowed else 6)
        assert sorted("".join(found.values()).replace("\n", "")) == [*"aaabbb"]
        run(tmp_path, ["c"], windowed=windowed)
        assert list(read(tmp_path).values()) == ["c"]

    def test_beside_files_of_a_run_that_replaces(self, tmp_path):
        run(tmp_path, ["a"])
        run(tmp_path, ["b"], if_exists="append")
        assert sorted(read(tmp_path).values()) == ["a", "b"]

    @pytest.mark.parametrize("step", ["run level 0 task 0", "commit", "committed", "deliver", "delivered"])
    def test_a_crash_anywhere(self, tmp_path, step):
        class CrashOnce(OneByOne):
            crashed = False

            def step(self, name, at):
                if (name, at) == (step, 2) and not self.crashed:
                    self.crashed = True
                    raise Crash(name)

        out, scheduler = tmp_path / "out", CrashOnce()
        run(out, ["a"])
        with pytest.raises(Crash):
            run(out, [*"bcd"], tmp_path / "state", scheduler, if_exists="append")
        run(out, [*"bcd"], tmp_path / "state", scheduler, if_exists="append")
        assert sorted(read(out).values()) == [*"abcd"]

    def test_what_another_run_has_staged_meanwhile_stays(self, tmp_path):
        one, other = (EpochFileSink(f"{tmp_path}/out", ".txt", WRITER, "append") for _ in range(2))
        receipts = [sink.stage(Batch([text], [0]), 3, 0, "g1n1") for sink, text in ((one, "a"), (other, "b"))]
        one.deliver(3, receipts[:1])
        one.finish(3, ended=True)
        other.deliver(3, receipts[1:])
        assert sorted(read(tmp_path).values()) == ["a", "b"]


class CrashAt(OneByOne):
    def __init__(self, at, name="delivered"):
        super().__init__()
        self.at = name, at

    def step(self, name, epoch):
        if (name, epoch) == self.at:
            raise Crash


class TestAChangedModeBetweenTwoStarts:
    """Delivered files have the names of the mode before, so they are not missed."""

    @pytest.mark.parametrize("windowed", [False, True])
    @pytest.mark.parametrize("crash", ["commit", "committed", "deliver", "delivered"])
    @pytest.mark.parametrize("modes", [("replace", "append"), ("error", "append"), ("append", "replace")])
    def test_is_no_loss(self, tmp_path, caplog, modes, crash, windowed):
        first, second = modes
        out, state = tmp_path / "out", tmp_path / "state"
        with pytest.raises(Crash):
            run(out, [*"abcd"], state, CrashAt(3, crash), windowed=windowed, if_exists=first)
        for name in (*["committed"] * 2, None):
            with contextlib.suppress(Crash):
                scheduler = CrashAt(5, name) if name else OneByOne()
                run(out, [*"abcd"], state, scheduler, windowed=windowed, if_exists=second)
        assert not [record.message for record in caplog.records]
        assert sorted("".join(read(out).values()).replace("\n", "")) == [*"abcd"]

    def test_a_hash_without_letters_is_not_taken_for_an_epoch(self, tmp_path, monkeypatch):
        # A digit without letters twelve times: one hash in 280.
        monkeypatch.setattr(file_sink.RunFiles, "tag", lambda self, parts: "687829962521")
        with pytest.raises(Crash):
            run(tmp_path / "out", [*"abcd"], tmp_path / "state", CrashAt(3, "deliver"), if_exists="append")
        run(tmp_path / "out", [*"abcd"], tmp_path / "state", if_exists="replace")
        assert sorted("".join(read(tmp_path / "out").values()).replace("\n", "")) == [*"abcd"]

    def test_nor_is_a_loss_unseen(self, tmp_path, caplog):
        with pytest.raises(Crash):
            run(tmp_path / "out", [*"abcd"], tmp_path / "state", CrashAt(3), if_exists="append")
        for path in (tmp_path / "out").glob("out-000003-*"):
            path.unlink()
        run(tmp_path / "out", [*"abcd"], tmp_path / "state", if_exists="append")
        assert "1 of 1 files of committed epoch 3 were delivered and no longer exist" in caplog.text


class TestAnOlderCopyOfTheCheckpoint:
    """Rows would be there twice, as epochs may be cut in another way."""

    @pytest.mark.parametrize("mode", ["replace", "append"])
    @pytest.mark.parametrize("others", [0, 1])
    def test_is_refused_before_anything_is_read(self, tmp_path, mode, others):
        out, state = tmp_path / "out", tmp_path / "state"
        for _ in range(others if mode == "append" else 0):
            run(out, ["of another run"] * 9, if_exists="append")
        with pytest.raises(Crash):
            run(out, [*"abcdef"], state, CrashAt(2), if_exists=mode)
        shutil.copytree(state, tmp_path / "copy")
        with pytest.raises(Crash):
            run(out, [*"abcdef"], state, CrashAt(4), if_exists=mode)
        files = {path: path.read_text() for path in out.rglob("*") if path.is_file()}
        with pytest.raises(
            FileExistsError, match=r"2 files are of later epochs than 2, .* from another copy of the chec"
        ):
            run(out, [*"abcdef"], tmp_path / "copy", if_exists=mode)
        assert {path: path.read_text() for path in out.rglob("*") if path.is_file()} == files
        run(out, [*"abcdef"], state, if_exists=mode)
        assert sorted(text for text in read(out).values() if "of" not in text) == [*"abcdef"]

    @pytest.mark.parametrize("mode", ["replace", "append"])
    @pytest.mark.parametrize("shards", [None, 2])
    @pytest.mark.parametrize("at", [1, 2, 4])
    def test_of_a_bounded_run_that_has_ended_is_refused(self, tmp_path, at, shards, mode):
        out, state = tmp_path / "out", tmp_path / "state"
        with pytest.raises(Crash):
            run(out, [*"abcdef"], state, CrashAt(at), if_exists=mode, num_shards=shards)
        shutil.copytree(state, tmp_path / "copy")
        run(out, [*"abcdef"], state, if_exists=mode, num_shards=shards)
        files = {path: path.read_text() for path in out.rglob("*") if path.is_file()}
        with pytest.raises(FileExistsError, match=rf"files are of later epochs than {at}, .* another copy of the che"):
            run(out, [*"abcdef"], tmp_path / "copy", if_exists=mode, num_shards=shards)
        assert {path: path.read_text() for path in out.rglob("*") if path.is_file()} == files
        run(out, [*"abcdef"], state, if_exists=mode, num_shards=shards)
        assert {path: path.read_text() for path in out.rglob("*") if path.is_file()} == files

    def test_whose_newest_epoch_had_no_rows_is_refused(self, tmp_path):
        def write(checkpoint, scheduler):
            options = PipelineOptions([f"--checkpoint={checkpoint}"])
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
                kept = pipeline | beam.Create([*"ax"] * 3) | "A" >> beam.Filter(lambda text: text == "a")
                timed = kept | beam.Map(lambda element: TimestampedValue(element, 1))
                windowed = timed | beam.WindowInto(FixedWindows(1)) | beam.WithKeys(1) | beam.GroupByKey()
                windowed | beam.io.WriteToText(f"{tmp_path}/out/out", ".txt")

        with pytest.raises(Crash):
            write(tmp_path / "state", CrashAt(2))
        shutil.copytree(tmp_path / "state", tmp_path / "copy")
        write(tmp_path / "state", OneByOne())
        with pytest.raises(FileExistsError, match="files are of later epochs than 2"):
            write(tmp_path / "copy", OneByOne())


class TestChangedPipelines:
    def topology(self, folder, *names):
        made = Topology()
        made.injector("in", BoundedInjector([(text, 0) for text in "abcd"]))
        for name in names:
            made.sink(name, "in", EpochFileSink(f"{folder}/{name}", "", WRITER))
        return made

    @pytest.mark.parametrize("crash", [None, "change", "changed", "plan"])
    def test_a_sink_that_is_added_replaces_what_it_finds_and_no_others_do(self, tmp_path, crash):
        class Stop(OneByOne):
            def __init__(self, *at):
                self.at = at

            def step(self, name, epoch):
                if (name, epoch) == self.at:
                    raise Crash

        options = RunOptions(f"{tmp_path}/state")
        out = tmp_path / "out"
        out.mkdir()
        with pytest.raises(Crash):
            LocalRunner(scheduler=Stop("delivered", 2)).run_topology(self.topology(out, "old"), options)
        for epoch in (1, 2, 9):
            (out / f"new-{epoch:06d}-00000").write_text("of an earlier run")
        if crash:
            at = 4 if crash == "plan" else 3
            with pytest.raises(Crash):
                LocalRunner(scheduler=Stop(crash, at)).run_topology(self.topology(out, "old", "new"), options)
        LocalRunner(scheduler=OneByOne()).run_topology(self.topology(out, "old", "new"), options)
        found = read(out)
        assert [text for name, text in found.items() if name.startswith("old")] == [*"abcd"]
        assert [text for name, text in found.items() if name.startswith("new")] == [*"cd"]

    def test_one_that_refuses_ends_nothing(self, tmp_path):
        injector = Endless()
        made = Topology()
        made.injector("in", injector)
        made.sink("old", "in", EpochFileSink(f"{tmp_path}/old", "", WRITER))
        (tmp_path / "new-000001-00000").write_text("of an earlier run")
        added = Topology()
        added.sink("new", "in", EpochFileSink(f"{tmp_path}/new", "", WRITER, "error"))
        running = LocalRunner().start(made)
        try:
            with pytest.raises(StepError, match="a file is left of an earlier run"):
                running.add(added)
        finally:
            injector.end.set()
        running.wait()
        assert (tmp_path / "new-000001-00000").read_text() == "of an earlier run"


class TestTwoSinks:
    def build(self, tmp_path, first, second):
        pipeline = beam.Pipeline(LocalRunner())
        collection = pipeline | beam.Create([{"a": 1, "b": 2}])
        collection | "One" >> first
        collection | "Two" >> second
        return pipeline

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (lambda path: beam.io.WriteToText(path), lambda path: beam.io.WriteToText(path)),
            (lambda path: beam.io.WriteToText(path, ".json"), lambda path: beam.io.WriteToJson(path)),
            (lambda path: beam.io.WriteToParquet(path), lambda path: beam.io.WriteToParquet(path, partition_by=["a"])),
            (lambda path: beam.io.WriteToText(path), lambda path: beam.io.WriteToText(path, "-of-00001")),
            (lambda path: beam.io.WriteToText(path), lambda path: beam.io.WriteToText(f"file://{path}")),
            (lambda path: beam.io.WriteToText(path), lambda path: beam.io.WriteToText(f"{path}-19700101T000000Z")),
        ],
    )
    def test_of_one_name_are_refused_when_built(self, tmp_path, first, second):
        with pytest.raises(
            ValueError, match=r"steps 'One' and 'Two' both write files that begin with .*another prefix"
        ):
            self.build(tmp_path, first(f"{tmp_path}/out"), second(f"{tmp_path}/out"))

    @pytest.mark.parametrize("other", [("out", ".csv"), ("out-7", ""), ("sub/out", ""), ("out-000001-0", "")])
    def test_of_names_alike_keep_apart(self, tmp_path, other):
        name, suffix = other
        for _ in range(2):
            one = beam.io.WriteToText(f"{tmp_path}/out")
            self.build(tmp_path, one, beam.io.WriteToText(f"{tmp_path}/{name}", suffix)).run()
        files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
        assert len(files) == 2
        assert len({path.read_text() for path in files}) == 1

    def test_in_windows_as_well(self, tmp_path):
        windowed = beam.Pipeline(LocalRunner()) | beam.Create([1]) | beam.WindowInto(FixedWindows(60))
        windowed | "One" >> beam.io.WriteToText(f"{tmp_path}/out")
        with pytest.raises(ValueError, match="steps 'One' and 'Two' both write files"):
            windowed | "Two" >> beam.io.WriteToText(f"{tmp_path}/out")


@pytest.mark.parametrize(
    "make",
    [
        lambda **given: beam.io.WriteToText("x", **given),
        lambda **given: beam.io.WriteToJson("x", **given),
        lambda **given: beam.io.WriteToCsv("x", **given),
        lambda **given: beam.io.WriteToParquet("x", **given),
        lambda **given: beam.io.WriteToParquet("x", partition_by=["a"], **given),
    ],
)
def test_every_format_takes_it_and_a_wrong_word_is_refused_when_built(make):
    for word in ("replace", "error", "append"):
        make(if_exists=word)
    for wrong in ("overwrite", None, True, ["replace"]):
        with pytest.raises(ValueError, match=r"if_exists is .*; use one of replace, error, append"):
            make(if_exists=wrong)


def test_names_of_an_output_are_told_from_others():
    output = output_of("/data/out", ".txt")
    for name in (
        "out-000001-00000.txt", "out-1000000-123456.txt", "out-000001-0123456789ab-00000.txt",
        "out-0-000001-00000-of-00001.txt", "out-19700101T000000Z-19700101T000100Z-0-000001-00000-of-00001.txt",
        "out-19700101T000000.500000Z-3-retracted-000001-00000-of-00001.txt", "out--5us-7us-1-000001-00000-of-00001.txt",
    ):  # fmt: skip
        assert output.is_final(name), name
    for name in OTHERS:
        assert not output.is_final(name), name
