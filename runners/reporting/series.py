"""Time series of a run for monitoring systems: their names and labels, and how each is read from a run's progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from headrace.lowlevel.metric import ENGINE
from headrace.lowlevel.metric_cells import Cell, CounterCell, DistributionCell, GaugeCell
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import step_figures

Values = Mapping[tuple[str, ...], float]
"""Values by those of the labels."""
_STEP, _OF_USER = ("step",), ("step", "namespace", "name")
_FROM_ZERO = ("dropped_late", "dead_letters")
"""What alerts count begins with 0, as an increase from nothing is none to Prometheus."""


@dataclass(frozen=True, slots=True)
class Series:
    """One metric, with a value for each combination of labels.

    >>> series = Series("epoch.seconds", "How long it took.", "s", last=lambda progress: {(): progress.seconds})
    >>> series.prometheus_name, series.values(None, EpochProgress(7, 1, 1, 0, 0, 0, 0, 0, 8.5))
    ('headrace_epoch_seconds', {(): 8.5})
    """

    name: str
    """In the notation of OpenTelemetry, without `headrace.`."""
    about: str
    unit: str = ""
    """Of OpenTelemetry."""
    labels: tuple[str, ...] = ()
    last: Callable[[EpochProgress], Values] | None = None
    """Reads values from the last commit."""
    now: Callable[[Activity], Values] | None = None
    """Reads values from what the run does now; those of the last commit come before them."""
    is_count: bool = False
    """Whether values never decrease while the run lasts."""

    @property
    def prometheus_name(self) -> str:
        """The name in the notation of Prometheus, which has the unit of times."""
        ending = "_seconds" if self.unit == "s" and not self.name.endswith("seconds") else ""
        return f"headrace_{self.name.replace('.', '_')}{ending}"

    def values(self, activity: Activity | None, progress: EpochProgress | None) -> Values:
        """The values of a run, of which not everything may be known yet."""
        now = {} if self.now is None or activity is None else self.now(activity)
        return {**now, **({} if self.last is None or progress is None else self.last(progress))}


def _count(name: str, about: str) -> Series:
    def last(progress: EpochProgress) -> Values:
        counts = [(step.step, getattr(step, name)) for step in step_figures(progress.metrics)]
        return {(step,): count for step, count in counts if count or (count is not None and name not in _FROM_ZERO)}

    def zeros(activity: Activity) -> Values:
        return {(step,): 0 for step in activity.steps}

    return Series(name, about, "", _STEP, last, zeros if name in _FROM_ZERO else None, is_count=True)


def _level(name: str, about: str, unit: str, size: float) -> Series:
    def last(progress: EpochProgress) -> Values:
        levels = [(step.step, getattr(step, name)) for step in step_figures(progress.metrics)]
        return {(step,): inf if of >= MAX_TIMESTAMP else of / size for step, of in levels if of is not None}

    return Series(name, about, unit, _STEP, last)


def _of_user(name: str, about: str, kind: type[Cell], content: str, is_count: bool = False) -> Series:
    def last(progress: EpochProgress) -> Values:
        return {
            (step, metric.namespace, metric.name): getattr(cell, content)
            for step, cells in progress.metrics.items()
            for metric, cell in cells.items()
            if metric.namespace != ENGINE and isinstance(cell, kind)
        }

    return Series(name, about, "", _OF_USER, last, is_count=is_count)


def _with_label(values: Mapping[str, float]) -> Values:
    return {(label,): value for label, value in values.items()}


def _parts(progress: EpochProgress) -> Values:
    # How long the epoch of a commit took that the run goes on from is not known.
    return _with_label({**progress.phases, "all": progress.seconds} if progress.phases else {})


def _running(activity: Activity) -> Values:
    doing = activity.doing()
    return {(doing.phase, doing.step): doing.seconds}


SERIES = (
    Series("starts", "How many drivers the checkpoint has had; 1 without one.", now=lambda run: {(): run.generation}),
    Series("running", "How long the run has been in its phase.", "s", ("phase", "step"), now=_running),
    Series(
        *("epoch.running", "How long the running epoch has taken.", "s"),
        now=lambda run: {(): run.doing().epoch_seconds or 0.0},
    ),
    Series("epoch", "The last epoch that is committed.", last=lambda progress: {(): progress.epoch}),
    Series("epoch.seconds", "How long its parts took.", "s", ("phase",), _parts),
    Series(
        *("epoch.fill", "Records of the last epoch as a share of what it could take; 1 if more may be waiting."),
        last=lambda progress: {} if progress.fill is None else {(): progress.fill},
    ),
    Series(
        *("sink.seconds", "How long a sink delivered the last epoch.", "s", _STEP),
        lambda progress: _with_label(progress.sinks),
    ),
    Series(
        *("hot_key_share", "Share of records of one key in the last epoch.", "", _STEP),
        lambda progress: {(step,): share for step, (_, share) in progress.hot_keys.items()},
    ),
    # Beam's counters may decrease, those of Prometheus must not.
    _of_user("user_counter", "Counters of user code.", CounterCell, "total"),
    _of_user("user_gauge", "Gauges of user code.", GaugeCell, "value"),
    _of_user("user_distribution_count", "Values that were reported.", DistributionCell, "count", is_count=True),
    _of_user("user_distribution_sum", "Their sum.", DistributionCell, "sum"),
    _count("records_in", "Records that came to the step."),
    _count("records_out", "Records that the step put out."),
    _count("by_column", "Records that the step took as columns."),
    _count("one_by_one", "Records that the step took one by one."),
    _count("late", "Records that were behind the low watermark."),
    _count("dropped_late", "Late records that were dropped."),
    _count("duplicates", "Records that had been processed before, and were dropped."),
    _count("dead_letters", "Records for which user code raised, and that were set aside."),
    _count("timers", "Timers that have fired."),
    _level("watermark", "Low watermark, seconds since 1970; +Inf when nothing more can come.", "s", 1e6),
    _level("lag", "How far the watermark is behind the greatest timestamp read.", "s", 1e6),
    _level("backlog", "Records that wait in the source.", "", 1),
    _level("state_bytes", "What is stored of the step.", "By", 1),
)
"""All series, those of the run first."""
