"""Files that Beam's own sinks write are the same after a crash at any step: nothing lost, doubled or left over."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pyarrow
import pyarrow.parquet
import pytest
from apache_beam.io import fileio

from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.rules import RULES
from headrace.runners.beam.translation import Translation
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.runners.local.scheduler import RandomScheduler
from headrace.sdk.options import PipelineOptions
from headrace.sdk.pipeline.pipeline import Pipeline

LINES = [f"line {number} of {'x' * (number % 7)}" for number in range(40)]


def read(pipeline, folder):
    lines = pipeline | beam.io.ReadFromText(f"{folder}/in-*.txt")
    return lines | beam.Map(str.upper)


def text(pipeline, folder):
    written = read(pipeline, folder) | beam.io.WriteToText(f"{folder}/out/text", header="HEADER")
    return written | "Names" >> beam.io.WriteToText(f"{folder}/out/names", num_shards=1)


def shards(pipeline, folder):
    _ = read(pipeline, folder) | beam.io.WriteToText(f"{folder}/out/text", num_shards=60, shard_name_template="-SSS-U")


def parquet(pipeline, folder):
    schema = pyarrow.schema([("line", pyarrow.string())])
    rows = read(pipeline, folder) | beam.Map(lambda line: {"line": line})
    _ = rows | beam.io.WriteToParquet(f"{folder}/out/rows", schema, num_shards=2)


def files(pipeline, folder):
    written = read(pipeline, folder) | fileio.WriteToFiles(
        f"{folder}/out",
        destination=lambda line: line[-2:].strip(),
        sink=lambda _: fileio.TextSink(),
        file_naming=fileio.destination_prefix_naming(".txt"),
        max_writers_per_bundle=2,
        shards=1,
    )
    _ = written | beam.Map(lambda result: result.file_name) | beam.io.WriteToText(f"{folder}/out/names", num_shards=1)


class FixedSize(RandomScheduler):
    """Random orders, but epochs of one size, so that they are the same in each life."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        return 16


def life(build: Callable[[beam.Pipeline, Path], object], folder: Path, scheduler: RandomScheduler) -> bool:
    """One life of a program with a checkpoint; whether it lived to the end."""
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    build(pipeline, folder)
    options = PipelineOptions([], pipeline_type_check=False, checkpoint=f"{folder}/checkpoint")
    translated = Pipeline("LocalRunner", options=options)
    Translation(translated, RULES).translate(pipeline.transforms_stack[0])
    runner = LocalRunner(scheduler=scheduler, intervals=3, parallelism=2)
    try:
        runner.run_topology(translated.topology(), RunOptions(checkpoint=f"{folder}/checkpoint"))
    except Crash:
        return False
    return True


def prepared(folder: Path) -> Path:
    folder.mkdir()
    for number in range(4):
        (folder / f"in-{number}.txt").write_text("".join(f"{line}\n" for line in LINES[number::4]))
    return folder


def lines_of(path: Path) -> list[str]:
    if path.name.startswith("rows"):
        return [str(line) for line in pyarrow.parquet.read_table(path)["line"].to_pylist()]
    return path.read_text().replace(f"{path.parent.parent}/", "").splitlines()


def contents(folder: Path) -> tuple[list[str], list[str]]:
    """Names of everything in the folder of outputs (but what is drawn at random in a name), and all lines."""
    files = sorted(path for path in (folder / "out").rglob("*"))
    lines = [line for path in files if path.is_file() for line in lines_of(path)]
    hidden = r"-[0-9]{30,}$"
    return [re.sub(hidden, "-unique", path.name) for path in files], sorted(re.sub(hidden, "", line) for line in lines)


@pytest.mark.parametrize("build", [text, shards, parquet, files], ids=lambda build: build.__name__)
def test_crash_at_steps_all_along(tmp_path, build):
    reference, scheduler = prepared(tmp_path / "reference"), FixedSize(0)
    assert life(build, reference, scheduler)
    expected = contents(reference)
    assert len(expected[1]) >= len(LINES)
    for step in range(3, scheduler.steps + 1, 1):
        folder = prepared(tmp_path / f"at-{step}")
        assert not life(build, folder, FixedSize(step, crash_at=step)), "the fault did not fire"
        assert life(build, folder, FixedSize(step + 1))
        assert contents(folder) == expected, f"crash at step {step} of {scheduler.steps}"
