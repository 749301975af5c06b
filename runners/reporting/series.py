"""Time series of a run for monitoring systems: their names and labels, and how each is read from a run's progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import NamedTuple, TypeVar

from headrace.lowlevel.metric import ENGINE
from headrace.lowlevel.metric_cells import (
    BoundedTrieCell,
    Cell,
    CounterCell,
    DistributionCell,
    GaugeCell,
    HistogramCell,
    StringSetCell,
    width,
)
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import step_figures

C = TypeVar("C", bound=Cell)
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
        """The name in the notation of Prometheus."""
        return _prometheus_name(self.name, self.unit)

    def values(self, activity: Activity | None, progress: EpochProgress | None) -> Values:
        """The values of a run, of which not everything may be known yet."""
        now = {} if self.now is None or activity is None else self.now(activity)
        return {**now, **({} if self.last is None or progress is None else self.last(progress))}


def _prometheus_name(name: str, unit: str) -> str:
    """A name in the notation of Prometheus, which has the unit of times."""
    ending = "_seconds" if unit == "s" and not name.endswith("seconds") else ""
    return f"headrace_{name.replace('.', '_')}{ending}"


class Buckets(NamedTuple):
    """A histogram."""

    bounds: Sequence[float]
    """Upper bound of each bucket, ascending; the last one is infinite."""
    counts: Sequence[int]
    """Number of values in each bucket, or in a bucket before it."""
    sum: float | None
    """The sum of the values; None if it is not known."""

    def by_label(self) -> list[tuple[str, int]]:
        """The label `le` of each bucket, with its number of values.

        >>> Buckets([0.5, inf], [2, 3], None).by_label()
        [('0.5', 2), ('+Inf', 3)]
        """
        return [
            ("+Inf" if bound == inf else str(float(bound)), count)
            for bound, count in zip(self.bounds, self.counts, strict=True)
        ]

    @classmethod
    def of(cls, counts: Mapping[float, int], total: float | None) -> Buckets:
        """The histogram of upper bound -> number of values in the bucket."""
        bounds = sorted({*counts, inf})
        return cls(bounds, list(accumulate(counts.get(bound, 0) for bound in bounds)), total)


@dataclass(frozen=True, slots=True)
class HistogramSeries:
    """One metric whose values are histograms."""

    name: str
    about: str
    unit: str
    labels: tuple[str, ...]
    last: Callable[[EpochProgress], Mapping[tuple[str, ...], Buckets]]
    """Reads the histograms from the last commit, by labels."""

    def values(self, progress: EpochProgress | None) -> Mapping[tuple[str, ...], Buckets]:
        """The histograms of a run by labels; none before its first commit."""
        return {} if progress is None else self.last(progress)

    @property
    def prometheus_name(self) -> str:
        """The name in the notation of Prometheus."""
        return _prometheus_name(self.name, self.unit)


def _latencies(progress: EpochProgress) -> Mapping[tuple[str, ...], Buckets]:
    return {
        (step,): Buckets(its.BOUNDS, list(accumulate(its.counts)), its.sum) for step, its in progress.latencies.items()
    }


def _user_histograms(progress: EpochProgress) -> Mapping[tuple[str, ...], Buckets]:
    found = {}
    for labels, cell in _user_cells(progress, HistogramCell).items():
        counts: dict[float, int] = {}
        for bucket, count in cell.counts.items():
            is_above = bucket.position >= bucket.number
            bound = inf if is_above else bucket.start + (bucket.position + 1) * bucket.width
            counts[bound] = counts.get(bound, 0) + count
        found[labels] = Buckets.of(counts, None)
    return found


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


def _user_cells(progress: EpochProgress, kind: type[C]) -> dict[tuple[str, ...], C]:
    """Step, namespace and name -> the cell, of metrics of user code of one kind."""
    return {
        (step, metric.namespace, metric.name): cell
        for step, cells in progress.metrics.items()
        for metric, cell in cells.items()
        if metric.namespace != ENGINE and isinstance(cell, kind)
    }


def _of_user(name: str, about: str, kind: type[C], content: Callable[[C], float], is_count: bool = False) -> Series:
    def last(progress: EpochProgress) -> Values:
        return {labels: content(cell) for labels, cell in _user_cells(progress, kind).items()}

    return Series(name, about, "", _OF_USER, last, is_count=is_count)


def _of_values(name: str, about: str, content: Callable[[DistributionCell], float]) -> Series:
    """A series of the distributions that have a value."""

    def last(progress: EpochProgress) -> Values:
        cells = _user_cells(progress, DistributionCell)
        return {labels: content(cell) for labels, cell in cells.items() if cell.count}

    return Series(name, about, "", _OF_USER, last)


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
    _of_user("user_counter", "Counters of user code.", CounterCell, lambda cell: cell.total),
    _of_user("user_gauge", "Gauges of user code.", GaugeCell, lambda cell: cell.value),
    _of_user(
        *("user_distribution_count", "Values that were reported.", DistributionCell, lambda cell: cell.count),
        is_count=True,
    ),
    _of_user("user_distribution_sum", "Their sum.", DistributionCell, lambda cell: cell.sum),
    _of_values("user_distribution_min", "The least of them.", lambda cell: cell.least),
    _of_values("user_distribution_max", "The greatest of them.", lambda cell: cell.greatest),
    _of_user("user_string_set_size", "Strings in a set of user code.", StringSetCell, lambda cell: len(cell.strings)),
    _of_user("user_trie_size", "Paths in a trie of user code.", BoundedTrieCell, lambda cell: width(cell.paths)),
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
HISTOGRAMS = (
    HistogramSeries(
        *("record_latency", "From the start of the epoch that read a record to its commit.", "s", _STEP, _latencies)
    ),
    HistogramSeries("user_histogram", "Histograms of user code.", "", _OF_USER, _user_histograms),
)
"""All series of histograms."""
