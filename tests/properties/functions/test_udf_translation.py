"""Functions that the engine sees through: on columns they give what calling them for each element gives."""

import math
import os
import subprocess
import sys
import warnings
from datetime import datetime
from functools import partial
from types import FunctionType, SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace import window
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import Timestamp
from headrace.sdk.compiler.compiler import execution_strategies
from headrace.sdk.expressions.arrow_evaluation import mask_of
from headrace.sdk.expressions.batch_view import BatchView, Unable
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Single, Tuple, shape_of_rows
from headrace.sdk.expressions.udf_translation import translate_function
from headrace.sdk.functions.arguments import bind
from headrace.sdk.model.function_ast import is_watched, tree_of
from headrace.sdk.model.special_outputs import TimestampedValue
from tests.arrow import with_column
from tests.depth import examples
from tests.properties.functions.test_vectorized_stage import anything, run, stage_of

NAMES = ("word", "number", "share", "list")


def documented(row):
    """What it does."""
    return row["number"] * 2, row["word"]


SHARED, LETTER = 3, "a"


def scaled(factor):
    return lambda row: (row["number"] * factor, LETTER)


OF_DICTS = [
    lambda row: row,
    lambda row: (row["word"], row["number"]),
    lambda row: (row["word"], (row["number"], None, -1, "x", 1.5, True)),
    lambda row: {"a": row["share"], "b": {"c": row.get("number")}, "d": row},
    lambda row: (row["list"], row["list"]),
    lambda row: (row, row),
    lambda row: row["missing"],
    lambda row: row.get("missing"),
    lambda row: row.number,
    lambda row: row["number"] + row["share"],
    lambda row: row["number"] // row["number"],
    lambda row: (row["number"] % 3, -row["number"], abs(row["number"]), row["number"] / 2),
    lambda row: row["number"] * 4611686018427387904,
    lambda row: (row["word"] == "a", row["number"] < row["share"], row["word"] is None, row["share"] is not None),
    lambda row: (not row["word"], not (row["number"] and row["share"])),
    lambda row: (row["word"].upper(), row["word"].startswith("a"), row["word"].replace("a", "bb"), len(row["word"])),
    lambda row: (int(row["share"]), str(row["number"]), float(row["number"])),
    lambda row: row["word"] + row["word"],
    lambda row: (1, "constant"),
    documented,
    lambda row: (row["number"] + SHARED, SHARED, row["word"] == LETTER),
    scaled(2),
    lambda row: (1 < row["number"] < 4 <= row["number"], row["number"] in (1, None, 4)),
    lambda row: row["word"] not in ["a", "B"],
    lambda row: (row["number"] if row["word"] else 0, 1 if row["share"] > 0.5 else -1),
    lambda row: row["number"] // row["number"] if row["number"] else row["number"],
    lambda row: row["word"].upper() if row["word"] is not None else "-",
]
OF_ROWS = [
    lambda row: (row.word, row.number),
    lambda row: row["word"],
    lambda row: row.number + 1,
    lambda row: row.missing,
]
OF_TUPLES = [
    lambda pair: pair[0],
    lambda pair: (pair[1], pair[0]),
    lambda pair: pair[4],
    lambda pair: pair[3],
    lambda pair: pair[1] > 3,
]
SPREAD = [lambda word, number, share, items: (number, word), lambda word, number: word, lambda word, *others: word]
TRUTHS = [
    lambda row: row["number"],
    lambda row: row["word"],
    lambda row: row["number"] > 2 and row["share"] < 0.5,
    lambda row: (row["word"] is not None and row["word"].startswith("a")) or not row["share"],
    lambda row: row["number"] != 3,
    lambda row: row["number"] if row["word"] is None else row["number"] - 4,
    lambda row: row["word"] in {"a", "ab"} or 0 < row["number"] <= 5,
]


