"""What: several collections as one (`apache_beam.Flatten`)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.sdk.ptransform import PTransform, collections_of
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.create import Create
from headrace.sdk.windowing import contrast

if TYPE_CHECKING:
    from headrace.sdk.pipeline import Pipeline

_log = logging.getLogger(__name__)


class Flatten(PTransform[object, PCollection[object]]):
    """All elements of the collections in a tuple or list, in one collection.

    Args:
        pipeline: The pipeline to be empty in, where there may be no collections.
    """

    def __init__(self, *, pipeline: Pipeline | None = None) -> None:
        super().__init__()
        if pipeline is not None:
            self.pipeline = pipeline

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        return input_type

    def expand(self, inputs: object) -> PCollection[object]:
        """A collection in the windowing of the first."""
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
                first, its = collections[0].windowing, other.windowing
                _log.warning("%s: %r has %s, unlike the first input, %s", self.label, other, *contrast(its, first))
        is_bounded = all(collection.is_bounded for collection in collections)
        return PCollection(collections[0].pipeline, collections[0].windowing, is_bounded)


def _items(inputs: object) -> list[object]:
    if isinstance(inputs, dict):
        return list(inputs.values())
    return list(inputs) if isinstance(inputs, (list, tuple)) else []


class FlattenWith(PTransform[PCollection[object], PCollection[object]]):
    """The input's elements and those of other collections, or of transforms that begin a pipeline."""

    def __init__(self, *others: PCollection[object] | PTransform[object, PCollection[object]]) -> None:
        super().__init__()
        for other in others:
            if not isinstance(other, (PCollection, PTransform)):
                raise TypeError(f"FlattenWith takes collections and transforms, got {other!r:.200}")
        self._others = others

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """One `Flatten` of all."""
        begun = [inputs.pipeline | other if isinstance(other, PTransform) else other for other in self._others]
        return (inputs, *begun) | Flatten()
