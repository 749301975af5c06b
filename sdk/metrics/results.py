"""What a run has counted (`apache_beam.metrics.execution`, `apache_beam.metrics.cells`).

Only what was committed is ever known, so `attempted` is the same as `committed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Generic, TypedDict, TypeVar, cast

from headrace.lowlevel.metric import Cell, Cells, CounterCell, DistributionCell, GaugeCell, StringSetCell
from headrace.sdk.metrics.base import MetricName
from headrace.sdk.metrics.metric import MetricsFilter

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class MetricKey:
    """Whose metric it is."""

    step: str
    """The step's label, after those of the composite transforms around it."""
    metric: MetricName

    def __str__(self) -> str:
        return f"MetricKey(step={self.step}, metric={self.metric})"


@dataclass(frozen=True, slots=True)
class DistributionResult:
    """What a distribution has come to.

    >>> DistributionResult(sum=9, count=2, min=4, max=5).mean
    4.5
    """

    sum: int
    count: int
    min: int | None
    """None if there was no number."""
    max: int | None

    @property
    def mean(self) -> float | None:
        """The mean of the numbers; None if there was none."""
        return self.sum / self.count if self.count else None


@dataclass(frozen=True, slots=True)
class GaugeResult:
    """The latest value of a gauge."""

    value: int
    timestamp: float
    """The wall clock of the epoch in which it was set, seconds since 1970 UTC."""


@dataclass(frozen=True)
class MetricResult(Generic[ResultT]):
    """A step's metric."""

    key: MetricKey
    committed: ResultT
    """As of the last commit."""
    attempted: ResultT
    """The same: what is not committed is not reported."""

    @property
    def result(self) -> ResultT:
        """The value."""
        return self.committed

    def __str__(self) -> str:
        return f"MetricResult(key={self.key}, committed={self.committed}, attempted={self.attempted})"


class Found(TypedDict):
    """What a query gives: results by kind, each list in order of step, namespace and name."""

    counters: list[MetricResult[int]]
    distributions: list[MetricResult[DistributionResult]]
    gauges: list[MetricResult[GaugeResult]]
    string_sets: list[MetricResult[set[str]]]


class MetricResults:
    """All metrics of a run.

    Args:
        metrics: Step -> metric -> value.
    """

    COUNTERS = "counters"
    DISTRIBUTIONS = "distributions"
    GAUGES = "gauges"
    STRINGSETS = "string_sets"

    def __init__(self, metrics: Cells) -> None:
        self._metrics = metrics

    def query(self, filter: MetricsFilter | None = None) -> Found:
        """The metrics that a filter asks for; without one all of user code."""
        found = Found(counters=[], distributions=[], gauges=[], string_sets=[])
        for key, cell in self._matching(filter or MetricsFilter()):
            if isinstance(cell, CounterCell):
                found["counters"].append(_result(key, cell.total))
            elif isinstance(cell, DistributionCell):
                found["distributions"].append(_result(key, _distribution(cell)))
            elif isinstance(cell, GaugeCell):
                found["gauges"].append(_result(key, GaugeResult(cell.value, cell.timestamp / 1e6)))
            else:
                found["string_sets"].append(_result(key, set(cast(StringSetCell, cell).strings)))
        return found

    def _matching(self, wanted: MetricsFilter) -> Iterator[tuple[MetricKey, Cell]]:
        for step, cells in sorted(self._metrics.items()):
            for metric, cell in sorted(cells.items(), key=itemgetter(0)):
                name = MetricName(metric.namespace, metric.name)
                if wanted.matches(step, name):
                    yield MetricKey(step, name), cell


def _result(key: MetricKey, value: ResultT) -> MetricResult[ResultT]:
    return MetricResult(key, value, value)


def _distribution(cell: DistributionCell) -> DistributionResult:
    if not cell.count:
        return DistributionResult(0, 0, None, None)
    return DistributionResult(cell.sum, cell.count, cell.least, cell.greatest)
