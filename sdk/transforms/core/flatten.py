"""What: the union of several collections (`apache_beam.Flatten`)."""

from __future__ import annotations

import logging

from headrace.sdk.graph.ptransform import PTransform, collections_of
from headrace.sdk.graph.pvalue import BasePipeline, PCollection
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.windows.windowing import contrast

_log = logging.getLogger(__name__)


class OfSeveral(PTransform[object, PCollection[object]]):
    """Base of transforms of several collections, or of none if they are given a pipeline."""

    takes_several = True

    def __init__(self, *, pipeline: BasePipeline | None = None) -> None:
        super().__init__()
        if pipeline is not None:
            self.pipeline = pipeline


class Flatten(OfSeveral):
    """Merges a tuple or list of collections into one collection.

    Args:
        pipeline: The pipeline of the empty output, if there may be no input collections.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     low, high = pipeline | "Low" >> beam.Create([1]), pipeline | "High" >> beam.Create([9])
    ...     _ = (low, high) | beam.Flatten() | beam.Map(print)
    1
    9
    """

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        return input_type

    def expand(self, inputs: object) -> PCollection[object]:
        """A collection with the windowing of the first input. Raises `TypeError` if an input is not a collection."""
        if isinstance(inputs, PCollection) or any(isinstance(item, (tuple, list)) for item in _items(inputs)):
            raise TypeError(f"{self.label} takes a flat tuple or list of collections, got {inputs!r:.200}")
        for item in _items(inputs):
            if not isinstance(item, PCollection):
                raise TypeError(f"{self.label} takes collections, got {item!r:.200} among them; make one with Create")
        collections = collections_of(inputs)
        if not collections:
            assert self.pipeline is not None
            return self.pipeline | Create([])
        for other in collections[1:]:
            if other.windowing != collections[0].windowing:
                first, other_windowing = collections[0].windowing, other.windowing
                _log.warning(
                    "%s: %r has %s, unlike the first input, %s", self.label, other, *contrast(other_windowing, first)
                )
        is_bounded = all(collection.is_bounded for collection in collections)
        return PCollection(collections[0].pipeline, collections[0].windowing, is_bounded)


def _items(inputs: object) -> list[object]:
    if isinstance(inputs, dict):
        return list(inputs.values())
    return list(inputs) if isinstance(inputs, (list, tuple)) else []


class FlattenWith(PTransform[PCollection[object], PCollection[object]]):
    """Merges the input with other collections, or with the outputs of transforms that start at the pipeline.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     more = pipeline | "More" >> beam.Create([3])
    ...     _ = pipeline | beam.Create([1, 2]) | beam.FlattenWith(more) | beam.combiners.ToSet() | beam.Map(print)
    {1, 2, 3}
    """

    def __init__(self, *others: PCollection[object] | PTransform[object, PCollection[object]]) -> None:
        super().__init__()
        for other in others:
            if not isinstance(other, (PCollection, PTransform)):
                raise TypeError(f"FlattenWith takes collections and transforms, got {other!r:.200}")
        self._others = others

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """A collection of the elements of all inputs."""
        begun = [inputs.pipeline | other if isinstance(other, PTransform) else other for other in self._others]
        return (inputs, *begun) | Flatten()
