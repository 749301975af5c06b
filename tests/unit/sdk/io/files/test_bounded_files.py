"""Files of bounded collections: hidden until the input has ended, then named as Beam names shards, whatever happens."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel import Batch, FencedError, StepError, Topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.files import file_sink
from headrace.sdk.io.files.file_sink import EpochFileSink
from headrace.sdk.io.files.output_files import Output, output_of
from headrace.sdk.io.text.text_writers import TextWriter
from headrace.testing.test_stream import TestStream
from headrace.transforms.window import FixedWindows
from tests.unit.runners.engine.driver.test_topology_change import Endless
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne

WRITER = TextWriter(b"\n", None, None, "auto")
ABC = {"out-00000-of-00003.txt": b"a\n", "out-00001-of-00003.txt": b"b\n", "out-00002-of-00003.txt": b"c\n"}
ROWS = [{"day": number % 2, "n": number} for number in range(5)]


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "headrace.sdk.io.files.file_sink")


def text(folder, **kwargs):
    return beam.io.WriteToText(f"{folder}/out", ".txt", **kwargs)


def folders(folder, **kwargs):
    return beam.io.WriteToParquet(f"{folder}/out", partition_by=["day"], **kwargs)


def run(elements, transform, checkpoint=None, scheduler=None):
    options = PipelineOptions([f"--checkpoint={checkpoint}"] if checkpoint else [])
    with beam.Pipeline(LocalRunner(scheduler=scheduler or OneByOne()), options) as pipeline:
        pipeline | beam.Create(elements) | transform


def files(folder: Path) -> dict[str, bytes]:
    """All files, hidden ones too."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def shown(folder: Path) -> dict[str, bytes]:
    return {name: content for name, content in files(folder).items() if "_unfinished" not in name}


def sink_of(folder: Path, if_exists="replace", prefix="out") -> EpochFileSink:
    sink = EpochFileSink(f"{folder}/{prefix}", ".txt", WRITER, if_exists)
    sink.show_at_end(bounded=True)
    return sink


def delivered(sink: EpochFileSink, epoch: int, *texts: str) -> list[bytes]:
    receipts = [sink.stage(Batch([one], [0]), epoch, number, f"t{number}") for number, one in enumerate(texts)]
    sink.deliver(epoch, receipts)
    return receipts


class TestNames:
    @pytest.mark.parametrize("shards", [1, 3])
    def test_those_that_beam_gives(self, tmp_path, shards):
        import apache_beam
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner

        with apache_beam.Pipeline(FnApiRunner()) as pipeline:
            lines = pipeline | apache_beam.Create([*"abcdef"])
            lines | apache_beam.io.WriteToText(f"{tmp_path}/beam/out", ".txt", num_shards=shards)
        run([*"abcdef"][:shards], text(tmp_path / "ours"))
        assert list(files(tmp_path / "ours")) == list(files(tmp_path / "beam"))

    def test_in_the_order_of_epochs(self, tmp_path):
        run([*"abc"], text(tmp_path))
        assert files(tmp_path) == ABC

    def test_also_when_epochs_have_more_digits(self, tmp_path):
        sink = sink_of(tmp_path)
        for epoch in (999_999, 1_000_000):
            delivered(sink, epoch, *(f"{epoch} {number}" for number in range(2)))
        sink.finish(1_000_000, ended=True)
        texts = [content.decode().strip() for content in files(tmp_path).values()]
        assert texts == ["999999 0", "999999 1", "1000000 0", "1000000 1"]

    def test_each_folder_has_numbers_of_its_own(self, tmp_path):
        run(ROWS, folders(tmp_path))
        assert list(files(tmp_path)) == [
            *(f"day=0/out-0000{number}-of-00003" for number in range(3)),
            *(f"day=1/out-0000{number}-of-00002" for number in range(2)),
        ]

    @pytest.mark.parametrize(
        ("write", "ending"),
        [(beam.io.WriteToJson, ".json"), (beam.io.WriteToCsv, ".csv"), (beam.io.WriteToParquet, "")],
    )
    def test_every_format(self, tmp_path, write, ending):
        run(ROWS, write(f"{tmp_path}/out"))
        assert list(files(tmp_path)) == [f"out-0000{number}-of-00005{ending}" for number in range(5)]

    def test_windows_or_not_where_that_is_asked_for(self, tmp_path):
        with beam.Pipeline(LocalRunner()) as pipeline:
            windowed = pipeline | beam.Create(["a"]) | beam.WindowInto(FixedWindows(60))
            windowed | text(tmp_path, windowed_writes=False)
        assert list(files(tmp_path)) == ["out-00000-of-00001.txt"]

    def test_of_an_unbounded_collection_they_have_their_epoch(self, tmp_path):
        stream = TestStream().add_elements(["a"]).advance_watermark_to_infinity()
        with beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | stream | text(tmp_path)
        assert list(files(tmp_path)) == ["out-000001-00000.txt"]


