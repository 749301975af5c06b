"""What user code imports to count: `Metrics`, and `MetricsFilter` to ask for it (`apache_beam.metrics.metric`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, TypeVar

from headrace.lowlevel.metric import ENGINE
from headrace.sdk.metrics.base import Counter, Distribution, Gauge, Metric, MetricName, StringSet

T = TypeVar("T")


class Metrics:
    """Makes metrics. The same namespace and name are the same metric, wherever it is made; each step has its own value.

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
        """The namespace itself, or that of a class: its module and name."""
        if isinstance(namespace, type):
            return f"{namespace.__module__}.{namespace.__name__}"
        if isinstance(namespace, str):
            return namespace
        raise ValueError(f"a namespace is a string or a class, got {namespace!r:.200}")

    @staticmethod
    def counter(namespace: type | str, name: str) -> Counter:
        """A counter."""
        return Counter(_name(namespace, name))

    @staticmethod
    def distribution(namespace: type | str, name: str) -> Distribution:
        """A distribution of whole numbers."""
        return Distribution(_name(namespace, name))

    @staticmethod
    def gauge(namespace: type | str, name: str) -> Gauge:
        """A gauge of whole numbers."""
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
    """Which metrics are asked for: those that have one of the names, one of the namespaces and one of the steps given.

    A step is named by its label or by a part of it between slashes: `outer/inner` is found by `outer` too.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._namespaces: set[str] = set()
        self._steps: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        """Names; none stands for all."""
        return frozenset(self._names)

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces; none stands for all those of user code."""
        return frozenset(self._namespaces)

    @property
    def steps(self) -> frozenset[str]:
        """Steps; none stands for all."""
        return frozenset(self._steps)

    def with_metric(self, metric: Metric) -> Self:
        """Ask for a metric by its name and namespace."""
        return self.with_name(metric.metric_name.name).with_namespace(metric.metric_name.namespace)

    def with_name(self, name: str) -> Self:
        """Ask for a name."""
        return self.with_names([name])

    def with_names(self, names: Iterable[str]) -> Self:
        """Ask for names."""
        self._names.update(_several("names", names))
        return self

    def with_namespace(self, namespace: type | str) -> Self:
        """Ask for a namespace."""
        return self.with_namespaces([namespace])

    def with_namespaces(self, namespaces: Iterable[type | str]) -> Self:
        """Ask for namespaces."""
        self._namespaces.update(map(Metrics.get_namespace, _several("namespaces", namespaces)))
        return self

    def with_step(self, step: str) -> Self:
        """Ask for a step."""
        return self.with_steps([step])

    def with_steps(self, steps: Iterable[str]) -> Self:
        """Ask for steps."""
        self._steps.update(_several("steps", steps))
        return self

    def matches(self, step: str, name: MetricName) -> bool:
        """Whether a step's metric is asked for. The engine's own have to be asked for by their namespace."""
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
