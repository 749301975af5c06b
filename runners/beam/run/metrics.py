"""Metrics of Beam's classes: reported as metrics of the engine, and read back as Beam's results."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, cast

from apache_beam.metrics import cells as beam
from apache_beam.metrics.execution import MetricKey, MetricResult
from apache_beam.metrics.metric import MetricResults, MetricsFilter
from apache_beam.metrics.metricbase import MetricName
from apache_beam.portability.api import metrics_pb2
from apache_beam.utils.histogram import LinearBucket

from headrace.lowlevel import metric_cells
from headrace.lowlevel.metric import ENGINE, Collector, MetricValues, TypedMetricName
from headrace.lowlevel.metric_cells import MOST_PATHS, Node
from headrace.runners.beam.beam_private import bucket_bounds, buckets_of, filled_histogram

_KINDS = {
    beam.CounterCell: "counter",
    beam.DistributionCell: "distribution",
    beam.GaugeCell: "gauge",
    beam.StringSetCell: "string_set",
    beam.BoundedTrieCell: "bounded_trie",
}
_KNOWN: dict[object, TypedMetricName] = {}
"""Beam's typed metric name -> the metric, as user code reports the same few metrics for each element."""


class MetricsTracker:
    """Takes the place of Beam's state sampler in a task: metrics go to the collector of the task.

    It is also the sampler's state and the container of that state, which some of Beam's transforms ask for.

    Args:
        collector: Receives the metrics; None outside of tasks, where metrics are ignored.
    """

    def __init__(self, collector: Collector | None) -> None:
        self._collector = collector

    def update_metric(self, name: object, value: object) -> None:
        """Report a value. Raises TypeError for a value or a kind of metric that is not known."""
        if self._collector is None:
            return
        metric = _KNOWN.get(name)
        if metric is None:
            metric = _KNOWN[name] = _metric_of(name)
        if metric.kind == "histogram":
            buckets = buckets_of(cast(Any, name).cell_type)
            value = _bucket_of(cast(LinearBucket, buckets), cast(float, value))
        self._collector.report(metric, value)

    def current_state(self) -> MetricsTracker:
        """The state of the step that runs."""
        return self

    @property
    def metrics_container(self) -> MetricsTracker:
        """The container of the step's metrics."""
        return self

    @property
    def name_context(self) -> None:
        """No name: the engine names the step in its own messages."""
        return None

    def get_metric_cell(self, name: object) -> _Cell:
        """The metric of a typed name, to update."""
        return _Cell(self, name)


class _Cell:
    """A metric that forwards its updates."""

    def __init__(self, tracker: MetricsTracker, name: object) -> None:
        self._tracker, self._name = tracker, name

    def update(self, value: object) -> None:
        """Report a value."""
        self._tracker.update_metric(self._name, value)


def _metric_of(name: object) -> TypedMetricName:
    """The metric for one of Beam's typed names."""
    cell, metric = name.cell_type, name.metric_name  # type: ignore[attr-defined]  # it is one of Beam's own
    if isinstance(cell, beam.HistogramCellFactory):
        if not isinstance(buckets := buckets_of(cell), LinearBucket):
            raise TypeError(
                f"the histogram {metric.name!r} has buckets of the class {type(buckets).__name__}, which the "
                "runner cannot add up; use LinearBucket"
            )
        return TypedMetricName("histogram", metric.namespace, metric.name)
    return TypedMetricName(_KINDS[cell], metric.namespace, metric.name)


def _bucket_of(buckets: LinearBucket, value: float) -> metric_cells.Bucket:
    start, width, number = bucket_bounds(buckets)
    position = -1 if value < buckets.range_from() else min(number, buckets.bucket_index(value))
    return metric_cells.Bucket(start, width, number, position)


class BeamMetricResults(MetricResults):  # type: ignore[misc]  # Beam's types are not read
    """The metrics of a run as Beam's results; values are those of the last commit, so attempted equals committed.

    The engine's own metrics are in the namespace `headrace`, and given only where a filter names it.

    Args:
        metrics: Step -> metric -> value.
    """

    def __init__(self, metrics: MetricValues) -> None:
        self._metrics = metrics

    def query(self, filter: MetricsFilter | None = None) -> dict[str, list[MetricResult]]:
        """The metrics that a filter selects, by kind."""
        found: dict[str, list[MetricResult]] = {kind: [] for kind in _LISTS.values()}
        wants_engine = filter is not None and ENGINE in filter.namespaces
        for step, cells in sorted(self._metrics.items()):
            for metric, cell in sorted(cells.items(), key=itemgetter(0)):
                key = MetricKey(step, MetricName(metric.namespace, metric.name))
                if (metric.namespace != ENGINE or wants_engine) and self.matches(filter, key):
                    found[_LISTS[metric.kind]] += [MetricResult(key, value, value) for value in _results(cell)]
        return found


_LISTS = {
    "counter": MetricResults.COUNTERS,
    "distribution": MetricResults.DISTRIBUTIONS,
    "gauge": MetricResults.GAUGES,
    "string_set": MetricResults.STRINGSETS,
    "bounded_trie": MetricResults.BOUNDED_TRIES,
    "histogram": MetricResults.HISTOGRAMS,
}


def _results(cell: metric_cells.Cell) -> Iterator[object]:
    """The value of a metric in Beam's classes; a histogram has one for each way in which it is divided into buckets."""
    if isinstance(cell, metric_cells.CounterCell):
        yield cell.total
    elif isinstance(cell, metric_cells.DistributionCell):
        yield beam.DistributionResult(beam.DistributionData(cell.sum, cell.count, cell.least, cell.greatest))
    elif isinstance(cell, metric_cells.GaugeCell):
        yield beam.GaugeResult(beam.GaugeData(cell.value, cell.timestamp / 1e6))
    elif isinstance(cell, metric_cells.StringSetCell):
        yield set(cell.strings)
    elif isinstance(cell, metric_cells.BoundedTrieCell):
        yield beam.BoundedTrieData.from_proto(metrics_pb2.BoundedTrie(bound=MOST_PATHS, root=_proto_of(cell.paths)))
    elif isinstance(cell, metric_cells.HistogramCell):
        yield from _histograms(cell)


def _proto_of(node: Node) -> metrics_pb2.BoundedTrieNode:
    if node is None:
        return metrics_pb2.BoundedTrieNode(truncated=True)
    return metrics_pb2.BoundedTrieNode(children={segment: _proto_of(inner) for segment, inner in node.items()})


def _histograms(cell: metric_cells.HistogramCell) -> Iterator[beam.HistogramResult]:
    for start, width, number in dict.fromkeys(bucket[:3] for bucket in cell.counts):
        same = {b.position: count for b, count in cell.counts.items() if b[:3] == (start, width, number)}
        yield beam.HistogramData(filled_histogram(start, width, number, same)).get_result()
