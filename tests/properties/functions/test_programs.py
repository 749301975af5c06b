"""Random programs give what their functions give when they are called, by every way that the engine has for them.

Functions are seen through and computed by column, called in the loop for elements that come one by one, and called as
`HEADRACE_CALL_FUNCTIONS=1` asks for. Values with exact types, errors, and how often side effects happen are the same.
A failure prints the seed and the program; HEADRACE_SEED repeats it.
"""

import os
import random

import numpy as np
import pytest

import headrace as beam
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.sdk.expressions.element_schema import shape_of_rows
from headrace.sdk.model.function_ast import CALLED
from tests.depth import examples
from tests.properties.functions.test_vectorized_stage import anything, stage_of
from tests.properties.programs import (
    NOTED,
    Outcome,
    branches_of,
    by_hand,
    cut,
    parquet_file,
    table_for,
    told,
    written,
)

QUICK, SOAK, BLOCKS = 400, 20_000, 4
ROWS = 12


def seeds(block):
    only = os.environ.get("HEADRACE_SEED")
    every = [int(only)] if only is not None else range(examples(QUICK, SOAK))
    return [seed for seed in every if seed % BLOCKS == block]


def stage_for(program, functions):
    pipeline = beam.Pipeline("LocalRunner", argv=["--no_pipeline_type_check"])
    collection = pipeline | "In" >> anything()
    for transform in program.transforms(functions):
        collection = collection | transform
    collection | beam.Reshuffle()
    return stage_of(pipeline, "In")


def run(stage, batches):
    """The outcome, and how many batches left the stage as columns."""
    NOTED.clear()
    outcome, by_column = Outcome(), []

    def emit(stream, batch):
        by_column.append(isinstance(batch, ColumnBatch))
        outcome.rows += [(told(value), time) for value, time in batch.rows()]

    stage.setup()
    try:
        stage.start_bundle()
        for batch in batches:
            stage.process_batch(next(iter(stage.plan.entries)), batch, emit)
        stage.finish_bundle(emit)
    except StepError as error:
        outcome.rows = []
        outcome.error = error.step.split(" ")[1], f"{error.value!r:.200}", last_lines(error.cause)
    stage.teardown()
    outcome.noted = list(NOTED)
    return outcome, sum(by_column)


def last_lines(cause):
    """Of a traceback: type and text of the error."""
    lines = cause.splitlines()
    return "\n".join(lines[max(place for place, line in enumerate(lines) if line.startswith(" ")) + 1 :])


def batches_for(seed, of_rows):
    rng = random.Random(-seed - 1)
    parts = cut(rng, table_for(rng, ROWS))
    shapes = [shape_of_rows(part, as_rows=of_rows) for part in parts]
    assert None not in shapes
    times = np.array([rng.randrange(-50, 50) * 1_000_000 for _ in range(ROWS)], np.int64)
    ends = np.cumsum([part.num_rows for part in parts])
    where = np.split(times, ends[:-1])
    return [ColumnBatch(part, its, shape) for part, its, shape in zip(parts, where, shapes, strict=True)]


def as_values(batches):
    return [Batch(ColumnBatch(each.table, each.times, each.shape).values, each.timestamps) for each in batches]


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_way_gives_what_calls_give(block, tmp_path, monkeypatch):
    by_column, failed, tried = 0, 0, seeds(block)
    for seed in tried:
        program = written(seed)
        functions = program.functions(tmp_path)
        columns = batches_for(seed, program.of_rows)
        values = as_values(columns)
        flat = [value for batch in values for value in batch.values]
        expected = by_hand(program, functions, flat, [time for batch in values for time in batch.timestamps])
        stage = stage_for(program, functions)
        found = {"columns": run(stage, columns), "values": run(stage, values)}
        with monkeypatch.context() as patch:
            patch.setenv(CALLED, "1")
            called = stage_for(program, functions)
        found |= {"called, columns": run(called, columns), "called, values": run(called, values)}
        for way, (outcome, _) in found.items():
            assert outcome == expected, f"{way} give something else than calls do, HEADRACE_SEED={seed}\n{program}"
        assert not found["called, values"][1]
        by_column += found["columns"][1] > 0
        failed += expected.error is not None
    if len(tried) > 50:
        # What is compared is not always the same way, and errors are among it.
        assert by_column > len(tried) / 8, by_column
        assert failed > len(tried) / 20, failed


@pytest.mark.parametrize("from_parquet", [False, True])
def test_whole_runs_give_what_calls_give(from_parquet, tmp_path):
    """Many programs in one pipeline, on the local runner."""
    path, values = parquet_file(tmp_path)
    options = ["--no_pipeline_type_check", "--max_records_per_epoch=11"]
    with beam.Pipeline("LocalRunner", argv=options) as pipeline:
        rows = pipeline | (beam.io.ReadFromParquet(path) if from_parquet else beam.Create(values))
        branches = branches_of(rows, range(examples(60, 400)), tmp_path, values)
    assert len(branches) > 15
    for branch in branches:
        branch.check()
