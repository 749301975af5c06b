"""What: approximate number of distinct values (`apache_beam.transforms.stats.ApproximateUnique`).

A theta sketch of Apache DataSketches keeps the least hashes of the values, at most `size` or a few more. The number is
exact while all hashes are kept; beyond, the error is that of Beam: two standard deviations are 2 / sqrt(size).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, cast

from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.coders.key_classes import identity_of
from headrace.lowlevel.stored_names import named, stored_function
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, CombineFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.transforms.aggregation.combine import CombineGlobally, CombinePerKey

if TYPE_CHECKING:
    import datasketches

_LEAST_SIZE, _GREATEST_SIZE = 16, 1 << 26
_LEAST_ERROR, _GREATEST_ERROR = 0.01, 0.5


class UniqueSketch:
    """A theta sketch as an accumulator that can be pickled.

    Args:
        lg_size: Base-2 logarithm of the number of hashes that the sketch keeps.
    """

    def __init__(self, lg_size: int) -> None:
        self._lg_size = lg_size
        self._open: datasketches.update_theta_sketch | None = None
        self._closed: list[datasketches.compact_theta_sketch] = []
        """Merged or unpickled sketches, which take no more values but count in the estimate."""

    def add(self, values: Iterable[object]) -> None:
        """Add values. Raises `TypeError` for a value that cannot be a key."""
        if self._open is None:
            from datasketches import update_theta_sketch

            self._open = update_theta_sketch(self._lg_size)
        update = self._open.update
        for value in values:
            update(int.from_bytes(blake2b(identity_of(encode_key(value)), digest_size=8).digest(), "big", signed=True))

    def merge(self, other: UniqueSketch) -> None:
        """Add the values that another sketch has counted."""
        self._closed.append(other.union())

    def union(self) -> datasketches.compact_theta_sketch:
        """All values added so far, as one sketch."""
        from datasketches import theta_union

        parts = [*self._closed, *([self._open.compact()] if self._open is not None else [])]
        if len(parts) == 1:
            return parts[0]
        union = theta_union(self._lg_size)
        for part in parts:
            union.update(part)
        self._open, self._closed = None, [union.get_result()]
        return self._closed[0]

    def estimate(self) -> int:
        """The approximate number of distinct values added so far."""
        return round(float(self.union().get_estimate()))

    def __reduce__(self) -> tuple[object, ...]:
        return _SKETCH, (self._lg_size, self.union().serialize())


def _unpack(lg_size: int, data: bytes) -> UniqueSketch:
    from datasketches import compact_theta_sketch

    sketch = UniqueSketch(lg_size)
    sketch._closed.append(compact_theta_sketch.deserialize(data))
    return sketch


_SKETCH = stored_function("UniqueSketch", _unpack)


@named("ApproximateUniqueCombineFn")
class ApproximateUniqueCombineFn(CombineFn[object, UniqueSketch, int]):
    """Counts distinct values approximately.

    Args:
        sample_size: Number of distinct values that are still counted exactly; at least 16.
        coder: Accepted for compatibility with Beam, without effect: values are compared as keys are.

    >>> ApproximateUniqueCombineFn(16).apply("hydrant") == 7
    True
    """

    def __init__(self, sample_size: int, coder: object = None) -> None:
        self._lg_size = max(5, math.ceil(math.log2(sample_size)))

    def state_arguments(self) -> Mapping[str, object]:
        """See `CombineFn`: the size of the sketch, which follows from the sample size."""
        return {"size of the sketch": 2**self._lg_size}

    def create_accumulator(self) -> UniqueSketch:
        """See `CombineFn`."""
        return UniqueSketch(self._lg_size)

    def add_input(self, accumulator: UniqueSketch, element: object) -> UniqueSketch:
        """See `CombineFn`."""
        accumulator.add((element,))
        return accumulator

    def add_inputs(self, accumulator: UniqueSketch, elements: Iterable[object]) -> UniqueSketch:
        """See `CombineFn`."""
        accumulator.add(elements)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[UniqueSketch]) -> UniqueSketch:
        """See `CombineFn`."""
        merged = UniqueSketch(self._lg_size)
        for accumulator in accumulators:
            merged.merge(accumulator)
        return merged

    def extract_output(self, accumulator: UniqueSketch) -> int:
        """See `CombineFn`."""
        return accumulator.estimate()


class _Unique(PTransform[Collection, Collection]):
    """Base of the transforms, which makes the combiner."""

    def __init__(self, size: int | None = None, error: float | None = None) -> None:
        super().__init__()
        combine_fn = ApproximateUniqueCombineFn(ApproximateUnique.parse_input_params(size, error))
        self._combine_fn = cast(AnyCombineFn, combine_fn)


class ApproximateUnique:
    """The approximate number of distinct values, globally or per key; the values must be of types that can be keys.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["red", "blue", "red"]) | ApproximateUnique.Globally(size=100) | beam.Map(print)
    2
    """

    @staticmethod
    def parse_input_params(size: int | None = None, error: float | None = None) -> int:
        """The number of hashes that a sketch must keep.

        Args:
            size: The number of hashes, at least 16; the error is about 2 / sqrt(size).
            error: The greatest relative error, from 0.01 to 0.5; given instead of `size`.

        Raises:
            ValueError: Both arguments or none are given, or the argument is out of bounds.

        >>> ApproximateUnique.parse_input_params(error=0.05)
        1600
        """
        if (size is None) == (error is None):
            raise ValueError(f"ApproximateUnique takes either a size or an error, got size={size} and error={error}")
        if error is not None:
            if not _LEAST_ERROR <= error <= _GREATEST_ERROR:
                raise ValueError(f"ApproximateUnique takes an error from 0.01 to 0.5, got {error}")
            return math.ceil(4 / error**2)
        if not isinstance(size, int) or not _LEAST_SIZE <= size <= _GREATEST_SIZE:
            raise ValueError(f"ApproximateUnique takes a size from {_LEAST_SIZE} to {_GREATEST_SIZE}, got {size!r}")
        return size

    class Globally(_Unique):
        """The estimate for all elements; the arguments are those of `parse_input_params`."""

        def expand(self, inputs: Collection) -> Collection:
            """A collection with one number per window and pane."""
            return inputs | "CountGlobalUniqueValues" >> CombineGlobally(self._combine_fn)

    class PerKey(_Unique):
        """The estimate for the values of each key; the arguments are those of `parse_input_params`."""

        def expand(self, inputs: Collection) -> Collection:
            """A collection with one pair (key, number) per key, window and pane."""
            return inputs | "CountPerKeyUniqueValues" >> CombinePerKey(self._combine_fn)
