"""Results of queries for the metrics of a run (`apache_beam.metrics.execution`, `apache_beam.metrics.cells`).

Only committed values are reported, so `attempted` is the same as `committed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Generic, TypedDict, TypeVar

from headrace.lowlevel.metric import MetricValues
from headrace.lowlevel.metric_cells import Cell, CounterCell, DistributionCell, GaugeCell, StringSetCell
from headrace.sdk.metrics.metric import MetricName, MetricsFilter

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class MetricKey:
    """The step and the name of a metric.

    >>> key = MetricKey("Parse", MetricName("scores", "lines"))
    >>> key.step, key.metric.name
    ('Parse', 'lines')
    """

    step: str
    """The full label of the step, with the labels of the enclosing composite transforms."""
    metric: MetricName

    def __str__(self) -> str:
        return f"MetricKey(step={self.step}, metric={self.metric})"


@dataclass(frozen=True, slots=True)
class DistributionResult:
    """The result of a distribution.

    >>> DistributionResult(sum=9, count=2, min=4, max=5).mean
    4.5
    """

    sum: int
    count: int
    min: int | None
    """Least number; None if no number was reported."""
    max: int | None
    """Greatest number; None if no number was reported."""

    @property
    def mean(self) -> float | None:
        """The mean of the numbers; None if no number was reported."""
        return self.sum / self.count if self.count else None


@dataclass(frozen=True, slots=True)
class GaugeResult:
    """The latest value of a gauge.

    >>> GaugeResult(7, timestamp=1.5).value
    7
    """

    value: int
    timestamp: float
    """Wall clock of the epoch in which the gauge was set, seconds since 1970 UTC."""


@dataclass(frozen=True)
class MetricResult(Generic[ResultT]):
    """The value of a metric in one step.

    >>> found = MetricResult(MetricKey("Parse", MetricName("scores", "lines")), committed=3, attempted=3)
    >>> found.key.step, found.committed
    ('Parse', 3)
    """

    key: MetricKey
    committed: ResultT
    """The value as of the last commit."""
    attempted: ResultT
    """The same value as `committed`, as uncommitted values are not reported."""

    @property
    def result(self) -> ResultT:
        """The committed value."""
        return self.committed

    def __str__(self) -> str:
        return f"MetricResult(key={self.key}, committed={self.committed}, attempted={self.attempted})"


class Found(TypedDict):
    """The answer to a query: results by kind of metric; each list is sorted by step, namespace and name."""

    counters: list[MetricResult[int]]
    distributions: list[MetricResult[DistributionResult]]
    gauges: list[MetricResult[GaugeResult]]
    string_sets: list[MetricResult[set[str]]]


class MetricResults:
    """All metrics of a run.

    >>> import headrace as beam
    >>> from headrace.metrics import Metrics
    >>> def parse(line):
    ...     Metrics.counter("scores", "lines").inc()
    ...     return int(line)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | "Lines" >> beam.Create(["5", "7"]) | "Parse" >> beam.Map(parse)
    >>> for counter in pipeline.result.metrics().query()["counters"]:
    ...     print(counter.key.step, counter.key.metric.name, counter.committed)
    Parse lines 2

    Args:
        metrics: Step -> metric -> value.
    """

    COUNTERS = "counters"
    DISTRIBUTIONS = "distributions"
    GAUGES = "gauges"
    STRINGSETS = "string_sets"

    def __init__(self, metrics: MetricValues) -> None:
        self._metrics = metrics

    def query(self, filter: MetricsFilter | None = None) -> Found:
        """The metrics that a filter selects; all metrics of user code if there is no filter."""
        found = Found(counters=[], distributions=[], gauges=[], string_sets=[])
        for key, cell in self._matching(filter or MetricsFilter()):
            if isinstance(cell, CounterCell):
                found["counters"].append(_result(key, cell.total))
            elif isinstance(cell, DistributionCell):
                found["distributions"].append(_result(key, _distribution(cell)))
            elif isinstance(cell, GaugeCell):
                found["gauges"].append(_result(key, GaugeResult(cell.value, cell.timestamp / 1e6)))
            elif isinstance(cell, StringSetCell):
                found["string_sets"].append(_result(key, set(cell.strings)))
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
