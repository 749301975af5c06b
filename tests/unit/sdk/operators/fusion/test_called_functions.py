"""Functions of the user's in a loop are called as if nobody had written the loop: nothing in them can tell."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest

import headrace as beam
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Single
from tests.properties.functions.test_vectorized_stage import anything, run, stage_of

FACTOR = 3
v = 5
"""A name that loops use themselves."""


def stage(*steps):
    pipeline = beam.Pipeline("LocalRunner", argv=["--no_pipeline_type_check"])
    collection = pipeline | "In" >> anything()
    for number, step in enumerate(steps):
        collection = collection | f"Step {number}" >> step
    collection | beam.Reshuffle()
    return stage_of(pipeline, "In")


def ran(values, *steps):
    return run(stage(*steps), [Batch(values, [0] * len(values))])


def results(values, *steps):
    seen = ran(values, *steps)
    assert seen.error is None
    return [row[0] for rows in seen.streams.values() for row in rows]


def caller():
    return sys._getframe(1).f_code.co_name


def local_names():
    return sorted(sys._getframe(1).f_locals)


def warned(value):
    warnings.warn("old", DeprecationWarning, stacklevel=2)
    return value


def noted(value):
    with open(os.environ["NOTED"], "a") as file:
        file.write(f"{value}\n")
    return value


def kept(value):
    return value


def test_what_looks_at_its_caller_finds_the_function():
    assert results([1], beam.Map(lambda x: caller())) == ["'<lambda>'"]
    assert results([1], beam.Map(lambda elem: local_names())) == ["['elem']"]
    assert results([(1, 2)], beam.MapTuple(lambda a, b: local_names())) == ["['a', 'b']"]
    assert results([1], beam.Filter(lambda x: caller() == "<lambda>")) == ["1"]


def test_warnings_name_the_line_of_the_function():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        results([1], beam.Map(lambda x: warned(x)))
    assert [warning.filename for warning in told if warning.message.args == ("old",)] == [__file__]


def test_a_tuple_that_a_function_returns_is_one_object():
    assert results([1], beam.Map(lambda x: (x, [x])), beam.Map(lambda p: id(p) == id(kept(p)))) == ["True"]
    pairs = beam.Map(lambda x: ((x, x), 0)), beam.Map(lambda p: (p, p)), beam.Map(lambda q: (id(q[0]), id(q[1])))
    first, second = eval(results([1], *pairs)[0])
    assert first == second


def test_names_of_the_loop_are_not_those_of_the_function():
    assert results([1], beam.Map(lambda x: (x, v))) == ["(1, 5)"]


@pytest.mark.parametrize("of_columns", [False, True])
def test_a_profiler_and_a_debugger_that_come_later_see_every_call(of_columns):
    live = stage(beam.Map(lambda row: (row["number"], 1)))
    table = pa.RecordBatch.from_pydict({"number": [1, 2]})
    batch = ColumnBatch(table, np.zeros(2, np.int64), Fields(("number",), (Single(0),), FieldsKind.DICT))
    batch = batch if of_columns else Batch(batch.values, [0, 0])
    called = []

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_filename == __file__ and frame.f_code.co_name == "<lambda>":
            called.append(frame.f_locals.copy())

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        run(live, [batch])
    finally:
        sys.settrace(before)
    assert called == [{"row": {"number": 1}}, {"row": {"number": 2}}]


def test_a_function_that_fails_is_called_once(tmp_path, monkeypatch):
    path = tmp_path / "noted"
    monkeypatch.setenv("NOTED", str(path))
    seen = ran([4, 5], beam.Map(lambda x: 10 // (noted(x) - 5)))
    assert path.read_text().split() == ["4", "5"]
    assert seen.error.splitlines()[-1] == BY_ZERO


PENDING = {0: 0}
BY_ZERO = "ZeroDivisionError: integer division or modulo by zero"


def test_an_error_is_the_first_one():
    seen = ran([0], beam.Map(lambda x: 10 // PENDING.pop(x)))
    assert seen.error.splitlines()[-1] == BY_ZERO


def test_the_error_shows_the_function_and_its_line():
    seen = ran([1, None], beam.Map(lambda x: (x, FACTOR)), beam.Map(lambda p: p[0] + FACTOR))
    assert "step 'Step 1' raised at (None, 3)" in seen.error
    assert "lambda p: p[0] + FACTOR" in seen.error
    assert "in <lambda>" in seen.error
    assert "test_called_functions.py" in seen.error


MODULE = """
def learn(x):
    global later
    later = 7
    return x

def use(x):
    return x, later
"""
PROGRAM = """
import headrace as beam
import learning

with beam.Pipeline("LocalRunner") as pipeline:
    pairs = pipeline | beam.Create([1]) | beam.Map(lambda x: (x, 1))
    pairs | beam.Map(learning.learn) | beam.Map(learning.use) | beam.Map(print)
"""


def test_a_global_name_that_is_set_by_an_earlier_step_is_found(tmp_path):
    (tmp_path / "learning.py").write_text(MODULE)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=tmp_path)
    assert ran.stdout == "((1, 1), 7)\n", ran.stderr