class TestHidden:
    def test_until_the_input_has_ended(self, tmp_path):
        with pytest.raises(Crash):
            run([*"abcd"], text(tmp_path / "out"), tmp_path / "state", CrashAt("delivered"))
        assert shown(tmp_path / "out") == {}
        run([*"abcd"], text(tmp_path / "out"), tmp_path / "state")
        assert [*files(tmp_path / "out").values()] == [b"a\n", b"b\n", b"c\n", b"d\n"]

    def test_when_a_run_is_stopped(self, tmp_path):
        injector, out = Endless(), tmp_path / "out"

        def life():
            made = Topology()
            made.injector("in", injector)
            made.sink("files", "in", sink_of(out))
            return LocalRunner().start(made, RunOptions(f"{tmp_path}/state"))

        running = life()
        while not files(out):
            pass
        running.stop()
        running.wait()
        assert shown(out) == {}
        injector.end.set()
        epochs = life().wait().epochs
        numbers = [int(line) for content in shown(out).values() for line in content.split()]
        assert files(out) == shown(out)
        assert numbers == list(range(len(numbers)))
        assert [*files(out)] == [f"out-{number:05d}-of-{epochs:05d}.txt" for number in range(epochs)]

    def test_a_sink_that_is_removed_shows_what_it_was_given(self, tmp_path):
        injector = Endless()
        made = Topology()
        made.injector("in", injector)
        for name in ("one", "two"):
            made.sink(name, "in", sink_of(tmp_path, prefix=name))
        running = LocalRunner().start(made)
        try:
            while not any(tmp_path.rglob("*.txt")):
                pass
            running.remove("one")
            found = [name for name in shown(tmp_path) if name.startswith("one")]
            assert found
            assert shown(tmp_path).keys() == set(found)
        finally:
            injector.end.set()
        running.wait()
        assert files(tmp_path) == shown(tmp_path)

    def test_what_was_removed_from_the_hidden_folder_is_an_error(self, tmp_path):
        sink = sink_of(tmp_path)
        sink.begin(anew=True)
        for epoch, one in enumerate("abc", 1):
            delivered(sink, epoch, one)
        (tmp_path / "_unfinished" / "out-committed.txt" / "out-000002-00000.txt").unlink()
        with pytest.raises(FileNotFoundError, match=r"1 of 3 committed files were removed .*out-000002-00000.txt; see"):
            sink.finish(3, ended=True)


class Counting:
    """A file system that crashes before or after one of the changes that are made by it."""

    def __init__(self, system, crash_at, after):
        self._system, self._left, self._after = system, count(crash_at, -1), after

    def __getattr__(self, name):
        done = getattr(self._system, name)
        if name not in ("move", "delete_file", "create_dir", "open_output_stream"):
            return done

        def change(*args, **kwargs):
            left = next(self._left)
            if left == 0 and not self._after:
                raise Crash
            result = done(*args, **kwargs)
            if left == 0:
                raise Crash
            return result

        return change


class TestCrashes:
    @pytest.mark.parametrize("after", [False, True])
    @pytest.mark.parametrize("make", [text, folders])
    @pytest.mark.parametrize("reads", [False, True])
    def test_at_every_change_that_the_driver_makes(self, tmp_path, monkeypatch, make, after, reads):
        """And again at the next one, until none is left; with a reader who takes what is shown, or without."""
        run(ROWS[:3], make(tmp_path / "whole"))
        out, taken = tmp_path / "out", {}

        def take():
            for name, content in shown(out).items() if reads else ():
                assert name not in taken, "a file that was taken has come back"
                taken[name] = content
                (out / name).unlink()

        crashes = 0
        for crash_at in count():
            state = tmp_path / f"state{crash_at}"
            run(ROWS[:1], make(out))
            for path in out.rglob("*-of-*"):
                path.unlink()
            taken.clear()
            died = [self._life(monkeypatch, crash_at, after, lambda s=state: run(ROWS[:3], make(out), s), take)]
            for second in range(3):
                if died[-1]:
                    again = self._life(monkeypatch, second, after, lambda s=state: run(ROWS[:3], make(out), s), take)
                    died.append(again)
            run(ROWS[:3], make(out), state)
            take()
            run(ROWS[:3], make(out), state)
            assert {**taken, **shown(out)} == shown(tmp_path / "whole")
            assert not reads or shown(out) == {}
            assert files(out) == shown(out)
            crashes += sum(died)
            if not died[0]:
                break
        assert crashes > 30

    def _life(self, monkeypatch, crash_at, after, life: Callable[[], None], take: Callable[[], None]) -> bool:
        """Whether it crashed."""
        system = []

        def counting(prefix: str, suffix: str) -> Output:
            output = output_of(prefix, suffix)
            system[:] = system or [Counting(output.system, crash_at, after)]
            return replace(output, system=system[0])

        with monkeypatch.context() as patch:
            patch.setattr(file_sink, "output_of", counting)
            try:
                life()
            except Crash:
                return True
            finally:
                take()
        return False

    @pytest.mark.parametrize("reads", [False, True])
    def test_a_run_that_has_ended_and_is_started_again_changes_nothing(self, tmp_path, caplog, reads):
        run([*"abc"], text(tmp_path / "out"), tmp_path / "state")
        before = {} if reads else files(tmp_path / "out")
        if reads:
            for path in (tmp_path / "out").iterdir():
                path.unlink()
        run([*"abc"], text(tmp_path / "out"), tmp_path / "state")
        assert files(tmp_path / "out") == before
        assert not caplog.records


