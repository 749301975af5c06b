"""Values of metrics of each kind: how reported values add up, and how they are stored.

The paths of a bounded trie stay few: past a bound, prefixes take the place of the paths below them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import NamedTuple, Protocol, Self, SupportsIndex, SupportsInt, TypeAlias, cast

MOST_PATHS = 100
"""Greatest number of paths and prefixes that a trie keeps, as in Beam's `BoundedTrieData`."""
Node: TypeAlias = "dict[str, Node] | None"
"""Segment -> what follows it; empty at the end of a path; None for a prefix that stands for everything below it."""


def width(node: Node) -> int:
    """Number of paths and prefixes.

    >>> width({"a": {"b": {}, "c": {}}, "d": None})
    3
    """
    return sum(map(width, node.values())) if node else 1


def with_path(node: Node, path: Iterable[str]) -> Node:
    """A trie with one more path, cut to the bound; the given one may be changed."""
    inner = node
    for segment in path:
        if inner is None:
            return node
        inner = inner.setdefault(segment, {})
    return cut(node)


def merged(node: Node, other: Node) -> Node:
    """The paths of both tries; neither is changed.

    >>> merged({"a": {"b": {}}}, {"a": {"c": {}}, "d": None})
    {'a': {'b': {}, 'c': {}}, 'd': None}
    """
    if node is None or other is None:
        return None
    absent = {segment: merged({}, inner) for segment, inner in other.items() if segment not in node}
    return {segment: merged(inner, other.get(segment, {})) for segment, inner in node.items()} | absent


def cut(node: Node, bound: int = MOST_PATHS) -> Node:
    """A trie of at most `bound` paths: the prefix with the most paths below it is shortened, as often as needed.

    >>> cut({"a": {"x": {}, "y": {}}, "b": {}}, 2)
    {'a': None, 'b': {}}
    """
    while width(node) > bound:
        node = _shortened(node)
    return node


def _shortened(node: Node) -> Node:
    assert node, "a trie of more than one path has segments"
    widest = max(node, key=lambda segment: width(node[segment]))
    return {**node, widest: _shortened(node[widest])} if width(node[widest]) > 1 else None


def node_of(content: object) -> Node:
    """The trie of decoded JSON; raises ValueError for anything else."""
    if content is None:
        return None
    if not isinstance(content, Mapping):
        raise ValueError(f"a trie is an object of tries or null, got {content!r:.200}")
    return {str(segment): node_of(inner) for segment, inner in content.items()}


MOST_CHARACTERS = 1_000_000
"""Greatest total length of a string set, which is part of every commit. Further strings are left out."""


class Cell(Protocol):
    """The value of one metric in one step. Persisted: its `content`."""

    def update(self, value: object, clock: int) -> None:
        """Add a reported value.

        Raises TypeError for a value of a wrong type.

        Args:
            value: The value.
            clock: The wall-clock time of the epoch, microseconds UTC.
        """

    def plus(self, other: Self) -> Self:
        """The total of both cells, of which `other` is the later. Neither is changed."""

    def content(self) -> Sequence[object]:
        """The cell's content as JSON values, from which `of` makes the cell again."""

    @classmethod
    def of(cls, content: Sequence[object]) -> Self:
        """The cell with this content."""


