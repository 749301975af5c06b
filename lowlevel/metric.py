"""Metrics: numbers that user code keeps beside its output, exact because they are committed with the epoch.

What user code reports is collected per attempt of a task, travels in the task's report and becomes part of the epoch's
commit like productions do (MillWheel paper §6.1.2): an attempt that is not used counts nothing. The kinds are those of
`apache_beam.metrics`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from copy import deepcopy
from dataclasses import dataclass, field
from operator import index
from types import TracebackType
from typing import NamedTuple, Protocol, Self, SupportsIndex, SupportsInt, cast

MOST_CHARACTERS = 1_000_000
"""Of a set of strings: it is part of every commit. Further strings are left out."""


ENGINE = "headrace"
"""The namespace of what the engine itself measures."""


class Cell(Protocol):
    """The value of one metric of one step. Persisted: its `content`."""

    def update(self, value: object, clock: int) -> None:
        """Take in what user code reports; `clock` is the epoch's reading of the wall clock, microseconds UTC."""

    def plus(self, other: Self) -> Self:
        """Both as one, `other` being the later; neither is changed."""

    def content(self) -> Sequence[object]:
        """What JSON keeps; `of` makes the cell again."""

    @classmethod
    def of(cls, content: Sequence[object]) -> Self:
        """The cell of a content."""


@dataclass(slots=True)
class CounterCell:
    """A sum.

    >>> CounterCell(2).plus(CounterCell(-5))
    CounterCell(total=-3)
    """

    total: int = 0

    def update(self, value: object, clock: int) -> None:
        """Add."""
        self.total += _whole(value)

    def plus(self, other: CounterCell) -> CounterCell:
        """See `Cell`."""
        return CounterCell(self.total + other.total)

    def content(self) -> list[int]:
        """See `Cell`."""
        return [self.total]

    @classmethod
    def of(cls, content: Sequence[object]) -> CounterCell:
        """See `Cell`."""
        return cls(*map(_whole, content))


@dataclass(slots=True)
class DistributionCell:
    """Sum, number, least and greatest of whole numbers; `least` and `greatest` say nothing while `count` is 0.

    >>> DistributionCell(5, 1, 5, 5).plus(DistributionCell(3, 2, 1, 2))
    DistributionCell(sum=8, count=3, least=1, greatest=5)
    """

    sum: int = 0
    count: int = 0
    least: int = 0
    greatest: int = 0

    def update(self, value: object, clock: int) -> None:
        """Take in a number."""
        number = _whole(value)
        if not self.count:
            self.least = self.greatest = number
        elif number < self.least:
            self.least = number
        elif number > self.greatest:
            self.greatest = number
        self.sum += number
        self.count += 1

    def plus(self, other: DistributionCell) -> DistributionCell:
        """See `Cell`."""
        if not (self.count and other.count):
            return self if self.count else other
        least, greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        return DistributionCell(self.sum + other.sum, self.count + other.count, least, greatest)

    def content(self) -> list[int]:
        """See `Cell`."""
        return [self.sum, self.count, self.least, self.greatest]

    @classmethod
    def of(cls, content: Sequence[object]) -> DistributionCell:
        """See `Cell`."""
        return cls(*map(_whole, content))


@dataclass(slots=True)
class GaugeCell:
    """The latest value. Of those set in one epoch the later attempt's in the order of level and interval is kept.

    >>> GaugeCell(4, 20).plus(GaugeCell(7, 10))
    GaugeCell(value=4, timestamp=20)
    """

    value: int = 0
    timestamp: int = 0
    """The wall clock of the epoch in which it was set, microseconds UTC."""

    def update(self, value: object, clock: int) -> None:
        """Replace the value."""
        self.value, self.timestamp = int(cast(SupportsInt, value)), clock

    def plus(self, other: GaugeCell) -> GaugeCell:
        """See `Cell`."""
        return self if self.timestamp > other.timestamp else other

    def content(self) -> list[int]:
        """See `Cell`."""
        return [self.value, self.timestamp]

    @classmethod
    def of(cls, content: Sequence[object]) -> GaugeCell:
        """See `Cell`."""
        return cls(*map(_whole, content))


@dataclass(slots=True)
class StringSetCell:
    """Different strings, of `MOST_CHARACTERS` in all.

    >>> sorted(StringSetCell.of(["a", "b"]).plus(StringSetCell.of(["b", "c"])).content())
    ['a', 'b', 'c']
    """

    strings: set[str] = field(default_factory=set)
    size: int = 0

    def update(self, value: object, clock: int) -> None:
        """Add a string."""
        if not isinstance(value, str):
            raise TypeError(f"a string set takes strings, got {value!r:.200} of type {type(value).__name__}")
        if value not in self.strings and self.size + len(value) <= MOST_CHARACTERS:
            self.strings.add(value)
            self.size += len(value)

    def plus(self, other: StringSetCell) -> StringSetCell:
        """See `Cell`."""
        return self.of([*self.strings, *sorted(other.strings)])

    def content(self) -> list[str]:
        """See `Cell`."""
        return sorted(self.strings)

    @classmethod
    def of(cls, content: Sequence[object]) -> StringSetCell:
        """See `Cell`."""
        cell = cls()
        for string in content:
            cell.update(string, 0)
        return cell


