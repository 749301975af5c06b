"""Records on their way to one interval, as columns (paper §4.2, §4.3); whoever wants values gets them of it."""

from __future__ import annotations

import pickle
from array import array
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.arrays import of_bytes, of_equal_bytes, of_numbers
from headrace.lowlevel.coder import decode_key
from headrace.lowlevel.columns import ColumnBatch, Shape, Times
from headrace.lowlevel.paired import Paired
from headrace.lowlevel.parcel import Parcel
from headrace.lowlevel.shapes import Tuple
from headrace.lowlevel.streamed import decode_tables, encode_tables
from headrace.lowlevel.turned import whole

_MANY = 64
"""Records of a key, about, from which on its pairs are not made before somebody asks for them."""


class Columns(NamedTuple):
    """What stands in the place of the values when a parcel of columns travels."""

    table: bytes
    """As an Arrow IPC stream."""
    shape: Shape


class ColumnParcel(Parcel):
    """A `Parcel` whose values are made of columns when somebody asks for them.

    Args:
        consumer: As for `Parcel`.
        stream: As for `Parcel`.
        keys: Encoded keys.
        rows: Row of each key.
        counts: Records of each key.
        batch: The records, sorted by key.
    """

    __slots__ = ("batch",)

    def __init__(
        self, consumer: str, stream: str, keys: list[bytes], rows: list[bytes], counts: array[int], batch: ColumnBatch
    ) -> None:
        self.consumer, self.stream = consumer, stream
        self.keys, self.rows, self.counts = keys, rows, counts
        self.batch = batch
        self.ids = None

    def __getattr__(self, name: str) -> object:
        # Only asked for what is not there yet.
        if name == "values":
            self.values = cast("list[object]", self._paired() or self.batch.values)
            return self.values
        if name == "timestamps":
            self.timestamps = array("q", self.batch.times.tobytes())
            return self.timestamps
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _paired(self) -> Paired | None:
        """The values, if they are pairs, and keys have so many of them that a look at each key costs nothing."""
        table, first, second = self.batch.table, self.batch.shape.part(0), self.batch.shape.part(1)
        is_pair = isinstance(self.batch.shape, Tuple) and len(self.batch.shape.shapes) == 2
        if first is None or second is None or not is_pair or len(self.batch) < _MANY * len(self.keys):
            return None
        return Paired(lambda: first.values(table), second.values(table))

    def __len__(self) -> int:
        return len(self.batch)

    def oldest(self) -> int:
        """See `Parcel`."""
        return int(self.batch.times.min())

    def selected(self, keys: NDArray[np.intp], records: NDArray[np.int64]) -> Parcel:
        """See `Parcel`."""
        return ColumnParcel(
            self.consumer,
            self.stream,
            [self.keys[place] for place in keys.tolist()],
            [self.rows[place] for place in keys.tolist()],
            array("q", np.frombuffer(self.counts, np.int64)[keys].tobytes()),
            self.batch.taken(records),
        )

    def _halves(self) -> tuple[Parcel, Parcel]:
        middle = len(self) // 2
        return self._between(0, middle), self._between(middle, len(self))

    def _between(self, start: int, stop: int) -> Parcel:
        """The records of some places, as views of the columns."""
        ends = np.cumsum(self.counts)
        begins = ends - np.frombuffer(self.counts, np.int64)
        counts = np.minimum(ends, stop) - np.maximum(begins, start)
        its = np.flatnonzero(counts > 0)
        return ColumnParcel(
            self.consumer,
            self.stream,
            [self.keys[place] for place in its.tolist()],
            [self.rows[place] for place in its.tolist()],
            array("q", counts[its].tobytes()),
            ColumnBatch(self.batch.table.slice(start, stop - start), self.batch.times[start:stop], self.batch.shape),
        )

    def encode(self) -> bytes:
        """See `Parcel`."""
        columns = Columns(encode_tables([self.batch.table], self.batch.table.schema), self.batch.shape)
        rows = b"".join(self.rows)
        content = (self.consumer, self.stream, self.keys, rows, self.counts, self.timestamps, columns, None)
        return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)

    def of_each_record(self) -> tuple[pa.Array, pa.Array]:
        """The row of each record's key, and the encoded key."""
        places = of_numbers(np.repeat(np.arange(len(self.rows)), self.counts))
        rows = of_equal_bytes(self.rows, 16)
        return rows.take(places), of_bytes(self.keys, pa.large_binary()).take(places)


def decode_parcel(data: bytes) -> Parcel:
    """A parcel of either kind."""
    consumer, stream, keys, rows, counts, timestamps, values, ids = pickle.loads(data)
    split = [rows[i : i + 16] for i in range(0, len(rows), 16)]
    if isinstance(values, Columns):
        [table] = decode_tables(values.table)
        times: Times = np.frombuffer(timestamps, np.int64)
        return ColumnParcel(consumer, stream, keys, split, counts, ColumnBatch(table, times, values.shape))
    if isinstance(values, tuple):
        values = whole(values, list(map(decode_key, keys)) if None in values else (), counts)
    return Parcel(consumer, stream, keys, split, counts, timestamps, values, ids)
