"""Files of windowed collections: their names by window and pane, what is in them, crashes, receipts of others."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.lowlevel import CheckpointError
from headrace.lowlevel.records.record import Batch
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.testing.test_stream import TestStream
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from headrace.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampedValue
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne

Modes = AccumulationMode


def scores(pipeline, *timed):
    stamped = [TimestampedValue((key, 1), at) for key, at in timed or (("a", 1), ("b", 61), ("a", 2), ("c", 3))]
    return pipeline | beam.Create(stamped) | beam.Map(lambda stamped: stamped)


def files(folder):
    """Visible files and their lines, sorted."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): sorted(path.read_text().split()) for path in sorted(paths)}


def text():
    return beam.MapTuple(lambda key, value: f"{key}:{value}")


class TestNames:
    def run(self, tmp_path, window_fn, transform=None, **windowing):
        with beam.Pipeline(LocalRunner()) as pipeline:
            windowed = scores(pipeline) | beam.WindowInto(window_fn, **windowing)
            transform = transform or beam.io.WriteToText(f"{tmp_path}/out", ".txt")
            windowed | beam.CombinePerKey(sum) | text() | transform
        return files(tmp_path)

    def test_fixed_windows(self, tmp_path):
        assert self.run(tmp_path, FixedWindows(60)) == {
            "out-19700101T000000Z-19700101T000100Z-0-000001-00000-of-00001.txt": ["a:2", "c:1"],
            "out-19700101T000100Z-19700101T000200Z-0-000001-00000-of-00001.txt": ["b:1"],
        }

    def test_sliding_windows_of_half_seconds(self, tmp_path):
        found = self.run(tmp_path, SlidingWindows(60, 30, offset=0.5))
        assert found == {
            "out-19691231T235930.500000Z-19700101T000030.500000Z-0-000001-00000-of-00001.txt": ["a:2", "c:1"],
            "out-19700101T000000.500000Z-19700101T000100.500000Z-0-000001-00000-of-00001.txt": ["a:2", "c:1"],
            "out-19700101T000030.500000Z-19700101T000130.500000Z-0-000001-00000-of-00001.txt": ["b:1"],
            "out-19700101T000100.500000Z-19700101T000200.500000Z-0-000001-00000-of-00001.txt": ["b:1"],
        }

    def test_sessions(self, tmp_path):
        assert self.run(tmp_path, Sessions(10)) == {
            "out-19700101T000001Z-19700101T000012Z-0-000001-00000-of-00001.txt": ["a:2"],
            "out-19700101T000003Z-19700101T000013Z-0-000001-00000-of-00001.txt": ["c:1"],
            "out-19700101T000101Z-19700101T000111Z-0-000001-00000-of-00001.txt": ["b:1"],
        }

    def test_the_global_window_with_a_trigger_has_no_times(self, tmp_path):
        found = self.run(
            tmp_path, GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=Modes.DISCARDING
        )
        assert found == {"out-0-000001-00000-of-00001.txt": ["a:2", "b:1", "c:1"]}

    def test_the_global_window_without_a_trigger_is_one_set_of_files(self, tmp_path):
        assert list(self.run(tmp_path, GlobalWindows())) == ["out-00000-of-00001.txt"]

    def test_one_set_of_files_where_that_is_asked_for(self, tmp_path):
        transform = beam.io.WriteToText(f"{tmp_path}/out", windowed_writes=False)
        assert list(self.run(tmp_path, FixedWindows(60), transform)) == ["out-00000-of-00001"]

    @pytest.mark.parametrize(
        ("transform", "ending"),
        [(beam.io.WriteToJson, ".json"), (beam.io.WriteToCsv, ".csv"), (beam.io.WriteToParquet, "")],
    )
    def test_every_format(self, tmp_path, transform, ending):
        with beam.Pipeline(LocalRunner()) as pipeline:
            rows = scores(pipeline) | beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(sum)
            rows | beam.MapTuple(lambda key, n: {"key": key, "n": n}) | transform(f"{tmp_path}/out")
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
            f"out-19700101T000000Z-19700101T000100Z-0-000001-00000-of-00001{ending}",
            f"out-19700101T000100Z-19700101T000200Z-0-000001-00000-of-00001{ending}",
        ]

    def test_folders_by_column_too(self, tmp_path):
        with beam.Pipeline(LocalRunner()) as pipeline:
            rows = scores(pipeline) | beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(sum)
            rows = rows | beam.MapTuple(lambda key, n: {"key": key, "n": n})
            rows | beam.io.WriteToParquet(f"{tmp_path}/", partition_by=["key"])
        name = "part-19700101T000000Z-19700101T000100Z-0-000001-00000-of-00001"
        assert pq.read_table(tmp_path / "key=a" / name, partitioning=None).to_pydict() == {"n": [2]}
        assert sorted(path.name for path in tmp_path.iterdir()) == ["key=a", "key=b", "key=c"]


