"""The benchmark's workloads as our pipelines compute them, beside the plain loop: equal to the last row."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

import headrace as beam
from benchmarks.dataset import datasets
from benchmarks.generator import Plan
from benchmarks.panes import LATE, PANE_COLUMNS, last_panes
from benchmarks.peers.headrace_inputs import Inputs
from benchmarks.peers.headrace_pipelines import PIPELINES
from benchmarks.peers.loop import LOOP
from benchmarks.result import canonical, difference
from benchmarks.workload import W4, Workload
from headrace.io import Write
from headrace.lowlevel import CallSink
from headrace.options.pipeline_options import PipelineOptions

EVENTS = 1_000
EPOCH = 100


def computed(workload: Workload, inputs_streamed: bool, checkpoint: Path) -> tuple[pa.Table, pa.Table]:
    """What the plain loop gives, and ours: in one epoch, or in many with a durable checkpoint."""
    options = {"max_records_per_epoch": EPOCH, "checkpoint": str(checkpoint)} if inputs_streamed else {}
    rows: list[tuple[object, ...]] = []
    with datasets(Plan(events=EVENTS, keys=20), [EVENTS]) as data:
        with beam.Pipeline("LocalRunner", options=PipelineOptions([], **options)) as pipeline:
            sink = CallSink(lambda epoch, each: rows.extend(cast("tuple[object, ...]", row) for row, _ in each))
            _ = PIPELINES[workload](Inputs(pipeline, data[EVENTS], inputs_streamed)) | Write(sink)
        expected = LOOP.runs[workload.name](data[EVENTS])
    return expected, pa.table(list(zip(*rows, strict=True)), schema=workload.schema)


@pytest.mark.parametrize("streamed", [False, True], ids=["bounded", "streamed"])
@pytest.mark.parametrize("workload", PIPELINES, ids=lambda workload: workload.name)
def test_pipelines_compute_what_the_plain_loop_does(workload: Workload, streamed: bool, tmp_path: Path) -> None:
    expected, ours = computed(workload, streamed, tmp_path)
    assert difference(workload, canonical(workload, expected), canonical(workload, ours)) is None
    if workload is W4 and streamed:
        assert LATE in ours["timing"].to_pylist()


@pytest.mark.parametrize(
    ("timings", "indexes", "sums", "problem"),
    [
        ([0, 1, 2], [0, 1, 3], [1, 2, 3], "not numbered"),
        ([0, 1, 1], [0, 1, 2], [1, 2, 3], "on time twice"),
        ([0, 2, 0], [0, 1, 2], [1, 2, 3], "on time twice, or of a time that was over"),
        ([0, 2, 2], [0, 1, 2], [1, 2, 3], "none on time"),
        ([0, 1, 2], [0, 1, 2], [1, 3, 2], "got smaller"),
    ],
)
def test_panes_that_cannot_be_are_refused(
    timings: list[int], indexes: list[int], sums: list[int], problem: str
) -> None:
    panes = pa.table([["a"] * 3, [0] * 3, timings, indexes, sums], names=PANE_COLUMNS)
    with pytest.raises(ValueError, match=problem):
        last_panes(panes)
