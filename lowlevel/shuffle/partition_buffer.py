"""Partition buffers: records for one consumer until they are shipped, by interval and key (paper §4.2).

Records are appended in order of arrival and grouped when they are shipped, by a stable sort of small numbers for whole
columns: that takes a tenth of a microsecond per record, where a list for each key takes a whole one. Records that come
as columns stay columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.coders.coder import STANDARD_KEYS, encode_key, joined_hashes, key_hash_of
from headrace.lowlevel.columnar.arrow_arrays import of_bytes, of_joined, of_numbers
from headrace.lowlevel.columnar.key_columns import (
    ENCODED,
    Numbers,
    TupleKeys,
    encoded_keys,
    first_indices,
    is_direct,
    is_key_column,
    numbered,
)
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.intervals.interval_map import Interval, IntervalMap
from headrace.lowlevel.metric import at
from headrace.lowlevel.records.block import Block, out_of_time
from headrace.lowlevel.records.column_batch import (
    ColumnBatch,
    EncodedKeys,
    Single,
    ValueSchema,
    concatenated,
    shape_of_key,
)
from headrace.lowlevel.records.column_block import ColumnBlock
from headrace.lowlevel.records.record import Batch, KeyExtractor
from headrace.lowlevel.records.transposed_tuples import TransposedTuples
from headrace.lowlevel.topology.nodes import DeadLetter, Keyed
from headrace.lowlevel.topology.redelivery import by_record_id
from headrace.lowlevel.user_errors import failed_step, own_traceback

_FEW = 1 << 16
"""Number of keys up to which 16 bits number them, which NumPy sorts in linear time."""

MOST = 50_000
"""Number of keys in the cache: some 15 MB."""
_LONGEST = 256
"""Largest encoding in the cache, in bytes."""
HashedKey = tuple[bytes, bytes]
"""The encoding of a key, and the 16-byte hash of the encoding."""


class KeyHashCache:
    """A cache of two generations, each of up to `most` / 2 keys.

    A lookup moves a key to the younger generation. A full younger generation becomes the older one, whose keys are
    removed. So frequent keys stay, however many rare keys there are. In one call only the first keys enter, at most a
    generation: frequent keys come early, and later keys would replace them.

    Args:
        most: Largest number of keys in the cache.

    >>> cache = KeyHashCache(most=4)
    >>> cache.of(["a", "b"]) == [(b"sa", key_hash_of(b"sa")), (b"sb", key_hash_of(b"sb"))]
    True
    >>> [len(cache) for key in "cdaefga" if cache.of([key])]
    [3, 4, 3, 4, 3, 4, 3]
    >>> cache = KeyHashCache(most=4)
    >>> cache.of(list("stuv")) == [hashed for key in "stuv" for hashed in KeyHashCache().of([key])], len(cache)
    (True, 2)
    """

    def __init__(self, most: int = MOST) -> None:
        self._half = most // 2
        self._young: dict[object, HashedKey] = {}
        self._old: dict[object, HashedKey] = {}
        self._room = self._half
        """Number of further keys that may enter in the current call."""

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(self, keys: Sequence[object]) -> list[HashedKey]:
        """The encoding and hash of each key; keys of type `bytes` are encodings already."""
        self._room = self._half
        return [hashed or self._find(key) for key, hashed in zip(keys, map(self._young.get, keys), strict=True)]

    def _find(self, key: object) -> HashedKey:
        """The encoding and hash of a key that was not in the younger generation at the start of the call."""
        hashed = self._old.pop(key, None) if self._room else self._old.get(key)
        if hashed is None:
            encoded = key if isinstance(key, bytes) else encode_key(key)
            hashed = (encoded, key_hash_of(encoded))
            if len(encoded) > _LONGEST:
                return hashed
        if self._room:
            self._room -= 1
            if len(self._young) >= self._half:
                self._old, self._young = self._young, {}
            self._young[key] = hashed
        return hashed

    def joined(self, encoded: Sequence[bytes]) -> bytes:
        """The hashes of encoded keys, one behind the other. So many that they would not stay do not enter."""
        if len(encoded) > self._half:
            return joined_hashes(encoded)
        return b"".join([key_hash for _, key_hash in self.of(encoded)])


class ColumnBuffer:
    """Batches of one schema for one consumer of one stream.

    `encode` encodes keys of types that have equal keys of other types, such as 1 and True.
    """

    def __init__(self, consumer: str, stream: str, extract: KeyExtractor, encode: Callable[[object], bytes]) -> None:
        self._consumer, self._stream = consumer, stream
        self._extract, self._encode = extract, encode
        self._batches: list[ColumnBatch] = []
        self.size = 0
        """Number of records in the buffer."""

    def key_of(self, batch: ColumnBatch) -> ValueSchema | None:
        """The schema of the keys; None if the keys are not made of columns alone, or records have ids."""
        key = shape_of_key(self._extract, batch.shape)
        if key is None or not key.columns() or batch.ids is not None:
            return None
        columns = [batch.table.column(index) for index in key.columns()]
        # Times of day have no encoding of their own; single keys name the one, or go to the dead letters.
        return key if all(is_key_column(each) and not pa.types.is_time(each.type) for each in columns) else None

    def fits(self, batch: ColumnBatch) -> bool:
        """Whether the batch has the schema and column types of the batches in the buffer."""
        if not self._batches:
            return True
        last = self._batches[-1]
        return last.shape == batch.shape and last.table.schema.types == batch.table.schema.types

    def add(self, batch: ColumnBatch) -> None:
        """Add a batch; it must fit, and its keys must be made of columns."""
        self._batches.append(batch)
        self.size += len(batch)

    def take_blocks(self, intervals: IntervalMap, key_hashes: KeyHashCache) -> Iterable[tuple[Interval, ColumnBlock]]:
        """Empty the buffer. Returns a block for each interval that has records."""
        batch = concatenated(self._batches)
        self._batches, self.size = [], 0
        key = self.key_of(batch)
        assert key is not None, "`add` takes only batches with keys of columns"
        numbers = numbered([batch.table.column(number) for number in key.columns()])
        distinct = batch.table.take(of_numbers(first_indices(numbers, int(numbers.max()) + 1)))
        if (encoded := self._encoded(key, distinct)) is None:
            numbers, encoded = _merged(numbers, of_bytes(list(map(self._encode, key.values(distinct))), ENCODED))
        hashes = key_hashes.joined(encoded.to_pylist())
        positions = intervals.indices_of(hashes)
        order = np.argsort(positions, kind="stable")
        keys_in_order = encoded.take(of_numbers(order)), of_joined(hashes, 16).take(of_numbers(order))
        return self._blocks(batch, numbers, keys_in_order, positions, order, intervals)

    def _encoded(self, key: ValueSchema, table: pa.RecordBatch) -> pa.Array | None:
        """The encodings of distinct keys, one for each row, if different keys have different ones; else None."""
        if isinstance(key, EncodedKeys):
            return key.encoded(table)
        columns = [table.column(number) for number in key.columns()]
        if len(columns) == 1 and is_direct(columns[0]) and isinstance(key, Single):
            return encoded_keys(columns[0])
        first = key.values(table.slice(0, 1))[0]
        tuple_keys = TupleKeys.like(first, self._encode)
        if tuple_keys is None or not tuple_keys.fits(columns):
            return None
        encoded = tuple_keys.encoded(columns)
        return encoded if encoded[0].as_py() == self._encode(first) else None

    def _blocks(
        self,
        batch: ColumnBatch,
        numbers: Numbers,
        keys: tuple[pa.Array, pa.Array],
        positions: Numbers,
        order: Numbers,
        intervals: IntervalMap,
    ) -> Iterable[tuple[Interval, ColumnBlock]]:
        """A block for each interval; keys in order of first appearance, the records of a key in order of arrival.

        Args:
            batch: The records.
            numbers: Number of each record's key.
            keys: Encodings and hashes of the keys, in this order:
            order: The numbers of the keys by interval.
            positions: Index of each key's interval in `intervals`.
            intervals: The intervals.
        """
        # Short numbers are sorted by radix, in a quarter of the time.
        rank = np.empty(len(order), np.uint16 if len(order) <= _FEW else np.int64)
        rank[order] = np.arange(len(order))
        by_key = np.argsort(rank[numbers], kind="stable")
        counts = np.bincount(numbers, minlength=len(order))[order]
        ends = np.cumsum(counts)
        sorted_positions = positions[order]
        edges = [0, *(np.flatnonzero(np.diff(sorted_positions)) + 1).tolist(), len(order)]
        for low, high in pairwise(edges):
            interval = intervals.intervals[int(sorted_positions[low])]
            begin = int(ends[low - 1]) if low else 0
            records = batch.taken(by_key[begin : int(ends[high - 1])])
            block = ColumnBlock(
                self._consumer,
                self._stream,
                keys[0].slice(low, high - low),
                keys[1].slice(low, high - low),
                array("q", counts[low:high].tobytes()),
                records,
            )
            yield interval, block


def _merged(numbers: Numbers, encoded: pa.Array) -> tuple[Numbers, pa.Array]:
    """The number of each row's key and the keys, as several values of the columns may have the same encoding."""
    renumbered = numbered([encoded])
    firsts = first_indices(renumbered, int(renumbered.max()) + 1)
    return renumbered[numbers], encoded.take(of_numbers(firsts))


