"""Blocks of records as Arrow columns (paper §4.2, §4.3); their Python values are made on demand."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, cast, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.class_lookup import loads
from headrace.lowlevel.coders.coder import decode_key
from headrace.lowlevel.columnar.arrow_arrays import decode_tables, encode_tables, of_bytes, of_joined, of_numbers
from headrace.lowlevel.columnar.key_columns import ENCODED
from headrace.lowlevel.records.block import Block, pickled
from headrace.lowlevel.records.column_batch import ColumnBatch, Times, Tuple, ValueSchema
from headrace.lowlevel.records.transposed_tuples import tuples_of
from headrace.lowlevel.stored_names import stored_as

_MANY = 64
"""Mean number of records per key from which pairs are lazy."""


@stored_as("Columns")
class Columns(NamedTuple):
    """Values of a column block, as `ColumnBlock.encode` pickles them."""

    table: bytes
    """The columns, as an Arrow IPC stream."""
    shape: ValueSchema


class ColumnBlock(Block):
    """A `Block` whose keys, values and timestamps are made of columns at the first read.

    Args:
        consumer: Name of the computation that reads the records.
        stream: Stream of the records.
        keys: Encoded keys, of type `large_binary`.
        key_hashes: The hash of each key, of type `binary(16)`.
        counts: Number of records of each key.
        batch: The records, sorted by key.
    """

    __slots__ = ("_keys", "_timestamps", "_values", "batch", "hash_column", "key_column")

    def __init__(
        self,
        consumer: str,
        stream: str,
        keys: pa.LargeBinaryArray,
        key_hashes: pa.FixedSizeBinaryArray,
        counts: array[int],
        batch: ColumnBatch,
    ) -> None:
        self.consumer, self.stream = consumer, stream
        self.key_column, self.hash_column, self.counts = keys, key_hashes, counts
        self.batch = batch
        self.ids = None
        self._keys: list[bytes] | None = None
        self._values: list[object] | None = None
        self._timestamps: array[int] | None = None

    # mypy: the base class has fields that can be set; here they are read-only and made at the first read.
    @property
    def keys(self) -> list[bytes]:  # type: ignore[override]  # a field in the base class
        """The encoded keys as Python objects, made at the first read."""
        if self._keys is None:
            self._keys = cast("list[bytes]", self.key_column.to_pylist())
        return self._keys

    @property
    def key_hashes(self) -> list[bytes]:  # type: ignore[override]  # a field in the base class
        """The key hashes as Python objects; each read makes them."""
        return cast("list[bytes]", self.hash_column.to_pylist())

    def first_key(self) -> list[bytes]:
        """See `Block`."""
        return cast("list[bytes]", self.key_column.slice(0, 1).to_pylist())

    def joined_hashes(self) -> bytes:
        """See `Block`."""
        return bytes(self.hash_column.buffers()[1].slice(16 * self.hash_column.offset, 16 * len(self.hash_column)))

    @property
    def values(self) -> list[object]:  # type: ignore[override]  # a field in the base class
        """The values as Python objects, made at the first read."""
        if self._values is None:
            self._values = cast("list[object]", self._lazy_pairs() or self.batch.values)
        return self._values

    @property
    def timestamps(self) -> array[int]:  # type: ignore[override]  # a field in the base class
        """The event times as 64-bit integers, made at the first read."""
        if self._timestamps is None:
            self._timestamps = array("q", self.batch.times.tobytes())
        return self._timestamps

    def _lazy_pairs(self) -> LazyPairs | None:
        """The values as lazy pairs, if they are pairs and a key has many of them on average; else None."""
        table, first, second = self.batch.table, self.batch.shape.part(0), self.batch.shape.part(1)
        is_pair = isinstance(self.batch.shape, Tuple) and len(self.batch.shape.shapes) == 2
        if first is None or second is None or not is_pair or len(self.batch) < _MANY * len(self.counts):
            return None
        return LazyPairs(lambda: first.values(table), second.values(table))

    def __len__(self) -> int:
        return len(self.batch)

    def oldest(self) -> int:
        """See `Block`."""
        return int(self.batch.times.min())

    def selected(self, keys: NDArray[np.intp], records: NDArray[np.int64]) -> Block:
        """See `Block`."""
        counts = np.frombuffer(self.counts, np.int64)[keys]
        return self._of_keys(keys, counts, self.batch.taken(records))

    def _halves(self) -> tuple[Block, Block]:
        middle = len(self) // 2
        return self._between(0, middle), self._between(middle, len(self))

    def _between(self, start: int, stop: int) -> Block:
        """A block of the records from index `start` to before `stop`; its columns are views."""
        ends = np.cumsum(self.counts)
        begins = ends - np.frombuffer(self.counts, np.int64)
        counts = np.minimum(ends, stop) - np.maximum(begins, start)
        indices = np.flatnonzero(counts > 0)
        table, times = self.batch.table.slice(start, stop - start), self.batch.times[start:stop]
        return self._of_keys(indices, counts[indices], ColumnBatch(table, times, self.batch.shape))

    def _of_keys(self, keys: NDArray[np.intp], counts: NDArray[np.int64], batch: ColumnBatch) -> Block:
        """A block of the keys with these indices, with the number of records of each, and these records."""
        where = of_numbers(keys)
        key_column, hash_column = self.key_column.take(where), self.hash_column.take(where)
        return ColumnBlock(self.consumer, self.stream, key_column, hash_column, array("q", counts.tobytes()), batch)

    def encode(self, stored: bool = False) -> bytes:
        """See `Block`."""
        columns = Columns(encode_tables([self.batch.table], self.batch.table.schema), self.batch.shape)
        keys = self.keys if stored else _parts_of(self.key_column)
        hashes, times = self.joined_hashes(), self.timestamps
        return pickled((self.consumer, self.stream, keys, hashes, self.counts, times, columns, None), stored)


def _parts_of(keys: pa.LargeBinaryArray) -> tuple[bytes, bytes]:
    """Offsets and contents of encoded keys, in which form they are on their way: a tenth of the time of a list."""
    _, offsets, contents = keys.buffers()
    edges = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    return (edges - edges[0]).tobytes(), bytes(contents)[edges[0] : edges[-1]]


def _of_parts(keys: list[bytes] | tuple[bytes, bytes]) -> pa.LargeBinaryArray:
    """Encoded keys as `_parts_of` gives them, or as they are stored."""
    if isinstance(keys, list):
        return of_bytes(keys, ENCODED)
    offsets, contents = map(pa.py_buffer, keys)
    return pa.Array.from_buffers(ENCODED, offsets.size // 8 - 1, [None, offsets, contents])


def decode_block(data: bytes, stored: bool = False) -> Block:
    """The block, of either class, whose `encode` gave these bytes: on their way, or stored in a commit."""
    consumer, stream, keys, key_hashes, counts, timestamps, values, ids = (loads if stored else pickle.loads)(data)
    if isinstance(values, Columns):
        [table] = decode_tables(values.table)
        times: Times = np.frombuffer(timestamps, np.int64)
        batch = ColumnBatch(table, times, values.shape)
        return ColumnBlock(consumer, stream, _of_parts(keys), of_joined(key_hashes, 16), counts, batch)
    hashes = [key_hashes[i : i + 16] for i in range(0, len(key_hashes), 16)]
    if isinstance(values, tuple):
        values = tuples_of(values, list(map(decode_key, keys)) if None in values else (), counts)
    return Block(consumer, stream, keys, hashes, counts, timestamps, values, ids)


Pair = tuple[object, object]


class LazyPairs(Sequence[Pair]):
    """A sequence of pairs (key, payload), each made when it is read.

    Args:
        firsts: Makes the list of all first items; called at most once.
        seconds: The list of all second items.

    >>> pairs = LazyPairs(lambda: ["a", "a"], [1, 2])
    >>> list(pairs), pairs[1], list(pairs[1:]), pairs.seconds
    ([('a', 1), ('a', 2)], ('a', 2), [('a', 2)], [1, 2])
    """

    def __init__(self, firsts: Callable[[], list[object]], seconds: list[object]) -> None:
        self._make = firsts
        self.seconds = seconds

    @cached_property
    def firsts(self) -> list[object]:
        """The first items."""
        return self._make()

    def __len__(self) -> int:
        return len(self.seconds)

    def __iter__(self) -> Iterator[Pair]:
        return zip(self.firsts, self.seconds, strict=True)

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> LazyPairs: ...

    def __getitem__(self, index: int | slice) -> Pair | LazyPairs:
        if isinstance(index, slice):
            return LazyPairs(lambda: self.firsts[index], self.seconds[index])
        return self.firsts[index], self.seconds[index]

    def __reduce__(self) -> tuple[object, ...]:
        return list, (list(self),)
