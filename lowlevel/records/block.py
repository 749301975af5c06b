"""Records on their way to one interval: few large parcels, grouped by key where they are made (paper §4.2, §4.3)."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, repeat

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.coder import decode_key
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.intervals import Interval, IntervalMap, place_of
from headrace.lowlevel.part import Part
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.turned import Turned
from headrace.lowlevel.worker import Bundle

PIECE = 256 << 20
"""Bytes beyond which a parcel travels as several: what carries them may hold 2 GiB at once."""
LARGEST_RECORD = 1 << 30
"""Bytes that one record may have, with its key."""
_LONGEST_SHOWN = 1 << 20
_SAMPLED = 64
"""Places that `sample` takes of a parcel."""


@dataclass(slots=True)
class Parcel:
    """Records of one stream for one consumer and interval, sorted by key."""

    consumer: str
    stream: str
    keys: list[bytes] = field(default_factory=list)
    """Encoded keys."""
    rows: list[bytes] = field(default_factory=list)
    """Row of each key."""
    counts: array[int] = field(default_factory=lambda: array("q"))
    """Records of each key."""
    timestamps: array[int] = field(default_factory=lambda: array("q"))
    values: list[object] | Turned = field(default_factory=list)
    ids: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def oldest(self) -> int:
        """The least timestamp in it."""
        return min(self.timestamps, default=MAX_TIMESTAMP)

    def encode(self) -> bytes:
        """As bytes, for `decode_parcel`.

        One pickle for all values: three times as quick as a pickle a value, and any value fits.
        """
        columns = (self.consumer, self.stream, self.keys, b"".join(self.rows), self.counts, self.timestamps)
        values = tuple(self.values.columns) if isinstance(self.values, Turned) else self.values
        try:
            return pickle.dumps((*columns, values, self.ids), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            raise self._unsendable(error) from error

    def _unsendable(self, error: Exception) -> Exception:
        """Names the first value that cannot be pickled."""
        owners = (key for key, count in zip(self.keys, self.counts, strict=True) for _ in range(count))
        for key, value in zip(owners, self.values, strict=True):
            try:
                pickle.dumps(value)
            except Exception as reason:
                cause = (
                    f"it came in by stream {self.stream!r} and cannot be sent to the key's interval "
                    f"({type(reason).__name__}: {reason}); send what it is made of instead"
                )
                return StepError(self.consumer, _shown(key), value, cause)
        return error

    def pieces(self, limit: int = PIECE, largest: int = LARGEST_RECORD) -> Iterator[tuple[Parcel, bytes]]:
        """Parcels that together are this one, with their bytes, as many as it takes for none to be over the limit.

        Raises `StepError` for a record that is too large to travel at all.
        """
        data = self.encode()
        if len(data) <= limit or (len(self) == 1 and len(data) <= largest):
            yield self, data
            return
        size, data = len(data), b""
        if len(self) == 1:
            raise self._too_large(size, largest)
        for half in self._halves():
            yield from half.pieces(limit, largest)

    def _halves(self) -> tuple[Parcel, Parcel]:
        """The first and the second half of the records, which may both have some of one key."""
        middle = len(self) // 2
        first, second = (Parcel(self.consumer, self.stream, ids=None if self.ids is None else []) for _ in range(2))
        start = 0
        for row, key, count in zip(self.rows, self.keys, self.counts, strict=True):
            stop = start + count
            for half, low, high in ((first, start, min(stop, middle)), (second, max(start, middle), stop)):
                if low < high:
                    its = None if self.ids is None else self.ids[low:high]
                    half.add(key, row, self.values[low:high], self.timestamps[low:high], its)
            start = stop
        return first, second

    def _too_large(self, size: int, largest: int) -> StepError:
        cause = (
            f"a value of type {type(self.values[0]).__name__} came in by stream {self.stream!r} that has {size:,} "
            f"bytes with its key, of {largest:,} that can be sent; cut it up, or send where it lies"
        )
        # Without the value: what it looks like would be larger yet.
        key = _shown(self.keys[0])
        return StepError(self.consumer, key if len(self.keys[0]) < _LONGEST_SHOWN else None, None, cause)

    def divided(self, intervals: IntervalMap) -> dict[Interval, Parcel]:
        """The same records by the intervals that their keys lie in now."""
        parts: dict[int, Parcel] = {}
        start = 0
        for row, key, count in zip(self.rows, self.keys, self.counts, strict=True):
            stop = start + count
            ids = None if self.ids is None else self.ids[start:stop]
            position = intervals.position_of(row)
            if (part := parts.get(position)) is None:
                part = parts[position] = Parcel(self.consumer, self.stream, ids=None if ids is None else [])
            part.add(key, row, self.values[start:stop], self.timestamps[start:stop], ids)
            start = stop
        return {intervals.intervals[position]: part for position, part in parts.items()}

    def add(
        self, key: bytes, row: bytes, values: list[object], timestamps: Sequence[int], ids: list[bytes] | None
    ) -> None:
        """Add all records of a key. Raises `StepError` for a timestamp that no window could hold."""
        self.keys.append(key)
        self.rows.append(row)
        self.counts.append(len(values))
        assert isinstance(self.values, list), "what is turned is complete"
        self.values += values
        try:
            self.timestamps.extend(timestamps)
        except OverflowError:
            raise out_of_time(self.consumer, self.stream, repeat(key), values, timestamps) from None
        if self.ids is not None and ids is not None:
            self.ids += ids

    def selected(self, keys: NDArray[np.intp], records: NDArray[np.int64]) -> Parcel:
        """The keys at these places with these of the records, which are theirs and in their order."""
        places = records.tolist()
        return Parcel(
            self.consumer,
            self.stream,
            [self.keys[place] for place in keys.tolist()],
            [self.rows[place] for place in keys.tolist()],
            array("q", np.frombuffer(self.counts, np.int64)[keys].tobytes()),
            array("q", np.frombuffer(self.timestamps, np.int64)[records].tobytes()),
            [self.values[place] for place in places],
            None if self.ids is None else [self.ids[place] for place in places],
        )

    def unpack(self, bundle: Bundle) -> None:
        """Put the records into the bundle of their consumer."""
        keys = bundle.keys
        if not keys:
            keys.update(zip(self.rows, zip(self.keys, map(_alone, self._parts()), strict=True), strict=True))
            return
        for row, key, part in zip(self.rows, self.keys, self._parts(), strict=True):
            if (entry := keys.get(row)) is None:
                keys[row] = (key, [part])
            else:
                entry[1].append(part)

    def _parts(self) -> Iterator[Part]:
        """The records of each key."""
        stops = list(accumulate(self.counts))
        starts = [0, *stops[:-1]]
        of_key = list(map(slice, starts, stops))
        values, timestamps = (map(column.__getitem__, of_key) for column in (self.values, self.timestamps.tolist()))
        ids = repeat(None) if self.ids is None else map(self.ids.__getitem__, of_key)
        oldest = np.minimum.reduceat(self.timestamps, starts).tolist() if starts else ()
        # What the class's own constructor does, without a call of a Python function for each.
        return map(tuple.__new__, repeat(Part), zip(repeat(self.stream), values, timestamps, ids, oldest))


def _alone(part: Part) -> list[Part]:
    return [part]


def out_of_time(
    consumer: str, stream: str, keys: Iterable[bytes], values: Sequence[object], timestamps: Sequence[int]
) -> StepError:
    """Names the first record whose timestamp is out of range; `keys` are encoded, one a record."""
    records = zip(keys, values, timestamps, strict=False)
    key, value, timestamp = next(record for record in records if not MIN_TIMESTAMP <= record[2] <= MAX_TIMESTAMP)
    cause = (
        f"it came in by stream {stream!r} at {timestamp / 1e6:g} seconds since 1970, beyond the year "
        "294000, where time ends; timestamps are seconds, or Timestamp(micros=...)"
    )
    return StepError(consumer, _shown(key), value, cause)


def _shown(encoded: bytes) -> object:
    """A key for an error; its bytes if only a coder of its own could tell."""
    try:
        return decode_key(encoded)
    except Exception:
        return encoded


def sample(parcels: Iterable[Parcel]) -> tuple[int, ...]:
    """Places of keys, each for about the same number of records: where the records of an interval lie in it."""
    places: list[int] = []
    for parcel in filter(len, parcels):
        ends = np.cumsum(parcel.counts)
        picked = np.searchsorted(ends, np.linspace(0, int(ends[-1]), _SAMPLED, endpoint=False), side="right")
        places += [place_of(parcel.rows[index]) for index in picked.tolist()]
    return tuple(places)