@st.composite
def tables(draw):
    count = draw(st.integers(1, 5))
    several = partial(_several, draw, count)
    return pa.RecordBatch.from_pydict(
        {
            "word": pa.array(several(st.sampled_from(["a", "ab", "B", "", None])), pa.string()),
            "number": pa.array(several(st.one_of(st.integers(-3, 9), st.none())), pa.int64()),
            "share": pa.array(several(st.floats(allow_nan=False)), pa.float64()),
            "list": pa.array(several(st.lists(st.integers(0, 3), max_size=2)), pa.list_(pa.int64())),
        }
    )


def _several(draw, count, values):
    return draw(st.lists(values, min_size=count, max_size=count))


def seen(function, shape, table, spread=False, as_truth=False):
    """What is computed of columns; None where that cannot be."""
    through = translate_function(function, bind(function, (), {}, spread), spread, as_truth)
    view = BatchView(table, np.zeros(table.num_rows, np.int64), shape, lambda: (None, None))
    try:
        if as_truth:
            return mask_of(through.node(), view).to_pylist()
        return view.result(through.on_columns(view)).values
    except Unable:
        return None


def called(function, values):
    return [repr(function(value)) for value in values]


def check(function, shape, table, spread=False, as_truth=False):
    found = seen(function, shape, table, spread, as_truth)
    if found is not None:
        run = (lambda value: function(*value)) if spread else function
        if as_truth:
            run = lambda value: bool(function(value))  # noqa: E731 - one of three ways to call it
        assert list(map(repr, found)) == called(run, shape.values(table))
    return found is not None


SINGLES = tuple(map(Single, range(4)))


@given(table=tables())
def test_what_is_seen_of_dicts_is_what_calls_give(table):
    for function in OF_DICTS:
        check(function, Fields(NAMES, SINGLES, FieldsKind.DICT), table)


@given(table=tables())
def test_what_is_seen_of_rows_and_tuples_is_what_calls_give(table):
    for function in OF_ROWS:
        check(function, Fields(NAMES, SINGLES, FieldsKind.ROW), table)
    for kind in (Tuple(SINGLES), Fields(NAMES, SINGLES, FieldsKind.TUPLE, "Line")):
        for function in OF_TUPLES:
            check(function, kind, table)
        for function in SPREAD:
            if translate_function(function, bind(function, (), {}, True), True) is not None:
                check(function, kind, table, spread=True)


@given(table=tables())
def test_what_is_seen_of_conditions_is_their_truth(table):
    for function in TRUTHS:
        check(function, Fields(NAMES, SINGLES, FieldsKind.DICT), table, as_truth=True)


TABLE = pa.RecordBatch.from_pydict({"word": ["a"], "number": [4], "share": [0.25], "list": [[1]]})


def test_most_of_these_are_computed_by_column():
    dicts = Fields(NAMES, SINGLES, FieldsKind.DICT)
    by_column = [check(function, dicts, TABLE) for function in OF_DICTS]
    # The same list or dict twice, no such column (two ways), attributes of a dict, more than 64 bits.
    assert [place for place, is_so in enumerate(by_column) if not is_so] == [4, 5, 6, 7, 8, 12]
    assert all(check(function, dicts, TABLE, as_truth=True) for function in TRUTHS)
    assert check(SPREAD[0], Tuple(SINGLES), TABLE, spread=True)
    assert not check(SPREAD[1], Tuple(SINGLES), TABLE, spread=True)


def hidden(int):
    return int["number"]


counted_up = 0
outer = {"number": 1}


def count_up():
    global counted_up
    counted_up += 1


NOT_SEEN = [
    lambda row: print(row["word"]),
    lambda row: row["number"] + counted_up,
    lambda row: outer["number"],
    lambda row: row[-1],
    lambda row: row["word"] in (LETTER, "b"),
    lambda row: LETTER in row["word"],
    lambda row: row["word"] and row["number"],
    lambda row: [row["word"]],
    lambda row: {**row},
    lambda row: f"{row['word']}",
    lambda row, factor=2: row["number"] * factor,
    lambda row: hidden(row),
    lambda row: row.__word,
    lambda row: (yield row["word"]),
    lambda row: math.floor(row["share"]),
    lambda row: (lambda int: int(row["number"]))(str),
    len,
    partial(hidden),
]


