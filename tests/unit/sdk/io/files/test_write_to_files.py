"""Files of any format by destination: names, sinks, shards, and exactly once over crashes."""

from __future__ import annotations

import gzip
import logging
import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

import headrace as beam
from headrace.io import fileio
from headrace.io.filesystem import CompressionTypes
from headrace.lowlevel.errors import StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.options.value_provider import StaticValueProvider
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.sdk.io.files.write_to_files import _rename
from headrace.testing.util import assert_that, equal_to
from headrace.transforms.window import FixedWindows, GlobalWindow, IntervalWindow, TimestampedValue
from tests.restarts import LINES, FixedSize, prepared
from tests.schedulers import RandomScheduler


def contents(folder: Path) -> dict[str, list[str]]:
    """Files -> their sorted lines; nothing else is in the folder."""
    assert not [path for path in folder.iterdir() if path.is_dir()]
    return {path.name: sorted(path.read_text().splitlines()) for path in folder.iterdir()}


def team(line: str) -> str:
    return line.split()[0]


def written(folder: Path, *args: object, **kwargs: object) -> dict[str, list[str]]:
    with beam.Pipeline("LocalRunner") as pipeline:
        lines = pipeline | beam.Create(["red 1", "blue 2", "red 3", "green 4"])
        results = lines | fileio.WriteToFiles(folder, *args, **kwargs)  # type: ignore[arg-type]  # any arguments
        told = results | beam.Map(lambda file: (file.destination, file.shard_index, file.total_shards))
        assert_that(results | "Names" >> beam.Map(lambda file: file.file_name), _is(folder), use_global_window=True)
        _ = told
    return contents(folder)


def _is(folder: Path) -> Callable[[list[object]], None]:
    def match(names: list[object]) -> None:
        assert sorted(map(str, names)) == sorted(path.name for path in folder.iterdir() if path.is_file())

    return match


def test_each_destination_has_files(tmp_path: Path) -> None:
    assert written(tmp_path, fileio.destination_prefix_naming(".txt"), team) == {
        "red-00000-of-00001.txt": ["red 1", "red 3"],
        "blue-00000-of-00001.txt": ["blue 2"],
        "green-00000-of-00001.txt": ["green 4"],
    }


def test_one_destination_by_default(tmp_path: Path) -> None:
    assert written(tmp_path / "new") == {"output-00000-of-00001": ["blue 2", "green 4", "red 1", "red 3"]}


def test_elements_of_too_many_destinations_are_grouped_in_shards(tmp_path: Path) -> None:
    naming = fileio.destination_prefix_naming()
    files = written(tmp_path, naming, team, max_writers_per_bundle=0, shards=2)
    assert files == {
        "red-00000-of-00002": ["red 1"],
        "red-00001-of-00002": ["red 3"],
        "blue-00000-of-00001": ["blue 2"],
        "green-00000-of-00001": ["green 4"],
    }
    one = written(tmp_path / "one", fileio.single_file_naming("all", ".txt"), max_writers_per_bundle=0, shards=1)
    assert one == {"all.txt": ["blue 2", "green 4", "red 1", "red 3"]}
    with pytest.raises(StepError, match=r"single_file_naming.* 2 files"):
        written(tmp_path / "two", fileio.single_file_naming("all"), max_writers_per_bundle=0, shards=2)


class Packed(fileio.TextSink):
    """Compressed lines below a head."""

    def __init__(self, head: str = "none") -> None:
        self._head = head

    def create_metadata(self, destination: object, full_file_name: str) -> fileio.FileMetadata:
        return fileio.FileMetadata("text/plain", CompressionTypes.GZIP)

    def open(self, fh):  # type: ignore[no-untyped-def]  # as users write it
        super().open(fh)
        fh.write(f"{self._head}\n".encode())


@pytest.mark.parametrize(
    ("sink", "head"), [(Packed, "none"), (Packed("other"), "none"), (lambda to: Packed(f"to {to}"), "to red")]
)
def test_sinks(tmp_path: Path, sink: object, head: str) -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        lines = pipeline | beam.Create(["1", "2"])
        write = fileio.WriteToFiles(tmp_path, destination=StaticValueProvider(str, "red"), sink=sink)  # type: ignore[arg-type]  # all forms
        _ = lines | write
    [file] = tmp_path.iterdir()
    assert gzip.decompress(file.read_bytes()).decode().splitlines() == [head, "1", "2"]


