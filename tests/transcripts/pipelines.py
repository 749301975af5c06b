"""Plays transcripts as pipelines: a `TestStream`, a `WindowInto`, a grouping, on any runner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.time import SECOND, Timestamp
from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.windows import TimestampedValue
from headrace.testing.test_stream import TestStream
from tests.harness import Pane
from tests.transcripts.transcript import Add, Transcript, Watermark, compare


def play_as_pipeline(transcripts: Sequence[Transcript], runner: Any) -> None:
    """Run transcripts' events through one pipeline; all their panes must come, whenever they do.

    Transcripts that move wall time, of which a pipeline has but one, go one by one.
    """
    pipeline = beam.Pipeline(runner, options=PipelineOptions(allow_unsafe_triggers=True))
    rows = {transcript.name: _attach(pipeline, transcript) for transcript in transcripts}
    result = pipeline.run()
    result.wait_until_finish()
    for transcript in transcripts:
        seen = rows[transcript.name]
        came = [Pane(key, value, window, timestamp, info) for (key, value, window, info), timestamp in seen]
        compare(came, transcript.expected)
        dropped = result.counters.get(f"{transcript.name}: group", {}).get("dropped_late", 0)
        assert dropped == transcript.dropped, transcript.name


def _attach(pipeline: beam.Pipeline, transcript: Transcript) -> list[tuple[Any, int]]:
    """Add a transcript to a pipeline; its panes go to the list."""
    rows: list[tuple[Any, int]] = []
    name = transcript.name
    elements = pipeline | f"{name}: events" >> stream(transcript)
    windowed = elements | f"{name}: windows" >> beam.WindowInto(transcript.windowing)
    combine: Any = transcript.combine and transcript.combine()
    grouping = beam.CombinePerKey(combine) if combine else beam.GroupByKey()
    panes = windowed | f"{name}: group" >> grouping | f"{name}: describe" >> beam.Map(_seen)
    panes | f"{name}: collect" >> beam.io.Write(CallSink(lambda epoch, its: rows.extend(its)))
    return rows


def moves_wall_time(transcript: Transcript) -> bool:
    """Whether it is about wall time."""
    return any(not isinstance(step.action, (Add, Watermark)) for step in transcript.steps)


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
