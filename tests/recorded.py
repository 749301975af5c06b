"""Recorded runs of the examples of Streaming 102, and of a short stream, for tests on each runner."""

from __future__ import annotations

from typing import Any

import headrace as beam
from examples.streaming102.panes import Build, Pane, span
from examples.streaming102.scores import Input, clock
from headrace.recording import RecordedPane, StepRecording
from headrace.testing.test_stream import TestStream
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.window import FixedWindows, GlobalWindow, IntervalWindow, TimestampedValue


def record(build: Build, given: Input, runner: Any = "LocalRunner") -> StepRecording:
    """What is recorded of an example's grouping."""
    pipeline = beam.Pipeline(runner, record=True)
    build(pipeline | given.source())
    return pipeline.run().recording.step()


def as_printed(pane: RecordedPane) -> Pane:
    """A recorded pane as the examples print it."""
    in_time = None not in (pane.start, pane.end)
    window = IntervalWindow(pane.start // 1_000_000, pane.end // 1_000_000) if in_time else GlobalWindow()
    points, timing = pane.value, pane.timing
    if pane.is_retraction:
        points, timing = -points, f"{timing}, taken back"
    return Pane(clock(pane.processing_time // 1_000_000), span(window), points, timing)


def short_pipeline(runner: Any, **options: Any) -> beam.Pipeline:
    """Two keys, an early, an on-time and a late pane, and a retraction."""
    stream = (
        TestStream()
        .advance_processing_time(100)
        .add_elements([TimestampedValue(("a", 5), 10), TimestampedValue(("b", 1), 20)])
        .advance_processing_time(20)
        .advance_watermark_to(60)
        .advance_processing_time(20)
        .add_elements([TimestampedValue(("a", 9), 30)])
    )
    pipeline = beam.Pipeline(runner, **options)
    (
        pipeline
        | stream
        | beam.WindowInto(
            FixedWindows(60),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING_AND_RETRACTING,
            allowed_lateness=600,
        )
        | "Totals" >> beam.CombinePerKey(sum)
        | "Show" >> beam.Map(lambda total, pane=beam.DoFn.PaneInfoParam: total)
    )
    return pipeline


ARRIVALS_OF_SHORT = [("a", 5, 10, 100), ("a", 9, 30, 140), ("b", 1, 20, 100)]
"""Key, value, event and processing time in seconds."""
PANES_OF_SHORT = [
    ("a", 5, "ON_TIME", False, 120),
    ("a", 5, "ON_TIME", True, 140),
    ("a", 14, "LATE", False, 140),
    ("b", 1, "ON_TIME", False, 120),
]
"""Key, value, timing, whether taken back, processing time in seconds."""


def arrivals_of(step: StepRecording) -> list[tuple[object, ...]]:
    """As `ARRIVALS_OF_SHORT`."""
    return sorted(
        (its.key, its.value, its.event_time // 1_000_000, its.processing_time // 1_000_000) for its in step.arrivals
    )


def panes_of(step: StepRecording) -> list[tuple[object, ...]]:
    """As `PANES_OF_SHORT`: by key, in the order in which they came."""
    panes = [
        (its.key, its.value, its.timing, its.is_retraction, its.processing_time // 1_000_000) for its in step.panes
    ]
    return sorted(panes, key=lambda pane: str(pane[0]))
