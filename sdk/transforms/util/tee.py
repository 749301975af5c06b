"""What: a collection for a further consumer, without leaving the chain (`apache_beam.transforms.util.Tee`)."""

from __future__ import annotations

from collections.abc import Callable

from headrace.sdk.ptransform import PTransform, ptransform_fn
from headrace.sdk.pvalue import PCollection

Consumer = PTransform[PCollection[object], object] | Callable[[PCollection[object]], object]


class Tee(PTransform[PCollection[object], PCollection[object]]):
    """Gives its input on as it is, after having applied other transforms to it too.

    Args:
        *consumers: Transforms, or functions of a collection.
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
