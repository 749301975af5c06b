"""The keys of a bundle, with their state as arrays that are read in bulk on demand (MillWheel paper §4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers, first_indices, numbered
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.lowlevel.vectorized.fields import Layout

_STATE = b""
"""Name of the cell with the fields of a key."""


class KeyTable:
    """The keys of a bundle, with numbers from 0, and their state.

    Args:
        key_hashes: Arrays of the keys' hashes, of type `binary(16)`; a key may be in several arrays.
        keys: Arrays of the encoded keys, of type `large_binary`, with the same lengths.
        layout: The fields of a key's state.
        store: The store of the committed state.
    """

    def __init__(
        self, key_hashes: Sequence[pa.Array], keys: Sequence[pa.Array], layout: Layout, store: StateStore
    ) -> None:
        self.layout, self._store = layout, store
        key_hash, key = pa.chunked_array(key_hashes, pa.binary(16)), pa.chunked_array(keys, pa.large_binary())
        key_hash, key = key_hash.combine_chunks(), key.combine_chunks()
        numbers = numbered([key_hash])
        count = int(numbers.max(initial=-1)) + 1
        firsts = of_numbers(first_indices(numbers, count))
        self.key_hashes, self.keys = key_hash.take(firsts), key.take(firsts)
        ends = np.cumsum([len(piece) for piece in key_hashes])
        self.pieces: list[Numbers] = np.split(numbers, ends[:-1]) if len(key_hashes) else []
        """For each of the `key_hashes`, the number of each key, int64."""
        self._loaded, self._stored = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        self.state = np.repeat(layout.defaults, count)
        """The fields of each key, a structured array; defaults until `load` has read the key."""
        self._before = self.state.copy()

    def __len__(self) -> int:
        return len(self.key_hashes)

    def numbers_of(self, key_hashes: pa.Array) -> Numbers:
        """The numbers of the keys with these hashes; all of them must be in the table."""
        # Numbers are given in order of appearance, and the keys of the table are distinct.
        return numbered([pa.concat_arrays([self.key_hashes, key_hashes])])[len(self) :]

    def encoded_of(self, numbers: Numbers) -> pa.Array:
        """The encoded keys of these numbers."""
        return self.keys.take(of_numbers(numbers))

    def load(self, numbers: Numbers) -> None:
        """Read the state of these keys, except those that were read before."""
        missing = numbers[~self._loaded[numbers]]
        if not len(missing):
            return
        self._loaded[missing] = True
        key_hashes = cast("list[bytes]", self.key_hashes.take(of_numbers(missing)).to_pylist())
        found = self._store.states_of(key_hashes)
        if found:
            stored = list(map(found.get, key_hashes))
            self._stored[missing] = list(map(found.__contains__, key_hashes))
            self.state[missing] = self._before[missing] = self.layout.decode(stored)

    def is_stored(self, numbers: Numbers) -> NDArray[np.bool_]:
        """For each of these keys, whether it has stored state."""
        self.load(numbers)
        return cast("NDArray[np.bool_]", self._stored[numbers])

    def save(self, delta: Delta) -> None:
        """Add the changed states to the delta; the state of a key with all fields at their defaults is removed."""
        changed = np.flatnonzero(self._loaded & _differ(self.state, self._before))
        if not len(changed):
            return
        empty = ~_differ(self.state[changed], np.repeat(self.layout.defaults, len(changed)))
        size, data = self.layout.dtype.itemsize, self.state[changed].tobytes()
        where = of_numbers(changed)
        key_hashes = cast("list[bytes]", self.key_hashes.take(where).to_pylist())
        contents = [data[start : start + size] for start in range(0, len(data), size)]
        cells = delta.cells
        for key_hash, content, is_empty in zip(key_hashes, contents, empty.tolist(), strict=True):
            cells[key_hash, _STATE] = None if is_empty else content
        new = changed[~self._stored[changed] & ~empty]
        where = of_numbers(new)
        delta.keys.update(zip(self.key_hashes.take(where).to_pylist(), self.keys.take(where).to_pylist(), strict=True))


def _differ(left: NDArray[np.void], right: NDArray[np.void]) -> NDArray[np.bool_]:
    """For each row, whether the bytes differ; a NaN is equal to itself."""
    width = left.dtype.itemsize
    if not width:
        return np.zeros(len(left), np.bool_)
    left_bytes, right_bytes = (array.view(np.uint8).reshape(-1, width) for array in (left, right))
    return cast("NDArray[np.bool_]", (left_bytes != right_bytes).any(axis=1))
