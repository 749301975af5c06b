"""Plays transcripts as pipelines: a `TestStream`, a `WindowInto`, a grouping, on any runner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.time import SECOND, Timestamp
from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.model.special_outputs import TimestampedValue
from headrace.testing.test_stream import TestStream
from tests.harness import Pane
from tests.transcripts.bundlings import bundlings
from tests.transcripts.transcript import Add, Clock, Transcript, Watermark, compare

Round = Callable[[TestStream], object]
"""What an epoch brings to a stream."""


def play_as_pipeline(transcripts: Sequence[Transcript], runner: Any) -> None:
    """Run transcripts' events through one pipeline, in all bundlings; all their panes must come, whenever they do.

    Each bundling of a transcript has keys of its own, so that all share the grouping and the movements of time.
    """
    pipeline = beam.Pipeline(runner, options=PipelineOptions(allow_unsafe_triggers=True))
    streams = in_step(transcripts)
    rows = {its.name: _attach(pipeline, its, stream) for its, stream in zip(transcripts, streams, strict=True)}
    result = pipeline.run()
    result.wait_until_finish()
    for transcript in transcripts:
        came = defaultdict[str, list[Pane]](list)
        for (key, value, window, info), timestamp in rows[transcript.name]:
            bundling, _, own = key.partition(":")
            came[bundling].append(Pane(own, value, window, timestamp, info))
        for bundling in bundlings(transcript):
            try:
                compare(came.pop(bundling, []), transcript.expected)
            except AssertionError as error:
                raise AssertionError(f"{transcript.name}, {bundling}: {error}") from error
        assert not came
        dropped = result.counters.get(f"{transcript.name}: group", {}).get("dropped_late", 0)
        assert dropped == transcript.dropped * len(bundlings(transcript)), transcript.name


def _attach(pipeline: beam.Pipeline, transcript: Transcript, stream: TestStream) -> list[tuple[Any, int]]:
    """Add a transcript to a pipeline; its panes go to the list."""
    rows: list[tuple[Any, int]] = []
    name = transcript.name
    elements = pipeline | f"{name}: events" >> stream
    windowed = elements | f"{name}: windows" >> beam.WindowInto(transcript.windowing)
    combine: Any = transcript.combine and transcript.combine()
    grouping = beam.CombinePerKey(combine) if combine else beam.GroupByKey()
    panes = windowed | f"{name}: group" >> grouping | f"{name}: describe" >> beam.Map(_seen)
    panes | f"{name}: collect" >> beam.io.Write(CallSink(lambda epoch, its: rows.extend(its)))
    return rows


def moves_wall_time(transcript: Transcript) -> bool:
    """Whether it is about wall time."""
    return any(isinstance(step.action, Clock) for step in transcript.steps)


def in_step(transcripts: Sequence[Transcript]) -> list[TestStream]:
    """The events of transcripts, so that they may share one wall clock: each waits for the others where it moves.

    That the clock stops where a transcript does not say so makes no difference to it, as nothing of it happens there.
    """
    stages = [_stages(transcript) for transcript in transcripts]
    streams = [TestStream() for _ in transcripts]
    before = [0] * len(transcripts)
    for clock in sorted({clock for its in stages for clock in its}):
        for index, stream in enumerate(streams):
            if clock and clock in stages[index]:
                stream.advance_processing_time((clock - before[index]) / SECOND)
                before[index] = clock
            elif clock:
                stream.add_elements([])
        for rounds in zip_longest(*(its.get(clock, ()) for its in stages), fillvalue=_nothing):
            for play, stream in zip(rounds, streams, strict=True):
                play(stream)
    return streams


def _nothing(stream: TestStream) -> object:
    return stream.add_elements([])


def _stages(transcript: Transcript) -> dict[int, list[Round]]:
    """What happens at each reading of the clock."""
    stages: dict[int, list[Round]] = {0: []}
    now = 0
    for step in transcript.steps:
        action = step.action
        if isinstance(action, Clock):
            now = action.to
            stages[now] = []
        elif isinstance(action, Watermark):
            stages[now].append(_watermark(action.to))
        else:
            stages[now] += _additions(transcript, action)
    return stages


def _watermark(to: int) -> Round:
    return lambda stream: stream.advance_watermark_to(Timestamp(micros=to))


def _additions(transcript: Transcript, action: Add) -> Iterator[Round]:
    """Epoch by epoch: the next bundle of each bundling."""
    by_name = [
        [[(f"{name}:{key}", value, time) for key, value, time in bundle] for bundle in cut(action.elements)]
        for name, cut in bundlings(transcript).items()
    ]
    for bundles in zip_longest(*by_name, fillvalue=[]):
        timed = [
            TimestampedValue((key, value), Timestamp(micros=time)) for bundle in bundles for key, value, time in bundle
        ]
        yield lambda stream, timed=timed: stream.add_elements(timed)


def _seen(
    pair: tuple[object, object],
    window: object = beam.DoFn.WindowParam,
    info: object = beam.DoFn.PaneInfoParam,
) -> tuple[object, ...]:
    key, value = pair
    return key, value, window, info
