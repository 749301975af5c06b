"""What: approximate quantiles of a distribution (`apache_beam.transforms.stats.ApproximateQuantilesCombineFn`).

For up to 2,000 values (10,000 weighted values) results are exact and the same as Beam's. More values go into a KLL
sketch: the rank of a quantile is off by at most epsilon (1 / num_quantiles, at most 0.01 with weights) in 99 of 100
cases, whereas Beam's algorithm keeps its bound always; usually both are far closer. The same values in the same parts
give the same result in every run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Protocol, TypeAlias, cast

from headrace.lowlevel.stored_names import named, stored_as
from headrace.sdk.combinefns.combine_fn import CombineFn

Key: TypeAlias = Callable[[object], object]
_LEAST_K, _GREATEST_K = 200, 65_535
EXACT, _EXACT_BY_WEIGHT = 2_000, 10_000
"""Number of values up to which a sketch keeps all, without and with weights."""
_WEIGHTED_EPSILON = 1e-2
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

    @classmethod
    def of_levels(
        cls, k: int, exact: int, values: Iterable[object], levels: Iterable[int], turns: int, extremes: list[object]
    ) -> QuantileSketch:
        """A sketch of values without sort keys and weights, each of which has its level.

        Args:
            k: See the class.
            exact: See the class.
            values: The values that are kept.
            levels: The level of each, from `LOWEST`.
            turns: How often levels were halved.
            extremes: Least and greatest of the discarded values; empty if no value was discarded.
        """
        made = cls(k, exact)
        for value, level in zip(values, levels, strict=True):
            made._levels.setdefault(level, []).append((value, 1 << level - LOWEST))
            made._count += 1
        made._turns, made._extremes = turns, extremes
        return made

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
        while (number := level_to_halve(self.sizes(), self._k, self._exact)) is not None:
            self._halve(number)

    def sizes(self) -> dict[int, int]:
        """Number of values of each level."""
        return {number: len(level) for number, level in self._levels.items()}

    def _halve(self, number: int) -> None:
        ordered = _in_order(self._levels.pop(number))
        self._widen(ordered[0][0], ordered[-1][0])
        self._turns += 1
        chance = chances(self._turns)
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


LOWEST = 1
"""The level of values of weight 1; the weight doubles from level to level."""


def level_to_halve(sizes: Mapping[int, int], k: int, exact: int) -> int | None:
    """The level of a sketch that has too many values, of the lowest weight; None if the sketch keeps few enough.

    `sizes` has the number of values of each level; see `QuantileSketch` for the others.

    >>> level_to_halve({1: 400, 2: 10}, 200, 250), level_to_halve({1: 300}, 200, 300)
    (1, None)
    """
    total = sum(sizes.values())
    if total <= exact:
        return None
    top = max(sizes)
    room = {number: max(_LEAST, math.ceil(k * _SHARE ** (top - number))) for number in sizes}
    return None if total <= sum(room.values()) else min(number for number in sizes if sizes[number] > room[number])


def chances(turn: int) -> Callable[[], float]:
    """The random numbers, from 0 to below 1, for one halving; `turn` is the number of halvings with this one."""
    return random.Random(turn).random


def _level(weight: float) -> int:
    return math.frexp(weight)[1]


def _in_order(kept: Iterable[Weighed], reverse: bool = False) -> list[Weighed]:
    return sorted(kept, key=cast("Callable[[Weighed], int]", itemgetter(0)), reverse=reverse)


@named("ApproximateQuantilesCombineFn")
class ApproximateQuantilesCombineFn(CombineFn[object, QuantileSketch, list[object]]):
    """The least value, `num_quantiles` - 2 values at equal distances of rank, and the greatest, as a sorted list.

    The list is empty if there are no values. The arguments are those of `create`.

    Raises:
        ValueError: `num_quantiles` is below 2, or `epsilon` is not between 0 and 1.

    >>> ApproximateQuantilesCombineFn.create(5).apply(range(101))
    [0, 25, 50, 75, 100]
    """

    def __init__(
        self,
        num_quantiles: int,
        epsilon: float | None = None,
        key: Key | None = None,
        reverse: bool = False,
        weighted: bool = False,
        input_batched: bool = False,
    ) -> None:
        if num_quantiles < 2:
            raise ValueError(f"num_quantiles is {num_quantiles}; give 2 (least and greatest value) or more")
        if epsilon is not None and not 0 < epsilon < 1:
            raise ValueError(f"epsilon is {epsilon}; give a share of the values between 0 and 1")
        self._count, self._key, self._reverse = num_quantiles, key, reverse
        self._weighted, self._batched = weighted, input_batched
        bound = epsilon or 1 / num_quantiles
        # Weights on one level of the sketch differ by a factor of up to 2, and so does the error.
        self._k = 2 * _sketch_size(min(bound, _WEIGHTED_EPSILON)) if weighted else _sketch_size(bound)

    def state_arguments(self) -> Mapping[str, object]:
        """See `CombineFn`: a sketch has the sort keys' order, and a size that follows from the error."""
        return {"key": self._key, "weighted": self._weighted, "size of the sketch": self._k}

    @classmethod
    def create(
        cls,
        num_quantiles: int,
        epsilon: float | None = None,
        max_num_elements: int | None = None,
        key: Key | None = None,
        reverse: bool = False,
        weighted: bool = False,
        input_batched: bool = False,
    ) -> ApproximateQuantilesCombineFn:
        """A combiner with these settings.

        Args:
            num_quantiles: Number of values in the result, including the least and the greatest.
            epsilon: Greatest error of a rank, as a share of all values; by default 1 / `num_quantiles`.
            max_num_elements: Accepted for compatibility with Beam, without effect: the error does not depend on the
                number of values.
            key: Function from a value to the sort key that is compared instead of the value.
            reverse: Whether the greatest values come first.
            weighted: Whether elements are pairs (value, weight).
            input_batched: Whether an element is a list of values, or a pair of lists (values, weights).
        """
        return cls(num_quantiles, epsilon, key, reverse, weighted, input_batched)

    @property
    def is_plain(self) -> bool:
        """Whether elements are values without weights, and are compared themselves."""
        return self._key is None and not self._weighted and not self._batched

    @property
    def settings(self) -> tuple[int, bool, int]:
        """The number of quantiles, whether the greatest values come first, and the parameter k of the sketch."""
        return self._count, self._reverse, self._k

    def create_accumulator(self) -> QuantileSketch:
        """See `CombineFn`."""
        return QuantileSketch(self._k, _EXACT_BY_WEIGHT if self._weighted else EXACT)

    def add_input(self, accumulator: QuantileSketch, element: object) -> QuantileSketch:
        """See `CombineFn`."""
        return self.add_inputs(accumulator, (element,))

    def add_inputs(self, accumulator: QuantileSketch, elements: Iterable[object]) -> QuantileSketch:
        """See `CombineFn`."""
        if self._weighted:
            accumulator.add(cast("Iterable[Weighed]", self._values(elements)), self._key)
        else:
            accumulator.add_plain(self._values(elements), self._key)
        return accumulator

    def _values(self, elements: Iterable[object]) -> Iterable[object]:
        """The values in the elements, or the pairs (value, weight) if the elements are weighted."""
        if not self._batched:
            return elements
        if not self._weighted:
            return (value for batch in cast("Iterable[Iterable[object]]", elements) for value in batch)
        batches = cast("Iterable[tuple[Sequence[object], Sequence[float]]]", elements)
        return (pair for values, weights in batches for pair in zip(values, weights, strict=True))

    def merge_accumulators(self, accumulators: Iterable[QuantileSketch]) -> QuantileSketch:
        """See `CombineFn`."""
        merged = self.create_accumulator()
        for accumulator in accumulators:
            merged.merge(accumulator)
        return merged

    def extract_output(self, accumulator: QuantileSketch) -> list[object]:
        """See `CombineFn`."""
        extremes = accumulator.extremes()
        if extremes is None:
            return []
        least, greatest = reversed(extremes) if self._reverse else extremes
        # If all weights are 0, the distribution keeps only the extremes.
        ranked = accumulator.by_rank(self._reverse) or [(least, 0)]
        return [least, *self._between(ranked), greatest]

    def _between(self, ranked: list[Weighed]) -> list[object]:
        """The quantiles between the least and the greatest value."""
        total = sum(weight for _, weight in ranked)
        step, first = total / (self._count - 1), (total - 1) / (self._count - 1)
        chosen: list[object] = []
        values = iter(ranked)
        value, reached = next(values)
        for number in range(self._count - 2):
            while reached <= number * step + first and (following := next(values, None)) is not None:
                value, weight = following
                reached += weight
            chosen.append(value)
        return chosen


def _sketch_size(epsilon: float) -> int:
    """The parameter k of a KLL sketch with this rank error, by the formula that Apache DataSketches measured."""
    needed: float = (2.296 / epsilon) ** (1 / 0.9723)
    return min(max(_LEAST_K, math.ceil(needed)), _GREATEST_K)
