"""What: batches of elements of about one size (`apache_beam.transforms.util.SortAndBatchElements`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import cast

from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.windows import BoundedWindow

_MOST_WINDOWS = 10


def _length(element: object) -> int:
    """The length of an element; 1 if it has none."""
    try:
        return len(cast(Sized, element))
    except TypeError:
        return 1


class SortAndBatchElements(PTransform[PCollection[object], PCollection[list[object]]]):
    """Lists of elements of about one size: those of a bundle and window, sorted by size and cut into batches.

    A batch has the window of its elements, and the end of the window as timestamp.

    Args:
        min_batch_size: Accepted as in Beam, where it has no other effect than its check: 1 or more.
        max_batch_size: Greatest number of elements in a batch.
        max_batch_weight: Greatest sum of the sizes of the elements in a batch; a batch whose next element would reach
            it is complete, so only a batch of one element can be larger.
        element_size_fn: The size of an element; by default its length, or 1 if it has none.

    Raises:
        TypeError: `element_size_fn` is no function.
        ValueError: A number is less than 1, or the greatest batch smaller than the least.

    >>> ["ccc", "a", "bb", "dddd"] | SortAndBatchElements(1, 3, 10)
    [['a', 'bb', 'ccc'], ['dddd']]
    """

    def __init__(
        self,
        min_batch_size: int,
        max_batch_size: int,
        max_batch_weight: int,
        element_size_fn: Callable[[object], int] | None = None,
    ) -> None:
        super().__init__()
        if not 1 <= min_batch_size <= max_batch_size or max_batch_weight < 1:
            raise ValueError(
                f"min_batch_size is {min_batch_size}, max_batch_size {max_batch_size}, max_batch_weight "
                f"{max_batch_weight}; give 1 <= min_batch_size <= max_batch_size, and a weight of 1 or more"
            )
        if element_size_fn is not None and not callable(element_size_fn):
            raise TypeError(f"element_size_fn is {element_size_fn!r:.200}; give a function of an element")
        self._cut = _Cut(max_batch_size, max_batch_weight, element_size_fn or _length)

    def expand(self, inputs: PCollection[object]) -> PCollection[list[object]]:
        """The batches."""
        return cast("PCollection[list[object]]", inputs | "Batch" >> ParDo(_SortAndBatch(self._cut)))


@dataclass(frozen=True, slots=True)
class _Cut:
    """Cuts elements into batches."""

    most: int
    weight: int
    size_of: Callable[[object], int]

    def batches(self, elements: Iterable[object]) -> Iterator[list[object]]:
        """The batches of some elements, the smallest elements first."""
        batch: list[object] = []
        weight = 0
        for size, element in sorted(((self.size_of(each), each) for each in elements), key=lambda pair: pair[0]):
            if batch and (len(batch) == self.most or weight + size >= self.weight):
                yield batch
                batch, weight = [], 0
            batch.append(element)
            weight += size
        if batch:
            yield batch


class _SortAndBatch(DoFn):
    """Gathers the elements of a bundle by window, and cuts them into batches when the bundle ends."""

    def __init__(self, cut: _Cut) -> None:
        self._cut = cut

    def start_bundle(self) -> None:
        """Begin without elements."""
        self._elements: dict[BoundedWindow, list[object]] = {}

    def process(self, element: object, window: BoundedWindow = DoFn.WindowParam) -> Iterable[object] | None:
        """Keep the element; emit the batches of the window with most elements if there are too many windows."""
        self._elements.setdefault(window, []).append(element)
        if len(self._elements) <= _MOST_WINDOWS:
            return None
        return self._complete(max(self._elements, key=lambda window: len(self._elements[window])))

    def finish_bundle(self) -> Iterable[object]:
        """Emit the remaining batches."""
        return [batch for window in list(self._elements) for batch in self._complete(window)]

    def _complete(self, window: BoundedWindow) -> list[object]:
        batches = self._cut.batches(self._elements.pop(window))
        return [WindowedValue(batch, window.max_timestamp(), (window,)) for batch in batches]
