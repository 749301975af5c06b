"""What: elements as lists, for code that is quicker on many at once (`apache_beam.BatchElements`)."""

from __future__ import annotations

import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from headrace.lowlevel.time import DurationTypes
from headrace.sdk.metrics.metric import Metrics
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.batches import GroupIntoBatches
from headrace.sdk.transforms.batchsize import BatchLimits, BatchSize
from headrace.sdk.transforms.element import DoFn, Map, ParDo
from headrace.sdk.transforms.pairs import Values
from headrace.sdk.windowedvalue import WindowedValue
from headrace.sdk.windows import BoundedWindow

Collection = PCollection[object]
_MOST_WINDOWS = 10
_BOUNDARIES = (16, 32, 64, 128, 256, 512)
_SIZE = Metrics.distribution("BatchElements", "batch_size")
_MILLISECONDS = Metrics.distribution("BatchElements", "msec_per_batch")


def _one(element: object) -> int:
    return 1


class BatchElements(PTransform[Collection, Collection]):
    """Lists of elements of a window, at the end of the window.

    How many are best is learnt from how long lists of different lengths take in the steps that follow in the same
    stage. Lists do not go beyond a bundle, unless `max_batch_duration_secs` is given: then they are `max_batch_size`
    long, or shorter where an element has waited that long, or at the end of the window.

    Args:
        min_batch_size: Least number of elements, but for the rest of a bundle.
        max_batch_size: Greatest number.
        target_batch_overhead: What share of a batch's time its fixed part may be.
        target_batch_duration_secs: Seconds that a batch's elements may take, its fixed time left out.
        target_batch_duration_secs_including_fixed_cost: Seconds that a batch may take in all.
        max_batch_duration_secs: How long an element may wait, in seconds of real time.
        element_size_fn: From an element to what it counts for in the size of a batch.
        variance: By what share sizes are varied, to learn from the difference.
        clock: Gives seconds; another one than the machine's is for tests.
        record_metrics: Whether distributions of sizes and times are kept.
        length_fn: With `max_batch_duration_secs`: from an element to its length; elements of like lengths go together.
        bucket_boundaries: Least lengths of the second class of lengths, the third, …

    Raises:
        ValueError: Sizes, targets or boundaries do not fit together.
    """

    def __init__(
        self,
        min_batch_size: int = 1,
        max_batch_size: int = 10_000,
        target_batch_overhead: float | None = 0.05,
        target_batch_duration_secs: float | None = 10,
        target_batch_duration_secs_including_fixed_cost: float | None = None,
        max_batch_duration_secs: DurationTypes | None = None,
        *,
        element_size_fn: Callable[[object], int] = _one,
        variance: float = 0.25,
        clock: Callable[[], float] = time.perf_counter,
        record_metrics: bool = True,
        length_fn: Callable[[object], int] | None = None,
        bucket_boundaries: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self._limits = BatchLimits(
            min_batch_size,
            max_batch_size,
            target_batch_overhead,
            target_batch_duration_secs,
            target_batch_duration_secs_including_fixed_cost,
            variance,
        )
        self._longest, self._size_of, self._clock = max_batch_duration_secs, element_size_fn, clock
        self._record_metrics = record_metrics
        self._length_of, self._boundaries = length_fn, _boundaries(length_fn, bucket_boundaries)

    def expand(self, inputs: Collection) -> Collection:
        """A collection of lists, in the same windows."""
        if self._longest is None:
            gather = _Gather(BatchSize(self._limits, self._clock), self._size_of)
            return inputs | "Gather" >> ParDo(gather) | "Begin" >> Map(_Begin(self._record_metrics))
        keyed = inputs | "Key" >> ParDo(_KeyByProcess(self._length_of, self._boundaries))
        batches = keyed | "Gather" >> GroupIntoBatches(self._limits.greatest, self._longest)
        return batches | "Unkey" >> Values()


def _boundaries(length_of: object, boundaries: Sequence[int] | None) -> Sequence[int]:
    if boundaries is None:
        return _BOUNDARIES
    if length_of is None:
        raise ValueError("bucket_boundaries are given without a length_fn; say what the length of an element is")
    if not boundaries or boundaries[0] <= 0 or list(boundaries) != sorted(boundaries):
        raise ValueError(f"bucket_boundaries are {boundaries!r:.80}; give numbers above 0 in order, the least first")
    return boundaries


_Begun = tuple[BatchSize, int, list[object]]


class _Gather(DoFn):
    """Gathers a bundle's elements by window."""

    def __init__(self, size: BatchSize, size_of: Callable[[object], int]) -> None:
        self._size, self._size_of = size, size_of

    def start_bundle(self) -> None:
        """Nothing is gathered yet."""
        self._batches: dict[BoundedWindow, tuple[list[object], int]] = {}
        self._target = self._size.next()
        self._size.ends()

    def process(self, element: object, window: BoundedWindow = DoFn.WindowParam) -> Iterable[object] | None:
        """Put a batch out before it gets too large, or when there are batches of too many windows."""
        outputs: list[object] | None = None
        batch, size = self._batches.get(window) or ([], 0)
        more = self._size_of(element)
        if batch and size + more > self._target:
            outputs = [self._complete(window)]
            batch, size = [], 0
        batch.append(element)
        self._batches[window] = (batch, size + more)
        if len(self._batches) > _MOST_WINDOWS:
            largest = max(self._batches, key=lambda window: self._batches[window][1])
            outputs = [*(outputs or ()), self._complete(largest)]
        return outputs

    def finish_bundle(self) -> Iterable[object]:
        """Put the rest out."""
        return [self._complete(window) for window in list(self._batches)]

    def _complete(self, window: BoundedWindow) -> WindowedValue:
        batch, size = self._batches.pop(window)
        self._target = self._size.next()
        return WindowedValue((self._size, size, batch), window.max_timestamp(), (window,))


class _Begin:
    """Notes when each batch begins to be worked on: when the next one begins, it has been."""

    def __init__(self, record_metrics: bool) -> None:
        self._record_metrics = record_metrics

    def __call__(self, begun: _Begun) -> list[object]:
        learner, size, batch = begun
        seconds = learner.begins(size)
        if self._record_metrics:
            _SIZE.update(size)
            if seconds is not None:
                _MILLISECONDS.update(round(1000 * seconds))
        return batch


class _KeyByProcess(DoFn):
    """A key for each process, and within it for each class of lengths."""

    def __init__(self, length_of: Callable[[object], int] | None, boundaries: Sequence[int]) -> None:
        self._length_of, self._boundaries = length_of, boundaries

    def setup(self) -> None:
        """Choose the key."""
        self._process = uuid.uuid4().bytes

    def process(self, element: object) -> Iterable[object]:
        """The element with its key."""
        length = 0 if self._length_of is None else bisect_right(self._boundaries, self._length_of(element))
        return [((self._process, length), element)]
