"""What: the KLL sketch, the picklable accumulator of approximate quantiles."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from typing import Protocol, TypeAlias, cast

from headrace.lowlevel.stored_names import stored_as

Key: TypeAlias = Callable[[object], object]
Weighed: TypeAlias = tuple[object, float]
"""A value and its weight."""


class _Ordered(Protocol):
    def __lt__(self, other: object, /) -> bool: ...


@stored_as("RankedValue", parts=attrgetter("rank", "value"))
class _Ranked:
    """A value with its sort key."""

    __slots__ = ("rank", "value")

    def __init__(self, rank: object, value: object) -> None:
        self.rank, self.value = cast(_Ordered, rank), value

    def __lt__(self, other: _Ranked) -> bool:
        return bool(self.rank < other.rank)


def _ranked(value: object, key: Key | None) -> object:
    return value if key is None else _Ranked(key(value), value)


def _plain(item: object) -> object:
    return item.value if isinstance(item, _Ranked) else item


@stored_as("Distribution")
class QuantileSketch:
    """A KLL sketch of weighted values: it keeps all values up to some number, then one of each two.

    Values whose weights are within a factor of 2 are on one level. If a level has too many values, neighbours in sort
    order are paired, and one of each pair is kept with the weight of both, at random in proportion to the weights. So
    the error at any rank is at most one pair for each halving. The random numbers are a fixed sequence: the same values
    in the same parts give the same result in every run (Karnin, Lang and Liberty, "Optimal quantile approximation in
    streams").

    Args:
        k: Capacity of the highest level, in values; each level below has two thirds of the capacity of the one above.
        exact: Number of values up to which all values are kept.
    """

    def __init__(self, k: int, exact: int) -> None:
        self._k, self._exact, self._turns, self._count = k, exact, 0, 0
        self._alike = True
        """Whether all values of each level have the same weight."""
        self._levels: dict[int, list[Weighed]] = {}
        self._extremes: list[object] = []
        """Least and greatest of the discarded values; empty if no value was discarded."""

    def add(self, values: Iterable[Weighed], key: Key | None) -> None:
        """Add pairs (value, weight), compared by the sort keys of the values. Raises `ValueError` for a bad weight."""
        for value, weight in values:
            if not weight >= 0:
                raise ValueError(f"value {value!r:.80} has the weight {weight!r:.80}; a weight must be 0 or more")
            item = _ranked(value, key)
            if weight:
                self._alike = False
                self._levels.setdefault(_level(weight), []).append((item, weight))
                self._count += 1
            else:
                # A value of weight 0 counts only for the extremes.
                self._widen(item, item)
        self._shrink()

    def add_plain(self, values: Iterable[object], key: Key | None) -> None:
        """Add values of weight 1, compared by their sort keys."""
        items = values if key is None else (_ranked(value, key) for value in values)
        level = self._levels.setdefault(_level(1), [])
        before = len(level)
        level.extend((item, 1) for item in items)
        self._count += len(level) - before
        self._shrink()

    def merge(self, other: QuantileSketch) -> None:
        """Merge another accumulator of the same kind."""
        for number, level in other._levels.items():
            self._levels.setdefault(number, []).extend(level)
            self._count += len(level)
        self._turns += other._turns
        self._alike = self._alike and other._alike
        if other._extremes:
            self._widen(*other._extremes)
        self._shrink()

    def extremes(self) -> tuple[object, object] | None:
        """The least and the greatest value added; None if no value was added."""
        kept = [item for level in self._levels.values() for item, _ in level] + self._extremes
        if not kept:
            return None
        return _plain(min(cast("list[int]", kept))), _plain(max(cast("list[int]", kept)))

    def by_rank(self, reverse: bool) -> list[Weighed]:
        """The kept values with their weights, sorted."""
        kept = _in_order([pair for level in self._levels.values() for pair in level], reverse)
        return [(_plain(item), weight) for item, weight in kept]

    def _shrink(self) -> None:
        while self._count > self._exact:
            top = max(self._levels)
            room = {number: max(_LEAST, math.ceil(self._k * _SHARE ** (top - number))) for number in self._levels}
            if self._count <= sum(room.values()):
                return
            self._halve(min(number for number, level in self._levels.items() if len(level) > room[number]))

    def _halve(self, number: int) -> None:
        ordered = _in_order(self._levels.pop(number))
        self._widen(ordered[0][0], ordered[-1][0])
        self._turns += 1
        chance = random.Random(self._turns).random
        if len(ordered) % 2:
            self._levels[number] = [ordered.pop()]
        self._count -= len(ordered) // 2
        if self._alike:
            kept = ordered[chance() < 0.5 :: 2]
            both = 2 * ordered[0][1]
            self._levels.setdefault(_level(both), []).extend([(item, both) for item, _ in kept])
            return
        for (item, weight), (other, more) in zip(ordered[::2], ordered[1::2], strict=True):
            both = weight + more
            pair = (item if chance() * both < weight else other, both)
            self._levels.setdefault(_level(both), []).append(pair)

    def _widen(self, least: object, greatest: object) -> None:
        found = cast("list[int]", [*self._extremes, least, greatest])
        self._extremes = [min(found), max(found)]


_LEAST, _SHARE = 8, 2 / 3


def _level(weight: float) -> int:
    return math.frexp(weight)[1]


def _in_order(kept: Iterable[Weighed], reverse: bool = False) -> list[Weighed]:
    return sorted(kept, key=cast("Callable[[Weighed], int]", itemgetter(0)), reverse=reverse)