_SHIP_AT = 100_000
"""Number of records in the buffer from which it is shipped."""
_DIRECT = (str, int)
"""Key types whose equal keys have equal encodings, so that the key itself can be looked up in a dictionary."""

_T = TypeVar("_T")


class PartitionBuffer:
    """Records for one consumer of one stream, until they are shipped.

    `send` is called when the buffer is to be emptied by `take_blocks`; `bury` emits dead letters of a node.
    """

    def __init__(
        self, node: Keyed, stream: str, send: Callable[[PartitionBuffer], None], bury: Callable[[Keyed, Batch], None]
    ) -> None:
        self._node, self._bury = node, bury
        self.consumer, self.stream, self.extract = node.name, stream, node.inputs[stream]
        self._by_id = self.extract is by_record_id
        # The injector defines the ids, so the topology's key coder does not apply to them.
        self._encode_key = STANDARD_KEYS.encode if self._by_id else node.key_coder.encode
        self._send = send
        self._kind: type | None = None
        self._columns = ColumnBuffer(self.consumer, stream, self.extract, self._encode_key)
        self._begin()

    def _begin(self) -> None:
        self._keys: list[object] = []
        """The keys if they are of a type in `_DIRECT`, else their encodings; as many as values."""
        self._values: list[object] = []
        self._times = array("q")
        self._ids: list[bytes] | None = None

    def add(self, batch: Batch) -> None:
        """Add the records of a batch. If the buffer is full or the batch does not fit, the buffer is sent before."""
        if isinstance(batch, ColumnBatch) and self._columns.key_of(batch := batch.decoded()) is not None:
            if self._keys or self._columns.size >= _SHIP_AT or not self._columns.fits(batch):
                self._send(self)
            self._columns.add(batch)
            return
        if self._columns.size:
            self._send(self)
        self._add_values(batch)

    def _add_values(self, batch: Batch) -> None:
        """Add the records by their Python values."""
        try:
            kind, keys = self._keys_of(batch)
        except StepError:
            if self._node.dead_letters is None:
                raise
            batch = self._without_poison(batch)
            if not len(batch):
                return
            kind, keys = self._keys_of(batch)
        # A key must not be in the buffer in two forms, as that would change the order of its records.
        is_other = kind is not self._kind or (batch.ids is None) != (self._ids is None)
        if self._keys and (is_other or len(self._keys) >= _SHIP_AT):
            self._send(self)
        self._kind = kind
        try:
            self._times.extend(batch.timestamps)
        except OverflowError:
            encoded = list(map(self._encode_key, keys)) if kind in _DIRECT else cast("list[bytes]", keys)
            raise out_of_time(self.consumer, self.stream, encoded, batch.values, batch.timestamps) from None
        self._keys += keys
        self._values += batch.values
        if batch.ids is not None:
            self._ids = self._ids or []
            self._ids += batch.ids

    def _keys_of(self, batch: Batch) -> tuple[type, list[object]]:
        """The type of the keys, and the keys; `bytes` and encodings if equal keys could differ in type (1, True)."""
        try:
            with at(self.consumer):
                keys = list(batch.ids if self._by_id and batch.ids else map(self.extract, batch.values))
            kinds = set(map(type, keys))
            if len(kinds) == 1 and (kind := kinds.pop()) in _DIRECT:
                return kind, keys
            return bytes, list(map(self._encode_key, keys))
        except Exception as error:
            raise failed_step(error, self.consumer, None, batch.values[self._failing(batch)]) from error

    def _without_poison(self, batch: Batch) -> Batch:
        """A batch of the records that have a key; the other records become dead letters."""
        valid: list[int] = []
        letters: list[object] = []
        letter_times: list[int] = []
        for index, value in enumerate(batch.values):
            try:
                self._encode_key(self.extract(value))
            except Exception as error:
                letters.append(DeadLetter(self.consumer, None, value, own_traceback(error)))
                letter_times.append(batch.timestamps[index])
            else:
                valid.append(index)
        self._bury(self._node, Batch(letters, letter_times))
        ids = None if batch.ids is None else [batch.ids[index] for index in valid]
        return Batch([batch.values[index] for index in valid], [batch.timestamps[index] for index in valid], ids)

    def _failing(self, batch: Batch) -> int:
        """Index of the first value for which extraction or encoding of the key fails; 0 if no single value fails."""
        for index, value in enumerate(batch.values):
            try:
                self._encode_key(self.extract(value))
            except Exception:
                return index
        return 0

    def take_blocks(self, intervals: IntervalMap, key_hashes: KeyHashCache) -> dict[Interval, Block]:
        """Empty the buffer. Returns a block for each interval, with the keys in order of first appearance."""
        if self._columns.size:
            return dict(self._columns.take_blocks(intervals, key_hashes))
        if not self._keys:
            return {}
        grouped = _grouped(self._keys, intervals, key_hashes.of)
        times = np.frombuffer(self._times, np.int64)
        # The values are transposed before they are sorted, as long as they are in memory in order.
        values = TransposedTuples.of(self._values, self._keys if self._kind in _DIRECT else ()) or self._values
        blocks = {}
        for part in grouped.parts:
            interval = intervals.intervals[part.position]
            order = grouped.order[part.records]
            blocks[interval] = Block(
                self.consumer,
                self.stream,
                grouped.encoded[part.keys],
                grouped.key_hashes[part.keys],
                array("q", grouped.sizes[part.keys].tobytes()),
                array("q", times[order].tobytes()),
                values.taken(order) if isinstance(values, TransposedTuples) else _taken(values, order),
                None if self._ids is None else _taken(self._ids, order),
            )
        self._begin()
        return blocks