@pytest.mark.parametrize("number", range(len(NOT_SEEN)))
def test_what_does_more_is_called(number):
    function = NOT_SEEN[number]
    assert translate_function(function, bind(function, (), {})) is None


def test_only_a_source_that_compiles_to_the_function_is_trusted(tmp_path):
    source = tmp_path / "told.py"
    source.write_text("chosen = lambda row: row['number']\n")
    scope = {}
    exec(compile("chosen = lambda row: row['word']\n", str(source), "exec"), scope)
    assert tree_of(scope["chosen"]) is None
    exec(compile(source.read_text(), str(source), "exec"), scope)
    assert tree_of(scope["chosen"]) is not None


def test_lambdas_of_one_line_are_told_apart():
    first, second = (lambda row: row["number"]), (lambda row: row["number"])
    assert tree_of(first).col_offset < tree_of(second).col_offset


def test_lambdas_inside_each_other_are_told_apart():
    outer = lambda: lambda row: lambda: row["word"]  # noqa: E731 - three on one line
    inner = outer()
    assert [tree_of(each).args.args != [] for each in (outer, inner, inner({}))] == [False, True, False]
    starts = [tree_of(each).col_offset for each in (outer, inner, inner({}))]
    assert starts == sorted(set(starts))


OF_ONE_LINE = """
import ast
from headrace.sdk.model.function_ast import tree_of

pair = (lambda row: row["a"], lambda row: row["b"])
other = (lambda row: row["a"], lambda line: line["b"])
inside = lambda row: (lambda row: row["b"])
alone = lambda row: row["a"]
for each in (*pair, *other, inside, inside({}), alone):
    tree = tree_of(each)
    print(tree and ast.unparse(tree))
"""


@pytest.mark.parametrize("without_columns", ["", "1"])
def test_without_columns_of_code_only_a_tree_that_is_the_only_one_is_trusted(tmp_path, without_columns):
    program = tmp_path / "program.py"
    program.write_text(OF_ONE_LINE)
    environment = {**os.environ, "PYTHONNODEBUGRANGES": without_columns}
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment)
    pair = ["lambda row: row['a']", "lambda row: row['b']"]
    inside = ["lambda row: lambda row: row['b']", "lambda row: row['b']"]
    told = [*pair, pair[0], "lambda line: line['b']", *inside, pair[0]]
    if without_columns:
        told = ["None", "None", *told[2:4], "None", "None", pair[0]]
    assert ran.stdout.splitlines() == told, ran.stderr


def of_source(tmp_path, source):
    path = tmp_path / "written.py"
    path.write_text(source, encoding="utf-8")
    scope = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, str(path), "exec"), scope)
    return scope["f"]