class TestPanes:
    def run(self, tmp_path, mode):
        stream = (
            TestStream()
            .add_elements([TimestampedValue(("a", 1), 1)])
            .add_elements([TimestampedValue(("a", 2), 2)])
            .advance_watermark_to(60)
            .add_elements([TimestampedValue(("a", 4), 3)])
            .advance_watermark_to_infinity()
        )
        with beam.Pipeline(LocalRunner()) as pipeline:
            windowed = pipeline | stream | beam.WindowInto(
                FixedWindows(60),
                trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
                accumulation_mode=mode,
                allowed_lateness=60,
            )  # fmt: skip
            windowed | beam.CombinePerKey(sum) | text() | beam.io.WriteToText(f"{tmp_path}/out")
        start = "out-19700101T000000Z-19700101T000100Z-"
        found = [(name.removeprefix(start).split("-0000")[0], lines) for name, lines in files(tmp_path).items()]
        assert all(name.startswith(start) for name in files(tmp_path))
        return sorted(found)

    def test_discarding(self, tmp_path):
        assert self.run(tmp_path, Modes.DISCARDING) == [
            ("0", ["a:1"]), ("1", ["a:2"]), ("2", ["a:0"]), ("3", ["a:4"])
        ]  # fmt: skip

    def test_accumulating(self, tmp_path):
        assert self.run(tmp_path, Modes.ACCUMULATING) == [
            ("0", ["a:1"]), ("1", ["a:3"]), ("2", ["a:3"]), ("3", ["a:7"])
        ]  # fmt: skip

    def test_what_is_taken_back_has_files_of_its_own(self, tmp_path):
        assert self.run(tmp_path, Modes.ACCUMULATING_AND_RETRACTING) == [
            ("0", ["a:1"]), ("0-retracted", ["a:1"]), ("1", ["a:3"]), ("1-retracted", ["a:3"]),
            ("2", ["a:3"]), ("2-retracted", ["a:3"]), ("3", ["a:7"]),
        ]  # fmt: skip


class TestGathered:
    """What is only put into windows comes when their trigger fires."""

    def run(self, tmp_path, runner=None, build=None, **kwargs):
        options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
        with beam.Pipeline(runner or LocalRunner(), options) as pipeline:
            windowed = scores(pipeline) | beam.WindowInto(FixedWindows(60))
            windowed = build(windowed) if build else windowed
            windowed | text() | beam.io.WriteToText(f"{tmp_path}/out/part", **kwargs)
        return files(tmp_path / "out")

    def test_a_window_is_one_set_however_many_epochs_it_took(self, tmp_path):
        found = self.run(tmp_path, LocalRunner(scheduler=OneByOne()))
        assert list(found.values()) == [["a:1", "a:1", "c:1"], ["b:1"]]
        assert all(name.endswith("-00000-of-00001") for name in found)

    def test_as_many_files_at_most_as_one_likes(self, tmp_path):
        found = self.run(tmp_path, LocalRunner(parallelism=4), num_shards=1)
        assert list(found.values()) == [["a:1", "a:1", "c:1"], ["b:1"]]

    def test_new_windows_behind_a_grouping_are_gathered_anew(self, tmp_path):
        found = self.run(
            tmp_path,
            LocalRunner(scheduler=OneByOne()),
            lambda windowed: windowed | beam.CombinePerKey(sum) | "wider" >> beam.WindowInto(FixedWindows(3600)),
        )
        assert list(found.values()) == [["a:2", "b:1", "c:1"]]

    def test_what_is_taken_back_before_it_was_written_is_not_there(self, tmp_path):
        def build(windowed):
            trigger, mode = AfterWatermark(early=AfterCount(1)), Modes.ACCUMULATING_AND_RETRACTING
            again = windowed | "again" >> beam.WindowInto(FixedWindows(60), trigger=trigger, accumulation_mode=mode)
            wider = "wider" >> beam.WindowInto(FixedWindows(3600), accumulation_mode=Modes.ACCUMULATING)
            return again | beam.CombinePerKey(sum) | wider

        found = self.run(tmp_path, LocalRunner(scheduler=OneByOne(), parallelism=2), build)
        assert list(found.values()) == [["a:2", "b:1", "c:1"]]

    @pytest.mark.parametrize("num_shards", [-1, 1.5])
    def test_wrong_numbers_of_files(self, num_shards):
        with pytest.raises(ValueError, match=f"num_shards is {num_shards}; give a whole number"):
            beam.io.WriteToText("x", num_shards=num_shards)


