"""The course of a run: its latest samples, and what follows from them: rates, and watermarks that stand still.

A sample has the figures of a run after one epoch, from the progress of a running process or from a commit.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from threading import Lock
from typing import Any

from headrace.lowlevel.checkpoint import Manifest
from headrace.lowlevel.checkpoint.manifest.fingerprint import SINK
from headrace.lowlevel.metric import MetricValues, added, decode_metrics
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.engine.driver.progress import engine_metrics
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import StepFigures, shown_bytes, shown_span, step_figures, total
from headrace.ui.checkpoint_report import recorders_of
from headrace.ui.snapshot import ChartedTime, EpochBar, History, StepRow, Totals


@dataclass(frozen=True, slots=True)
class RunSample(EpochProgress):
    """The figures of a run after one epoch, without metrics. Phases are empty where only its commit is known."""

    steps: Mapping[str, StepFigures] = field(default_factory=dict)


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
    given: dict[str, Any] = {each.name: getattr(progress, each.name) for each in fields(progress)}
    return RunSample(**{**given, "metrics": {}}, steps=_of_program(progress.metrics))


def sample_of_commit(commit: Manifest) -> RunSample:
    """The sample of a commit."""
    sinks = commit.topology.of_kind(SINK).keys() - set(recorders_of(commit))
    counters, watermarks, clock = commit.counters, commit.input_watermarks, commit.wall_clock
    metrics = added(decode_metrics(commit.metrics), engine_metrics(counters, watermarks, commit.injectors(), clock, {}))
    return RunSample(
        commit.epoch,
        sum(counters.get(stream, {}).get("records", 0) for stream in commit.positions),
        sum(counters.get(name, {}).get("rows", 0) for name in sinks),
        *(0, 0, min(watermarks.values(), default=MAX_TIMESTAMP), clock),
        max(commit.greatest_timestamps.values(), default=MIN_TIMESTAMP),
        seconds=0.0,
        steps=_of_program(metrics),
    )


def _of_program(metrics: MetricValues) -> dict[str, StepFigures]:
    return {figures.step: figures for figures in step_figures(metrics) if is_of_program(figures.step)}


KEPT = 600
"""Number of samples that are kept."""
DRAWN = 150
"""Number of points of a chart, at most."""
BARS = 40
"""Number of epochs whose durations are drawn."""
_RATES_OVER = 10_000_000
"""Microseconds over which rates are averaged."""
STILL_SECONDS = 30.0
"""Seconds after which a watermark that has not moved is said to stand still."""
BETWEEN_COMMITS = "from commit to commit"


class Course:
    """The latest samples of one run. Threads may use it at the same time.

    >>> course = Course()
    >>> for second in range(1, 4):
    ...     course.note(RunSample(second, 100 * second, 0, 0, 0, 0, second * 1_000_000, 0, 0.0))
    >>> course.totals(True).in_rate
    100.0
    """

    def __init__(self) -> None:
        self._samples: deque[RunSample] = deque(maxlen=KEPT)
        self._moved: dict[str, tuple[int, int, int]] = {}
        """Step -> its watermark, and the wall clock and the records read when it was there first."""
        self._begun: int | None = None
        """The wall clock of the first sample."""
        self._lock = Lock()

    def note(self, sample: RunSample) -> None:
        """Add a sample; one of the last epoch replaces it, one of an earlier epoch is ignored."""
        with self._lock:
            samples = self._samples
            if samples and sample.epoch < samples[-1].epoch:
                return
            if samples and sample.epoch == samples[-1].epoch:
                samples.pop()
            samples.append(sample)
            if self._begun is None:
                self._begun = sample.clock
            for name, figures in sample.steps.items():
                moved = self._moved.get(name)
                if figures.watermark is not None and (moved is None or moved[0] != figures.watermark):
                    self._moved[name] = figures.watermark, sample.clock, sample.records_in

    @property
    def samples(self) -> list[RunSample]:
        """The samples that are kept, oldest first."""
        with self._lock:
            return list(self._samples)

    @property
    def last(self) -> RunSample | None:
        """The last sample; None before the first epoch."""
        with self._lock:
            return self._samples[-1] if self._samples else None

    def totals(self, running: bool, stored_bytes: int | None = None) -> Totals:
        """The figures of the whole run. There must be a sample."""
        samples = self.samples
        last, first = samples[-1], _start_of_rates(samples)
        steps = last.steps.values()
        known = [step.state_bytes for step in steps if step.state_bytes is not None]
        state = sum(known) if known else stored_bytes
        return Totals(
            last.records_in,
            last.records_out,
            _rate(first.records_in, last.records_in, first, last) if running else None,
            _rate(first.records_out, last.records_out, first, last) if running else None,
            total(steps, "late"),
            total(steps, "dropped_late"),
            total(steps, "duplicates"),
            total(steps, "dead_letters"),
            ChartedTime.of(last.watermark),
            shown_span(last.lag),
            shown_bytes(state),
        )

    def steps(self, running: bool) -> list[StepRow]:
        """The figures of each step. There must be a sample."""
        samples = self.samples
        last, first = samples[-1], _start_of_rates(samples)
        return [self._step(name, last.steps[name], first, last, running) for name in last.steps]

    def _step(self, name: str, its: StepFigures, first: RunSample, last: RunSample, running: bool) -> StepRow:
        was = first.steps.get(name, StepFigures(name))
        return StepRow(
            step=name,
            records_in=its.records_in,
            records_out=its.records_out,
            in_rate=_rate(was.records_in or 0, its.records_in, first, last) if running else None,
            out_rate=_rate(was.records_out or 0, its.records_out, first, last) if running else None,
            late=its.late,
            dropped=its.dropped_late,
            duplicates=its.duplicates,
            dead_letters=its.dead_letters,
            timers=its.timers,
            watermark=None if its.watermark is None else ChartedTime.of(its.watermark),
            lag="" if its.lag is None else shown_span(its.lag),
            state="" if its.state_bytes is None else shown_bytes(its.state_bytes),
            still=self._seconds_still(name, last),
            still_at_first=self._moved.get(name, (0, 0, 0))[1] == self._begun,
        )

    def _seconds_still(self, name: str, last: RunSample) -> float | None:
        """Seconds for which the watermark of a step has not moved though records were read; None if it moves."""
        watermark, since, read = self._moved.get(name, (MAX_TIMESTAMP, 0, 0))
        seconds = (last.clock - since) / 1e6
        is_over = watermark == MAX_TIMESTAMP or last.records_in == read
        return None if is_over or seconds < STILL_SECONDS else seconds

    def history(self) -> History:
        """The points of the charts."""
        samples = _chart_samples(self.samples)
        names = dict.fromkeys(name for sample in samples for name, its in sample.steps.items() if its.watermark)
        rates = [None, *(_rate(a.records_in, b.records_in, a, b) for a, b in pairwise(samples))]
        return History(
            [sample.clock / 1e6 for sample in samples],
            [sample.epoch for sample in samples],
            {name: [_seconds(sample.steps, name) for sample in samples] for name in names},
            rates[: len(samples)],
        )

    def epochs(self) -> list[EpochBar]:
        """The durations of the latest epochs, oldest first; where these are unknown, the times between commits."""
        samples = self.samples[-BARS - 1 :]
        bars = []
        for before, sample in zip([None, *samples], samples, strict=False):
            seconds, phases = sample.seconds, sample.phases
            if not phases:
                if before is None:
                    continue
                # Epochs between two that are seen have as long as one another.
                seconds = max(0.0, (sample.clock - before.clock) / 1e6 / (sample.epoch - before.epoch))
                phases = {BETWEEN_COMMITS: seconds}
            read = None if before is None else max(0, sample.records_in - before.records_in)
            bars.append(EpochBar(sample.epoch, sample.clock / 1e6, seconds, phases, read))
        return bars[-BARS:]


def _start_of_rates(samples: Sequence[RunSample]) -> RunSample:
    """The sample from which rates are counted: about ten seconds before the last."""
    last = samples[-1]
    return next((sample for sample in samples if last.clock - sample.clock <= _RATES_OVER), last)


def _rate(before: int, after: int | None, first: RunSample, last: RunSample) -> float | None:
    if after is None or last.clock <= first.clock:
        return None
    return max(0.0, (after - before) / ((last.clock - first.clock) / 1e6))


def _chart_samples(samples: list[RunSample]) -> list[RunSample]:
    """At most `DRAWN` of the samples, evenly, with the last.

    >>> samples = [RunSample(n, 0, 0, 0, 0, 0, n, 0, 0.0) for n in range(600)]
    >>> [len(_chart_samples(samples[:count])) for count in (10, 150, 151, 600)]
    [10, 150, 76, 150]
    """
    step = -(-len(samples) // DRAWN)
    return samples[::-1][:: step or 1][::-1]


def _seconds(steps: Mapping[str, StepFigures], name: str) -> float | None:
    watermark = steps[name].watermark if name in steps else None
    return None if watermark is None or watermark in (MIN_TIMESTAMP, MAX_TIMESTAMP) else watermark / 1e6
