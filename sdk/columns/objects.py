"""What: partial results that are no columns of numbers: accumulators as Python values, for the few that need it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

import pyarrow as pa

from headrace.lowlevel import segment
from headrace.lowlevel.arrays import numbers_in
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.columns.keys import ENCODED
from headrace.sdk.columns.partials import Partials
from headrace.sdk.columns.reducers import Reducers
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
    table = segment.decode(contents)
    ends = numbers_in(table.column("end"))
    columns = (column.to_pylist() for column in table.filter(pa.array((ends > after) & (ends <= until))).columns)
    for row, key, start, end, data, count in zip(*columns, strict=True):
        yield Held(row, key, start, end, pickle.loads(cast(bytes, data)), count)


def of_partials(partials: Partials, reducers: Reducers, size: int | None) -> Iterator[Held]:
    """The same as columns say; windows are of this size in microseconds, or the global one."""
    accumulators = reducers.accumulators(partials.kept, partials.counts)
    columns = (partials.rows.to_pylist(), partials.keys.to_pylist(), partials.ends.tolist(), accumulators)
    for row, key, end, accumulator, count in zip(*columns, partials.counts.tolist(), strict=True):
        yield Held(row, key, MIN_TIMESTAMP if size is None else end - size, end, accumulator, count)


def merged(held: Iterable[Held], combine: Combiner, context: IntervalContext) -> list[Held]:
    """One for each key and window, in order of their first; accumulators are merged in the order in which they come."""
    found: dict[tuple[bytes, int, int], list[Held]] = {}
    for one in held:
        found.setdefault(one.place, []).append(one)
    return [its[0] if len(its) == 1 else _one(its, combine, context) for its in found.values()]


def _one(its: list[Held], combine: Combiner, context: IntervalContext) -> Held:
    try:
        accumulator = combine.merge_accumulators([one.accumulator for one in its])
    except Exception as error:
        raise context.failed(error, its[0].key) from error
    return its[0]._replace(accumulator=accumulator, elements=sum(one.elements for one in its))
