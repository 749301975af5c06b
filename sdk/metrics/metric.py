"""The makers of metrics and the filters of queries: `Metrics` and `MetricsFilter` (`apache_beam.metrics.metric`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, TypeVar

from headrace.lowlevel.metric import ENGINE
from headrace.sdk.metrics.base import Counter, Distribution, Gauge, Metric, MetricName, StringSet

T = TypeVar("T")


class Metrics:
    """Makes metrics. Two metrics with the same namespace and name are the same metric; each step has its own value.

    The namespace `headrace` belongs to the engine: making a metric in it raises `ValueError`.

    >>> import headrace as beam
    >>> def note(word):
    ...     Metrics.counter("words", "short" if len(word) < 4 else "long").inc()
    ...     return word
    >>> pipeline = beam.Pipeline("LocalRunner")
    >>> _ = pipeline | beam.Create(["so", "much", "depends"]) | "Note" >> beam.Map(note)
    >>> result = pipeline.run()
    >>> for counter in result.metrics().query(MetricsFilter().with_name("long"))["counters"]:
    ...     print(counter.key.step, counter.result)
    Note 2
    """

    @staticmethod
    def get_namespace(namespace: type | str) -> str:
        """The namespace as a string: a string itself, or the module and name of a class.

        Raises:
            ValueError: The namespace is neither a string nor a class.
        """
        if isinstance(namespace, type):
            return f"{namespace.__module__}.{namespace.__name__}"
        if isinstance(namespace, str):
            return namespace
        raise ValueError(f"a namespace is a string or a class, got {namespace!r:.200}")

    @staticmethod
    def counter(namespace: type | str, name: str) -> Counter:
        """A counter: a sum of whole numbers."""
        return Counter(_name(namespace, name))

    @staticmethod
    def distribution(namespace: type | str, name: str) -> Distribution:
        """A distribution: sum, count, minimum and maximum of whole numbers."""
        return Distribution(_name(namespace, name))

    @staticmethod
    def gauge(namespace: type | str, name: str) -> Gauge:
        """A gauge: the latest value of a whole number."""
        return Gauge(_name(namespace, name))

    @staticmethod
    def string_set(namespace: type | str, name: str) -> StringSet:
        """A set of strings."""
        return StringSet(_name(namespace, name))


def _name(namespace: type | str, name: str) -> MetricName:
    made = MetricName(Metrics.get_namespace(namespace), name)
    if made.namespace == ENGINE:
        raise ValueError(f"metric {name!r} is in the namespace {ENGINE!r} of the engine; choose another namespace")
    return made


class MetricsFilter:
    """Selects the metrics that have one of the given names, one of the given namespaces and one of the given steps.

    A step is given by its label or by a part of its label between slashes: `outer` selects `outer/inner` too.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | "Numbers" >> beam.Create([1, 2]) | "Double" >> beam.Map(lambda number: 2 * number)
    >>> chosen = MetricsFilter().with_namespace("headrace").with_step("Double").with_name("records_in")
    >>> [found.committed for found in pipeline.result.metrics().query(chosen)["counters"]]
    [2]
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._namespaces: set[str] = set()
        self._steps: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        """The selected names; the empty set selects all."""
        return frozenset(self._names)

    @property
    def namespaces(self) -> frozenset[str]:
        """The selected namespaces; the empty set selects all namespaces of user code."""
        return frozenset(self._namespaces)

    @property
    def steps(self) -> frozenset[str]:
        """The selected steps; the empty set selects all."""
        return frozenset(self._steps)

    def with_metric(self, metric: Metric) -> Self:
        """Select a metric by its name and namespace."""
        return self.with_name(metric.metric_name.name).with_namespace(metric.metric_name.namespace)

    def with_name(self, name: str) -> Self:
        """Select a name too, and return the filter."""
        return self.with_names([name])

    def with_names(self, names: Iterable[str]) -> Self:
        """Select names too, and return the filter."""
        self._names.update(_several("names", names))
        return self

    def with_namespace(self, namespace: type | str) -> Self:
        """Select a namespace too, and return the filter."""
        return self.with_namespaces([namespace])

    def with_namespaces(self, namespaces: Iterable[type | str]) -> Self:
        """Select namespaces too, and return the filter."""
        self._namespaces.update(map(Metrics.get_namespace, _several("namespaces", namespaces)))
        return self

    def with_step(self, step: str) -> Self:
        """Select a step too, and return the filter."""
        return self.with_steps([step])

    def with_steps(self, steps: Iterable[str]) -> Self:
        """Select steps too, and return the filter."""
        self._steps.update(_several("steps", steps))
        return self

    def matches(self, step: str, name: MetricName) -> bool:
        """Whether the filter selects a metric of a step. Metrics of the engine must be selected by their namespace."""
        if self._namespaces:
            if name.namespace not in self._namespaces:
                return False
        elif name.namespace == ENGINE:
            return False
        if self._names and name.name not in self._names:
            return False
        return not self._steps or any(f"/{wanted}/" in f"/{step}/" for wanted in self._steps)


def _several(what: str, given: Iterable[T]) -> Iterable[T]:
    if isinstance(given, str):
        raise ValueError(f"{what} must be several, got the string {given!r:.200}; put it in a list")
    return given
