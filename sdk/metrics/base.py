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
    """Base of metrics: user code reports values in a step while a pipeline runs; other reports are ignored."""

    kind: ClassVar[str]

    def __init__(self, metric_name: MetricName) -> None:
        self.metric_name = metric_name
        self._metric = lowlevel.Metric(self.kind, metric_name.namespace, metric_name.name)

    def _report(self, value: object) -> None:
        lowlevel.report(self._metric, value)


class Counter(Metric):
    """A sum of whole numbers."""

    kind = "counter"

    def inc(self, n: int = 1) -> None:
        """Add `n` to the counter."""
        self._report(n)

    def dec(self, n: int = 1) -> None:
        """Subtract `n` from the counter."""
        self._report(-n)


class Distribution(Metric):
    """Sum, count, minimum and maximum of whole numbers."""

    kind = "distribution"

    def update(self, value: int) -> None:
        """Add a number to the distribution."""
        self._report(value)


class Gauge(Metric):
    """The latest value of a whole number."""

    kind = "gauge"

    def set(self, value: int) -> None:
        """Replace the value of the gauge."""
        self._report(value)


class StringSet(Metric):
    """A set of strings of at most a million characters in all; further strings are left out."""

    kind = "string_set"

    def add(self, value: str) -> None:
        """Add a string to the set."""
        self._report(value)
