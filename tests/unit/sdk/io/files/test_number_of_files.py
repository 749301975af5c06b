"""The number of files that was asked for, with every sink that takes `num_shards`."""

from __future__ import annotations

import pyarrow as pa
import pytest

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.testing.test_stream import TestStream
from headrace.transforms.window import FixedWindows, TimestampedValue
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne

AVRO = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}
SINKS = {
    "text": lambda folder, n, **more: beam.io.WriteToText(f"{folder}/out/", num_shards=n, **more),
    "json": lambda folder, n, **more: beam.io.WriteToJson(f"{folder}/out/", num_shards=n, **more),
    "csv": lambda folder, n, **more: beam.io.WriteToCsv(f"{folder}/out/", num_shards=n, **more),
    "parquet": lambda folder, n, **more: beam.io.WriteToParquet(f"{folder}/out/", num_shards=n, **more),
    "avro": lambda folder, n, **more: beam.io.WriteToAvro(f"{folder}/out/", AVRO, num_shards=n, **more),
    "template": lambda folder, n: beam.io.WriteToText(f"{folder}/out/x", num_shards=n, shard_name_template="-W-SSS"),
}


def files(folder):
    return sorted(path.name for path in (folder / "out").rglob("*") if path.is_file() and ".temp" not in str(path))


def run(folder, sink, number, windows=None, scheduler=None, checkpoint=None, rows=30, **more):
    options = PipelineOptions([f"--checkpoint={checkpoint}"] if checkpoint else [])
    with beam.Pipeline(LocalRunner(parallelism=3, intervals=8, scheduler=scheduler), options) as pipeline:
        elements = [TimestampedValue({"n": n}, n) for n in range(rows)]
        collection = pipeline | beam.Create(elements) | beam.Map(lambda row: row)
        if windows is not None:
            collection |= beam.WindowInto(windows)
        _ = collection | SINKS[sink](folder, number, **more)


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("sink", SINKS)
def test_of_a_bounded_input(tmp_path, sink, number):
    run(tmp_path, sink, number, scheduler=None if number == 1 else OneByOne())
    names = files(tmp_path)
    assert len(names) == number, names
    if sink != "template":
        assert names[-1].startswith(f"part-{number - 1:05d}-of-{number:05d}")


@pytest.mark.parametrize("sink", SINKS)
def test_of_each_window(tmp_path, sink):
    run(tmp_path, sink, 2, FixedWindows(10))
    assert len(files(tmp_path)) == 3 * 2


def test_of_a_bounded_input_in_windows_that_are_written_as_one(tmp_path):
    run(tmp_path, "json", 1, FixedWindows(10), windowed_writes=False)
    assert files(tmp_path) == ["part-00000-of-00001.json"]


def test_of_panes_of_a_grouping(tmp_path):
    with beam.Pipeline(LocalRunner(parallelism=3, intervals=8)) as pipeline:
        elements = [TimestampedValue((n, 1), n % 20) for n in range(60)]
        windowed = pipeline | beam.Create(elements) | beam.Map(lambda pair: pair) | beam.WindowInto(FixedWindows(10))
        _ = windowed | beam.CombinePerKey(sum) | beam.io.WriteToText(f"{tmp_path}/out/", num_shards=1)
    assert len(files(tmp_path)) == 2


def test_of_each_epoch(tmp_path):
    stream = TestStream().add_elements(list(range(20))).advance_watermark_to(5).add_elements(list(range(20)))
    with beam.Pipeline(LocalRunner(parallelism=3, intervals=8)) as pipeline:
        _ = pipeline | stream.advance_watermark_to_infinity() | beam.io.WriteToText(f"{tmp_path}/out/", num_shards=1)
    epochs = [name.split("-")[1] for name in files(tmp_path)]
    assert len(epochs) == len({*epochs}) == 2


@pytest.mark.parametrize("step", ["commit", "delivered"])
def test_a_crash_loses_nothing(tmp_path, step):
    with pytest.raises(Crash):
        run(tmp_path, "text", 2, scheduler=CrashAt(step), checkpoint=tmp_path / "checkpoint")
    run(tmp_path, "text", 2, scheduler=OneByOne(), checkpoint=tmp_path / "checkpoint")
    assert len(files(tmp_path)) == 2
    lines = [line for path in (tmp_path / "out").iterdir() for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(str({"n": n}) for n in range(30))


def test_of_nothing(tmp_path):
    run(tmp_path, "text", 3, rows=0)
    assert not (tmp_path / "out").exists() or not files(tmp_path)


def test_with_folders(tmp_path):
    rows = [{"day": n % 2, "n": n} for n in range(20)]
    with beam.Pipeline(LocalRunner(parallelism=3, intervals=8)) as pipeline:
        schema = pa.schema({"day": pa.int64(), "n": pa.int64()})
        write = beam.io.WriteToParquet(f"{tmp_path}/out/", schema, num_shards=1, partition_by=["day"])
        _ = pipeline | beam.Create(rows) | write
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize(("before", "after"), [(None, 2), (2, None)])
def test_a_number_of_files_that_is_added_or_left_out_removes_no_file_of_the_run(tmp_path, before, after):
    """The sink is then inside of its step, or is the step itself; it is the same one."""

    class Dies(OneByOne):
        def step(self, name, epoch):
            if (name, epoch) == ("delivered", 2):
                raise Crash

    def run(shards, scheduler, **options):
        pipeline = beam.Pipeline(
            LocalRunner(scheduler=scheduler), PipelineOptions(checkpoint=f"{tmp_path}/state", **options)
        )
        source = beam.io.ReadFromText(f"{tmp_path}/in/*", continuous=True, interval=0.0, until=len)
        _ = pipeline | "In" >> source | "Out" >> beam.io.WriteToText(f"{tmp_path}/out/t", num_shards=shards)
        pipeline.run()

    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text(f"{number}\n")
    with pytest.raises(Crash):
        run(before, Dies())
    old = {path.name for path in (tmp_path / "out").glob("t-*")}
    assert len(old) == 2
    run(after, OneByOne(), allow_removed=["Out" if before is None else "Out/Files"])
    assert old <= {path.name for path in (tmp_path / "out").iterdir()}
