"""Files as sinks in a store of objects, over HTTP: the same promises as in a folder."""

from __future__ import annotations

import pytest
from pyarrow import fs

import headrace as beam
from headrace.lowlevel import StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.testing.util import assert_that, equal_to
from tests.s3 import S3
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne


def files(place: str) -> dict[str, str]:
    """What a reader of the place finds, by name."""
    system, path = fs.FileSystem.from_uri(place)
    infos = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return {
        info.path.removeprefix(f"{path}/"): system.open_input_stream(info.path).read().decode().strip()
        for info in infos
        if info.type == fs.FileType.File
    }


def run(place, elements, checkpoint=None, scheduler=None, **kwargs):
    options = PipelineOptions([f"--checkpoint={checkpoint}"] if checkpoint else [])
    with beam.Pipeline(LocalRunner(scheduler=scheduler or OneByOne()), options) as pipeline:
        pipeline | beam.Create(elements) | beam.io.WriteToText(f"{place}/out", ".txt", **kwargs)


@pytest.mark.parametrize("step", ["commit", "deliver"])
def test_crashes_and_a_run_that_begins_anew(s3: S3, tmp_path, step) -> None:
    place = s3.new_place()
    run(place, [*"vwxyz"])
    with pytest.raises(Crash):
        run(place, [*"abcd"], tmp_path / "state", CrashAt(step))
    run(place, [*"abcd"], tmp_path / "state")
    assert files(place) == {f"out-{shard:05d}-of-00004.txt": "abcd"[shard] for shard in range(4)}
    run(place, ["e"], if_exists="append")
    assert sorted(files(place).values()) == [*"abcde"]
    with pytest.raises(StepError, match="5 files are left of an earlier run"):
        run(place, ["f"], if_exists="error")


def test_a_reader_who_takes_files_away(s3: S3, tmp_path) -> None:
    place = s3.new_place()
    with pytest.raises(Crash):
        run(place, [*"abcd"], tmp_path / "state", CrashAt("delivered"), if_exists="append")
    system, path = fs.FileSystem.from_uri(place)
    (taken,) = (name for name, text in files(place).items() if text == "c")
    system.delete_file(f"{path}/{taken}")
    run(place, [*"abcd"], tmp_path / "state", if_exists="append")
    assert sorted(files(place).values()) == [*"abd"]


NAMES = ["a b.csv", "c[1].csv", "100%.csv", "ü.csv", "q?x.csv"]


def test_files_of_any_name_are_found_and_opened_also_under_the_name_that_hadoop_has_for_the_store(s3: S3) -> None:
    place = s3.new_place()
    system, path = fs.FileSystem.from_uri(place)
    for name in NAMES:
        with system.open_output_stream(f"{path}/in/{name}") as file:
            file.write(f"{name}\n".encode())
    hadoop = place.replace("s3://", "s3a://")
    with beam.Pipeline("LocalRunner", PipelineOptions([f"--checkpoint={hadoop}/state"])) as pipeline:
        pipeline | beam.io.ReadFromText(f"{hadoop}/in/*.csv") | beam.io.WriteToText(f"{hadoop}/out/x")
    assert sorted(line for text in files(f"{place}/out").values() for line in text.split("\n")) == sorted(NAMES)
    with beam.Pipeline("LocalRunner") as pipeline:
        assert_that(pipeline | beam.io.ReadFromText(f"{place}/in/[ac]*.csv"), equal_to(["a b.csv", "c[1].csv"]))