@dataclass(slots=True)
class CounterCell:
    """A sum.

    >>> CounterCell(2).plus(CounterCell(-5))
    CounterCell(total=-3)
    """

    total: int = 0

    def update(self, value: object, clock: int) -> None:
        """See `Cell`; the value is an integer."""
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
    """Sum, count, minimum and maximum of integers. `least` and `greatest` have no meaning while `count` is 0.

    >>> DistributionCell(5, 1, 5, 5).plus(DistributionCell(3, 2, 1, 2))
    DistributionCell(sum=8, count=3, least=1, greatest=5)
    """

    sum: int = 0
    count: int = 0
    least: int = 0
    greatest: int = 0

    def update(self, value: object, clock: int) -> None:
        """See `Cell`; the value is an integer."""
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
    """The latest value. Of the values of one epoch, the last in the order of level and interval is kept.

    >>> GaugeCell(4, 20).plus(GaugeCell(7, 10))
    GaugeCell(value=4, timestamp=20)
    """

    value: int = 0
    timestamp: int = 0
    """The wall-clock time of the epoch in which it was set, microseconds UTC."""

    def update(self, value: object, clock: int) -> None:
        """See `Cell`; the value is converted to an integer."""
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
    """A set of strings, of at most `MOST_CHARACTERS` characters in total.

    >>> sorted(StringSetCell.of(["a", "b"]).plus(StringSetCell.of(["b", "c"])).content())
    ['a', 'b', 'c']
    """

    strings: set[str] = field(default_factory=set)
    size: int = 0

    def update(self, value: object, clock: int) -> None:
        """See `Cell`; the value is a string."""
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


@dataclass(slots=True)
class BoundedTrieCell:
    """A set of paths of strings; past a bound, prefixes stand for the paths below them.

    >>> BoundedTrieCell({"a": {"b": {}}}).plus(BoundedTrieCell({"a": {"c": {}}}))
    BoundedTrieCell(paths={'a': {'b': {}, 'c': {}}})
    """

    paths: Node = field(default_factory=dict)

    def update(self, value: object, clock: int) -> None:
        """See `Cell`; the value is a sequence of strings."""
        self.paths = with_path(self.paths, map(str, cast("Sequence[object]", value)))

    def plus(self, other: BoundedTrieCell) -> BoundedTrieCell:
        """See `Cell`."""
        return BoundedTrieCell(cut(merged(self.paths, other.paths)))

    def content(self) -> list[Node]:
        """See `Cell`."""
        return [self.paths]

    @classmethod
    def of(cls, content: Sequence[object]) -> BoundedTrieCell:
        """See `Cell`."""
        return cls(node_of(content[0]))


class Bucket(NamedTuple):
    """One of `number` ranges of equal width, of which the first begins at `start`."""

    start: float
    width: float
    number: int
    position: int
    """From 0 on; -1 for what is below all ranges, `number` for what is above them."""


@dataclass(slots=True)
class HistogramCell:
    """Number of values in each bucket.

    >>> HistogramCell({Bucket(0, 5, 2, 1): 3}).plus(HistogramCell({Bucket(0, 5, 2, 1): 1})).counts
    {Bucket(start=0, width=5, number=2, position=1): 4}
    """

    counts: dict[Bucket, int] = field(default_factory=dict)

    def update(self, value: object, clock: int) -> None:
        """See `Cell`; the value is the bucket."""
        bucket = cast(Bucket, value)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1

    def plus(self, other: HistogramCell) -> HistogramCell:
        """See `Cell`."""
        both = self.counts | other.counts
        return HistogramCell({bucket: self.counts.get(bucket, 0) + other.counts.get(bucket, 0) for bucket in both})

    def content(self) -> list[list[float]]:
        """See `Cell`."""
        return [[*bucket, count] for bucket, count in self.counts.items()]

    @classmethod
    def of(cls, content: Sequence[object]) -> HistogramCell:
        """See `Cell`."""
        rows = cast("Sequence[tuple[float, float, int, int, int]]", content)
        return cls({Bucket(start, width, number, position): count for start, width, number, position, count in rows})


def _whole(value: object) -> int:
    """An integer of any integer type, numpy's included. Raises TypeError for other types."""
    return index(cast(SupportsIndex, value))


KINDS: dict[str, type[Cell]] = {
    "counter": CounterCell,
    "distribution": DistributionCell,
    "gauge": GaugeCell,
    "string_set": StringSetCell,
    "bounded_trie": BoundedTrieCell,
    "histogram": HistogramCell,
}
