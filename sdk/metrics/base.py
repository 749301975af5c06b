"""Metrics that user code reports values to (`apache_beam.metrics.metricbase`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.lowlevel import metric as lowlevel


@dataclass(frozen=True, slots=True)
class MetricName:
    """The name of a metric and its namespace.

    Raises:
        ValueError: The namespace or the name is not a non-empty string.

    >>> str(MetricName("words", "short"))
    'MetricName(namespace=words, name=short)'
    """

    namespace: str
    name: str

    def __post_init__(self) -> None:
        for part in ("namespace", "name"):
            value = getattr(self, part)
            if not isinstance(value, str) or not value:
                raise ValueError(f"the {part} of a metric must be a non-empty string, got {value!r:.200}")

    def __str__(self) -> str:
        return f"MetricName(namespace={self.namespace}, name={self.name})"


class Metric:
    """Base of metrics: user code reports values in a step while a pipeline runs; other reports are ignored.

    >>> from headrace.metrics import Metrics
    >>> counter = Metrics.counter("scores", "lines")
    >>> isinstance(counter, Metric), counter.metric_name.name
    (True, 'lines')
    """

    kind: ClassVar[str]

    def __init__(self, metric_name: MetricName) -> None:
        self.metric_name = metric_name
        self._metric = lowlevel.TypedMetricName(self.kind, metric_name.namespace, metric_name.name)

    def _report(self, value: object) -> None:
        lowlevel.report(self._metric, value)


class Counter(Metric):
    """A sum of whole numbers.

    >>> import headrace as beam
    >>> from headrace.metrics import Metrics
    >>> class Note(beam.DoFn):
    ...     def __init__(self):
    ...         self.sold = Metrics.counter("shop", "sold")
    ...
    ...     def process(self, amount):
    ...         self.sold.inc(amount)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([3, 5]) | beam.ParDo(Note())
    >>> pipeline.result.metrics().query()["counters"][0].committed
    8
    """

    kind = "counter"

    def inc(self, n: int = 1) -> None:
        """Add `n` to the counter."""
        self._report(n)

    def dec(self, n: int = 1) -> None:
        """Subtract `n` from the counter."""
        self._report(-n)


class Distribution(Metric):
    """Sum, count, minimum and maximum of whole numbers.

    >>> import headrace as beam
    >>> from headrace.metrics import Metrics
    >>> class Note(beam.DoFn):
    ...     def __init__(self):
    ...         self.amounts = Metrics.distribution("shop", "amounts")
    ...
    ...     def process(self, amount):
    ...         self.amounts.update(amount)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([3, 5]) | beam.ParDo(Note())
    >>> pipeline.result.metrics().query()["distributions"][0].committed
    DistributionResult(sum=8, count=2, min=3, max=5)
    """

    kind = "distribution"

    def update(self, value: int) -> None:
        """Add a number to the distribution."""
        self._report(value)


class Gauge(Metric):
    """The latest value of a whole number.

    >>> import headrace as beam
    >>> from headrace.metrics import Metrics
    >>> class Note(beam.DoFn):
    ...     def __init__(self):
    ...         self.newest = Metrics.gauge("shop", "newest")
    ...
    ...     def process(self, amount):
    ...         self.newest.set(amount)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([3, 5]) | beam.ParDo(Note())
    >>> pipeline.result.metrics().query()["gauges"][0].committed.value
    5
    """

    kind = "gauge"

    def set(self, value: int) -> None:
        """Replace the value of the gauge."""
        self._report(value)


class StringSet(Metric):
    """A set of strings of at most a million characters in all; further strings are left out.

    >>> import headrace as beam
    >>> from headrace.metrics import Metrics
    >>> class Note(beam.DoFn):
    ...     def __init__(self):
    ...         self.seen = Metrics.string_set("shop", "seen")
    ...
    ...     def process(self, amount):
    ...         self.seen.add(str(amount))
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([3, 5]) | beam.ParDo(Note())
    >>> sorted(pipeline.result.metrics().query()["string_sets"][0].committed)
    ['3', '5']
    """

    kind = "string_set"

    def add(self, value: str) -> None:
        """Add a string to the set."""
        self._report(value)