def test_windows_have_files_of_their_own(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    with beam.Pipeline("LocalRunner") as pipeline:
        timed = pipeline | beam.Create([("a", 5), ("b", 65)]) | beam.MapTuple(TimestampedValue)
        path = StaticValueProvider(str, str(tmp_path / "out"))
        write = fileio.WriteToFiles(path, temp_directory=temporary)
        results = timed | beam.WindowInto(FixedWindows(60)) | write
        windows = results | beam.Map(lambda file, window=beam.DoFn.WindowParam: file.window == window)
        assert_that(windows, equal_to([True, True]))
    assert contents(tmp_path / "out") == {
        "output-1970-01-01T00:00:00-1970-01-01T00:01:00-00000-of-00001": ["a"],
        "output-1970-01-01T00:01:00-1970-01-01T00:02:00-00000-of-00001": ["b"],
    }
    assert not temporary.exists()


def test_names() -> None:
    naming = fileio.default_file_naming("out", ".txt")
    assert naming(GlobalWindow(), None, None, None, None, None) == "out.txt"
    assert naming(GlobalWindow(), None, 1, 5, "gz", None) == "out-00001-of-00005.txt.gz"
    assert naming(GlobalWindow(), None, 1, None, "", None) == "out-00000.txt"
    window = IntervalWindow(0, 60.5)
    expected = "out-1970-01-01T00:00:00-1970-01-01T00:01:00.500000-00001-of-00005"
    assert fileio.prefix_naming("out")(window, None, 1, 5, "", None) == expected
    assert fileio.destination_prefix_naming()(window, None, None, None, "", "out") == expected[:-15]


def test_an_unfinished_sink_says_what_is_missing() -> None:
    for call in (lambda sink: sink.open(None), lambda sink: sink.write(1), lambda sink: sink.flush()):
        with pytest.raises(TypeError, match="FileSink does not define"):
            call(fileio.FileSink())


def test_a_lost_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a").write_text("1")
    with caplog.at_level(logging.WARNING):
        _rename(f"{tmp_path}/a", f"{tmp_path}/new/b")
        _rename(f"{tmp_path}/a", f"{tmp_path}/new/b")
    assert not caplog.records
    assert (tmp_path / "new/b").read_text() == "1"
    _rename(f"{tmp_path}/a", f"{tmp_path}/new/c")
    assert "neither the temporary file" in caplog.text


def life(folder: Path, scheduler: RandomScheduler) -> bool:
    """One life of a program with a checkpoint; whether it lived to the end."""
    options = PipelineOptions([], checkpoint=f"{folder}/checkpoint")
    pipeline = beam.Pipeline("LocalRunner", options=options)
    lines = pipeline | beam.io.ReadFromText(f"{folder}/in-*.txt")
    results = lines | fileio.WriteToFiles(
        f"{folder}/out",
        # A name that another attempt would not choose again.
        file_naming=lambda *of: fileio.destination_prefix_naming(f".{id(of)}")(*of),
        destination=lambda line: line[-2:].strip(),
        max_writers_per_bundle=2,
        shards=1,
    )
    _ = results | beam.Map(lambda file: file.file_name) | beam.io.WriteToText(f"{folder}/out/names", num_shards=1)
    runner = LocalRunner(scheduler=scheduler, intervals=3, parallelism=2)
    try:
        runner.run_topology(pipeline.topology(), RunOptions(checkpoint=f"{folder}/checkpoint"))
    except Crash:
        return False
    return True


def outcome(folder: Path) -> tuple[list[str], list[str]]:
    """Names without the part that differs, and all lines; the names that were put out are those of the files."""
    files = contents(folder / "out")
    told = [name for file in list(files) if file.startswith("names-") for name in files.pop(file)]
    assert sorted(told) == sorted(files)
    return sorted(re.sub(r"\.\d+$", "", name) for name in files), sorted(chain(*files.values()))


@pytest.mark.faults
def test_crash_at_steps_all_along(tmp_path: Path) -> None:
    reference, scheduler = prepared(tmp_path / "reference"), FixedSize(0)
    assert life(reference, scheduler)
    expected = outcome(reference)
    assert expected[1] == sorted(LINES)
    early, late = range(2, scheduler.steps, scheduler.steps // 8), range(scheduler.steps - 12, scheduler.steps + 1, 2)
    steps, crashes = sorted({*early, *late}), 0
    for step in steps:
        folder = prepared(tmp_path / f"at-{step}")
        if not life(folder, FixedSize(step, crash_at=step)):
            crashes += 1
            assert life(folder, FixedSize(step + 1))
        assert outcome(folder) == expected, f"crash at step {step} of {scheduler.steps}"
    assert crashes >= len(steps) - 4, "faults did not fire"
