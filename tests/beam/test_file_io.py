"""Beam's own sources and sinks: read lazily in bundles, written as Beam writes, with Beam's errors."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pyarrow
import pytest
from apache_beam import coders
from apache_beam.io import fileio, iobase
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.range_trackers import OffsetRangeTracker
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue

from headrace.lowlevel.injectors.injector import TellingSplit
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.rules.reads import SourceInjector

LINES = [f"{number},{'x' * (number % 5)}" for number in range(30)]
SCHEMA = pyarrow.schema([("number", pyarrow.int64()), ("text", pyarrow.string())])
AVRO = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "number", "type": "int"}, {"name": "text", "type": "string"}],
}


def row(line):
    number, text = line.split(",")
    return {"number": int(number), "text": text}


def prepared(folder: Path) -> Path:
    """A folder with three files of lines, one of them compressed as its name says."""
    (folder / "in").mkdir(parents=True)
    for number in range(3):
        with beam.io.filesystems.FileSystems.create(f"{folder}/in/{number}.csv{'.gz' * (number == 2)}") as file:
            file.write("\n".join(["number,text", *LINES[number::3]]).encode())
    return folder


def lines(pipeline, folder):
    return pipeline | beam.io.ReadFromText(f"{folder}/in/*", skip_header_lines=1)


def patterns(pipeline, folder):
    files = pipeline | beam.Create([f"{folder}/in/[01]*", f"{folder}/in/2*"])
    return files | beam.io.ReadAllFromText(skip_header_lines=1, with_filename=True)


def names(pipeline, folder):
    read = pipeline | beam.io.textio.ReadFromTextWithFilename(f"{folder}/in/*")
    return read | beam.MapTuple(lambda path, line: (os.path.basename(path), line))


def matched(pipeline, folder):
    read = pipeline | fileio.MatchFiles(f"{folder}/in/*") | fileio.ReadMatches()
    return read | beam.Map(lambda file: (os.path.basename(file.metadata.path), file.read_utf8()))


def parsed(pipeline, folder):
    return pipeline | beam.io.ReadFromCsv(f"{folder}/in/*", splittable=False) | beam.Map(tuple)


READS = [lines, patterns, names, matched, parsed]


def text(pipeline, folder):
    _ = lines(pipeline, folder) | beam.io.WriteToText(f"{folder}/out/text", ".txt", header="number,text", num_shards=3)


def of_bundles(pipeline, folder):
    return lines(pipeline, folder) | beam.io.WriteToText(f"{folder}/out/text")


def parquet(pipeline, folder):
    _ = lines(pipeline, folder) | beam.Map(row) | beam.io.WriteToParquet(f"{folder}/out/rows", SCHEMA, num_shards=2)


def avro(pipeline, folder):
    _ = lines(pipeline, folder) | beam.Map(row) | beam.io.WriteToAvro(f"{folder}/out/rows", AVRO, num_shards=2)


def empty(pipeline, folder):
    _ = pipeline | beam.Create([]) | beam.io.WriteToText(f"{folder}/out/none", num_shards=2)


def by_text(pipeline, folder):
    naming = fileio.destination_prefix_naming(".txt")
    written = lines(pipeline, folder) | fileio.WriteToFiles(
        f"{folder}/out", naming, destination=lambda line: row(line)["text"] or "none", shards=1
    )
    return written | beam.Map(lambda result: result.destination)


WRITES = [text, of_bundles, parquet, avro, empty, by_text]


def elements(pipeline, folder):
    return pipeline | beam.io.ReadFromText(f"{folder}/out/*")


def elements_of(kind: Callable[..., object], pipeline: beam.Pipeline, folder: Path) -> object:
    """The elements in the files that a write has made."""
    if kind is parquet:
        whole = pipeline | "Batches" >> beam.io.ReadFromParquetBatched(f"{folder}/out/*")
        rows = whole | beam.FlatMap(lambda table: table.to_pylist())
        return (rows, pipeline | beam.io.ReadFromParquet(f"{folder}/out/*")) | beam.Flatten()
    return pipeline | (beam.io.ReadFromAvro if kind is avro else beam.io.ReadFromText)(f"{folder}/out/*")


def results(runner: object, build: Callable[[beam.Pipeline], object], folder: Path) -> list[str]:
    """The elements of a program as sorted text, without the folder."""
    at = folder / "told"
    with beam.Pipeline(runner=runner) as pipeline:
        rows = build(pipeline) | "Rows" >> beam.combiners.ToList()
        _ = rows | "Tell" >> beam.Map(lambda rows: at.write_text("\n".join(sorted(map(repr, rows)))))
    return at.read_text().replace(str(folder), "").split("\n")


@pytest.mark.parametrize("build", READS, ids=lambda build: build.__name__)
def test_reads_as_beam(tmp_path: Path, build: Callable[..., object]) -> None:
    folder = prepared(tmp_path)
    expected = results(FnApiRunner(), lambda pipeline: build(pipeline, folder), folder)
    assert len(expected) >= 3
    assert results(HeadraceRunner(), lambda pipeline: build(pipeline, folder), folder) == expected


@pytest.mark.parametrize("build", WRITES, ids=lambda build: build.__name__)
def test_writes_as_beam(tmp_path: Path, build: Callable[..., object]) -> None:
    found = []
    for runner in (FnApiRunner(), HeadraceRunner()):
        folder = prepared(tmp_path / type(runner).__name__)
        with beam.Pipeline(runner=runner) as pipeline:
            build(pipeline, folder)
        files = sorted(os.path.basename(path) for path in glob.glob(f"{folder}/out/*"))
        found.append((files, results(FnApiRunner(), lambda at: elements_of(build, at, folder), folder)))  # noqa: B023  # it is called in the same turn of the loop
    (beam_files, beam_rows), (files, rows) = found
    assert rows == beam_rows
    if build in (of_bundles, by_text):
        # The number of files is that of bundles, which a runner chooses.
        assert len(files) >= len(beam_files)
    else:
        assert files == beam_files
    assert not [path for path in Path(folder, "out").rglob("*") if path.name not in files]


class OwnFiles(FileBasedSink):
    """A sink whose library opens the files itself, and makes no folders."""

    def __init__(self, prefix: str, shards: int) -> None:
        super().__init__(prefix, coders.StrUtf8Coder(), num_shards=shards)

    def open(self, temp_path):
        return open(temp_path, "wb")

    def write_encoded_record(self, file_handle, value):
        file_handle.write(value + b"\n")


@pytest.mark.parametrize("shards", [0, 1, 3])
def test_a_sink_that_opens_its_files_itself(tmp_path: Path, shards: int) -> None:
    with beam.Pipeline(HeadraceRunner("LocalRunner")) as pipeline:
        _ = pipeline | beam.Create(LINES) | iobase.Write(OwnFiles(str(tmp_path / "out"), shards))
    files = list(tmp_path.iterdir())
    assert sorted("".join(file.read_text(encoding="utf-8") for file in files).splitlines()) == sorted(LINES)
    assert not shards or len(files) == shards


class Numbers(iobase.BoundedSource):
    """Numbers at their own timestamps; notes when it is asked to do what."""

    def __init__(self, count: int, notes: Path) -> None:
        self._count, self._notes = count, notes

    def _note(self, text: str) -> None:
        with self._notes.open("a") as file:
            file.write(f"{text}\n")

    def estimate_size(self):
        return self._count << 20

    def split(self, desired_bundle_size, start_position=None, stop_position=None):
        self._note(f"split by {desired_bundle_size}")
        step = max(1, desired_bundle_size >> 20)
        for start in range(0, self._count, step):
            yield iobase.SourceBundle(step, self, start, min(start + step, self._count))

    def get_range_tracker(self, start_position, stop_position):
        return OffsetRangeTracker(start_position or 0, self._count if stop_position is None else stop_position)

    def read(self, range_tracker):
        self._note(f"read {range_tracker.start_position()} to {range_tracker.stop_position()}")
        for number in range(range_tracker.start_position(), range_tracker.stop_position()):
            if not range_tracker.try_claim(number):
                return
            yield TimestampedValue(number, number)


def test_a_source_is_split_when_the_pipeline_runs_by_the_size_that_it_says(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    read = pipeline | beam.io.Read(Numbers(40, notes))
    timed = read | beam.Map(lambda number, at=beam.DoFn.TimestampParam: number == at)
    _ = timed | beam.combiners.Count.PerElement() | beam.Map(lambda pair: (tmp_path / "told").write_text(repr(pair)))
    assert not notes.exists()
    pipeline.run().wait_until_finish()
    split, *reads = notes.read_text().splitlines()
    # Beam's size of bundles for 40 MB.
    assert split == "split by 6476000"
    assert sorted(reads) == sorted(f"read {start} to {min(start + 6, 40)}" for start in range(0, 40, 6))
    assert (tmp_path / "told").read_text() == "(True, 40)"


def test_a_source_is_read_on_from_its_position(tmp_path: Path) -> None:
    injector = SourceInjector(Numbers(40, tmp_path / "notes"))
    position, epochs = injector.start(), []
    while True:
        delivery = injector.plan(position, 12, 2)
        found, told = [], []
        for split in delivery.splits:
            assert isinstance(split, TellingSplit)
            found += [row for batch in split.read() for row in batch.rows()]
            told.append(split.told())
        epochs.append(found)
        position = SourceInjector(Numbers(40, tmp_path / "notes")).learned(delivery.position, told)
        if delivery.done:
            break
    assert [row for rows in epochs for row in rows] == [(number, number * 1_000_000) for number in range(40)]
    # A bundle has six numbers: one is read with the splitting, then as many as have the twelve that are asked for.
    assert [len(rows) for rows in epochs] == [6, 12, 12, 10]
    assert (tmp_path / "notes").read_text().count("split") == 1


def test_sources_in_a_collection(tmp_path: Path) -> None:
    def build(pipeline):
        sources = pipeline | beam.Create([Numbers(7, tmp_path / "notes"), Numbers(5, tmp_path / "notes")])
        return sources | iobase.SDFBoundedSourceReader()

    assert results(HeadraceRunner(), build, tmp_path) == sorted(map(repr, [*range(7), *range(5)]))


class Unpicklable:
    """A value that only its coder can turn into bytes."""

    def __init__(self, text):
        self.text = text

    def __reduce__(self):
        raise TypeError("this class has a coder")


class UnpicklableCoder(coders.Coder):
    def encode(self, value):
        return value.text.encode()

    def decode(self, encoded):
        return Unpicklable(encoded.decode())

    def is_deterministic(self):
        return True


def test_created_values_travel_by_their_coder(tmp_path: Path) -> None:
    beam.coders.registry.register_coder(Unpicklable, UnpicklableCoder)

    def build(pipeline):
        made = pipeline | "Own" >> beam.Create([Unpicklable("a"), Unpicklable("b")]) | beam.Map(lambda each: each.text)
        timed = pipeline | "Timed" >> beam.Create([TimestampedValue("x", 3), TimestampedValue("y", 4)])
        at = timed | beam.Map(lambda value, at=beam.DoFn.TimestampParam: (value, at.micros))
        return (made, at) | beam.Flatten()

    expected = results(FnApiRunner(), build, tmp_path)
    assert results(HeadraceRunner(), build, tmp_path) == expected == ["'a'", "'b'", "('x', 3000000)", "('y', 4000000)"]


def test_a_created_value_that_a_step_changes_is_no_other_steps_value(tmp_path: Path) -> None:
    values = [[1], [2]]

    def build(pipeline):
        return pipeline | beam.Create(values) | beam.Map(lambda value: value.append(0) or len(value))

    assert results(HeadraceRunner(), build, tmp_path) == ["2", "2"]
    assert values == [[1], [2]]


@pytest.mark.parametrize(
    "build",
    [
        lambda pipeline: pipeline | beam.io.ReadFromText("gs://bucket/lines*"),
        lambda pipeline: pipeline | beam.Create(["gs://bucket/lines*"]) | beam.io.ReadAllFromText(),
        lambda pipeline: pipeline | beam.io.ReadFromParquet("gs://bucket/rows*", validate=False),
        lambda pipeline: pipeline | beam.Create(["a"]) | beam.io.WriteToText("gs://bucket/lines"),
        lambda pipeline: pipeline | beam.Create(["a"]) | fileio.WriteToFiles("gs://bucket/lines"),
    ],
)
def test_a_file_system_that_is_not_installed_is_refused_as_beam_does(build: Callable[..., object]) -> None:
    with pytest.raises(Exception, match=r"pip install apache-beam\[gcp\]"), beam.Pipeline(runner=HeadraceRunner()) as p:
        build(p)


def test_a_relative_path_is_read_where_the_program_is(
    runner: HeadraceRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's workers have begun in another folder, and may have run another program before."""
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "lines.txt").write_text(f"{name}\n")
        monkeypatch.chdir(folder)
        with beam.Pipeline(runner=runner) as pipeline:
            assert_that(pipeline | beam.io.ReadFromText("./*.txt"), equal_to([name]))
