"""When elements may go on: once others have been worked on (`apache_beam.transforms.util.WaitOn`)."""

from __future__ import annotations

from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.sides.arguments import AsIter
from headrace.sdk.transforms.element import FlatMap, Map
from headrace.sdk.transforms.group import GroupByKey

Collection = PCollection[object]


class WaitOn(PTransform[Collection, Collection]):
    """Elements as they are, each once the other collections are complete for its window.

    Of these only their watermark counts: the steps that make them have then done all that they do for the window.

    Args:
        *to_be_waited_on: Collections.
    """

    def __init__(self, *to_be_waited_on: Collection) -> None:
        super().__init__()
        for other in to_be_waited_on:
            if not isinstance(other, PCollection):
                raise TypeError(f"WaitOn takes collections, got {other!r:.200}")
        self._others = to_be_waited_on

    def expand(self, inputs: Collection) -> Collection:
        """The same elements; the others are side inputs without anything in them."""
        ready = [AsIter(self._nothing_of(other, place)) for place, other in enumerate(self._others)]
        return inputs | "Wait" >> Map(_first, *ready)

    @staticmethod
    def _nothing_of(other: Collection, place: int) -> Collection:
        nothing = other | f"Nothing of {place}" >> FlatMap(_nothing)
        return nothing | f"End of {place}" >> GroupByKey()


def _nothing(element: object) -> tuple[()]:
    return ()


def _first(element: object, *sides: object) -> object:
    return element
