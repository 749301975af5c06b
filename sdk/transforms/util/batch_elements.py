"""What: elements in batches, for code that is faster on many elements at once (`apache_beam.BatchElements`).

The sizes of batches are learned from the times that batches take.
"""

from __future__ import annotations

import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.lowlevel.time import DurationTypes
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.metrics.metric import Metrics
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.transforms.core.par_do import Map, ParDo
from headrace.sdk.transforms.util.group_into_batches import GroupIntoBatches
from headrace.sdk.transforms.util.pairs import Values
from headrace.sdk.windows import BoundedWindow

_REMEMBERED = 100
_GROWTH = 2
_BLIND_GROWTH = 64
"""Greatest ratio of a batch's size to the least size before two sizes were timed."""
_KEPT = 0.8
"""Share of the timings that are used; the slowest ones are noise."""
_GOLDEN = 0.618034
"""The golden ratio's fractional part: the fractional parts of its multiples are spread evenly, for any count."""
_MOST_WINDOWS = 10
_BOUNDARIES = (16, 32, 64, 128, 256, 512)
_SIZE = Metrics.distribution("BatchElements", "batch_size")
_MILLISECONDS = Metrics.distribution("BatchElements", "msec_per_batch")


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The rules by which batch sizes are chosen; durations in seconds.

    A batch takes a fixed time and a time for each element. The size of a batch is the greatest one for which the share
    of the fixed time is at least `overhead`, the elements take at most `duration`, and the whole batch takes at most
    `duration_in_all`. `ValueError` is raised for limits that are out of range or contradict each other.
    """

    least: int = 1
    greatest: int = 10_000
    overhead: float | None = 0.05
    duration: float | None = 10
    duration_in_all: float | None = None
    variance: float = 0.25
    """The share by which sizes are varied, to measure the effect of the size."""

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.greatest:
            raise ValueError(
                f"min_batch_size is {self.least} and max_batch_size {self.greatest}; give 1 <= minimum <= maximum"
            )
        if self.overhead is not None and not 0 < self.overhead <= 1:
            raise ValueError(f"target_batch_overhead is {self.overhead}; give a share above 0, up to 1")
        for name, value in (("", self.duration), ("_including_fixed_cost", self.duration_in_all)):
            if value is not None and value <= 0:
                raise ValueError(f"target_batch_duration_secs{name} is {value}; give more than 0 seconds")
        if self.overhead is None and self.duration is None and self.duration_in_all is None:
            raise ValueError("give a target_batch_overhead, a target_batch_duration_secs, or one including fixed cost")

    def target(self, fixed: float, each: float) -> float:
        """The target size if a batch takes `fixed` seconds and `each` seconds for every element."""
        targets = [float(self.greatest)]
        if self.overhead is not None:
            targets.append(fixed / each * (1 / self.overhead - 1))
        if self.duration is not None:
            targets.append(self.duration / each)
        if self.duration_in_all is not None:
            targets.append((self.duration_in_all - fixed) / each)
        return min(targets)


class BatchSize:
    """Chooses batch sizes from measurements. It is part of a step's function, so measurements stay in one process.

    >>> size = BatchSize(BatchLimits(least=4, greatest=4), clock=lambda: 0.0)
    >>> size.next()
    4
    """

    def __init__(self, limits: BatchLimits, clock: Callable[[], float]) -> None:
        self._limits, self._clock = limits, clock
        self._timings: list[tuple[int, float]] = []
        self._chosen = 0
        self._last = 0
        self._begun: tuple[int, float] | None = None

    def begins(self, size: int) -> float | None:
        """Start timing a batch; the result is the time of the batch before it in the bundle, in seconds."""
        now = self._clock()
        before, self._begun = self._begun, (size, now)
        if before is None:
            return None
        elapsed = now - before[1]
        self._timings = [*self._timings[1 - _REMEMBERED :], (before[0], elapsed)]
        return elapsed

    def ends(self) -> None:
        """End a bundle, so that the time until the next bundle is not counted."""
        self._begun = None

    def next(self) -> int:
        """The size that the next batch should have."""
        limits = self._limits
        self._chosen += 1
        if limits.least == limits.greatest:
            return limits.least
        if len({size for size, _ in self._timings}) < 2:
            # Nothing can be learned from batches of a single size, so the size grows.
            grown = max(_GROWTH * self._last, limits.least)
            self._last = min(grown, _BLIND_GROWTH * limits.least, limits.greatest)
            return self._last
        fixed, each = self._costs()
        varied = limits.target(fixed, each) * (1 + 2 * limits.variance * (self._chosen * _GOLDEN % 1 - 0.5))
        most = min(limits.greatest, _GROWTH * max(size for size, _ in self._timings))
        self._last = int(max(limits.least, min(varied, most)))
        return self._last

    def _costs(self) -> tuple[float, float]:
        """Fixed time of a batch and time for each element, in seconds, by linear regression of the timings."""
        by_element = sorted(self._timings, key=lambda timing: timing[1] / max(timing[0], 1))
        kept = by_element[: max(2, int(len(by_element) * _KEPT))]
        if len({size for size, _ in kept}) < 2:
            kept = by_element
        sizes, seconds = np.array(kept, float).T
        each, fixed = np.polyfit(sizes, seconds, 1)
        # Noise can make either of them negative.
        return max(float(fixed), 1e-10), max(float(each), 1e-12)


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
