"""What: elements in batches, for code that is faster on many elements at once (`apache_beam.BatchElements`)."""

from __future__ import annotations

import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from headrace.lowlevel.time import DurationTypes
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.metrics.metric import Metrics
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.transforms.core.par_do import Map, ParDo
from headrace.sdk.transforms.util.batch_size import BatchLimits, BatchSize
from headrace.sdk.transforms.util.group_into_batches import GroupIntoBatches
from headrace.sdk.transforms.util.pairs import Values
from headrace.sdk.windows import BoundedWindow

Collection = PCollection[object]
_MOST_WINDOWS = 10
_BOUNDARIES = (16, 32, 64, 128, 256, 512)
_SIZE = Metrics.distribution("BatchElements", "batch_size")
_MILLISECONDS = Metrics.distribution("BatchElements", "msec_per_batch")


def _one(element: object) -> int:
    return 1


class BatchElements(PTransform[Collection, Collection]):
    """Gathers the elements of a window into lists, whose timestamp is the end of the window.

    The best size is learned from the times that batches of different sizes take in the steps that follow in the same
    stage. A batch does not span bundles, unless `max_batch_duration_secs` is given: then a batch has `max_batch_size`
    elements, or fewer if an element has waited that long or the window ends.

    Args:
        min_batch_size: Least number of elements in a batch, except for the last one of a bundle.
        max_batch_size: Greatest number of elements in a batch.
        target_batch_overhead: Target share of a batch's fixed time in its total time, above 0 and up to 1.
        target_batch_duration_secs: Target time of a batch without its fixed time, in seconds.
        target_batch_duration_secs_including_fixed_cost: Target total time of a batch, in seconds.
        max_batch_duration_secs: Greatest time that an element waits, in seconds of processing time.
        element_size_fn: Function from an element to the size that it adds to a batch; 1 by default.
        variance: Share by which sizes are varied, so that the effect of the size can be measured.
        clock: Function that gives the time in seconds; a clock other than the machine's is for tests.
        record_metrics: Whether distributions of batch sizes and times are recorded.
        length_fn: With `max_batch_duration_secs`, function from an element to its length; elements of similar length
            are batched together.
        bucket_boundaries: Least lengths of the second class of lengths, the third class, and so on.

    Raises:
        ValueError: The sizes, the targets or the boundaries are out of range or contradict each other.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(range(4)) | beam.BatchElements(2, 2) | beam.Map(print)
    [0, 1]
    [2, 3]
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
        """A collection of lists of elements, in the same windows."""
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
    """Gathers the elements of a bundle into batches by window."""

    def __init__(self, size: BatchSize, size_of: Callable[[object], int]) -> None:
        self._size, self._size_of = size, size_of

    def start_bundle(self) -> None:
        """Begin without batches."""
        self._batches: dict[BoundedWindow, tuple[list[object], int]] = {}
        self._target = self._size.next()
        self._size.ends()

    def process(self, element: object, window: BoundedWindow = DoFn.WindowParam) -> Iterable[object] | None:
        """Add the element to a batch; emit a batch that would become too large, or one of too many windows."""
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
        """Emit the remaining batches."""
        return [self._complete(window) for window in list(self._batches)]

    def _complete(self, window: BoundedWindow) -> WindowedValue:
        batch, size = self._batches.pop(window)
        self._target = self._size.next()
        return WindowedValue((self._size, size, batch), window.max_timestamp(), (window,))


class _Begin:
    """Records when work on each batch begins; the start of the next batch is the end of the one before."""

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
    """Pairs elements with a key for each process and class of lengths."""

    def __init__(self, length_of: Callable[[object], int] | None, boundaries: Sequence[int]) -> None:
        self._length_of, self._boundaries = length_of, boundaries

    def setup(self) -> None:
        """Choose the random part of the key, once in each process."""
        self._process = uuid.uuid4().bytes

    def process(self, element: object) -> Iterable[object]:
        """The element with its key."""
        length = 0 if self._length_of is None else bisect_right(self._boundaries, self._length_of(element))
        return [((self._process, length), element)]
