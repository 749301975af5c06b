"""Every step that drops late data counts it and, at level DEBUG, logs key, window, watermark and number."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable

import pytest

import headrace as beam
from headrace.lowlevel import Computation
from headrace.lowlevel.vectorized.computation import ColumnComputation
from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.side_inputs.gate import Gate
from headrace.sdk.operators.stateful.stateful_par_do import StatefulParDo
from headrace.sdk.operators.vectorized.column_group_by_key import ColumnGroupByKey
from headrace.sdk.operators.vectorized.column_grouping import ColumnGrouping
from headrace.sdk.operators.vectorized.sessions import ColumnSessions
from headrace.testing.test_stream import TestStream
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.userstate import ReadModifyWriteStateSpec
from headrace.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue

LOGGER = "headrace.late_data"
LINE = (
    r"step '(?P<step>.+)' dropped late records: (?P<number>\d+) of key (?P<key>.+) in window (?P<window>.+) "
    r"at watermark Timestamp\(20\)"
)
STEP = "step"


class Mine(beam.CombineFn):
    """The sum, as no vectorized grouping has it."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class Last(beam.DoFn):
    LAST = ReadModifyWriteStateSpec("last")

    def process(self, pair: tuple[str, int], last: object = beam.DoFn.StateParam(LAST)) -> Iterable[object]:
        last.write(pair[1])
        yield pair


class Raw(Computation):
    def process_record(self, record, context) -> None:
        if context.is_late(record):
            context.drop_late(window="that of the program")


class RawColumns(ColumnComputation):
    def process_columns(self, batch, context) -> None:
        context.drop_late(batch.late.sum())


def late_at(watermark: int) -> TestStream:
    """One element in time, then late ones at this watermark, seconds."""
    late = [TimestampedValue(("home", number), 1 + number) for number in range(2)]
    return (
        TestStream()
        .add_elements([TimestampedValue(("home", 0), 3), TimestampedValue(("out", 0), 3)])
        .advance_watermark_to(watermark)
        .add_elements([*late, TimestampedValue(("out", 1), 1), TimestampedValue(("out", 2), watermark)])
        .advance_watermark_to_infinity()
    )


ONCE = {"trigger": AfterWatermark(early=AfterCount(1)), "accumulation_mode": AccumulationMode.DISCARDING}


def fixed(elements, step: beam.PTransform, **how: object):
    return elements | beam.WindowInto(FixedWindows(10), **how) | STEP >> step


def sessions(elements, step: beam.PTransform):
    return elements | beam.WindowInto(Sessions(5)) | STEP >> step


def spread(elements):
    return elements | beam.WindowInto(Sessions(5)) | STEP >> beam.CombinePerKey(Mine()).with_hot_key_fanout(2)


def sided(elements):
    side = elements.pipeline | beam.Create([1]) | beam.WindowInto(FixedWindows(10))
    in_windows = elements | "in windows" >> beam.WindowInto(FixedWindows(10))
    return in_windows | STEP >> beam.Map(lambda pair, ones: pair, beam.pvalue.AsList(side))


FIXED, SLIDING, MERGED = "[0.0, 10.0)", "[0.0, 12.0)", "[1.0, 7.0)"
WAYS = {
    "a grouping": (lambda its: fixed(its, beam.CombinePerKey(Mine())), Grouping, FIXED, FIXED),
    "a grouping whose trigger has finished": (
        lambda its: fixed(its, beam.CombinePerKey(Mine()), allowed_lateness=1_000, **ONCE),
        Grouping,
        FIXED,
        FIXED,
    ),
    "a grouping of sliding windows": (
        lambda its: its | beam.WindowInto(SlidingWindows(12, 4)) | STEP >> beam.CombinePerKey(Mine()),
        Grouping,
        SLIDING,
        SLIDING,
    ),
    "sessions": (lambda its: sessions(its, beam.CombinePerKey(Mine())), Grouping, MERGED, "[1.0, 6.0)"),
    "sessions in shards": (spread, Grouping, "[1.0, 6.0) and [2.0, 7.0)", "[1.0, 6.0)"),
    "columns": (lambda its: fixed(its, beam.CombinePerKey(sum)), ColumnGrouping, FIXED, FIXED),
    "columns whose trigger has finished": (
        lambda its: fixed(its, beam.CombinePerKey(sum), allowed_lateness=1_000, **ONCE),
        ColumnGrouping,
        FIXED,
        FIXED,
    ),
    "columns of sessions": (lambda its: sessions(its, beam.CombinePerKey(sum)), ColumnSessions, MERGED, "[1.0, 6.0)"),
    "columns without a combiner": (lambda its: fixed(its, beam.GroupByKey()), ColumnGroupByKey, FIXED, FIXED),
    "a stateful DoFn": (lambda its: fixed(its, beam.ParDo(Last())), StatefulParDo, FIXED, FIXED),
    "a gate": (sided, Gate, FIXED, FIXED),
    "a raw computation": (
        lambda its: its | STEP >> beam.RunComputation(Raw(), key=lambda pair: pair[0]),
        Raw,
        "that of the program",
        "that of the program",
    ),
    "a raw computation over columns": (
        lambda its: its | STEP >> beam.RunComputation(RawColumns(), key=lambda pair: pair[0]),
        RawColumns,
        "(unknown)",
        "(unknown)",
    ),
}
"""How the late elements reach a step, its computation, and the windows of `home` and of `out` in the log."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("logged", [True, False])
def test_what_is_dropped_is_counted_and_logged(way: str, logged: bool, caplog: pytest.LogCaptureFixture) -> None:
    build, computation, of_home, of_out = WAYS[way]
    pipeline = beam.Pipeline("LocalRunner", PipelineOptions(["--allow_unsafe_triggers"]))
    build(pipeline | late_at(20))
    (name,) = (name for name, node in pipeline.topology().keyed.items() if isinstance(node.computation, computation))
    with caplog.at_level(logging.DEBUG if logged else logging.INFO, LOGGER):
        counters = pipeline.run().counters
    assert {step: its["dropped_late"] for step, its in counters.items() if "dropped_late" in its} == {name: 3}
    number, windows = Counter[str](), dict[str, list[str]]()
    for record in caplog.records:
        if record.name == LOGGER:
            line = re.fullmatch(LINE, record.getMessage())
            assert line is not None and line["step"] == name
            number[line["key"]] += int(line["number"])
            windows.setdefault(line["key"], []).append(line["window"])
    # The keys of a gate are its shards.
    if computation is Gate:
        assert number.total() == (3 if logged else 0) and all(its == [of_home] for its in windows.values())
        return
    assert number == ({"'home'": 2, "'out'": 1} if logged else {})
    named = {key: " and ".join(dict.fromkeys(its)) for key, its in windows.items()}
    assert named == ({"'home'": of_home, "'out'": of_out} if logged else {})