@pytest.mark.parametrize(
    ("step", "gathered"), [("commit", True), ("committed", False), ("deliver", True), ("delivered", False)]
)
def test_a_crash_loses_and_doubles_nothing(tmp_path, step, gathered):
    def run(name, scheduler):
        options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint {name}"])
        with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
            timed = scores(pipeline, ("a", 0), ("b", 1), ("a", 61), ("b", 2))
            windowed = timed | beam.WindowInto(
                FixedWindows(60), trigger=Repeatedly(AfterCount(1)), accumulation_mode=Modes.DISCARDING
            )
            sums = windowed if gathered else windowed | beam.CombinePerKey(sum)
            sums | text() | beam.io.WriteToText(f"{tmp_path}/{name}/part")
        return files(tmp_path / name)

    with pytest.raises(Crash):
        run("crashed", CrashAt(step))
    assert run("crashed", OneByOne()) == run("whole", OneByOne())
    assert not (tmp_path / "crashed" / "_unfinished").exists()


class TestReceipts:
    def sink(self, tmp_path):
        windowed = beam.Pipeline(LocalRunner()) | beam.Create([1]) | beam.WindowInto(FixedWindows(60))
        windowed | beam.io.WriteToText(f"{tmp_path}/out")
        return next(step.transform.sink() for step in windowed.pipeline.steps if step.full_label == "WriteToText/Files")

    def test_a_delivery_that_is_repeated_finds_its_files(self, tmp_path):
        sink = self.sink(tmp_path)
        receipt = sink.stage(Batch([("x", (0, 60_000_000, 3, False))], [0]), 7, 0, "t")
        for _ in range(2):
            sink.deliver(7, [receipt])
        assert files(tmp_path) == {"out-19700101T000000Z-19700101T000100Z-3-000007-00000-of-00001": ["x"]}

    @pytest.mark.parametrize("mark", [["../x", 1, 0, False], [0, 1, "0/..", False], [0, 1, 0], 5, [0, 1, 0, "/"]])
    def test_one_that_somebody_else_wrote_moves_nothing(self, tmp_path, mark):
        part = ["out-000001-0-t-0", 1, "", mark]
        receipt = {"place": [f"{tmp_path}/out", ""], "parts": [part], "replaced": []}
        with pytest.raises(CheckpointError, match="which is no window and pane; somebody else wrote it"):
            self.sink(tmp_path).deliver(1, [json.dumps(receipt).encode()])
        assert not list(tmp_path.iterdir())

    def test_times_that_no_calendar_has(self, tmp_path):
        sink = self.sink(tmp_path)
        receipt = sink.stage(Batch([("x", (-(10**18), 10**18, 0, False))], [0]), 1, 0, "t")
        sink.deliver(1, [receipt])
        assert list(files(tmp_path)) == [f"out--{10**18}us-{10**18}us-0-000001-00000-of-00001"]
