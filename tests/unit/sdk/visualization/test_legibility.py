"""Pictures of many inputs can be read, both watermarks are seen, restarts are marked, and times are the run's."""

from __future__ import annotations

import random
import re
import time
from itertools import combinations, pairwise
from math import hypot
from pathlib import Path

import pytest

import headrace as beam
from headrace import plot
from headrace.options.pipeline_options import PipelineOptions
from headrace.recording import Arrival, Recording, StepRecording, WatermarkStep
from headrace.runners.engine.clock import ManualClock
from headrace.runners.local import LocalRunner
from headrace.runners.local.executor import Scheduler
from headrace.sdk.visualization.diagrams.program_diagrams import pipeline_diagram
from headrace.sdk.visualization.plots.page import page
from headrace.sdk.visualization.plots.panel import panels
from headrace.sdk.visualization.plots.scene import Scene
from headrace.testing.test_stream import TestStream
from headrace.transforms.window import FixedWindows, TimestampedValue

MINUTE = 60_000_000


def of(arrivals: list[Arrival], **more: object) -> StepRecording:
    return StepRecording("Sum", tuple(arrivals), **more)  # type: ignore[arg-type] - the fields of a StepRecording


def scattered(number: int, spread: int, seed: int = 1) -> list[Arrival]:
    chosen = random.Random(seed)
    return [
        Arrival(n * MINUTE - chosen.randrange(5 * MINUTE), n * spread, "a", chosen.randrange(10, 100))
        for n in range(number)
    ]


def scene_of(step: StepRecording) -> Scene:
    (panel,) = panels(step, None, None, None)
    return panel.scene


@pytest.mark.parametrize("spread", [0, 1, MINUTE])
@pytest.mark.parametrize("number", [31, 53, 80, 200, 1_400])
def test_no_mark_of_many_inputs_covers_another(number: int, spread: int) -> None:
    dots = scene_of(of(scattered(number, spread))).dots
    assert dots
    covering = [
        (one, other)
        for one, other in combinations(dots, 2)
        if hypot(one.x - other.x, one.y - other.y) < one.radius + other.radius
    ]
    assert covering == []


def test_where_not_each_can_be_named_the_picture_says_how_many_there_are() -> None:
    step = of(scattered(53, MINUTE))
    (panel,) = panels(step, None, None, None)
    named = [dot for dot in panel.scene.dots if dot.text]
    assert 10 <= len(named) < 53
    assert panel.remark == f"53 inputs, {len(named)} of them with their values"
    (alone,) = panels(of(scattered(12, MINUTE)), None, None, None)
    assert alone.remark == ""
    assert len(alone.scene.dots) == 12


def test_many_inputs_of_one_instant_are_one_event_of_the_page() -> None:
    text = page(panels(of(scattered(53, 0)), None, None, None))
    assert text.count("arrives, of") == 0
    assert text.count("53 inputs arrive") == 1
    few = page(panels(of(scattered(5, 0)), None, None, None))
    assert few.count("arrives, of") == 5


def perfect() -> StepRecording:
    arrivals = [Arrival(n * MINUTE, n * MINUTE, "a", n) for n in range(10)]
    return of(arrivals, watermarks=tuple(WatermarkStep(n * MINUTE, n * MINUTE) for n in range(10)))


def test_the_ideal_watermark_is_wide_and_below_the_actual_one(tmp_path: Path) -> None:
    figure = plot.figure(perfect())
    lines = {line.get_color(): line for line in figure.axes[0].lines}
    (ideal, actual) = [line for line in figure.axes[0].lines if line.get_color() in ("#9a9a9a", "#0072B2")]
    assert len(lines) >= 2
    assert (ideal.get_color(), actual.get_color()) == ("#9a9a9a", "#0072B2"), "what is drawn later is above"
    assert ideal.get_linewidth() > 2 * actual.get_linewidth()
    text = page(panels(perfect(), None, None, None))
    lines = re.findall(r'<polyline [^>]*class="(\w+)"[^>]* stroke-width="([\d.]+)"', text)
    (below, wide), (above, thin) = lines[:2]
    assert (below, above) == ("ideal", "actual")
    assert float(wide) > 2 * float(thin)


class _Killed(Exception):
    """The driver is gone."""


