"""What a step drops as late, as an output of the step."""

from __future__ import annotations

import pyarrow as pa
import pytest

import headrace as beam
from headrace.lowlevel import TopologyError
from headrace.lowlevel.records.column_batch import ColumnBatch, Single, pair
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import SECOND, Timestamp
from headrace.runners.local import LocalRunner
from headrace.sdk.compiler.compiler import compile_pipeline
from headrace.sdk.model.element_form import ElementForm
from headrace.sdk.operators.grouping.late_data import LateData
from headrace.sdk.windows.windowing import Windowing
from headrace.testing.test_stream import TestStream
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, DefaultTrigger, Repeatedly
from headrace.transforms.userstate import CombiningValueStateSpec
from headrace.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from tests.collecting import collected


def stream(*late: object) -> TestStream:
    """An element in time, and others when their window is over."""
    made = TestStream().add_elements([TimestampedValue(("red", 5), 10)]).advance_watermark_to(60)
    for element in late:
        made = made.add_elements([TimestampedValue(element, 20)])
    return made.advance_watermark_to_infinity()


class Total(beam.DoFn):
    SUM = CombiningValueStateSpec("sum", sum)

    def process(self, pair, limits=(), total=beam.DoFn.StateParam(SUM)):
        total.add(pair[1])
        yield pair[0], total.read()


def test_columns_and_python_values_give_the_same():
    taken = []
    times = [5 * SECOND, 70 * SECOND, 59 * SECOND, 60 * SECOND]
    keys, values = ["a", "b", "c", "d"], [1, 2, 3, 4]
    table = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values)], ["k", "v"])
    columns = ColumnBatch(table, pa.array(times).to_numpy(), pair(Single(0), Single(1)))
    for batch in (Batch(list(zip(keys, values, strict=True)), times), columns):
        late = LateData(Windowing.of(FixedWindows(60)), {"in": ElementForm.PLAIN}, "late")
        late.begin_bundle(60 * SECOND)
        emitted = []
        late.process_batch("in", batch, lambda stream, batch, to=emitted: to.append((stream, list(batch.rows()))))
        taken.append(emitted)
    assert taken[0] == taken[1]
    [(name, rows)] = taken[0]
    assert name == "late"
    assert [(row[0].key, row[0].value, time) for row, time in rows] == [("a", 1, 5 * SECOND), ("c", 3, 59 * SECOND)]


def test_nothing_is_added_unless_something_reads_the_output():
    topologies = []
    for asks in (False, True):
        pipeline = beam.Pipeline(LocalRunner())
        grouping = beam.CombinePerKey(sum)
        windows = pipeline | stream() | beam.WindowInto(FixedWindows(60))
        _ = windows | "Sum" >> (grouping.with_late_data() if asks else grouping)
        topologies.append(compile_pipeline(pipeline))
    off, unread = topologies
    assert list(off.inlines) == list(unread.inlines)
    assert list(off.keyed) == list(unread.keyed) == ["Sum"]


@pytest.mark.parametrize("stateful", [False, True])
def test_what_is_late_for_a_side_input(stateful):
    pipeline = beam.Pipeline(LocalRunner())
    windows = pipeline | stream(("red", 7)) | beam.WindowInto(FixedWindows(60))
    limits = pipeline | beam.Create([1]) | "Windows of limits" >> beam.WindowInto(FixedWindows(60))
    step = beam.ParDo(Total(), beam.pvalue.AsList(limits))
    if not stateful:
        step = beam.Map(lambda pair, limits: pair, beam.pvalue.AsList(limits))
    found, late = windows | "Sided" >> step.with_late_data()
    found, late = collected(found), collected(late)
    pipeline.run()
    assert found() == [("red", 5)]
    [dropped] = late()
    assert (dropped.key, dropped.value) == (("red", 7) if stateful else (None, ("red", 7)))
    assert (dropped.timestamp, dropped.watermark) == (Timestamp(20), Timestamp(60))


def test_what_is_late_for_state_but_not_for_its_side_input():
    pipeline = beam.Pipeline(LocalRunner())
    windows = pipeline | stream(("red", 7)) | beam.WindowInto(FixedWindows(60))
    limits = pipeline | beam.Create([1])
    _, late = windows | "Sided" >> beam.ParDo(Total(), beam.pvalue.AsList(limits)).with_late_data()
    late = collected(late)
    result = pipeline.run()
    assert [(dropped.key, dropped.value) for dropped in late()] == [("red", 7)]
    assert result.counters["Sided"]["dropped_late"] == 1


def test_a_step_with_several_outputs():
    pipeline = beam.Pipeline(LocalRunner())
    windows = pipeline | stream(("red", 7)) | beam.WindowInto(FixedWindows(60))
    outputs, late = windows | beam.ParDo(Total()).with_outputs("spare", main="main").with_late_data()
    found, late = collected(outputs.main), collected(late)
    pipeline.run()
    assert (found(), [dropped.value for dropped in late()]) == ([("red", 5)], [7])


def test_a_retraction_that_is_dropped_comes_as_a_retraction():
    pipeline = beam.Pipeline(LocalRunner())
    mode, trigger = AccumulationMode.ACCUMULATING_AND_RETRACTING, AfterWatermark(late=AfterCount(1))
    first = beam.WindowInto(FixedWindows(60), trigger=trigger, accumulation_mode=mode, allowed_lateness=60)
    sums = pipeline | stream(("red", 7)) | first | "Sum" >> beam.CombinePerKey(sum)
    strict = beam.WindowInto(FixedWindows(60), trigger=DefaultTrigger(), accumulation_mode=AccumulationMode.DISCARDING)
    _, late = sums | "Strictly" >> strict | "Again" >> beam.CombinePerKey(sum).with_late_data()
    late = collected(late | beam.ToChangelog())
    pipeline.run()
    # The first grouping corrects 5 to 12 when the window of the second one is closed.
    assert [(change.kind.value, change.value.value) for change in late()] == [("-", 5), ("+", 12)]


def test_late_data_are_late_for_no_step_behind():
    pipeline = beam.Pipeline(LocalRunner())
    windows = pipeline | stream(("red", 7), ("red", 8)) | beam.WindowInto(FixedWindows(60))
    _, late = windows | beam.GroupByKey().with_late_data()
    each = beam.WindowInto(
        GlobalWindows(), trigger=Repeatedly(AfterCount(2)), accumulation_mode=AccumulationMode.DISCARDING
    )
    values = late | beam.Map(lambda late: (late.key, late.value)) | "Each" >> each | "All" >> beam.CombinePerKey(sum)
    values = collected(values)
    pipeline.run()
    assert values() == [("red", 15)]


@pytest.mark.parametrize(
    ("transform", "told"),
    [
        (
            beam.Map(print),
            r"'Step' was given with_late_data\(\), but it has no output of late data; say it of a grouping",
        ),
        (
            beam.GroupByKey() | beam.Map(lambda group: (group[0], len(group[1]))) | beam.CombinePerKey(sum),
            r"2 steps inside drop it: 'Step/GroupByKey', 'Step/CombinePerKey\(sum\)'; say it of one of these",
        ),
    ],
)
def test_a_step_that_has_no_late_data_of_its_own_is_refused(transform, told):
    pipeline = beam.Pipeline(LocalRunner())
    with pytest.raises(TopologyError, match=told):
        _ = pipeline | stream() | beam.WindowInto(FixedWindows(60)) | "Step" >> transform.with_late_data()