class TestLaterLives:
    def test_rows_after_the_end_take_no_name_that_is_taken(self, tmp_path):
        first = sink_of(tmp_path)
        receipts = delivered(first, 1, "a", "b")
        first.finish(1, ended=True)
        later = sink_of(tmp_path)
        later.begin(anew=False)
        later.deliver(1, receipts)
        for epoch, one in ((2, "c"), (3, "d")):
            delivered(later, epoch, one)
        later.finish(3, ended=True)
        assert files(tmp_path) == {
            "out-00000-of-00002.txt": b"a\n", "out-00001-of-00002.txt": b"b\n",
            "out-000002-00000.txt": b"c\n", "out-000003-00000.txt": b"d\n",
        }  # fmt: skip

    def test_after_an_end_that_was_interrupted_too(self, tmp_path, monkeypatch):
        sink = sink_of(tmp_path)
        delivered(sink, 1, "a", "b")
        with monkeypatch.context() as patch:
            # The folder, its creation, the list, and one of two.
            patch.setattr(file_sink, "output_of", lambda *place: replace(output_of(*place), system=one_move))
            one_move = Counting(output_of(f"{tmp_path}/out", ".txt").system, 3, False)
            with pytest.raises(Crash):
                sink.finish(1, ended=True)
        assert list(shown(tmp_path)) == ["out-00000-of-00002.txt"]
        later = sink_of(tmp_path)
        later.begin(anew=False)
        delivered(later, 2, "c")
        later.finish(2, ended=True)
        assert list(files(tmp_path)) == ["out-00000-of-00002.txt", "out-000002-00000.txt", "out-00001-of-00002.txt"]

    @pytest.mark.parametrize("moment", ["begin", "finish"])
    def test_a_collection_that_is_bounded_no_more_shows_what_was_hidden(self, tmp_path, moment):
        delivered(sink_of(tmp_path), 1, "a")
        later = EpochFileSink(f"{tmp_path}/out", ".txt", WRITER)
        if moment == "begin":
            later.begin(anew=False)
        else:
            later.finish(2, ended=False)
        assert files(tmp_path) == {"out-00000-of-00001.txt": b"a\n"}

    def test_another_place_though_the_newest_epoch_had_no_rows(self, tmp_path):
        def life(place, scheduler):
            with beam.Pipeline(
                LocalRunner(scheduler=scheduler), PipelineOptions([f"--checkpoint={tmp_path}/state"])
            ) as pipeline:
                some = pipeline | beam.Create([*"abcde"]) | beam.Filter(lambda letter: letter in "ae")
                some | text(tmp_path / place)

        with pytest.raises(Crash):
            life("here", CrashAt("delivered"))
        assert shown(tmp_path / "here") == {}
        life("there", OneByOne())
        assert files(tmp_path / "here") == {"out-00000-of-00001.txt": b"a\n"}
        assert files(tmp_path / "there") == {"out-00000-of-00001.txt": b"e\n"}

    def test_other_columns_lose_nothing(self, tmp_path):
        first = folders(tmp_path).sink()
        first.show_at_end(bounded=True)
        first.deliver(1, [first.stage(Batch(ROWS[:1], [0]), 1, 0, "t")])
        later = beam.io.WriteToParquet(f"{tmp_path}/out", partition_by=["n"]).sink()
        later.show_at_end(bounded=True)
        later.begin(anew=False)
        later.finish(1, ended=True)
        assert list(files(tmp_path)) == ["day=0/out-00000-of-00001"]


