"""What: about where the values of a distribution lie (`apache_beam.transforms.stats.ApproximateQuantiles`).

Up to 2,000 values (10,000 by weight) results are exact and the same as Beam's. Beyond, values go into a KLL sketch, and
a quantile's rank is off by at most epsilon (1 / num_quantiles, by weight at most 0.01) in 99 of 100 cases, where Beam's
algorithm keeps to its bound in all; usually both are far closer. The same values in the same parts give the same result
in every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, cast

from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.combine import CombineGlobally, CombinePerKey
from headrace.sdk.transforms.combinefn import AnyCombineFn, CombineFn
from headrace.sdk.transforms.distribution import Distribution, Weighed

Collection: TypeAlias = PCollection[object]
Key: TypeAlias = Callable[[object], object]
_LEAST_K, _GREATEST_K = 200, 65_535
_EXACT, _EXACT_BY_WEIGHT = 2_000, 10_000
_WEIGHTED_EPSILON = 1e-2


class ApproximateQuantilesCombineFn(CombineFn[object, Distribution, list[object]]):
    """The least value, `num_quantiles` - 2 values at equal distances of rank, and the greatest, as a list in order.

    No values give the empty list. Arguments are those of `create`.

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
        # Weights on one level differ by a factor of up to 2, and what is off with them.
        self._k = 2 * _sketch_size(min(bound, _WEIGHTED_EPSILON)) if weighted else _sketch_size(bound)

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
        """A combiner of these settings.

        Args:
            num_quantiles: How many values are wanted, the least and the greatest included.
            epsilon: How far off ranks may be, as a share of all values; by default 1 / `num_quantiles`.
            max_num_elements: Accepted for Beam's sake: the error does not depend on how many values there are.
            key: From a value to what is compared instead of it.
            reverse: Whether the greatest come first.
            weighted: Whether elements are pairs (value, weight).
            input_batched: Whether an element is a list of values, or a pair of lists (values, weights).
        """
        return cls(num_quantiles, epsilon, key, reverse, weighted, input_batched)

    def create_accumulator(self) -> Distribution:
        """See `CombineFn`."""
        return Distribution(self._k, _EXACT_BY_WEIGHT if self._weighted else _EXACT)

    def add_input(self, accumulator: Distribution, element: object) -> Distribution:
        """See `CombineFn`."""
        return self.add_inputs(accumulator, (element,))

    def add_inputs(self, accumulator: Distribution, elements: Iterable[object]) -> Distribution:
        """See `CombineFn`."""
        if self._weighted:
            accumulator.add(cast("Iterable[Weighed]", self._values(elements)), self._key)
        else:
            accumulator.add_plain(self._values(elements), self._key)
        return accumulator

    def _values(self, elements: Iterable[object]) -> Iterable[object]:
        """Values, or pairs (value, weight)."""
        if not self._batched:
            return elements
        if not self._weighted:
            return (value for batch in cast("Iterable[Iterable[object]]", elements) for value in batch)
        batches = cast("Iterable[tuple[Sequence[object], Sequence[float]]]", elements)
        return (pair for values, weights in batches for pair in zip(values, weights, strict=True))

    def merge_accumulators(self, accumulators: Iterable[Distribution]) -> Distribution:
        """See `CombineFn`."""
        merged = self.create_accumulator()
        for accumulator in accumulators:
            merged.merge(accumulator)
        return merged

    def extract_output(self, accumulator: Distribution) -> list[object]:
        """See `CombineFn`."""
        extremes = accumulator.extremes()
        if extremes is None:
            return []
        least, greatest = reversed(extremes) if self._reverse else extremes
        # If no value has a weight, none is kept but the extremes.
        ranked = accumulator.by_rank(self._reverse) or [(least, 0)]
        return [least, *self._between(ranked), greatest]

    def _between(self, ranked: list[Weighed]) -> list[object]:
        """The values at the ranks between the first and the last."""
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
    """The parameter k of a KLL sketch with this error of rank, by the formula that Apache DataSketches has measured."""
    needed: float = (2.296 / epsilon) ** (1 / 0.9723)
    return min(max(_LEAST_K, math.ceil(needed)), _GREATEST_K)


class _Quantiles(PTransform[Collection, Collection]):
    def __init__(
        self,
        num_quantiles: int,
        key: Key | None = None,
        reverse: bool = False,
        weighted: bool = False,
        input_batched: bool = False,
    ) -> None:
        super().__init__()
        made = ApproximateQuantilesCombineFn(num_quantiles, None, key, reverse, weighted, input_batched)
        self._combine_fn = cast(AnyCombineFn, made)


class ApproximateQuantiles:
    """About where the values lie, of all or per key; arguments as those of `ApproximateQuantilesCombineFn.create`."""

    class Globally(_Quantiles):
        """Of all elements."""

        def expand(self, inputs: Collection) -> Collection:
            """One list a window."""
            return inputs | CombineGlobally(self._combine_fn)

    class PerKey(_Quantiles):
        """Of the values of each key."""

        def expand(self, inputs: Collection) -> Collection:
            """A pair (key, list) a key and window."""
            return inputs | CombinePerKey(self._combine_fn)
