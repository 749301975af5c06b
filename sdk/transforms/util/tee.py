"""What: further consumers of a collection in a chain of transforms (`apache_beam.transforms.util.Tee`)."""

from __future__ import annotations

from collections.abc import Callable

from headrace.sdk.graph.ptransform import PTransform, ptransform_fn
from headrace.sdk.graph.pvalue import PCollection

Consumer = PTransform[PCollection[object], object] | Callable[[PCollection[object]], object]


class Tee(PTransform[PCollection[object], PCollection[object]]):
    """Applies further transforms to its input, and outputs the input itself.

    Args:
        *consumers: Transforms, or functions of a collection, whose outputs are discarded.

    Raises:
        TypeError: A consumer is neither a transform nor a function.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     words = pipeline | beam.Create(["tea"]) | beam.Tee("Shout" >> beam.Map(lambda word: print(word.upper())))
    ...     _ = words | beam.Map(len) | beam.Map(print)
    TEA
    3
    """

    def __init__(self, *consumers: Consumer) -> None:
        super().__init__()
        for consumer in consumers:
            if not callable(consumer) and not isinstance(consumer, PTransform):
                raise TypeError(f"Tee takes transforms and functions of a collection, got {consumer!r:.200}")
        self._consumers = consumers

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """The input itself."""
        for consumer in self._consumers:
            _ = inputs | (consumer if isinstance(consumer, PTransform) else ptransform_fn(consumer)())
        return inputs