def _taken(column: list[_T], indices: NDArray[np.intp]) -> list[_T]:
    return list(map(column.__getitem__, indices.tolist()))


class _IntervalPart(NamedTuple):
    """The keys and records of one interval."""

    position: int
    """Index of the interval in its map."""
    keys: slice
    records: slice
    """Slice of `_Grouped.order`."""


@dataclass(frozen=True, slots=True)
class _Grouped:
    """Records in order of interval, then of the first appearance of their keys, then of arrival."""

    encoded: list[bytes]
    """Encodings of the distinct keys."""
    key_hashes: list[bytes]
    """16-byte hashes of the distinct keys."""
    sizes: NDArray[np.int64]
    """Number of records of each distinct key."""
    order: NDArray[np.intp]
    """Indices of the records, which are numbered in order of arrival."""
    parts: list[_IntervalPart]


def _grouped(
    keys: Sequence[object], intervals: IntervalMap, hashed: Callable[[Sequence[object]], list[HashedKey]]
) -> _Grouped:
    """Sort the records by numbers for their keys, which ascend by interval and then by first appearance.

    >>> hashed = {"a": (b"a", bytes(16)), "b": (b"b", bytes(16))}
    >>> grouped = _grouped(["b", "a", "b"], IntervalMap.evenly(1), lambda keys: [hashed[key] for key in keys])
    >>> grouped.encoded, grouped.sizes.tolist(), grouped.order.tolist()
    ([b'b', b'a'], [2, 1], [0, 2, 1])
    """
    distinct = list(dict.fromkeys(keys))
    encoded, key_hashes = zip(*hashed(distinct), strict=True)
    positions = intervals.indices_of(b"".join(key_hashes))
    by_position = positions.argsort(kind="stable")
    numbers = np.empty(len(distinct), np.uint16 if len(distinct) <= _FEW else np.int64)
    numbers[by_position] = np.arange(len(distinct))
    number_of = dict(zip(distinct, numbers.tolist(), strict=True))
    of_records = np.fromiter(map(number_of.__getitem__, keys), numbers.dtype, len(keys))
    sizes = np.bincount(of_records, minlength=len(distinct))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    positions = positions[by_position]
    first = np.flatnonzero(np.diff(positions, prepend=-1)).tolist()
    parts = [
        _IntervalPart(int(positions[start]), slice(start, stop), slice(int(ends[start]), int(ends[stop])))
        for start, stop in pairwise([*first, len(positions)])
    ]
    indices = by_position.tolist()
    return _Grouped(
        [encoded[index] for index in indices],
        [key_hashes[index] for index in indices],
        sizes,
        of_records.argsort(kind="stable"),
        parts,
    )
