"""What: partial results that are no columns of numbers: accumulators as Python values, for the few that need it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

import pyarrow as pa

from headrace.lowlevel import segment
from headrace.sdk.columns.keys import ENCODED
from headrace.sdk.contents import Combiner

_SCHEMA = pa.schema(
    [
        pa.field("row", pa.binary(16)),
        pa.field("key", ENCODED, metadata={b"encoded": b"1"}),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("accumulator", pa.large_binary()),
        pa.field("count", pa.int64()),
    ]
)


class Held(NamedTuple):
    """A partial result of a key and window."""

    row: bytes
    key: bytes
    """Encoded."""
    start: int
    """The window's, microseconds UTC."""
    end: int
    accumulator: object
    elements: int
    """How many."""

    @property
    def place(self) -> tuple[bytes, int, int]:
        """What tells it apart from others: key and window."""
        return self.row, self.start, self.end


def encode(held: Iterable[Held]) -> bytes:
    """As a segment."""
    rows = [(*one[:4], pickle.dumps(one.accumulator, pickle.HIGHEST_PROTOCOL), one.elements) for one in held]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)]
    return segment.encode(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))


def decode(contents: bytes, after: int, until: int) -> Iterator[Held]:
    """Those of a segment whose windows end after one time, and until another."""
    columns = (column.to_pylist() for column in segment.decode(contents).columns)
    for row, key, start, end, data, count in zip(*columns, strict=True):
        if after < end <= until:
            yield Held(row, key, start, end, pickle.loads(cast(bytes, data)), count)


def merged(held: Iterable[Held], combine: Combiner) -> list[Held]:
    """One for each key and window, in order of their first; accumulators are merged in the order in which they come."""
    found: dict[tuple[bytes, int, int], list[Held]] = {}
    for one in held:
        found.setdefault(one.place, []).append(one)
    return [its[0] if len(its) == 1 else _one(its, combine) for its in found.values()]


def _one(its: list[Held], combine: Combiner) -> Held:
    accumulator = combine.merge_accumulators([one.accumulator for one in its])
    return its[0]._replace(accumulator=accumulator, elements=sum(one.elements for one in its))
