"""Plays transcripts as pipelines: a `TestStream`, a `WindowInto`, a grouping, on any runner."""

from __future__ import annotations

from typing import Any

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.time import SECOND, Timestamp
from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.windows import TimestampedValue
from headrace.testing.test_stream import TestStream
from tests.harness import Pane
from tests.transcripts.transcript import Add, Transcript, Watermark, compare


def play_as_pipeline(transcript: Transcript, runner: Any) -> None:
    """Run a transcript's events through a pipeline; all its panes must come, whenever they do."""
    rows: list[tuple[Any, int]] = []
    pipeline = beam.Pipeline(runner, options=PipelineOptions(allow_unsafe_triggers=True))
    elements = pipeline | stream(transcript) | beam.WindowInto(transcript.windowing)
    combine: Any = transcript.combine and transcript.combine()
    grouping = beam.CombinePerKey(combine) if combine else beam.GroupByKey()
    panes = elements | "Group" >> grouping | "Describe" >> beam.Map(_seen)
    panes | "Collect" >> beam.io.Write(CallSink(lambda epoch, its: rows.extend(its)))
    result = pipeline.run()
    result.wait_until_finish()
    came = [Pane(key, value, window, timestamp, info) for (key, value, window, info), timestamp in rows]
    compare(came, transcript.expected)
    assert result.counter("dropped_late") == transcript.dropped


def stream(transcript: Transcript) -> TestStream:
    """The events of a transcript."""
    events, clock = TestStream(), 0
    for step in transcript.steps:
        action = step.action
        if isinstance(action, Add):
            timed = [TimestampedValue((key, value), Timestamp(micros=time)) for key, value, time in action.elements]
            events.add_elements(timed)
        elif isinstance(action, Watermark):
            events.advance_watermark_to(Timestamp(micros=action.to))
        else:
            events.advance_processing_time((action.to - clock) / SECOND)
            clock = action.to
    return events


def _seen(
    pair: tuple[object, object],
    window: object = beam.DoFn.WindowParam,
    info: object = beam.DoFn.PaneInfoParam,
) -> tuple[object, ...]:
    key, value = pair
    return key, value, window, info
