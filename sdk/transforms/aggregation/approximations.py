"""What: approximate number of distinct values, and approximate quantiles (`apache_beam.transforms.stats`).

The number of distinct values is exact up to `size` values; beyond, the error is that of Beam: two standard deviations
are 2 / sqrt(size).
"""

from __future__ import annotations

import math
from typing import cast

from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.quantile_sketch import ApproximateQuantilesCombineFn, Key
from headrace.sdk.combinefns.unique_sketch import ApproximateUniqueCombineFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.transforms.aggregation.combine import CombineGlobally, CombinePerKey

_LEAST_SIZE, _GREATEST_SIZE = 16, 1 << 26
_LEAST_ERROR, _GREATEST_ERROR = 0.01, 0.5


class _Unique(PTransform[Collection, Collection]):
    """Base of the transforms, which makes the combiner."""

    def __init__(self, size: int | None = None, error: float | None = None) -> None:
        super().__init__()
        combine_fn = ApproximateUniqueCombineFn(ApproximateUnique.parse_input_params(size, error))
        self._combine_fn = cast(AnyCombineFn, combine_fn)


class ApproximateUnique:
    """The approximate number of distinct values, globally or per key; the values must be of types that can be keys.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["red", "blue", "red"]) | ApproximateUnique.Globally(size=100) | beam.Map(print)
    2
    """

    @staticmethod
    def parse_input_params(size: int | None = None, error: float | None = None) -> int:
        """The number of hashes that a sketch must keep.

        Args:
            size: The number of hashes, at least 16; the error is about 2 / sqrt(size).
            error: The greatest relative error, from 0.01 to 0.5; given instead of `size`.

        Raises:
            ValueError: Both arguments or none are given, or the argument is out of bounds.

        >>> ApproximateUnique.parse_input_params(error=0.05)
        1600
        """
        if (size is None) == (error is None):
            raise ValueError(f"ApproximateUnique takes either a size or an error, got size={size} and error={error}")
        if error is not None:
            if not _LEAST_ERROR <= error <= _GREATEST_ERROR:
                raise ValueError(f"ApproximateUnique takes an error from 0.01 to 0.5, got {error}")
            return math.ceil(4 / error**2)
        if not isinstance(size, int) or not _LEAST_SIZE <= size <= _GREATEST_SIZE:
            raise ValueError(f"ApproximateUnique takes a size from {_LEAST_SIZE} to {_GREATEST_SIZE}, got {size!r}")
        return size

    class Globally(_Unique):
        """The estimate for all elements; the arguments are those of `parse_input_params`."""

        def expand(self, inputs: Collection) -> Collection:
            """A collection with one number per window and pane."""
            return inputs | "CountGlobalUniqueValues" >> CombineGlobally(self._combine_fn)

    class PerKey(_Unique):
        """The estimate for the values of each key; the arguments are those of `parse_input_params`."""

        def expand(self, inputs: Collection) -> Collection:
            """A collection with one pair (key, number) per key, window and pane."""
            return inputs | "CountPerKeyUniqueValues" >> CombinePerKey(self._combine_fn)


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
