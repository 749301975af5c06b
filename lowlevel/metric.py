"""Metrics that user code reports. They are exact, because they are committed with the epoch.

Reported values are collected for each attempt at a task, sent with the task's report, and committed with the epoch, as
productions are (MillWheel paper §6.1.2). Attempts that are not committed count nothing. The kinds are those of
`apache_beam.metrics`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from copy import deepcopy
from types import FrameType, TracebackType
from typing import NamedTuple, Protocol, Self

from headrace.lowlevel.metric_cells import KINDS, Cell

ENGINE = "headrace"
"""The namespace of the engine's own metrics."""


class TypedMetricName(NamedTuple):
    """The identity of a metric: kind, namespace and name."""

    kind: str
    """One of `KINDS`."""
    namespace: str
    name: str


MetricValues = dict[str, dict[TypedMetricName, Cell]]
"""Step -> metric -> its value."""


class StepFinder(Protocol):
    """Finds the step whose code runs."""

    def __call__(self, frame: FrameType | None = None) -> str:
        """The step, from the frame of a thread that runs it; None for the caller's."""


Where = str | StepFinder
"""The step whose code runs, or a function that returns it."""


class Collector:
    """The metrics of one attempt at a task. Inside its `with` block it receives all reports of this thread.

    >>> with Collector(clock=0) as collector, at("Count"):
    ...     report(TypedMetricName("counter", "words", "short"), 1)
    >>> collector.cells
    {'Count': {TypedMetricName(kind='counter', namespace='words', name='short'): CounterCell(total=1)}}
    """

    def __init__(self, clock: int, step_begins: Callable[[Where], None] | None = None) -> None:
        self.cells: MetricValues = {}
        self.where: Where = ""
        self.step_begins = step_begins
        """Called with each step whose code begins to run or continues; None to call nothing."""
        self.clock = clock
        """The epoch's reading of the wall clock, microseconds UTC."""
        self._tokens: list[Token[Collector | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.reset(self._tokens.pop())

    def saved(self) -> MetricValues:
        """A copy of the metrics, for `restore`."""
        return deepcopy(self.cells)

    def restore(self, cells: MetricValues) -> None:
        """Restore metrics that `saved` has returned."""
        self.cells.clear()
        self.cells.update(deepcopy(cells))

    def report(self, metric: TypedMetricName, value: object) -> None:
        """Update a metric of the step whose code runs."""
        where = self.where
        step = where if isinstance(where, str) else where()
        cells = self.cells.get(step)
        if cells is None:
            cells = self.cells[step] = {}
        cell = cells.get(metric)
        if cell is None:
            cell = cells[metric] = KINDS[metric.kind]()
        cell.update(value, self.clock)


_current: ContextVar[Collector | None] = ContextVar("headrace_metrics", default=None)


def collector() -> Collector | None:
    """Where metrics of this thread go; None where no task runs."""
    return _current.get()


def report(metric: TypedMetricName, value: object) -> None:
    """Update a metric of the step whose code runs. Nothing happens outside of tasks."""
    collector = _current.get()
    if collector is not None:
        collector.report(metric, value)


class at:
    """A context manager that sets the current step. It is entered once for each batch or key interval, not record."""

    __slots__ = ("_before", "_collector", "_where")

    def __init__(self, where: Where) -> None:
        self._where = where
        self._before: Where = ""

    def __enter__(self) -> None:
        collector = self._collector = _current.get()
        if collector is not None:
            self._before, collector.where = collector.where, self._where
            if collector.step_begins is not None:
                collector.step_begins(self._where)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        collector = self._collector
        if collector is not None:
            collector.where = self._before
            if collector.step_begins is not None:
                collector.step_begins(self._before)


def added(
    old: Mapping[str, Mapping[TypedMetricName, Cell]], new: Mapping[str, Mapping[TypedMetricName, Cell]]
) -> MetricValues:
    """The total of two sets of metrics, of which `new` is the later. Neither is changed.

    >>> from headrace.lowlevel.metric_cells import CounterCell
    >>> count = TypedMetricName("counter", "words", "short")
    >>> added({"Count": {count: CounterCell(1)}}, {"Count": {count: CounterCell(2)}})["Count"][count]
    CounterCell(total=3)
    """
    total = {step: dict(cells) for step, cells in old.items()}
    add_metrics(total, new)
    return total


def add_metrics(total: MetricValues, new: Mapping[str, Mapping[TypedMetricName, Cell]]) -> None:
    """Add metrics, which stay unchanged, to a total of earlier ones."""
    for step, cells in new.items():
        sums = total.setdefault(step, {})
        for metric, cell in cells.items():
            before = sums.get(metric)
            sums[metric] = cell if before is None else before.plus(cell)


def encode_metrics(cells: Mapping[str, Mapping[TypedMetricName, Cell]]) -> bytes:
    """Encode metrics as JSON rows of step, kind, namespace, name and content; empty bytes if there are no metrics."""
    if not cells:
        return b""
    return json.dumps(
        [[step, *metric, cell.content()] for step, of in cells.items() for metric, cell in of.items()]
    ).encode()


def decode_metrics(data: bytes) -> MetricValues:
    """Decode metrics from `encode_metrics`; empty bytes give no metrics.

    >>> from headrace.lowlevel.metric_cells import GaugeCell
    >>> cells = {"Count": {TypedMetricName("gauge", "words", "last"): GaugeCell(3, 60_000_000)}}
    >>> decode_metrics(encode_metrics(cells)) == cells
    True
    """
    cells: MetricValues = {}
    for step, kind, namespace, name, content in json.loads(data or b"[]"):
        cells.setdefault(step, {})[TypedMetricName(kind, namespace, name)] = KINDS[kind].of(content)
    return cells
