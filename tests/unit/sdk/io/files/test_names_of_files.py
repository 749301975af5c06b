"""No name twice: windows, panes, shards and destinations by each way to name files; crashes; names that would meet."""

from __future__ import annotations

from collections import Counter

import pytest

import headrace as beam
from headrace.io.fileio import (
    WriteToFiles,
    default_file_naming,
    destination_prefix_naming,
    prefix_naming,
    single_file_naming,
)
from headrace.lowlevel import StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.testing.test_stream import TestStream
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from headrace.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampedValue
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne

TRIGGERS = {
    "early and late": AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
    "late": AfterWatermark(late=AfterCount(1)),
    "count": Repeatedly(AfterCount(2)),
}
WINDOWS = {
    "global": GlobalWindows(),
    "fixed": FixedWindows(10),
    "half": FixedWindows(0.5),
    "sliding": SlidingWindows(10, 5),
    "sessions": Sessions(3),
}


def first_letter(element):
    return element[0]


def by_everything(window, pane, shard, shards, compression, destination):
    return f"{destination}-{window.end.micros}-{pane.index}-{shard}"


SINKS = {
    "text": lambda folder: beam.io.WriteToText(f"{folder}/out/text", ".txt"),
    "template": lambda folder: beam.io.WriteToText(f"{folder}/out/text", ".txt", shard_name_template="-W-SSS-of-NN"),
    "times": lambda folder: beam.io.WriteToText(f"{folder}/out/text", ".txt", shard_name_template="-V-SSS"),
    "random": lambda folder: beam.io.WriteToText(f"{folder}/out/text", ".txt", shard_name_template="-U-SSS"),
    "sharded": lambda folder: beam.io.WriteToText(f"{folder}/out/t", num_shards=2, shard_name_template="-W-SSS"),
    "files": lambda folder: WriteToFiles(f"{folder}/out"),
    "files in shards": lambda folder: WriteToFiles(f"{folder}/out", shards=2, max_writers_per_bundle=0),
    "prefix": lambda folder: WriteToFiles(f"{folder}/out", prefix_naming("x")),
    "single": lambda folder: WriteToFiles(
        f"{folder}/out", single_file_naming("x", ".txt"), shards=1, max_writers_per_bundle=0
    ),
    "destinations": lambda folder: WriteToFiles(f"{folder}/out", destination_prefix_naming(".txt"), first_letter),
    "own": lambda folder: WriteToFiles(f"{folder}/out", by_everything, first_letter),
}
ELEMENTS = [f"{'abc'[number % 3]}{number}" for number in range(30)]


def run(folder, sink, windows, trigger, scheduler=None, checkpoint=None):
    """Thirty elements, ten of them late, through windows and a trigger to a sink."""
    timed = [TimestampedValue(element, number % 10 + number / 100) for number, element in enumerate(ELEMENTS)]
    stream = TestStream().add_elements(timed[:10]).advance_watermark_to(5).add_elements(timed[10:20])
    stream = stream.advance_watermark_to(100).add_elements(timed[20:]).advance_watermark_to_infinity()
    options = PipelineOptions([f"--checkpoint={checkpoint}"] if checkpoint else [])
    with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
        windowed = (
            pipeline
            | stream
            | beam.WindowInto(
                windows, trigger=trigger, accumulation_mode=AccumulationMode.DISCARDING, allowed_lateness=1000
            )
        )
        _ = windowed | sink


def written(folder):
    """The elements in files that are no temporary ones."""
    paths = [path for path in (folder / "out").rglob("*") if path.is_file() and ".temp" not in str(path)]
    return sorted(line for path in paths for line in path.read_text().split())


def expected(windows):
    copies = 2 if isinstance(windows, SlidingWindows) else 1
    return sorted(ELEMENTS * copies)


@pytest.mark.parametrize("trigger", ["early and late", "count"])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("sink", SINKS)
def test_no_element_is_lost(tmp_path, sink, windows, trigger):
    """By a name that two files would have the run is refused; then nothing of that epoch is written."""
    try:
        run(tmp_path, SINKS[sink](tmp_path), WINDOWS[windows], TRIGGERS[trigger])
    except (StepError, ValueError) as refusal:
        is_certain = sink in ("text", "template", "random", "sharded", "files", "prefix") and windows != "sessions"
        assert not is_certain, refusal
        assert "would replace the other" in str(refusal) or "has one name, but" in str(refusal)
        counts = Counter(written(tmp_path)) - Counter(expected(WINDOWS[windows]))
        assert not counts
        return
    found = written(tmp_path)
    if "count" in trigger:
        # What is left of a pane is not emitted.
        assert not Counter(found) - Counter(expected(WINDOWS[windows]))
        assert len(found) >= len(ELEMENTS) / 3
    else:
        assert found == expected(WINDOWS[windows])


