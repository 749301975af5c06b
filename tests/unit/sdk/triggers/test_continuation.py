"""How triggers go on after a grouping: each pane of the first is passed on by the next (Beam Java's continuation)."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.triggers import Trigger
from headrace.testing.test_stream import TestStream
from headrace.transforms.trigger import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterElement,
    AfterProcessingTime,
    AfterWatermark,
    AtPeriod,
    OrFinally,
    Repeatedly,
)
from headrace.transforms.window import FixedWindows, TimestampedValue
from tests.names import legible


def totals(trigger: Trigger) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Sums of what comes in the course of a minute, by key and then of all keys together; with their timings."""
    first: list[tuple[int, str]] = []
    second: list[tuple[int, str]] = []
    stream = TestStream()
    for number in (1, 2, 4, 8):
        stream.add_elements([TimestampedValue(("a", number), number)]).advance_processing_time(20)
    stream.advance_watermark_to(10).add_elements([TimestampedValue(("a", 16), 9)]).advance_processing_time(60)
    pipeline = beam.Pipeline(LocalRunner(), options=PipelineOptions(allow_unsafe_triggers=True))
    windowed = (
        pipeline
        | stream
        | beam.WindowInto(
            FixedWindows(10), trigger, accumulation_mode=AccumulationMode.DISCARDING, allowed_lateness=1000
        )
    )
    sums = windowed | "each" >> beam.CombinePerKey(sum)
    both = sums | beam.Map(lambda pair: ("all", pair[1])) | "together" >> beam.CombinePerKey(sum)
    for label, collection, seen in (("one", sums, first), ("two", both, second)):
        described = collection | f"describe {label}" >> beam.Map(described_pane)
        described | f"collect {label}" >> beam.io.Write(
            CallSink(lambda epoch, rows, seen=seen: seen.extend(row for row, _ in rows))
        )
    pipeline.run().wait_until_finish()
    return first, second


def described_pane(pair: tuple[str, int], pane: object = beam.DoFn.PaneInfoParam) -> tuple[int, str]:
    return pair[1], pane.timing.name


def is_four(value: object) -> bool:
    return value == 4


@pytest.mark.parametrize(
    ("trigger", "sums"),
    [
        (AfterWatermark(early=AfterCount(2), late=AfterCount(1)), [3, 12, 0, 16]),
        (AfterWatermark(early=AfterElement(is_four), late=AfterCount(1)), [7, 8, 16]),
        (AfterWatermark(early=AtPeriod(30), late=AtPeriod(60)), [3, 4, 8, 16]),
        (Repeatedly(AfterProcessingTime(30)), [3, 12, 16]),
        (Repeatedly(AfterAny(AfterCount(3), AfterProcessingTime(1000))), [7, 24]),
        (Repeatedly(AfterAll(AfterCount(2), AfterProcessingTime(10))), [3, 12, 16]),
        (AfterEach(AfterCount(1), AfterCount(2), Repeatedly(AfterCount(1))), [1, 6, 8, 16]),
        (OrFinally(Repeatedly(AfterCount(2)), AfterWatermark()), [3, 12, 0]),
        (OrFinally(Repeatedly(AfterCount(2)), AfterCount(3)), [3, 4]),
    ],
    ids=legible,
)
def test_panes_are_passed_on(trigger: Trigger, sums: list[int]) -> None:
    """Nothing is lost or held up on the way, whatever the first grouping waited for."""
    first, second = totals(trigger)
    assert [value for value, _ in first] == sums
    assert [value for value, _ in second if value] == [value for value in sums if value]
