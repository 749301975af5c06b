"""What: approximate number of distinct values (`apache_beam.transforms.stats.ApproximateUniqueCombineFn`).

The accumulator is a theta sketch of Apache DataSketches. Of the hashes of all distinct values it keeps the `size` least
and the next one, its theta, if there are more; so it depends on nothing but these values. Up to `size` values the
number is exact; beyond, it is `size` divided by theta, as a share of all hashes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.coders.key_classes import identity_of
from headrace.lowlevel.stored_names import named, stored_function
from headrace.sdk.combinefns.combine_fn import CombineFn

if TYPE_CHECKING:
    import datasketches

Hashes = NDArray[np.int64]
_HASHES = 2.0**63
"""Number of different hashes of a sketch."""


def identity(value: object) -> bytes:
    """The bytes that tell a value from others. Raises KeyEncodingError for what cannot be a key."""
    return identity_of(encode_key(value))


def numbers_of(identities: Iterable[bytes]) -> Hashes:
    """The number of 64 bits that a sketch hashes for each value, given the values' identities."""
    digests = [blake2b(each, digest_size=8).digest() for each in identities]
    return np.frombuffer(b"".join(digests), ">i8").astype(np.int64)


def sketch_hashes(numbers: Hashes) -> Hashes:
    """The hashes of numbers in a theta sketch: the upper 63 bits of the first half of MurmurHash3 (x64, 128 bits).

    >>> sketch_hashes(np.array([0, 1]))
    array([2325124908111195109,  405753591161026837])
    """
    with np.errstate(over="ignore"):
        seed, tail = np.uint64(9001), numbers.astype(np.uint64) * np.uint64(0x87C37B91114253D5)
        tail = ((tail << np.uint64(31)) | (tail >> np.uint64(33))) * np.uint64(0x4CF5AD432745937F)
        first, second = (seed ^ tail) ^ np.uint64(8), np.full(len(numbers), seed ^ np.uint64(8))
        first = first + second
        second = second + first
        return ((_mixed(first) + _mixed(second)) >> np.uint64(1)).astype(np.int64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))


def estimates(thetas: Hashes, size: int) -> Hashes:
    """The numbers of distinct values if there are more than `size`, from the hash behind the `size` least ones."""
    return np.rint(size / (thetas / _HASHES)).astype(np.int64)


_FLAGS, _SEED_HASH = 0b11010, (0xCC, 0x93)
"""In the serialized form: it is read-only, compact and ordered; the seed of its hashes."""


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

    @classmethod
    def of_hashes(cls, lg_size: int, hashes: Sequence[int]) -> UniqueSketch:
        """A sketch of values with these hashes, which are ascending: at most one more than the sketch keeps."""
        from datasketches import compact_theta_sketch

        sketch, size = cls(lg_size), 2**lg_size
        if hashes:
            theta = [hashes[size]] if len(hashes) > size else []
            kept = hashes[:size]
            numbers = struct.pack(f"<{len(theta) + len(kept)}q", *theta, *kept)
            head = struct.pack("<8B2I", 2 + len(theta), 3, 3, 0, 0, _FLAGS, *_SEED_HASH, len(kept), 0)
            sketch._closed.append(compact_theta_sketch.deserialize(head + numbers))
        return sketch

    def add(self, values: Iterable[object]) -> None:
        """Add values. Raises `TypeError` for a value that cannot be a key."""
        if self._open is None:
            from datasketches import update_theta_sketch

            self._open = update_theta_sketch(self._lg_size)
        update = self._open.update
        for value in values:
            update(int.from_bytes(blake2b(identity(value), digest_size=8).digest(), "big", signed=True))

    def merge(self, other: UniqueSketch) -> None:
        """Add the values that another sketch has counted."""
        self._closed.append(other.union())

    def union(self) -> datasketches.compact_theta_sketch:
        """All values added so far, as one sketch."""
        from datasketches import theta_union

        parts = [*self._closed, *([self._open.compact()] if self._open is not None else [])]
        if len(parts) == 1 and parts[0].num_retained <= 2**self._lg_size:
            return parts[0]
        # A union keeps the least hashes only.
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

    @property
    def lg_size(self) -> int:
        """Base-2 logarithm of the number of hashes that a sketch keeps."""
        return self._lg_size

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
