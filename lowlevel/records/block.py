"""Blocks: records for one key interval, grouped by key by the task that produces them (paper §4.2, §4.3)."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, repeat

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.class_lookup import dumps
from headrace.lowlevel.coders.coder import decode_key
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.intervals.interval_map import Interval, IntervalMap, positions_in
from headrace.lowlevel.records.record import KeyRecords, Keys
from headrace.lowlevel.records.transposed_tuples import TransposedTuples
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP

PIECE = 256 << 20
"""Largest encoding of a block, in bytes; a larger block is sent as several. A Spark row holds at most 2 GiB."""
LARGEST_RECORD = 1 << 30
"""Largest encoding of one record with its key, in bytes."""
_LONGEST_SHOWN = 1 << 20
"""Largest encoded key that an error message has, in bytes."""
_MANY = 1_000
"""Least number of records of a block whose dominant key is looked for."""
_SAMPLED = 64
"""Number of positions in the key space that `sample` takes from a block."""


@dataclass(slots=True)
class Block:
    """Records of one stream for one consumer and interval, sorted by key."""

    consumer: str
    stream: str
    keys: list[bytes] = field(default_factory=list)
    """Encoded keys."""
    key_hashes: list[bytes] = field(default_factory=list)
    """The 16-byte hash of each key; as many as `keys`."""
    counts: array[int] = field(default_factory=lambda: array("q"))
    """Number of records of each key; the sum is the number of records."""
    timestamps: array[int] = field(default_factory=lambda: array("q"))
    """Event time of each record, microseconds UTC; the records of a key stand together, in order."""
    values: list[object] | TransposedTuples = field(default_factory=list)
    """Value of each record."""
    ids: list[bytes] | None = None
    """Unique id of each record; None where no redelivery can happen."""

    def __len__(self) -> int:
        return len(self.values)

    def first_key(self) -> list[bytes]:
        """The first encoded key, if there is any."""
        return self.keys[:1]

    def joined_hashes(self) -> bytes:
        """The key hashes, one behind the other."""
        return b"".join(self.key_hashes)

    def oldest(self) -> int:
        """The least timestamp, microseconds UTC; `MAX_TIMESTAMP` for no records."""
        return min(self.timestamps, default=MAX_TIMESTAMP)

    def encode(self, stored: bool = False) -> bytes:
        """The block as bytes, for `decode_block`. Raises `StepError` for a value that cannot be pickled.

        `stored` says that the bytes go into a commit, which a changed program may read.

        One pickle of all values is made three times as fast as one of each, and takes values of any type.
        """
        columns = (self.consumer, self.stream, self.keys, self.joined_hashes(), self.counts, self.timestamps)
        values = tuple(self.values.columns) if isinstance(self.values, TransposedTuples) else self.values
        try:
            return pickled((*columns, values, self.ids), stored)
        except Exception as error:
            raise self._unsendable(error) from error

    def _unsendable(self, error: Exception) -> Exception:
        """The error that names the first value that cannot be pickled; `error` if each alone can be."""
        owners = (key for key, count in zip(self.keys, self.counts, strict=True) for _ in range(count))
        for key, value in zip(owners, self.values, strict=True):
            try:
                pickle.dumps(value)
            except Exception as reason:
                cause = (
                    f"it arrived on stream {self.stream!r} and cannot be sent to the key's interval "
                    f"({type(reason).__name__}: {reason}); send what it is made of instead"
                )
                return StepError(self.consumer, key_for_message(key), value, cause)
        return error

    def pieces(
        self, limit: int = PIECE, largest: int = LARGEST_RECORD, stored: bool = False
    ) -> Iterator[tuple[Block, bytes]]:
        """The block and its encoding; if that has more than `limit` bytes, smaller blocks with their encodings.

        Raises `StepError` for a single record whose encoding has more than `largest` bytes.
        """
        data = self.encode(stored)
        if len(data) <= limit or (len(self) == 1 and len(data) <= largest):
            yield self, data
            return
        size, data = len(data), b""
        if len(self) == 1:
            raise self._too_large(size, largest)
        for half in self._halves():
            yield from half.pieces(limit, largest, stored)

    def _halves(self) -> tuple[Block, Block]:
        """The first and the second half of the records; both may have records of the same key."""
        middle = len(self) // 2
        first, second = (Block(self.consumer, self.stream, ids=None if self.ids is None else []) for _ in range(2))
        start = 0
        for key_hash, key, count in zip(self.key_hashes, self.keys, self.counts, strict=True):
            stop = start + count
            for half, low, high in ((first, start, min(stop, middle)), (second, max(start, middle), stop)):
                if low < high:
                    ids = None if self.ids is None else self.ids[low:high]
                    half.add(key, key_hash, self.values[low:high], self.timestamps[low:high], ids)
            start = stop
        return first, second

    def _too_large(self, size: int, largest: int) -> StepError:
        cause = (
            f"a value of type {type(self.values[0]).__name__} that arrived on stream {self.stream!r} has {size:,} "
            f"bytes with its key, of {largest:,} that can be sent; split it, or send a reference to it"
        )
        # The message leaves out the value, as its text would be larger still.
        key = key_for_message(self.keys[0])
        return StepError(self.consumer, key if len(self.keys[0]) < _LONGEST_SHOWN else None, None, cause)

    def divided(self, intervals: IntervalMap) -> dict[Interval, Block]:
        """Interval of `intervals` -> a block of the records whose keys it owns."""
        blocks: dict[int, Block] = {}
        start = 0
        for key_hash, key, count in zip(self.key_hashes, self.keys, self.counts, strict=True):
            stop = start + count
            ids = None if self.ids is None else self.ids[start:stop]
            position = intervals.index_of(key_hash)
            if (block := blocks.get(position)) is None:
                block = blocks[position] = Block(self.consumer, self.stream, ids=None if ids is None else [])
            block.add(key, key_hash, self.values[start:stop], self.timestamps[start:stop], ids)
            start = stop
        return {intervals.intervals[position]: block for position, block in blocks.items()}

    def add(
        self, key: bytes, key_hash: bytes, values: list[object], timestamps: Sequence[int], ids: list[bytes] | None
    ) -> None:
        """Add all records of a key. Raises `StepError` for a timestamp that is out of range."""
        self.keys.append(key)
        self.key_hashes.append(key_hash)
        self.counts.append(len(values))
        assert isinstance(self.values, list), "nothing is added to transposed values"
        self.values += values
        try:
            self.timestamps.extend(timestamps)
        except OverflowError:
            raise out_of_time(self.consumer, self.stream, repeat(key), values, timestamps) from None
        if self.ids is not None and ids is not None:
            self.ids += ids

    def selected(self, keys: NDArray[np.intp], records: NDArray[np.int64]) -> Block:
        """A block of some keys.

        Args:
            keys: Indices of the keys.
            records: Indices of all records of these keys, in the order of `keys`.
        """
        indices = records.tolist()
        return Block(
            self.consumer,
            self.stream,
            [self.keys[index] for index in keys.tolist()],
            [self.key_hashes[index] for index in keys.tolist()],
            array("q", np.frombuffer(self.counts, np.int64)[keys].tobytes()),
            array("q", np.frombuffer(self.timestamps, np.int64)[records].tobytes()),
            [self.values[index] for index in indices],
            None if self.ids is None else [self.ids[index] for index in indices],
        )

    def unpack(self, keys: Keys) -> None:
        """Add the records to `keys`, the records by key of a bundle of their consumer."""
        if not keys:
            records_by_key = ([records] for records in self._key_records())
            keys.update(zip(self.key_hashes, zip(self.keys, records_by_key, strict=True), strict=True))
            return
        for key_hash, key, records in zip(self.key_hashes, self.keys, self._key_records(), strict=True):
            if (entry := keys.get(key_hash)) is None:
                keys[key_hash] = (key, [records])
            else:
                entry[1].append(records)

    def _key_records(self) -> Iterator[KeyRecords]:
        """The records of each key."""
        stops = list(accumulate(self.counts))
        starts = [0, *stops[:-1]]
        slices = list(map(slice, starts, stops))
        values, timestamps = (map(column.__getitem__, slices) for column in (self.values, self.timestamps.tolist()))
        ids = repeat(None) if self.ids is None else map(self.ids.__getitem__, slices)
        oldest = np.minimum.reduceat(self.timestamps, starts).tolist() if starts else ()
        # Equals a call of `KeyRecords` for each key, which would be a call of a Python function.
        return map(tuple.__new__, repeat(KeyRecords), zip(repeat(self.stream), values, timestamps, ids, oldest))


def pickled(content: object, stored: bool) -> bytes:
    """The pickled form of a block's content: on its way, or stored in a commit."""
    return dumps(content) if stored else pickle.dumps(content, pickle.HIGHEST_PROTOCOL)