def _whole(value: object) -> int:
    """A whole number of any type (numpy's too); TypeError for everything else."""
    return index(cast(SupportsIndex, value))


KINDS: dict[str, type[Cell]] = {
    "counter": CounterCell,
    "distribution": DistributionCell,
    "gauge": GaugeCell,
    "string_set": StringSetCell,
}


class Metric(NamedTuple):
    """What user code reports to."""

    kind: str
    """One of `KINDS`."""
    namespace: str
    name: str


Cells = dict[str, dict[Metric, Cell]]
"""Step -> metric -> its value."""
Where = str | Callable[[], str]
"""The step whose code runs, or how to find it out."""


class Collector:
    """The metrics of one attempt of a task. While it is entered, what user code of this thread reports goes there.

    >>> with Collector(clock=0) as collector, at("Count"):
    ...     report(Metric("counter", "words", "short"), 1)
    >>> collector.cells
    {'Count': {Metric(kind='counter', namespace='words', name='short'): CounterCell(total=1)}}
    """

    def __init__(self, clock: int, step_begins: Callable[[str], None] | None = None) -> None:
        self.cells: Cells = {}
        self.where: Where = ""
        self.step_begins = step_begins
        """Is told the name of each step whose code begins to run, and of the one that goes on behind it."""
        self._clock = clock
        self._tokens: list[Token[Collector | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.reset(self._tokens.pop())

    def saved(self) -> Cells:
        """A copy, for `restore`."""
        return deepcopy(self.cells)

    def restore(self, cells: Cells) -> None:
        """Undo what was reported since this was saved."""
        self.cells.clear()
        self.cells.update(deepcopy(cells))

    def report(self, metric: Metric, value: object) -> None:
        """Update a metric of the step whose code runs."""
        where = self.where
        step = where if isinstance(where, str) else where()
        cells = self.cells.get(step)
        if cells is None:
            cells = self.cells[step] = {}
        cell = cells.get(metric)
        if cell is None:
            cell = cells[metric] = KINDS[metric.kind]()
        cell.update(value, self._clock)


_current: ContextVar[Collector | None] = ContextVar("headrace_metrics", default=None)


def collector() -> Collector | None:
    """Where metrics of this thread go; None where no task runs."""
    return _current.get()


def report(metric: Metric, value: object) -> None:
    """Update a metric of the step whose code runs; where no task runs nothing happens."""
    collector = _current.get()
    if collector is not None:
        collector.report(metric, value)


class at:
    """Says whose code runs inside the `with` block: once a batch or key interval, never once a record."""

    __slots__ = ("_before", "_collector", "_where")

    def __init__(self, where: Where) -> None:
        self._where = where
        self._before: Where = ""

    def __enter__(self) -> None:
        collector = self._collector = _current.get()
        if collector is not None:
            self._before, collector.where = collector.where, self._where
            if collector.step_begins is not None and isinstance(self._where, str):
                collector.step_begins(self._where)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        collector = self._collector
        if collector is not None:
            collector.where = self._before
            if collector.step_begins is not None and isinstance(self._before, str):
                collector.step_begins(self._before)


def added(old: Mapping[str, Mapping[Metric, Cell]], new: Mapping[str, Mapping[Metric, Cell]]) -> Cells:
    """Metrics with later ones on top; neither is changed.

    >>> count = Metric("counter", "words", "short")
    >>> added({"Count": {count: CounterCell(1)}}, {"Count": {count: CounterCell(2)}})["Count"][count]
    CounterCell(total=3)
    """
    total = {step: dict(cells) for step, cells in old.items()}
    for step, cells in new.items():
        sums = total.setdefault(step, {})
        for metric, cell in cells.items():
            before = sums.get(metric)
            sums[metric] = cell if before is None else before.plus(cell)
    return total


def encode_metrics(cells: Mapping[str, Mapping[Metric, Cell]]) -> bytes:
    """As JSON: rows of step, kind, namespace, name, content; nothing at all of no metrics."""
    if not cells:
        return b""
    return json.dumps(
        [[step, *metric, cell.content()] for step, of in cells.items() for metric, cell in of.items()]
    ).encode()


def decode_metrics(data: bytes) -> Cells:
    """Back from the bytes; none are no metrics.

    >>> cells = {"Count": {Metric("gauge", "words", "last"): GaugeCell(3, 60_000_000)}}
    >>> decode_metrics(encode_metrics(cells)) == cells
    True
    """
    cells: Cells = {}
    for step, kind, namespace, name, content in json.loads(data or b"[]"):
        cells.setdefault(step, {})[Metric(kind, namespace, name)] = KINDS[kind].of(content)
    return cells
