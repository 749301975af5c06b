"""What `benchmarks.against` starts in each tree: a line of JSON in, seconds and what stands for the result out.

It is given to Python by its path, so that a commit that does not have it runs it too, with its own packages.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa

# The program's own folder is this file's, which would be found before the tree that is to run.
sys.path.pop(0)

import headrace as beam
from benchmarks.dataset import FILE_EVENTS, Dataset
from benchmarks.peers import headrace as peer
from benchmarks.peers.headrace_inputs import Inputs
from benchmarks.peers.registry import OURS
from benchmarks.session import start_own_session
from benchmarks.tiny_epoch import TinyEpochs
from benchmarks.workload import WORKLOADS
from headrace.options.pipeline_options import PipelineOptions

_epochs: list[TinyEpochs] = []


def _digest(rows: list[str]) -> str:
    return f"{len(rows)} rows, {blake2b(chr(10).join(sorted(rows)).encode(), digest_size=8).hexdigest()}"


def _files(workload: str, dataset: Dataset) -> Callable[[], str]:
    """The workload streamed, each epoch's results written as lines of text."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        options = {"max_records_per_epoch": FILE_EVENTS, "checkpoint": f"{folder}/checkpoint"}
        with beam.Pipeline("SparkRunner", options=PipelineOptions([], **options)) as pipeline:
            results = peer._BUILDS[WORKLOADS[workload]](Inputs(pipeline, dataset, True))
            _ = results | beam.io.WriteToText(f"{folder}/out/part", file_name_suffix=".txt", windowed_writes=False)
        lines = [line for file in Path(folder, "out").glob("*.txt") for line in file.read_text().splitlines()]
    return lambda: _digest(lines)


def _floor(steps: int) -> Callable[[], str]:
    if not _epochs:
        _epochs.append(TinyEpochs("floor"))
    for _ in range(steps):
        _epochs[0].step()
    return lambda: "epochs"


def _throughput(workload: str, kind: str, dataset: Dataset) -> Callable[[], str]:
    found = next(each for each in OURS if each.name == f"Headrace {kind}")
    result = found.runs[workload](dataset)
    # Earlier commits give a table in any case, which takes time; so both do.
    table = result if isinstance(result, pa.Table) else _table(result)
    # Which panes there are, and when, depends on bundles alone.
    return lambda: _digest([str(tuple(row.values())) for row in table.to_pylist()])


def _table(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = list(map(pa.array, zip(*rows, strict=True)))
    return pa.table(columns, names=list(map(str, range(len(columns)))))


def _run(job: dict[str, str]) -> tuple[float, str]:
    dataset = pickle.loads(base64.b64decode(job["data"]))
    began = time.perf_counter()
    if job["kind"] == "floor":
        told = _floor(int(job["steps"]))
    elif job["kind"] == "files":
        told = _files(job["workload"], dataset)
    else:
        told = _throughput(job["workload"], job["kind"], dataset)
    return time.perf_counter() - began, told()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start_own_session()
    for line in sys.stdin:
        answers.write(json.dumps(_run(json.loads(line))) + "\n")
        answers.flush()
