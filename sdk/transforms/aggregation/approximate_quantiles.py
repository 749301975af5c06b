"""What: approximate quantiles of a distribution (`apache_beam.transforms.stats.ApproximateQuantiles`)."""

from __future__ import annotations

from typing import cast

from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.quantile_sketch import ApproximateQuantilesCombineFn, Key
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.transforms.aggregation.combine import CombineGlobally, CombinePerKey


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
