"""Metrics that user code reports values to, their makers, and filters of queries (`apache_beam.metrics.metric`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

from headrace.lowlevel import metric as lowlevel
from headrace.lowlevel.metric import ENGINE

T = TypeVar("T")


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


_BY_COLUMN = lowlevel.TypedMetricName("counter", ENGINE, "by_column")
_ONE_BY_ONE = lowlevel.TypedMetricName("counter", ENGINE, "one_by_one")


class ColumnCounts:
    """Counts elements until they are reported as metrics of the step whose code runs."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget what is not reported."""
        self._one_by_one = self._by_column = 0

    def add(self, count: int, by_column: bool) -> None:
        """Count elements that were taken as columns, or one by one."""
        if by_column:
            self._by_column += count
        else:
            self._one_by_one += count

    def report(self) -> None:
        """Report the counts, and begin again."""
        for metric, count in ((_BY_COLUMN, self._by_column), (_ONE_BY_ONE, self._one_by_one)):
            if count:
                lowlevel.report(metric, count)
        self.clear()
