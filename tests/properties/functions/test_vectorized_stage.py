"""A stage does with columns what it does with elements: the same elements, times, windows and counts."""

import typing
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace import Row, col
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.metric import Collector
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.sdk.compiler.compiler import compile_pipeline
from headrace.sdk.expressions import arrow_evaluation
from headrace.sdk.expressions.batch_view import filtered
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Fired, Single, Tuple, pair, pane_codes
from headrace.sdk.model.panes import PaneInfoTiming, pane_info
from headrace.sdk.operators.fusion import vectorized_stage
from headrace.transforms import trigger, window

NAMES = ("word", "number", "share")


def anything():
    return beam.Create([]).with_output_types(typing.Any)


def unseen(element):
    return None


def plain_row(row):
    return Row.of({**vars(row), "number": row.number + 1})


STEPS = {
    "many": lambda: beam.Filter(col.number > 2),
    "some": lambda: beam.Filter(col.word.is_not_null() & col.word.startswith("a")),
    "failing": lambda: beam.Filter(col.word.length() > 0),
    "doubled": lambda: beam.Select("word", "share", number=col.number * 2),
    "windowed": lambda: beam.Select("word", "share", number=beam.window_start().cast(int) + col.number),
    "stamped": lambda: beam.Select("word", "share", number=beam.event_time().cast(int) % 7),
    "by hand": lambda: beam.Map(plain_row),
    "picked by hand": lambda: beam.Filter(lambda row: row.number % 2),
    "seen through": lambda: beam.Filter(lambda row: row.number > 2 and row.word is not None),
    "fixed": lambda: beam.WindowInto(window.FixedWindows(10)),
    "sliding": lambda: beam.WindowInto(window.SlidingWindows(10, 5)),
    "sessions": lambda: beam.WindowInto(window.Sessions(3)),
    "counted": lambda: beam.WindowInto(
        window.FixedWindows(5),
        trigger=trigger.Repeatedly(trigger.AfterCount(2)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    ),
    "there and back": lambda: beam.WithKeys(col.word) | beam.KvSwap() | beam.Keys(),
}


def timed(row, where=beam.DoFn.WindowParam, at=beam.DoFn.TimestampParam):
    return row.word, (where.start, where.end.micros, at.micros)


def of_pane(pair, where=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return pair[0], where.start.micros, int(pane.timing), pane.index, pair[1] + 1


ENDS = {
    "seen through": lambda: beam.Map(timed) | beam.GroupByKey(),
    "bare": lambda: beam.Map(col.number + 1),
    "keyed": lambda: beam.WithKeys("word") | beam.GroupByKey(),
    "by field": lambda: beam.WithKeys(col.word) | beam.GroupByKey(),
    "by fields": lambda: beam.GroupBy("word", half=col.number // 2),
    "aggregated": lambda: beam.GroupBy("word").aggregate_field(col.number + 1, sum, "total"),
    "counted": lambda: beam.combiners.Count.PerElement(),
    "counted in all": lambda: beam.combiners.Count.Globally().without_defaults(),
    "no pairs": lambda: beam.GroupByKey(),
    "by hand": lambda: beam.Map(plain_row),
    "failing": lambda: beam.Filter(col.word.length() > 0),
    "flattened": None,
}


@dataclass
class Seen:
    """What came out of a stage."""

    streams: dict = field(default_factory=dict)
    counts: dict = field(default_factory=dict)
    columns: set = field(default_factory=set)
    error: str | None = None

    def emit(self, stream, batch):
        if isinstance(batch, ColumnBatch):
            self.columns.add(stream)
        rows = [(repr(value), type(value), timestamp) for value, timestamp in batch.rows()]
        self.streams.setdefault(stream, []).extend(rows)

    def same(self, other):
        if self.error or other.error:
            return bool(self.error and other.error)
        mine, theirs = ({name: rows for name, rows in each.streams.items() if rows} for each in (self, other))
        return mine == theirs and self.taken() == other.taken()

    def taken(self):
        """The counts, however the elements were taken: as many as came."""
        return {step: _whatever_the_way(counts) for step, counts in self.counts.items()}


def _whatever_the_way(counts):
    counts = dict(counts)
    ways = [counts.pop(name, 0) for name in ("by_column", "one_by_one")]
    assert sum(ways) in (0, counts.get("records_in", 0))
    return counts


def run(stage, batches):
    seen = Seen()
    stage.setup()
    with Collector(0) as collector:
        try:
            stage.start_bundle()
            for batch in batches:
                stage.process_batch(next(iter(stage.plan.entries)), batch, seen.emit)
            stage.finish_bundle(seen.emit)
        except StepError as error:
            seen.error = str(error)
    stage.teardown()
    seen.counts = {
        step: {metric.name: cell.total for metric, cell in cells.items()} for step, cells in collector.cells.items()
    }
    return seen


def stage_of(pipeline, begin):
    return next(
        inline.computation for name, inline in compile_pipeline(pipeline).inlines.items() if begin in inline.inputs
    )


def end(collection, name):
    if name == "flattened":
        return (collection, collection | "Few" >> beam.Filter(col.number > 3)) | beam.Flatten() | beam.Map(unseen)
    return collection | name >> ENDS[name]() | f"{name} out" >> beam.Map(unseen)


@st.composite
def plans(draw):
    return draw(st.lists(st.sampled_from(list(STEPS)), max_size=4)), draw(
        st.lists(st.sampled_from(list(ENDS)), min_size=1, max_size=3, unique=True)
    )


def _several(draw, count, values):
    return draw(st.lists(values, min_size=count, max_size=count))


@st.composite
def batches(draw):
    made = []
    for _ in range(draw(st.integers(1, 2))):
        count = draw(st.integers(1, 5))
        several = partial(_several, draw, count)
        table = pa.RecordBatch.from_pydict(
            {
                "word": pa.array(several(st.sampled_from(["a", "ab", "b", None])), pa.string()),
                "number": pa.array(several(st.integers(-3, 9)), pa.int64()),
                "share": pa.array(several(st.floats(0, 1)), pa.float64()),
            }
        )
        made.append((table, np.array(several(st.integers(-30, 30)), np.int64) * 1_000_000))
    return made


def fields(kind):
    return Fields(NAMES, tuple(map(Single, range(3))), kind, "Words")


@given(plans(), batches())
def test_a_stage_does_the_same_with_columns(plan, made):
    steps, ends = plan
    pipeline = beam.Pipeline("LocalRunner", argv=["--no_pipeline_type_check"])
    collection = pipeline | "In" >> anything()
    for number, name in enumerate(steps):
        collection = collection | f"{name} {number}" >> STEPS[name]()
    for name in ends:
        end(collection, name)
    stage = stage_of(pipeline, "In")
    columns = [ColumnBatch(table, times, fields(FieldsKind.ROW)) for table, times in made]
    values = [Batch(batch.values, batch.timestamps) for batch in columns]
    one_by_one = run(stage, values)
    assert run(stage, columns).same(one_by_one)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectorized_stage, "_FEW", 1)
        assert run(stage, values).same(one_by_one)


def counting(elements, function, few=1):
    """What comes out of a step over Python values, and how many of them it took by column."""
    pipeline = beam.Pipeline("LocalRunner", argv=["--no_pipeline_type_check"])
    pipeline | "In" >> anything() | "Step" >> function | beam.Reshuffle()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectorized_stage, "_FEW", few)
        seen = run(stage_of(pipeline, "In"), [Batch(each, [0] * len(each)) for each in elements])
    return [row[:2] for rows in seen.streams.values() for row in rows], seen.counts["Step"].get("by_column", 0)


def test_python_values_of_one_type_become_columns():
    step = beam.Map(lambda row: (row["a"], row["b"] + 1))
    rows = [{"a": "x", "b": number} for number in range(10)]
    assert counting([rows], step) == (counting([rows], step, 100)[0], 10)
    others = [{"a": "x", "b": 1 << 80}]
    # After a batch that is no columns the next two are not tried.
    assert counting([rows, others, rows, rows, rows], step)[1] == 20
    assert counting([rows], beam.Map(unseen))[1] == 0
    assert counting([rows], beam.FlatMap(lambda row: [row["b"]]))[1] == 0


def test_a_filter_passes_the_same_objects_on():
    rows = [Row(word="a", number=number, share=0.5) for number in range(3)]
    table = pa.RecordBatch.from_pydict({"word": ["a"] * 3, "number": [0, 1, 2], "share": [0.5] * 3})
    batch = ColumnBatch(table, np.zeros(3, np.int64), fields(FieldsKind.ROW), rows)
    assert list(map(id, filtered(batch, pa.array([False, True, True])).values)) == list(map(id, rows[1:]))


PANE = pane_info(True, True, PaneInfoTiming.ON_TIME, 0, 0)
BEHIND = {
    "selected": lambda: beam.MapTuple(lambda key, total: Row(word=key, number=total, share=0.5)),
    "kept": lambda: beam.Filter(lambda pair: pair[1] > 0),
    "keys": lambda: beam.Keys(),
    "values": lambda: beam.Values(),
    "windowed": lambda: beam.WindowInto(window.FixedWindows(20)) | beam.KvSwap(),
    "of panes": lambda: beam.Map(of_pane),
    "in windows": lambda: beam.Map(lambda pair, where=beam.DoFn.WindowParam: (pair, where)),
}


@given(st.lists(st.sampled_from(list(BEHIND)), min_size=1, max_size=3, unique=True), batches(), st.booleans())
def test_a_stage_behind_a_grouping_does_the_same_with_columns(names, made, in_global):
    pipeline = beam.Pipeline("LocalRunner")
    windows = window.GlobalWindows() if in_global else window.FixedWindows(10)
    windowed = pipeline | anything() | beam.WindowInto(windows)
    totals = windowed | "Sum" >> beam.CombinePerKey(sum)
    for name in names:
        behind = totals | name >> BEHIND[name]()
        if name == "windowed":
            behind | beam.GroupByKey() | "out" >> beam.Map(unseen)
    stage = stage_of(pipeline, "Sum")
    columns = []
    for table, times in made:
        starts = times // 10_000_000 * 10_000_000
        more = [*table.columns, pa.array(starts), pa.array(starts + 10_000_000)]
        wide = pa.RecordBatch.from_arrays(more, [*NAMES, "start", "end"])
        shape = Fired(pair(Single(0), Single(1)), 3, 4, PANE, in_global)
        columns.append(ColumnBatch(wide, starts + 9_999_999, shape))
    assert run(stage, columns).same(run(stage, [Batch(batch.values, batch.timestamps) for batch in columns]))


TABLE = pa.RecordBatch.from_pydict({"word": ["a", "b"], "number": [3, 4], "share": [0.5, 1.0]})
TIMES = np.array([1_000_000, 12_000_000])


@pytest.mark.parametrize("kind", FieldsKind)
def test_columns_stay_columns_up_to_the_grouping(kind):
    pipeline = beam.Pipeline("LocalRunner")
    rows = pipeline | "In" >> anything()
    late = rows | beam.Filter(col.number > 3) | beam.WindowInto(window.FixedWindows(10))
    late | beam.Select("word", hour=beam.window_start(), half=col.number / 2) | beam.GroupBy("word", "hour")
    late | beam.GroupBy("word").aggregate_field("number", sum, "total")
    stage = stage_of(pipeline, "In")
    seen = run(stage, [ColumnBatch(TABLE, TIMES, fields(kind))])
    assert len(seen.columns) == 2
    assert seen.columns == set(seen.streams)
    assert {why for _, why in stage.paths()} == {None}


def test_a_reader_beside_python_code_takes_columns():
    pipeline = beam.Pipeline("LocalRunner")
    rows = pipeline | "In" >> anything()
    rows | "Hand" >> beam.Map(plain_row) | "A" >> beam.WithKeys(col.word) | "B" >> beam.GroupByKey()
    rows | "Column" >> beam.WithKeys(col.word) | "C" >> beam.GroupByKey()
    stage = stage_of(pipeline, "In")
    columns = ColumnBatch(TABLE, TIMES, fields(FieldsKind.ROW))
    seen = run(stage, [columns])
    assert seen.columns == {"C#in"}
    assert seen.same(run(stage, [Batch(columns.values, columns.timestamps)]))


def test_results_of_groupings_stay_columns():
    pipeline = beam.Pipeline("LocalRunner")
    totals = pipeline | anything() | beam.WindowInto(window.FixedWindows(10)) | "Sum" >> beam.CombinePerKey(sum)
    totals | beam.KvSwap() | "Longer" >> beam.WindowInto(window.FixedWindows(20)) | beam.GroupByKey()
    stage = stage_of(pipeline, "Sum")
    table = pa.RecordBatch.from_pydict({"key": ["a"], "total": [5], "start": [0], "end": [10_000_000]})
    seen = run(stage, [ColumnBatch(table, TIMES[:1], Fired(pair(Single(0), Single(1)), 2, 3, PANE))])
    assert seen.columns == {"GroupByKey#in"}
    assert [row[0] for row in seen.streams["GroupByKey#in"]] == ["(5, 'a')"]


def test_panes_stay_columns():
    """Those of a window with several; what a step looks at of them is the same one by one."""
    pipeline = beam.Pipeline("LocalRunner")
    rows = pipeline | "In" >> anything() | beam.WindowInto(window.FixedWindows(10))
    totals = rows | beam.GroupBy("word").aggregate_field("number", sum, "total")
    selected = totals | beam.Select("word", "total", at=beam.pane_index(), when=beam.pane_timing())
    selected | "All" >> beam.WindowInto(window.GlobalWindows()) | "Again" >> beam.GroupBy("word")
    stage = stage_of(pipeline, "GroupBy(word)/Combine")
    panes = pane_codes(*np.array([[0, 7], [-1, 2], [0, 2]]), np.array([False, True]))
    more = {"start": [0, 0], "end": [10_000_000] * 2, "pane": panes}
    table = pa.RecordBatch.from_pydict({"key": ["a", "b"], "total": [5, 6], **more})
    key = Fields(("word",), (Single(0),), FieldsKind.TUPLE, "Key")
    columns = ColumnBatch(table, TIMES, Fired(pair(key, Tuple((Single(1),))), 2, 3, 4))
    seen = run(stage, [columns])
    (stream,) = seen.columns
    assert "Row(word='b', total=6, at=7, when=2)" in seen.streams[stream][1][0]
    assert seen.same(run(stage, [Batch(columns.values, columns.timestamps)]))


def test_what_functions_take_of_panes_stays_columns():
    pipeline = beam.Pipeline("LocalRunner")
    totals = pipeline | anything() | beam.WindowInto(window.FixedWindows(10)) | "Sum" >> beam.CombinePerKey(sum)
    totals | "Pane" >> beam.Map(of_pane) | "All" >> beam.WindowInto(window.GlobalWindows()) | beam.Reshuffle()
    stage = stage_of(pipeline, "Sum")
    panes = pane_codes(*np.array([[0, 7], [-1, 2], [0, 2]]), np.array([False, True]))
    more = {"start": [0, 0], "end": [10_000_000] * 2, "pane": panes}
    table = pa.RecordBatch.from_pydict({"key": ["a", "b"], "total": [5, 6], **more})
    columns = ColumnBatch(table, TIMES, Fired(pair(Single(0), Single(1)), 2, 3, 4))
    seen = run(stage, [columns])
    (stream,) = seen.columns
    assert seen.streams[stream][1][0] == "('b', 0, 2, 7, 7)"
    assert seen.same(run(stage, [Batch(columns.values, columns.timestamps)]))


def test_results_of_aggregations_stay_columns():
    pipeline = beam.Pipeline("LocalRunner")
    rows = pipeline | "In" >> anything() | beam.WindowInto(window.FixedWindows(10))
    totals = rows | beam.GroupBy("word").aggregate_field("number", sum, "total")
    selected = totals | beam.Select("total", "word", start=beam.window_start())
    selected | "All" >> beam.WindowInto(window.GlobalWindows()) | "Again" >> beam.GroupBy("word")
    stage = stage_of(pipeline, "GroupBy(word)/Combine")
    table = pa.RecordBatch.from_pydict({"key": ["a"], "total": [5], "start": [0], "end": [10_000_000]})
    key = Fields(("word",), (Single(0),), FieldsKind.TUPLE, "Key")
    seen = run(stage, [ColumnBatch(table, TIMES[:1], Fired(pair(key, Tuple((Single(1),))), 2, 3, PANE))])
    (stream,) = seen.columns
    assert [row[0] for row in seen.streams[stream]] == ["('a', Row(total=5, word='a', start=Timestamp(0)))"]


def test_the_way_of_each_step_is_told():
    pipeline = beam.Pipeline("LocalRunner")
    rows = pipeline | "In" >> anything()
    kept = rows | "Keep" >> beam.Filter(col.number > 3)
    kept | "Double" >> beam.Map(plain_row) | "After" >> beam.Map(col.number)
    kept | "Beside" >> beam.Map(col.number)
    told = dict(stage_of(pipeline, "In").paths())
    assert told["Keep"] is None
    assert told["Double"] is not None
    assert told["Double"].startswith("plain_row is called for each, as ")
    assert told["After"] == "step 'Double' gives them so"
    assert told["Beside"] is None


@pytest.mark.parametrize(
    "error", [ValueError("oh"), pa.ArrowNotImplementedError("oh"), pa.ArrowInvalid("oh"), KeyError("oh")]
)
def test_a_defect_of_a_function_on_columns_is_no_reason_to_go_another_way(monkeypatch, error):
    def broken(one, other):
        raise error

    monkeypatch.setitem(arrow_evaluation._FUNCTIONS, "multiply", broken)
    pipeline = beam.Pipeline("LocalRunner")
    pipeline | "In" >> anything() | "Double" >> beam.Select(number=col.number * 2) | beam.Reshuffle()
    seen = run(stage_of(pipeline, "In"), [ColumnBatch(TABLE, TIMES, fields(FieldsKind.ROW))])
    assert seen.error.startswith("step 'Double/Select' raised; nothing of this epoch is committed\n")
    assert "This is a defect of Headrace, not of your code" in seen.error
    assert "test_vectorized_stage.py" in seen.error
    assert f"{type(error).__name__}: " in seen.error


def test_memory_that_runs_out_is_no_defect(monkeypatch):
    def broken(one, other):
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    monkeypatch.setitem(arrow_evaluation._FUNCTIONS, "multiply", broken)
    pipeline = beam.Pipeline("LocalRunner")
    pipeline | "In" >> anything() | "Double" >> beam.Select(number=col.number * 2) | beam.Reshuffle()
    with pytest.raises(MemoryError):
        run(stage_of(pipeline, "In"), [ColumnBatch(TABLE, TIMES, fields(FieldsKind.ROW))])