class _Killing(Scheduler):
    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("committed", 2):
            raise _Killed


@pytest.mark.parametrize("record", [True, False])
def test_a_restart_is_marked(tmp_path: Path, record: bool) -> None:
    clock = ManualClock(1_000 * MINUTE)
    for scheduler in (_Killing(), None):
        options = PipelineOptions([f"--checkpoint={tmp_path / 'state'}", "--max_records_per_epoch=2"])
        pipeline = beam.Pipeline(LocalRunner(clock, scheduler), options, record=record)
        _ = (
            pipeline
            | beam.Create([("a", n) for n in range(8)])
            | beam.Map(lambda pair: TimestampedValue(pair, 60 * pair[1]))
            | beam.WindowInto(FixedWindows(120))
            | "Sum" >> beam.CombinePerKey(sum)
        )
        if scheduler is None:
            pipeline.run()
        else:
            with pytest.raises(_Killed):
                pipeline.run()
        clock.sleep(10 * MINUTE)
    place = str(tmp_path / "state")
    plot.html(place, tmp_path / "run.html")
    drawn = (tmp_path / "run.html").read_text()
    assert f'class="restart" data-at="{1_010 * MINUTE}"' in drawn
    assert "the run goes on with another driver" in drawn
    plot.save(place, tmp_path / "run.svg")
    assert (tmp_path / "run.svg").read_text().count(">restart<") == 1


def test_a_run_without_a_restart_has_no_mark(tmp_path: Path) -> None:
    plot.html(perfect(), tmp_path / "run.html")
    assert 'class="restart"' not in (tmp_path / "run.html").read_text()
    assert Recording.of_json(Recording((perfect(),)).to_json().encode(), "it").step().restarts == ()


def recorded(runner: object, source: beam.PTransform) -> StepRecording:
    pipeline = beam.Pipeline(runner, record=True)  # type: ignore[arg-type] - a runner or its name
    _ = pipeline | source | beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(sum)
    return pipeline.run().recording.step()


@pytest.mark.parametrize("runner", ["LocalRunner", LocalRunner()])
def test_a_recorded_run_in_memory_has_the_time_of_the_machine(runner: object) -> None:
    before = time.time_ns() // 1000
    step = recorded(runner, beam.Create([("a", 1), ("a", 2)]))
    after = time.time_ns() // 1000
    assert all(before <= arrival.processing_time <= after for arrival in step.arrivals)
    assert all(before <= pane.processing_time <= after for pane in step.panes)


def test_a_recorded_test_has_the_time_of_its_stream_or_clock() -> None:
    stream = TestStream().advance_processing_time(70).add_elements([TimestampedValue(("a", 1), 5)])
    assert [
        its.processing_time for its in recorded("LocalRunner", stream.advance_watermark_to_infinity()).arrivals
    ] == [70_000_000]
    step = recorded(LocalRunner(ManualClock(5_000_000)), beam.Create([("a", 1)]))
    assert [its.processing_time for its in step.arrivals] == [5_000_000]


class Twice(beam.PTransform):
    """A composite of the user's own."""

    def expand(self, numbers: beam.PCollection) -> beam.PCollection:
        """Two steps."""
        return numbers | "First" >> beam.Map(abs) | "Second" >> beam.Map(abs)


@beam.ptransform_fn
def Thrice(numbers):
    """Another one."""
    return numbers | "Third" >> beam.Map(abs)


def test_a_drawing_has_the_steps_of_the_program_each_once() -> None:
    pipeline = beam.Pipeline("LocalRunner")
    numbers = pipeline | "Numbers" >> beam.Create([1]) | "Twice" >> Twice() | "Thrice" >> Thrice()
    _ = numbers | "Top" >> beam.combiners.Top.Of(3) | "Out" >> beam.io.WriteToText("out")
    drawing = pipeline_diagram(pipeline)
    names = [box.name for box in drawing.boxes]
    assert names == ["Numbers", "Twice/First", "Twice/Second", "Thrice/Third", "Top", "Out"]
    assert [(arrow.source, arrow.target) for arrow in drawing.arrows] == list(pairwise(names))
    kinds = {box.name: box.kind.name for box in drawing.boxes}
    assert (kinds["Numbers"], kinds["Top"], kinds["Out"]) == ("SOURCE", "KEYED", "SINK")
