"""Runs the examples here and prints their panes: what came out, for which window, and at which processing time."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import headrace as beam
from examples.streaming102.scores import Input, bounded, clock, instant
from headrace.lowlevel import CallSink
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.window import BoundedWindow, IntervalWindow
from headrace.utils.windowed_value import PaneInfo

Build = Callable[[beam.PCollection[Any]], beam.PCollection[object]]
"""An example's pipeline: from scores to the team's points."""


class Result(NamedTuple):
    """A pane as it comes out of a pipeline."""

    points: int
    window: BoundedWindow
    info: PaneInfo


class Pane(NamedTuple):
    """A pane as it is printed."""

    time: str
    """Processing time; of bounded input none."""
    window: str
    points: int
    """Less than 0 where as many are taken back."""
    timing: str

    def __str__(self) -> str:
        return f"  {self.time:8}  {self.window:20}  {self.points:3}  {self.timing}".rstrip()


@dataclass
class Outcome:
    """What an example makes of an input."""

    panes: list[Pane] = field(default_factory=list)
    dropped: int = 0
    """Scores that came after their window was closed."""

    def __str__(self) -> str:
        dropped = [f"  dropped, as the window was closed: {self.dropped}"] if self.dropped else []
        return "\n".join([*map(str, self.panes), *dropped])


class Case(NamedTuple):
    """An example's pipeline and an input for it."""

    label: str
    build: Build
    given: Input


def play(cases: Sequence[Case], runner: Any = None) -> dict[str, Outcome]:
    """Run all cases in one pipeline, on a runner or one of that name; what comes of each, by label."""
    pipeline = beam.Pipeline(runner, PipelineOptions([]))
    outcomes = {case.label: _attach(pipeline, case) for case in cases}
    counters = pipeline.run().counters
    for label, outcome in outcomes.items():
        steps = [its for step, its in counters.items() if step.startswith(f"{label}/")]
        outcome.dropped = sum(its.get("dropped_late", 0) for its in steps)
    return outcomes


class Example(beam.PTransform[beam.PCollection[Any], beam.PCollection[object]]):
    """An example's pipeline as one step, so that its labels are its own."""

    def __init__(self, build: Build) -> None:
        super().__init__()
        self._build = build

    def expand(self, scores: beam.PCollection[Any]) -> beam.PCollection[object]:
        """Its results with window and pane."""
        return self._build(scores) | "with window and pane" >> beam.Map(result)


def _attach(pipeline: beam.Pipeline, case: Case) -> Outcome:
    outcome = Outcome()

    def collect(epoch: int, rows: list[tuple[Any, int]]) -> None:
        time = clock(instant(epoch)) if case.given.watermark else ""
        outcome.panes.extend(pane(time, its) for its, _ in rows)

    scores = pipeline | f"{case.label}: scores" >> case.given.source()
    results = scores | case.label >> Example(case.build)
    results | f"{case.label}: collect" >> beam.io.Write(CallSink(collect))
    return outcome


def result(
    total: tuple[str, int],
    window: BoundedWindow = beam.DoFn.WindowParam,
    info: PaneInfo = beam.DoFn.PaneInfoParam,
) -> Result:
    """A team's points with what the engine knows of them."""
    return Result(total[1], window, info)


def pane(time: str, its: Result) -> Pane:
    """What is printed of a result."""
    points, timing = its.points, its.info.timing.name
    if its.info.is_retraction:
        points, timing = -points, f"{timing}, taken back"
    return Pane(time, span(its.window), points, timing)


def span(window: BoundedWindow) -> str:
    """A window in hours and minutes, and seconds where there are some.

    >>> span(IntervalWindow(43_350, 43_440))
    '[12:02:30, 12:04)'
    """
    if isinstance(window, IntervalWindow):
        ends = (clock(seconds) for seconds in (int(window.start), int(window.end)))
        return "[{}, {})".format(*(time.removesuffix(":00") for time in ends))
    return "all of time"


def report(build: Build, inputs: Sequence[Input], runner: Any = None) -> Iterator[str]:
    """Run an example; its panes, input by input."""
    outcomes = play([Case(given.name, build, given) for given in inputs], runner)
    for name, outcome in outcomes.items():
        yield f"{name}\n{outcome}"


def show(build: Build, inputs: Sequence[Input]) -> None:
    """What each example does as a program."""
    parser = argparse.ArgumentParser(description="Print the panes of an example of the article Streaming 102.")
    parser.add_argument("--runner", help="LocalRunner or SparkRunner (default: HEADRACE_RUNNER, else Spark)")
    parser.add_argument("--bounded", action="store_true", help="have all scores from the beginning")
    given = parser.parse_args()
    print(*report(build, [*map(bounded, inputs)] if given.bounded else inputs, given.runner), sep="\n\n")
