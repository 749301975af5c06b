"""What the engine measures of each step, asked for like the metrics of user code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as beam
from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND
from headrace.metrics import MetricsFilter
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.runner import PipelineResult
from headrace.testing.test_stream import TestStream
from headrace.utils.windowed_value import WindowedValue
from tests.unit.sdk.metrics.test_metrics import Sum, counters, counting

ENGINE = MetricsFilter().with_namespace("headrace")


def engine(result: PipelineResult, step: str) -> dict[str, int]:
    found = result.metrics().query(MetricsFilter().with_namespace("headrace").with_step(step))
    gauges = {one.key.metric.name: one.result.value for one in found["gauges"]}
    return gauges | {one.key.metric.name: one.result for one in found["counters"]}


# What takes all keys at once sets no timers, but looks at the watermark itself.
@pytest.mark.parametrize(
    ("combine", "others"),
    [
        (beam.CombinePerKey(Sum()), {"timers": 3, "one_by_one": 7}),
        (beam.CombinePerKey(sum), {"by_column": 7}),
        (beam.GroupByKey(), {"timers": 3}),
    ],
)
def test_the_engine_measures_each_step(combine: beam.PTransform[object, object], others: dict[str, int]) -> None:
    lateness = 5
    p = beam.Pipeline(LocalRunner())
    stream = TestStream().add_elements([window_value(1), window_value(2), window_value(31)]).advance_watermark_to(30)
    stream = stream.add_elements([window_value(3), window_value(29), window_value(32), window_value(21)])
    pairs = p | "In" >> stream.advance_watermark_to_infinity()
    windowed = pairs | beam.WindowInto(beam.window.FixedWindows(10), allowed_lateness=lateness)
    _ = windowed | "Total" >> combine | beam.Map(counting("out"))
    epochs: list[EpochProgress] = []
    result = PipelineResult(LocalRunner().run_topology(p.topology(), RunOptions(progress=epochs.append)))
    found = engine(result, "Total")
    # Of three late elements one is more than its lateness behind.
    assert found == {
        "records_in": 7,
        "records_out": 3,
        "late": 3,
        "dropped_late": 1,
        "watermark": MAX_TIMESTAMP,
        "lag": 0,
        "state_bytes": 0,
        **others,
    }
    gauges = [PipelineResult(epoch).metrics().query(ENGINE)["gauges"] for epoch in epochs]
    course = [{one.key.metric.name: one.result.value for one in of if one.key.step == "Total"} for of in gauges]
    assert [at["watermark"] for at in course[1:3]] == [30 * SECOND] * 2
    assert [at["lag"] for at in course[1:3]] == [1 * SECOND, 2 * SECOND]
    assert any(at["state_bytes"] > 0 for at in course)
    assert (result.counters["Total"]["late"], result.counters["Total"]["records"]) == (3, 7)
    assert engine(result, "In") == {"records_out": 7, "watermark": MAX_TIMESTAMP, "lag": 0}
    assert "headrace" not in {one.key.metric.namespace for one in result.metrics().query()["counters"]}


class Last(beam.DoFn):
    """Puts one more out at the end of each bundle."""

    def process(self, element: int) -> Iterator[int]:
        yield element

    def finish_bundle(self) -> Iterator[object]:
        yield WindowedValue(7, 0, [beam.window.GlobalWindow()])


TAGGED = beam.pvalue.TaggedOutput
STAMPED = beam.window.TimestampedValue
SLIDING = beam.window.SlidingWindows(10, 5)
STEPS = {
    "map": (beam.Map(lambda x: x + 1), 6, 6),
    "filter": (beam.Filter(lambda x: x % 3), 6, 4),
    "flat": (beam.FlatMap(range), 6, 15),
    "stamped": (beam.Map(lambda x: STAMPED(x, x)), 6, 6),
    "some stamped": (beam.FlatMap(lambda x: [x, STAMPED(x, x)] if x % 2 else []), 6, 6),
    "tag unread": (beam.Map(lambda x: TAGGED("odd", x) if x % 2 else x).with_outputs("odd", main="even"), 6, 3),
    "tag read": (beam.Map(lambda x: TAGGED("odd", x) if x % 2 else x).with_outputs("odd", main="even"), 6, 6),
    "windows": (beam.WindowInto(SLIDING), 6, 6),
    "windowed": (beam.Map(lambda x, window=beam.DoFn.WindowParam: x), 6, 12),
    "last": (beam.ParDo(Last()), 6, 8),
    "combined": (beam.Map(lambda x: (x % 2, x)), 6, 6),
}


def test_what_goes_in_and_comes_out_of_each_step_of_a_stage() -> None:
    p = beam.Pipeline("LocalRunner", PipelineOptions(["--max_records_per_epoch", "3"]))
    numbers = p | beam.Create(range(6))
    sliding = numbers | "windows" >> STEPS["windows"][0]
    for name, (step, _, _) in STEPS.items():
        if name == "windows":
            continue
        given = sliding if name == "windowed" else numbers
        made = given | name >> step
        if name.startswith("tag"):
            if name == "tag read":
                _ = made.odd | f"{name} odd" >> beam.Map(counting("calls")) | f"{name} more" >> beam.Filter(bool)
            made = made.even
        probed = made | f"{name} probe" >> beam.Map(counting("calls"))
        if name == "combined":
            _ = probed | "sum" >> beam.CombinePerKey(sum)
        else:
            _ = probed | f"{name} behind" >> beam.FlatMap(lambda x: [x]) | f"{name} end" >> beam.Filter(bool)
    result = p.run()
    calls = counters(result)
    for name, (_, taken, given) in STEPS.items():
        found = engine(result, name)
        ways = {} if name == "windows" else {"one_by_one": taken}
        assert found == {"records_in": taken, "records_out": given, **ways}, name
        if name == "windows":
            continue
        probe = engine(result, f"{name} probe")
        assert probe["records_in"] == probe["records_out"] == calls[f"{name} probe", "calls"], name
        if name != "combined":
            assert engine(result, f"{name} end")["records_in"] == probe["records_out"], name
    assert engine(result, "tag read odd")["records_in"] == 3
    assert engine(result, "sum")["records_in"] == 6


def test_elements_in_several_windows_are_counted_as_they_are_processed() -> None:
    def in_two(element: int) -> list[object]:
        return [WindowedValue(element, 0, [beam.window.IntervalWindow(0, end) for end in (5, 9)])]

    p = beam.Pipeline("LocalRunner")
    made = p | beam.Create([1, 2]) | beam.WindowInto(beam.window.FixedWindows(5)) | beam.FlatMap(in_two)
    looked = made | "Look" >> beam.Map(lambda x, window=beam.DoFn.WindowParam: x)
    _ = looked | "Behind" >> beam.Map(counting("calls"))
    result = p.run()
    assert engine(result, "Look") == {"records_in": 2, "records_out": 4, "one_by_one": 2}
    assert engine(result, "Behind")["records_in"] == counters(result)["Behind", "calls"] == 4


def window_value(second: int) -> beam.window.TimestampedValue[tuple[str, int]]:
    return beam.window.TimestampedValue(("k", 1), second)
