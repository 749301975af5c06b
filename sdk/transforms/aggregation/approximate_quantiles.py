"""What: approximate quantiles of a distribution (`apache_beam.transforms.stats.ApproximateQuantiles`).

For up to 2,000 values (10,000 weighted values) results are exact and the same as Beam's. More values go into a KLL
sketch: the rank of a quantile is off by at most epsilon (1 / num_quantiles, at most 0.01 with weights) in 99 of 100
cases, whereas Beam's algorithm keeps its bound always; usually both are far closer. The same values in the same parts
give the same result in every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from headrace.lowlevel.stored_names import named
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, CombineFn
from headrace.sdk.combinefns.distribution import QuantileSketch, Weighed
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.aggregation.combine import CombineGlobally, CombinePerKey

Collection: TypeAlias = PCollection[object]
Key: TypeAlias = Callable[[object], object]
_LEAST_K, _GREATEST_K = 200, 65_535
_EXACT, _EXACT_BY_WEIGHT = 2_000, 10_000
_WEIGHTED_EPSILON = 1e-2


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

    def create_accumulator(self) -> QuantileSketch:
        """See `CombineFn`."""
        return QuantileSketch(self._k, _EXACT_BY_WEIGHT if self._weighted else _EXACT)

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
        combine_fn = ApproximateQuantilesCombineFn(num_quantiles, None, key, reverse, weighted, input_batched)
        self._combine_fn = cast(AnyCombineFn, combine_fn)


class ApproximateQuantiles:
    """Approximate quantiles, globally or per key; the arguments are those of `ApproximateQuantilesCombineFn.create`.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     numbers = pipeline | beam.Create(range(101))
    ...     _ = numbers | beam.ApproximateQuantiles.Globally(5) | beam.Map(print)
    [0, 25, 50, 75, 100]
    """

    class Globally(_Quantiles):
        """Approximate quantiles of all elements."""

        def expand(self, inputs: Collection) -> Collection:
            """A collection with one list per window and pane."""
            return inputs | CombineGlobally(self._combine_fn)

    class PerKey(_Quantiles):
        """Approximate quantiles of the values of each key."""

        def expand(self, inputs: Collection) -> Collection:
            """A collection with one pair (key, list) per key, window and pane."""
            return inputs | CombinePerKey(self._combine_fn)
