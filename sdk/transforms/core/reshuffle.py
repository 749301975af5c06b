"""Redistribution of elements over the workers: `Reshuffle` and `ReshufflePerKey` (`apache_beam.transforms.util`)."""

from __future__ import annotations

from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection

_BUCKETS = 1000


class Shuffling(PTransform[PCollection[object], PCollection[object]]):
    """Base of transforms that redistribute elements and leave values, timestamps, windows and panes unchanged."""

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """A collection of the same elements."""
        if not isinstance(inputs, PCollection):
            raise TypeError(f"{self.label} was applied to {inputs!r:.200}; apply it to a collection")
        return PCollection(inputs.pipeline, inputs.windowing, inputs.is_bounded)


class ReshufflePerKey(Shuffling):
    """Redistributes pairs (key, value) by key: the steps that follow process the pairs of one key together.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("tea", 3)]) | beam.transforms.util.ReshufflePerKey() | beam.Map(print)
    ('tea', 3)
    """


class Reshuffle(Shuffling):
    """Spreads elements evenly over the workers.

    Steps before and after a `Reshuffle` are not fused, so slow work after a step that makes many elements of few is
    distributed.

    Args:
        num_buckets: Greatest number of parts into which the elements are divided; 1000 if None.

    Raises:
        ValueError: `num_buckets` is not a whole number greater than 0.

    >>> Reshuffle(num_buckets=0)
    Traceback (most recent call last):
      ...
    ValueError: Reshuffle: num_buckets must be a whole number greater than 0, got 0
    """

    def __init__(self, num_buckets: int | None = None) -> None:
        super().__init__()
        valid = isinstance(num_buckets, int) and not isinstance(num_buckets, bool) and num_buckets > 0
        if num_buckets is not None and not valid:
            raise ValueError(f"Reshuffle: num_buckets must be a whole number greater than 0, got {num_buckets!r}")
        self.num_buckets = num_buckets or _BUCKETS
