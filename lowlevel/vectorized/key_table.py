"""The keys of a bundle, numbered, and their state as arrays: read in bulk when it is asked for (paper §4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.columnkeys import Numbers, first_places, numbered
from headrace.lowlevel.columnwise.fields import Layout
from headrace.lowlevel.state import Copy, Delta

_STATE = b""
"""Name of the cell."""


class KeyTable:
    """Keys numbered from 0, and what is stored of them.

    Args:
        rows: Row of each key, and
        keys: encoded key, in pieces; a key may be in several.
        layout: Of its state.
        copy: Where it is stored.
    """

    def __init__(self, rows: Sequence[pa.Array], keys: Sequence[pa.Array], layout: Layout, copy: Copy) -> None:
        self.layout, self._copy = layout, copy
        row, key = pa.chunked_array(rows, pa.binary(16)), pa.chunked_array(keys, pa.large_binary())
        row, key = row.combine_chunks(), key.combine_chunks()
        numbers = numbered([row])
        count = int(numbers.max(initial=-1)) + 1
        firsts = of_numbers(first_places(numbers, count))
        self.rows, self.keys = row.take(firsts), key.take(firsts)
        ends = np.cumsum([len(piece) for piece in rows])
        self.pieces: list[Numbers] = np.split(numbers, ends[:-1]) if len(rows) else []
        """The number of each key of each piece."""
        self._loaded, self._stored = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        self.state = np.repeat(layout.defaults, count)
        """Each key's fields, if they are `loaded`."""
        self._before = self.state.copy()

    def __len__(self) -> int:
        return len(self.rows)

    def numbers_of(self, rows: pa.Array) -> Numbers:
        """The numbers of keys by their rows; all of them are in the table."""
        # Those that came first have the first numbers, and here all are distinct.
        return numbered([pa.concat_arrays([self.rows, rows])])[len(self) :]

    def encoded_of(self, numbers: Numbers) -> pa.Array:
        """The encoded keys of these numbers."""
        return self.keys.take(of_numbers(numbers))

    def load(self, numbers: Numbers) -> None:
        """Read the state of these keys, unless that was done."""
        missing = numbers[~self._loaded[numbers]]
        if not len(missing):
            return
        self._loaded[missing] = True
        rows = cast("list[bytes]", self.rows.take(of_numbers(missing)).to_pylist())
        found = self._copy.states_of(rows)
        if found:
            stored = list(map(found.get, rows))
            self._stored[missing] = list(map(found.__contains__, rows))
            self.state[missing] = self._before[missing] = self.layout.decode(stored)

    def is_stored(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Whether something is stored of each of these keys."""
        self.load(numbers)
        return cast("NDArray[np.bool_]", self._stored[numbers])

    def save(self, delta: Delta) -> None:
        """Put what has changed into the delta; a key whose fields are all at their defaults keeps nothing."""
        changed = np.flatnonzero(self._loaded & _differ(self.state, self._before))
        if not len(changed):
            return
        empty = ~_differ(self.state[changed], np.repeat(self.layout.defaults, len(changed)))
        size, data = self.layout.dtype.itemsize, self.state[changed].tobytes()
        where = of_numbers(changed)
        rows = cast("list[bytes]", self.rows.take(where).to_pylist())
        contents = [data[start : start + size] for start in range(0, len(data), size)]
        cells = delta.cells
        for row, content, is_empty in zip(rows, contents, empty.tolist(), strict=True):
            cells[row, _STATE] = None if is_empty else content
        new = changed[~self._stored[changed] & ~empty]
        places = of_numbers(new)
        delta.keys.update(zip(self.rows.take(places).to_pylist(), self.keys.take(places).to_pylist(), strict=True))


def _differ(one: NDArray[np.void], other: NDArray[np.void]) -> NDArray[np.bool_]:
    """Where the bytes are not the same: also a NaN is the same as itself."""
    width = one.dtype.itemsize
    if not width:
        return np.zeros(len(one), np.bool_)
    bytes_of_one, bytes_of_other = (each.view(np.uint8).reshape(-1, width) for each in (one, other))
    return cast("NDArray[np.bool_]", (bytes_of_one != bytes_of_other).any(axis=1))