def test_a_later_pane_is_named(tmp_path):
    run(tmp_path, SINKS["files"](tmp_path), GlobalWindows(), TRIGGERS["count"])
    names = {path.name.rpartition("-of-")[0] for path in (tmp_path / "out").iterdir()}
    assert {"output-00000", "output-pane-1-00000"} <= names


@pytest.mark.parametrize("step", ["commit", "deliver", "delivered"])
@pytest.mark.parametrize("sink", ["template", "files", "own"])
def test_a_crash_changes_no_name(tmp_path, sink, step):
    def go(scheduler):
        run(tmp_path, SINKS[sink](tmp_path), FixedWindows(10), TRIGGERS["late"], scheduler, tmp_path / "checkpoint")

    with pytest.raises(Crash):
        go(CrashAt(step))
    go(OneByOne())
    assert written(tmp_path) == expected(FixedWindows(10))


@pytest.mark.parametrize(
    ("naming", "destination", "windows"),
    [
        (lambda *_: "one", None, GlobalWindows()),
        (lambda window, pane, shard, *_: f"{shard}", None, FixedWindows(5)),
        (default_file_naming("out"), first_letter, GlobalWindows()),
        (destination_prefix_naming(), lambda element: 1 if element[0] == "a" else "1", GlobalWindows()),
    ],
    ids=["one name", "windows", "destinations", "1 and '1'"],
)
def test_a_second_file_with_a_name_is_refused(tmp_path, naming, destination, windows):
    write = WriteToFiles(f"{tmp_path}/out", naming, destination, shards=2, max_writers_per_bundle=0)
    with pytest.raises(StepError, match=r"file_naming gives the name .*/out/\S+ to two files of this run, so that one"):
        run(tmp_path, write, windows, TRIGGERS["late"])
    assert not written(tmp_path)


class TestTwoSteps:
    """Steps that would give their files the same names in one folder; the files of one replaced those of the other."""

    def write(self, one, two, windows=GlobalWindows()):
        pipeline = beam.Pipeline(LocalRunner())
        lines = pipeline | beam.Create(["a"])
        _ = lines | "One" >> one
        _ = lines | "In windows" >> beam.WindowInto(windows) | "Two" >> two

    @pytest.mark.parametrize("kind", ["text", "template", "times", "files", "prefix", "single", "sharded"])
    def test_they_are_refused(self, tmp_path, kind):
        (tmp_path / "out").mkdir()
        (tmp_path / "link").mkdir()
        (tmp_path / "link" / "out").symlink_to(tmp_path / "out")
        for folder in (tmp_path, tmp_path / "link"):
            with pytest.raises(ValueError, match=r"steps 'One.*' and 'Two.*' both write files .* so that one would"):
                self.write(SINKS[kind](tmp_path), SINKS[kind](folder))

    def test_what_may_differ_is_left_to_the_program(self, tmp_path):
        self.write(WriteToFiles(tmp_path), WriteToFiles(tmp_path / "other"))
        self.write(WriteToFiles(tmp_path), WriteToFiles(tmp_path, prefix_naming("other")))
        self.write(WriteToFiles(tmp_path), WriteToFiles(tmp_path), FixedWindows(5))
        for kind in ("random", "destinations", "own"):
            self.write(SINKS[kind](tmp_path), SINKS[kind](tmp_path))


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("gs://bucket/a", "gcs://bucket/a"),
        ("abfss://data@sales.dfs.core.windows.net/a", "abfs://data@sales.dfs.core.windows.net/a"),
        ("wasbs://data@sales.blob.core.windows.net/a", "abfs://data@Sales.dfs.core.windows.net/a"),
        ("s3://bucket/a%20b", "s3a://bucket/a b"),
        ("file:///data/a%20b", "/data/a b"),
    ],
)
def test_two_spellings_of_a_place_are_one(url: str, other: str) -> None:
    from headrace.sdk.io.files.filesystem import absolute, same_folder
    from headrace.sdk.io.files.output_files import OutputName

    assert same_folder(absolute(url), absolute(other)) and not same_folder(absolute(url), absolute(other + "b"))
    first, second = (OutputName.of(absolute(place), ".txt") for place in (url, other))
    assert first.clashes(second) and not first.clashes(OutputName.of(absolute(other + "b"), ".txt"))


def test_containers_of_one_account_are_two_places() -> None:
    """Also in receipts: those of 0.1.0, which left the container out, are of the sink that reads them."""
    from headrace.sdk.io.files.output_files import OutputName, Receipt

    urls = [f"abfss://{name}@account.dfs.core.windows.net/out" for name in ("sales", "stock")]
    first, second = (OutputName.of(url, "") for url in urls)
    assert not first.clashes(second) and first.clashes(OutputName.of(urls[0], ""))
    sink = beam.io.WriteToText(urls[0])._files
    old = OutputName("abfss://account.dfs.core.windows.net/out", "")
    decoded = sink._decoded(1, [Receipt(name).encode() for name in (old, first, second)])
    assert [receipt.output for receipt in decoded] == [first, first, second]
