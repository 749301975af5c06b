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
from pyspark.sql import SparkSession

from headrace.lowlevel import CallSink, ManualInjector, StepError, Topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.rules import RULES
from headrace.runners.beam.translation import Translation
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner
from headrace.runners.spark import SparkRunner
from headrace.sdk.pipeline.pipeline import Pipeline
from headrace.sdk.transforms.core.stable_input import HoldUntilCommit
from tests.depth import faults
from tests.restarts import LINES, FixedSize, prepared
from tests.schedulers import RandomScheduler


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


def topology(build: Callable[[beam.Pipeline, Path], object], folder: Path) -> Topology:
    """A program of Beam's, compiled for its checkpoint."""
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    build(pipeline, folder)
    options = PipelineOptions([], pipeline_type_check=False, checkpoint=f"{folder}/checkpoint")
    translated = Pipeline("LocalRunner", options=options)
    Translation(translated, RULES).translate(pipeline.transforms_stack[0])
    return translated.topology()


def life(build: Callable[[beam.Pipeline, Path], object], folder: Path, scheduler: RandomScheduler) -> bool:
    """One life of a program with a checkpoint; whether it lived to the end."""
    runner = LocalRunner(scheduler=scheduler, intervals=3, parallelism=2)
    try:
        runner.run_topology(topology(build, folder), RunOptions(checkpoint=f"{folder}/checkpoint"))
    except Crash:
        return False
    return True


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


PROGRAMS = [text, shards, parquet, files]


@pytest.mark.faults
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_crash_at_steps_all_along(tmp_path: Path, build: Callable[..., object]) -> None:
    reference, scheduler = prepared(tmp_path / "reference"), FixedSize(0)
    assert life(build, reference, scheduler)
    expected = contents(reference)
    assert len(expected[1]) >= len(LINES)
    # The last steps of a run are those in which files get their names.
    early, late = (
        range(2, scheduler.steps, scheduler.steps // faults(3, 12)),
        range(scheduler.steps - 12, scheduler.steps + 1, 3),
    )
    steps, crashes = sorted({*early, *late}), 0
    for step in steps:
        folder = prepared(tmp_path / f"at-{step}")
        # Parts of names are drawn at random, so that one run has a few more steps than another.
        if not life(build, folder, FixedSize(step, crash_at=step)):
            crashes += 1
            assert life(build, folder, FixedSize(step + 1))
        assert contents(folder) == expected, f"crash at step {step} of {scheduler.steps}"
    assert crashes >= len(steps) - 4, "faults did not fire"


def fails_where_told(window, pane, index, count, compression, destination):
    if destination != "first" and Path(destination, "broken").exists():
        raise OSError("no name")
    return f"{Path(destination).name}-{index}-of-{count}"


@pytest.mark.spark
def test_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    """A life that ends with an error while files get their names, and another one on its checkpoint."""

    def build(pipeline, folder):
        lines = read(pipeline, folder)
        _ = lines | beam.io.WriteToText(f"{folder}/out/text", num_shards=2)
        _ = lines | fileio.WriteToFiles(
            f"{folder}/out",
            fails_where_told,
            destination=lambda line: f"{folder}" if line.endswith("XX") else "first",
        )

    folder = prepared(tmp_path / "program")
    runner, options = SparkRunner(spark, intervals=2), RunOptions(checkpoint=f"{folder}/checkpoint")
    (folder / "broken").touch()
    with pytest.raises(StepError, match="no name"):
        runner.run_topology(topology(build, folder), options)
    (folder / "broken").unlink()
    runner.run_topology(topology(build, folder), options)
    names, lines = contents(folder)
    assert lines == sorted(2 * [line.upper() for line in LINES])
    assert not [name for name in names if not name.startswith(("text-0000", "first-", "program-"))]


def test_stable_input_comes_when_the_epoch_is_committed() -> None:
    steps = ManualInjector()
    steps.clock(1).records(("a", 5)).clock(2).records(("b", 3), ("c", 7)).watermark(10).clock(3)
    made, delivered = Topology(), []
    made.injector("in", steps)
    made.computation("held", HoldUntilCommit("out"), {"in": lambda value: ""}, ["out"])
    made.sink("told", "out", CallSink(lambda epoch, rows: delivered.append((epoch, sorted(rows)))))
    LocalRunner().run_topology(made)
    # Epoch 2 brings the first record, epoch 4 the others. The clock moves in epochs 3 and 6, and no earlier.
    assert [each for each in delivered if each[1]] == [(3, [("a", 5)]), (6, [("b", 3), ("c", 7)])]
