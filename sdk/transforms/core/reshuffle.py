"""Where elements are processed: `Reshuffle` and `ReshufflePerKey` (`apache_beam.transforms.util`)."""

from __future__ import annotations

from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection

_BUCKETS = 1000


class Shuffling(PTransform[PCollection[object], PCollection[object]]):
    """Elements as they are, with timestamps, windows and panes, but processed elsewhere from here on."""

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """A collection of the same elements."""
        if not isinstance(inputs, PCollection):
            raise TypeError(f"{self.label} was applied to {inputs!r:.200}; apply it to a collection")
        return PCollection(inputs.pipeline, inputs.windowing, inputs.is_bounded)


class ReshufflePerKey(Shuffling):
    """Pairs (key, value) as they are; those of one key are processed together from here on."""


class Reshuffle(Shuffling):
    """Elements as they are, spread evenly from here on.

    What comes before and behind is not fused: slow work behind a step that makes many elements of few is shared out.

    Args:
        num_buckets: Into how many parts at most the elements are divided.

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