DEEP = {
    "sum": "row['number']" + " + 1" * 250,
    "not": "not " * 250 + "row['number']",
    "minus": "-" * 90 + "row['number']",
    "tuples": "(" * 70 + "row['number']" + ",)" * 70,
    "calls": "int(" * 70 + "row['number']" + ")" * 70,
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_too_deep_is_called(tmp_path, name):
    function = of_source(tmp_path, f"f = lambda row: {DEEP[name]}")
    assert translate_function(function, bind(function, (), {})) is None
    assert run_with([{"number": 3}], function) == [repr(function({"number": 3}))]


ODD = [
    "f'\u00a0{row}'",
    "f'{row}\U0001f468\u200d\U0001f469'",
    "f'{row!r:>{4}}\\n'",
    "f'{row[\"\u00a0\":]}'",
    "'\\ud800' + row",
    "b'a' + row",
    "row. number",
    "...",
]


@pytest.mark.parametrize("body", ODD)
def test_odd_sources_are_no_obstacle(tmp_path, body):
    function = of_source(tmp_path, f"f = lambda row: {body}")
    try:
        told = [repr(function("x"))]
    except (TypeError, AttributeError, UnicodeError):
        with pytest.raises(StepError):
            run_with(["x"], function)
    else:
        assert run_with(["x"], function) == told


def run_with(values, function):
    """Through a stage, as a pipeline would run it."""
    pipeline = beam.Pipeline("LocalRunner", argv=["--no_pipeline_type_check"])
    pipeline | "In" >> anything() | beam.Map(function) | beam.Reshuffle()
    found = run(stage_of(pipeline, "In"), [Batch(values, [0] * len(values))])
    if found.error is not None:
        raise StepError("Map", None, None, found.error)
    return [row[0] for rows in found.streams.values() for row in rows]


def test_nothing_is_said_of_a_source_that_was_not_said_when_it_was_loaded(tmp_path):
    function = of_source(tmp_path, "f = lambda row: row['a']\ng = 1 is 1\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tree_of(function) is not None


@pytest.mark.parametrize("other", [4, 3.0, True, None])
def test_constants_from_outside_are_looked_at_again(other):
    scope = dict(globals())
    function = FunctionType((lambda row: row["number"] + SHARED).__code__, scope)
    through = translate_function(function, bind(function, (), {}))
    # As after a way through a pickle, the same number is another object.
    scope["SHARED"] = int("3")
    assert through.is_still(function)
    scope["SHARED"] = other
    assert not through.is_still(function)


def test_variables_of_outer_functions_are_looked_at_again():
    factor = 2
    function = lambda row: row["number"] * factor  # noqa: E731 - its variable is assigned below
    through = translate_function(function, bind(function, (), {}))
    assert through.is_still(function)
    factor = 3
    assert not through.is_still(function)


def test_what_an_inner_function_assigns_is_no_constant():
    count = 1

    def up():
        nonlocal count
        count += 1

    function = lambda row: row["number"] * count  # noqa: E731 - one that is looked into
    up()
    assert translate_function(function, bind(function, (), {})) is None


STAMPS = [
    lambda row: window.TimestampedValue(row, row["number"]),
    lambda row: TimestampedValue((row["word"], 1), Timestamp(row["number"])),
    lambda row: TimestampedValue(row["word"], Timestamp(micros=row["number"] * 1000)),
    lambda row: TimestampedValue(row["word"], row["share"]),
    lambda row: TimestampedValue(row["word"], SHARED),
    lambda row: TimestampedValue(TimestampedValue(row["word"], 1), row["number"]),
]
"""The first four are computed by column where numbers are known; of the others some elements are, or none."""


def stamped_by_column(function, table):
    """Values and microseconds; None where columns cannot tell."""
    through = translate_function(function, bind(function, (), {}))
    if through is None:
        return None
    shape = Fields(NAMES, SINGLES, FieldsKind.DICT)
    view = BatchView(table, np.zeros(table.num_rows, np.int64), shape, lambda: (None, None))
    try:
        batch = view.result(through.on_columns(view))
    except Unable:
        return None
    return list(zip(map(repr, batch.values), batch.timestamps, strict=True))


@given(table=tables())
def test_event_times_by_column_are_those_of_calls(table):
    rows = Fields(NAMES, SINGLES, FieldsKind.DICT).values(table)
    for function in STAMPS:
        found = stamped_by_column(function, table)
        if found is not None:
            results = list(map(function, rows))
            assert found == [(repr(result.value), result.timestamp.micros) for result in results]


def test_which_event_times_are_computed_by_column():
    assert [stamped_by_column(function, TABLE) is not None for function in STAMPS] == [True] * 5 + [False]
    beyond = with_column(TABLE, "number", pa.array([1 << 62]))
    assert stamped_by_column(STAMPS[0], beyond) is None
    without = with_column(TABLE, "number", pa.array([None], pa.int64()))
    assert stamped_by_column(STAMPS[0], without) is None


ENDS = np.array([-7]), np.array([3])
MOMENTS = {
    "whole": pa.int64(),
    "fraction": pa.float64(),
    "half": pa.float32(),
    "flag": pa.bool_(),
    "at": pa.timestamp("us", "UTC"),
    "second": pa.timestamp("s", "UTC"),
    "nano": pa.timestamp("ns", "UTC"),
    "local": pa.timestamp("us"),
    "away": pa.timestamp("us", "Europe/Berlin"),
}
AT = {
    "as it is": lambda row: window.TimestampedValue((row["x"],), row["x"]),
    "Timestamp": lambda row: window.TimestampedValue((row["x"],), Timestamp(row["x"])),
    "of": lambda row: window.TimestampedValue((row["x"],), Timestamp.of(row["x"])),
    "from datetime": lambda row: window.TimestampedValue((row["x"],), Timestamp.from_utc_datetime(row["x"])),
    "seconds": lambda row: window.TimestampedValue((row["x"],), row["x"].timestamp()),
    "whole seconds": lambda row: window.TimestampedValue((row["x"],), int(row["x"].timestamp())),
    "micros": lambda row: window.TimestampedValue((row["x"],), Timestamp(micros=row["x"])),
}
BY_COLUMN = {
    *((way, name) for way in ("as it is", "of", "Timestamp") for name in ("whole", "fraction", "half")),
    *((way, name) for way in ("as it is", "of", "from datetime") for name in ("at", "second", "nano")),
    *((way, name) for way in ("seconds", "whole seconds") for name in ("at", "second")),
    ("micros", "whole"),
}


@pytest.mark.parametrize("way", AT)
@pytest.mark.parametrize("name", MOMENTS)
@settings(max_examples=examples(20, 1_000))
@given(st.lists(st.integers(-(10**9), 10**9) | st.sampled_from([10**13, None]), max_size=3), st.integers(1, 7))
def test_moments_by_column_are_those_of_calls(way, name, numbers, parts):
    """Numbers of a unit of the column's, or parts of them."""
    numbers = [None if number is None else bool(number) if name == "flag" else number / parts for number in numbers]
    kind = MOMENTS[name]
    whole = [number if name in ("fraction", "half", "flag") or number is None else int(number) for number in numbers]
    table = pa.RecordBatch.from_pydict({"x": pa.array(whole, kind)})
    found = _stamped(AT[way], table)
    if found is not None:
        rows = table.to_pylist()
        assert found == [(repr(made.value), made.timestamp.micros) for made in map(AT[way], rows)]


def test_which_moments_are_computed_by_column():
    found = {
        (way, name)
        for way in AT
        for name, kind in MOMENTS.items()
        if _stamped(AT[way], pa.RecordBatch.from_pydict({"x": pa.array([True if name == "flag" else 1], kind)}))
        is not None
    }
    assert found == BY_COLUMN


def test_bounds_of_windows_are_event_times():
    def stamped(row, within=beam.DoFn.WindowParam):
        return window.TimestampedValue(row["x"], within.end)

    assert _stamped(stamped, pa.RecordBatch.from_pydict({"x": [1]})) == [("1", 3)]


CALENDAR = {
    "date": lambda row: (row["x"].year, row["x"].month, row["x"].day),
    "week": lambda row: row["x"].weekday(),
    "its date": lambda row: row["x"].date(),
    "clock": lambda row: (row["x"].hour, row["x"].minute, row["x"].second),
    "more": lambda row: row["x"].microsecond,
}
DATES = {
    "day": (pa.date32(), {"date", "week"}),
    "local": (pa.timestamp("us"), {"date", "week", "its date", "clock"}),
    "at": (pa.timestamp("ms", "UTC"), {"date", "week", "its date", "clock"}),
    "nano": (pa.timestamp("ns"), {"date", "week", "its date", "clock"}),
    "away": (pa.timestamp("us", "Europe/Berlin"), set()),
    "clock": (pa.time64("us"), set()),
    "text": (pa.string(), set()),
}


@pytest.mark.parametrize("name", DATES)
@given(st.lists(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), min_size=1, max_size=3))
def test_parts_of_dates_by_column_are_those_of_calls(name, moments):
    kind, by_column = DATES[name]
    moments = [moment.replace(microsecond=0) for moment in moments]
    made = {"day": datetime.date, "clock": datetime.time, "text": str}.get(name, lambda moment: moment)
    table = pa.RecordBatch.from_pydict({"x": pa.array([*map(made, moments), made(moments[0])], kind)}).slice(1)
    for way, function in CALENDAR.items():
        through, shape = translate_function(function, bind(function, (), {})), shape_of_rows(table, as_rows=False)
        view = BatchView(table, np.zeros(table.num_rows, np.int64), shape, lambda: ENDS)
        if way in by_column:
            found = view.result(through.on_columns(view)).values
            assert repr(found) == repr(list(map(function, shape.values(table))))
        else:
            with pytest.raises(Unable):
                through.on_columns(view)


def test_none_has_no_parts():
    table = pa.RecordBatch.from_pydict({"x": pa.array([datetime(2024, 1, 1), None])})
    for function in CALENDAR.values():
        view = BatchView(table, np.zeros(2, np.int64), shape_of_rows(table, as_rows=False), lambda: ENDS)
        with pytest.raises(Unable):
            translate_function(function, bind(function, (), {})).on_columns(view)


def _stamped(function, table):
    through, shape = translate_function(function, bind(function, (), {})), shape_of_rows(table, as_rows=False)
    if through is None or shape is None:
        return None
    view = BatchView(table, np.zeros(table.num_rows, np.int64), shape, lambda: ENDS)
    try:
        batch = view.result(through.on_columns(view))
    except Unable:
        return None
    return list(zip(map(repr, batch.values), batch.timestamps, strict=True))


def test_another_class_of_the_same_name_is_called():
    scope = {**globals(), "TimestampedValue": lambda value, at: value}
    function = FunctionType(STAMPS[1].__code__, scope)
    assert translate_function(function, bind(function, (), {})) is None
    through = translate_function(STAMPS[1], bind(STAMPS[1], (), {}))
    assert through.is_still(STAMPS[1])
    assert not through.is_still(function)


def test_global_names_are_looked_at_again():
    scope = dict(globals())
    function = FunctionType(counted.__code__, scope)
    through = translate_function(function, bind(function, (), {}))
    assert through is not None
    assert through.is_still(function)
    scope["len"] = lambda text: -1
    assert not through.is_still(function)
    assert translate_function(function, bind(function, (), {})) is None


def counted(row):
    return len(row["word"])


@pytest.mark.parametrize(("tool", "watches"), [(0, True), (1, True), (2, False), (3, True), (5, False)])
def test_debuggers_and_coverage_of_later_pythons_want_functions_called(monkeypatch, tool, watches):
    # Python 3.12 has `sys.monitoring`; its tools are numbered from 0 to 5.
    ids = SimpleNamespace(PROFILER_ID=2, OPTIMIZER_ID=5, get_tool=lambda number: None)
    monkeypatch.setattr(sys, "monitoring", ids, raising=False)
    assert not is_watched()
    ids.get_tool = lambda number: "it" if number == tool else None
    assert is_watched() is watches


def test_functions_are_called_where_somebody_wants_that(monkeypatch):
    function = OF_DICTS[0]
    assert tree_of(function) is not None
    monkeypatch.setenv("HEADRACE_CALL_FUNCTIONS", "1")
    assert tree_of(function) is None


def test_a_test_under_coverage_can_take_the_path_of_production(monkeypatch, tmp_path):
    """The function is called under a tracer, or computed by columns there if the environment says so."""
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"number": [1, 2, 3]}), path)

    def translated():
        pipeline = beam.Pipeline("LocalRunner")
        rows = pipeline | beam.io.ReadFromParquet(str(path))
        _ = rows | "Twice" >> beam.Map(lambda row: 2 * row["number"]) | beam.combiners.Count.Globally()
        return all(strategy.obstacle is None for strategy in execution_strategies(pipeline) if strategy.step == "Twice")

    def under_coverage():
        before = sys.gettrace()
        sys.settrace(lambda *_: None)
        try:
            return translated()
        finally:
            sys.settrace(before)

    assert translated()
    assert not under_coverage()
    monkeypatch.setenv("HEADRACE_CALL_FUNCTIONS", "0")
    assert under_coverage()
