"""Samples of a run: its figures after one epoch, from the progress of a running process or from a commit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.lowlevel.checkpoint import Manifest
from headrace.lowlevel.checkpoint.manifest.fingerprint import SINK
from headrace.lowlevel.metric import MetricValues, added, decode_metrics
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.engine.driver.progress import engine_metrics
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import StepFigures, step_figures
from headrace.ui.snapshots.checkpoint_report import recorders_of


@dataclass(frozen=True, slots=True)
class RunSample:
    """The figures of a run after one epoch. Times are microseconds UTC."""

    epoch: int
    clock: int
    """The wall clock of the epoch."""
    records_in: int
    records_out: int
    watermark: int
    """The least input low watermark of all computations."""
    greatest: int
    """The greatest timestamp read."""
    steps: Mapping[str, StepFigures]
    finished: bool = False
    seconds: float | None = None
    """How long the epoch took; None where only its commit is known."""
    phases: Mapping[str, float] = field(default_factory=dict)

    @property
    def lag(self) -> int | None:
        """How far the least watermark is behind the greatest timestamp read, in microseconds; None if unknown."""
        unknown = MIN_TIMESTAMP in (self.watermark, self.greatest)
        return None if unknown else max(0, self.greatest - self.watermark)


_PARTS_OF_ENGINE = re.compile(r"(^|/)(PaneMark|recorded|recorded input|recorded output)(/|$)")


def is_of_program(step: str) -> bool:
    """Whether a step is one of the program, not one that a sink of files or a recording adds to it.

    >>> [name for name in ("Sum", "Sum/recorded input/sink", "Write/PaneMark", "My records") if is_of_program(name)]
    ['Sum', 'My records']
    """
    return _PARTS_OF_ENGINE.search(step) is None


def sample_of_progress(progress: EpochProgress) -> RunSample:
    """The sample of a running process.

    >>> sample_of_progress(EpochProgress(7, 30, 2, 0, 0, 5, 9, 8, 0.25)).lag
    3
    """
    return RunSample(
        progress.epoch,
        progress.clock,
        progress.records_in,
        progress.records_out,
        progress.watermark,
        progress.greatest,
        _of_program(progress.metrics),
        seconds=progress.seconds,
        phases=progress.phases,
    )


def sample_of_commit(commit: Manifest) -> RunSample:
    """The sample of a commit."""
    sinks = commit.topology.of_kind(SINK).keys() - set(recorders_of(commit))
    counters, watermarks, clock = commit.counters, commit.input_watermarks, commit.wall_clock
    metrics = added(decode_metrics(commit.metrics), engine_metrics(counters, watermarks, commit.injectors(), clock, {}))
    return RunSample(
        commit.epoch,
        clock,
        sum(counters.get(stream, {}).get("records", 0) for stream in commit.positions),
        sum(counters.get(name, {}).get("rows", 0) for name in sinks),
        min(watermarks.values(), default=MAX_TIMESTAMP),
        max(commit.greatest_timestamps.values(), default=MIN_TIMESTAMP),
        _of_program(metrics),
        commit.finished,
    )


def _of_program(metrics: MetricValues) -> dict[str, StepFigures]:
    return {figures.step: figures for figures in step_figures(metrics) if is_of_program(figures.step)}
