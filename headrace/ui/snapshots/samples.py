"""Samples of a run: its figures after one epoch, from the progress of a running process or from a commit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.lowlevel.checkpoint import Manifest
from headrace.lowlevel.checkpoint.manifest.fingerprint import SINK, Fingerprint
from headrace.lowlevel.metric import ENGINE, decode_metrics
from headrace.lowlevel.metric_cells import CounterCell
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import StepFigures, step_figures
from headrace.ui.snapshots.checkpoint_report import recorders_of


@dataclass(frozen=True, slots=True)
class Sample:
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
        return _lag(self.watermark, self.greatest)


_PARTS_OF_ENGINE = re.compile(r"(^|/)(PaneMark|recorded|recorded input|recorded output)(/|$)")


def is_of_program(step: str) -> bool:
    """Whether a step is one of the program, not one that a sink of files or a recording adds to it.

    >>> [name for name in ("Sum", "Sum/recorded input/sink", "Write/PaneMark", "My records") if is_of_program(name)]
    ['Sum', 'My records']
    """
    return _PARTS_OF_ENGINE.search(step) is None


def sample_of_progress(progress: EpochProgress) -> Sample:
    """The sample of a running process.

    >>> sample_of_progress(EpochProgress(7, 30, 2, 0, 0, 5, 9, 8, 0.25)).lag
    3
    """
    return Sample(
        progress.epoch,
        progress.clock,
        progress.records_in,
        progress.records_out,
        progress.watermark,
        progress.greatest,
        {each.step: each for each in step_figures(progress) if is_of_program(each.step)},
        seconds=progress.seconds,
        phases=progress.phases,
    )


def sample_of_commit(commit: Manifest) -> Sample:
    """The sample of a commit."""
    sinks = commit.topology.of_kind(SINK).keys() - set(recorders_of(commit))
    greatest = max(commit.greatest_timestamps.values(), default=MIN_TIMESTAMP)
    counters = commit.counters
    return Sample(
        commit.epoch,
        commit.wall_clock,
        sum(counters.get(stream, {}).get("records", 0) for stream in commit.positions),
        sum(counters.get(name, {}).get("rows", 0) for name in sinks),
        min(commit.input_watermarks.values(), default=MAX_TIMESTAMP),
        greatest,
        {name: figures for name, figures in _steps(commit, greatest).items() if is_of_program(name)},
        commit.finished,
    )


def _steps(commit: Manifest, greatest: int) -> dict[str, StepFigures]:
    """The figures of every step that a commit knows."""
    found: dict[str, dict[str, int | None]] = {}
    for step, cells in decode_metrics(commit.metrics).items() if commit.metrics else ():
        for metric, cell in cells.items():
            if metric.namespace == ENGINE and isinstance(cell, CounterCell) and metric.name in _COUNTS:
                found.setdefault(step, {})[metric.name] = cell.total
    for step, counters in commit.counters.items():
        for counter, amount in counters.items():
            if (name := _renamed(commit.topology, step, counter)) in _COUNTS:
                found.setdefault(step, {})[name] = amount
    for step, watermark in {**commit.input_watermarks, **commit.injector_watermarks}.items():
        if watermark != MIN_TIMESTAMP:
            found.setdefault(step, {}).update(watermark=watermark, lag=_lag(watermark, greatest))
        else:
            found.setdefault(step, {})
    return {step: StepFigures(step, **values) for step, values in found.items()}


_COUNTS = frozenset(["records_in", "records_out", "late", "dropped_late", "duplicates", "dead_letters", "timers"])


def _renamed(topology: Fingerprint, step: str, counter: str) -> str:
    """The figure that a counter of the engine is, as in the metrics of a run."""
    if counter == "records":
        is_source = any(member.name == step and not member.inputs for member in topology.members)
        return "records_out" if is_source else "records_in"
    return "records_in" if counter == "rows" else counter


def _lag(watermark: int, greatest: int) -> int | None:
    if MIN_TIMESTAMP in (watermark, greatest):
        return None
    return 0 if watermark == MAX_TIMESTAMP else max(0, greatest - watermark)
