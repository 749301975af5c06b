"""When: elements that wait until other collections are complete (`apache_beam.transforms.util.WaitOn`)."""

from __future__ import annotations

from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.graph.side_inputs import AsIter
from headrace.sdk.transforms.core.group_by_key import GroupByKey
from headrace.sdk.transforms.core.par_do import FlatMap, Map

Collection = PCollection[object]


class WaitOn(PTransform[Collection, Collection]):
    """Emits each element, unchanged, as soon as the other collections are complete for the element's window.

    Only the watermarks of the other collections count: their elements may be empty. Once a watermark has passed the
    window's end, the steps before that collection have done all their work for the window.

    Args:
        *to_be_waited_on: Collections to wait for.

    Raises:
        TypeError: An argument is not a collection.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     stored = pipeline | "Store" >> beam.Create([1]) | beam.Map(print)
    ...     _ = pipeline | "Tell" >> beam.Create(["stored"]) | beam.WaitOn(stored) | "Say" >> beam.Map(print)
    1
    stored
    """

    def __init__(self, *to_be_waited_on: Collection) -> None:
        super().__init__()
        for other in to_be_waited_on:
            if not isinstance(other, PCollection):
                raise TypeError(f"WaitOn takes collections, got {other!r:.200}")
        self._others = to_be_waited_on

    def expand(self, inputs: Collection) -> Collection:
        """A collection of the same elements; the other collections become empty side inputs."""
        ready = [AsIter(self._nothing_of(other, index)) for index, other in enumerate(self._others)]
        return inputs | "Wait" >> Map(_first, *ready)

    @staticmethod
    def _nothing_of(other: Collection, index: int) -> Collection:
        nothing = other | f"Nothing of {index}" >> FlatMap(_nothing)
        return nothing | f"End of {index}" >> GroupByKey()


def _nothing(element: object) -> tuple[()]:
    return ()


def _first(element: object, *sides: object) -> object:
    return element