class TestAnew:
    def left(self, tmp_path):
        """What a run leaves that died when it had planned the names."""
        sink = sink_of(tmp_path)
        delivered(sink, 1, "old")
        delivered(sink, 2, "old", "old")
        plan = json.dumps([f"out-00000{epoch}-0000{number}.txt" for epoch, number in ((1, 0), (2, 0), (2, 1))])
        Path(sink.output.order).write_text(plan)

    def test_hidden_files_of_an_earlier_run_are_replaced(self, tmp_path):
        self.left(tmp_path)
        run([*"abc"], text(tmp_path))
        assert files(tmp_path) == ABC

    def test_or_refused(self, tmp_path):
        self.left(tmp_path)
        with pytest.raises(StepError, match=r"3 files are left of .*/out-committed.txt/out-000001-00000"):
            run([*"abc"], text(tmp_path, if_exists="error"))

    def test_those_that_are_read_are_not_replaced(self, tmp_path):
        run([*"ab"], text(tmp_path))
        with pytest.raises(StepError, match="but it is also read"), beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | beam.io.ReadFromText(f"{tmp_path}/out-*") | text(tmp_path)

    def test_a_clock_too_coarse_takes_no_file_of_the_same_name_away(self, tmp_path, monkeypatch):
        run(["a"], text(tmp_path / "out"))
        old = (tmp_path / "out" / "out-00000-of-00001.txt").stat()
        sink = sink_of(tmp_path / "out")
        first = [sink.begin(anew=True), sink.stage(Batch(["b"], [0]), 1, 0, "t")]
        sink.deliver(1, first)
        sink.finish(1, ended=True)
        os.utime(tmp_path / "out" / "out-00000-of-00001.txt", ns=(old.st_atime_ns, old.st_mtime_ns))
        again = sink_of(tmp_path / "out")
        again.begin(anew=False)
        again.deliver(1, first)
        again.finish(1, ended=True)
        assert files(tmp_path / "out") == {"out-00000-of-00001.txt": b"b\n"}


class TestReplacedDrivers:
    def test_one_that_finishes_after_its_successor_changes_nothing(self, tmp_path):
        zombie, successor = sink_of(tmp_path), sink_of(tmp_path)
        zombie.begin(anew=True)
        receipts = delivered(zombie, 1, "a")
        successor.begin(anew=False)
        successor.deliver(1, receipts)
        delivered(successor, 2, "b")
        successor.finish(2, ended=True)
        before = files(tmp_path)
        with pytest.raises(FileNotFoundError, match="1 of 1 committed files were removed"):
            zombie.finish(1, ended=True)
        assert files(tmp_path) == before

    def test_two_that_finish_at_once_give_the_same_names(self, tmp_path, monkeypatch):
        zombie, successor = sink_of(tmp_path), sink_of(tmp_path)
        receipts = delivered(zombie, 1, *"abc")
        successor.begin(anew=False)
        successor.deliver(1, receipts)
        really = file_sink.show_committed.__globals__["moved"]

        def first(system, path, to):
            monkeypatch.setitem(file_sink.show_committed.__globals__, "moved", really)
            successor.finish(1, ended=True)
            return really(system, path, to)

        monkeypatch.setitem(file_sink.show_committed.__globals__, "moved", first)
        zombie.finish(1, ended=True)
        assert files(tmp_path) == ABC

    def test_one_names_nothing_once_another_has_taken_over(self, tmp_path, monkeypatch):
        out = tmp_path / "out"

        class TakenOver(OneByOne):
            def step(self, name, epoch):
                if (name, epoch) == ("delivered", 3):
                    with monkeypatch.context() as patch, pytest.raises(Crash):
                        patch.setattr(EpochFileSink, "finish", crash)
                        run([*"abc"], text(out), tmp_path / "state")

        def crash(*args, **kwargs):
            raise Crash

        with pytest.raises(FencedError):
            run([*"abc"], text(out), tmp_path / "state", TakenOver())
        assert shown(out) == {}
        run([*"abc"], text(out), tmp_path / "state")
        assert [*files(out).values()] == [b"a\n", b"b\n", b"c\n"]


@pytest.mark.parametrize("plan", ['["../../x-000001-00000.txt"]', "{}", '["names.json"]', "[7]"])
def test_a_list_that_somebody_else_wrote_moves_nothing(tmp_path, plan):
    sink = sink_of(tmp_path)
    delivered(sink, 1, "a")
    Path(sink.output.order).write_text(plan)
    before = files(tmp_path)
    with pytest.raises(ValueError, match="somebody else wrote it; nothing was moved"):
        sink.finish(1, ended=True)
    assert files(tmp_path) == before