def out_of_time(
    consumer: str, stream: str, keys: Iterable[bytes], values: Sequence[object], timestamps: Sequence[int]
) -> StepError:
    """The error that names the first record whose timestamp is out of range.

    Args:
        consumer: Name of the computation that reads the records.
        stream: Stream of the records.
        keys: Encoded key of each record.
        values: Value of each record.
        timestamps: Event time of each record, microseconds UTC; one of them is out of range.
    """
    records = zip(keys, values, timestamps, strict=False)
    key, value, timestamp = next(record for record in records if not MIN_TIMESTAMP <= record[2] <= MAX_TIMESTAMP)
    cause = (
        f"it arrived on stream {stream!r} at {timestamp / 1e6:g} seconds since 1970, beyond the year "
        "294000, where time ends; timestamps are seconds, or Timestamp(micros=...)"
    )
    return StepError(consumer, key_for_message(key), value, cause)


def key_for_message(encoded: bytes) -> object:
    """The decoded key; its encoding if only a coder of the program can decode it."""
    try:
        return decode_key(encoded)
    except Exception:
        return encoded


def dominant_key(block: Block) -> tuple[bytes, int] | None:
    """The encoded key that has at least half of the records, and how many; None if none has, or records are few.

    >>> dominant_key(Block("sum", "in", [b"a", b"b"], counts=array("q", [950, 50]), values=[None] * 1_000))
    (b'a', 950)
    """
    records = len(block)
    if records < _MANY or 2 * len(block.counts) > records:
        return None
    most = max(block.counts)
    return (block.keys[block.counts.index(most)], most) if 2 * most >= records else None


def sample(blocks: Iterable[Block]) -> tuple[int, ...]:
    """Key hashes at equal steps through the records of each block: how the records are spread over an interval."""
    positions: list[int] = []
    for block in filter(len, blocks):
        ends = np.cumsum(block.counts)
        indices = np.searchsorted(ends, np.linspace(0, int(ends[-1]), _SAMPLED, endpoint=False), side="right")
        positions += positions_in(block.joined_hashes())[indices].tolist()
    return tuple(positions)
