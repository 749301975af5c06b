"""Blocks of records as columns that are sorted by key, and the columns of their values (MillWheel paper §4.3).

The values come from a table or from Python values.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import NoReturn, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import of_bytes, of_equal_bytes, of_numbers
from headrace.lowlevel.columnar.key_columns import ENCODED, Numbers
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_batch import ValueSchema, concatenated
from headrace.lowlevel.records.column_block import ColumnBlock
from headrace.lowlevel.topology.computation import IntervalContext

Name: TypeAlias = "str | int | None"
"""Name of a column: a field of dicts, rows and named tuples; an index in tuples; None for the values themselves."""
Fail: TypeAlias = Callable[[int, object, str], NoReturn]
"""A function that raises the error for a record; it takes the record's index, its value, and the cause."""


class Values(Protocol):
    """The values of many records."""

    def column(self, name: Name, fail: Fail) -> pa.Array:
        """A column with one item for each record, which may have nulls; `fail` is called if it cannot be made."""

    def value(self, index: int) -> object:
        """The value of the record with this index."""


class ColumnValues:
    """Values in the columns of a table."""

    def __init__(self, table: pa.RecordBatch, shape: ValueSchema) -> None:
        self._table, self._shape = table, shape
        self._objects: ObjectValues | None = None

    def column(self, name: Name, fail: Fail) -> pa.Array:
        """See `Values`."""
        shape = self._part(name)
        # A shape of a single column has its index.
        index = getattr(shape, "column", None)
        if isinstance(index, int):
            return self._table.column(index)
        if self._objects is None:
            self._objects = ObjectValues(self._shape.values(self._table))
        return self._objects.column(name, fail)

    def _part(self, name: Name) -> ValueSchema | None:
        if name is None:
            return self._shape
        if isinstance(name, int):
            return self._shape.part(name)
        find: Callable[[str], ValueSchema | None] | None = getattr(self._shape, "field", None)
        return None if find is None else find(name)

    def value(self, index: int) -> object:
        """See `Values`."""
        return self._shape.values(self._table.slice(index, 1))[0]


class ObjectValues:
    """Values that are Python objects."""

    def __init__(self, values: Sequence[object]) -> None:
        self._values = values

    def column(self, name: Name, fail: Fail) -> pa.Array:
        """See `Values`."""
        items = self._items(name, fail)
        try:
            return pa.array(items, from_pandas=False)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            index = _unlike(items)
        problem = f"{_described(name)} is {items[index]!r:.80}, which cannot be in a column with {items[0]!r:.80}"
        fail(index, self._values[index], f"{problem}; convert all of them to one type of at most 64 bits")

    def _items(self, name: Name, fail: Fail) -> list[object]:
        get = _getter(name)
        try:
            return list(map(get, self._values))
        except Exception:
            index = next(index for index, value in enumerate(self._values) if _fails(get, value))
        value = self._values[index]
        names = ", ".join(map(repr, _names_in(value))) or f"nothing, as it is of type {type(value).__name__}"
        fail(index, value, f"it has no {_described(name)} (it has {names}); use another name, or map the records first")

    def value(self, index: int) -> object:
        """See `Values`."""
        return self._values[index]


def _getter(name: Name) -> Callable[[object], object]:
    if name is None:
        return lambda value: value
    if isinstance(name, int):
        # A value without items raises; `_items` reports it.
        return cast("Callable[[object], object]", itemgetter(name))

    def get(value: object) -> object:
        return value[name] if isinstance(value, Mapping) else getattr(value, name)

    return get


def _fails(get: Callable[[object], object], value: object) -> bool:
    try:
        get(value)
    except Exception:
        return True
    return False


def _names_in(value: object) -> Sequence[object]:
    if isinstance(value, Mapping):
        return list(value)
    fields: Sequence[object] | None = getattr(value, "_fields", None)
    if fields is not None:
        return fields
    if isinstance(value, tuple):
        return range(len(value))
    return [name for name in getattr(value, "__dict__", ()) if not name.startswith("_")]


def _unlike(items: Sequence[object]) -> int:
    """Index of the first item that cannot be in an Arrow array with the first item; 0 if there is none."""
    for index in range(len(items)):
        try:
            pa.array([items[0], items[index]])
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return index
    return 0


def _described(name: Name) -> str:
    if name is None:
        return "value"
    return f"item {name}" if isinstance(name, int) else f"field {name!r}"


def key_hashes_of(block: Block) -> pa.Array:
    """The hash of each key of a block, of type `binary(16)`."""
    return block.hash_column if isinstance(block, ColumnBlock) else of_equal_bytes(block.key_hashes, 16)


def keys_of(block: Block) -> pa.Array:
    """The encoded keys of a block, of type `large_binary`."""
    return block.key_column if isinstance(block, ColumnBlock) else of_bytes(block.keys, ENCODED)


def keys_of_records(block: Block) -> tuple[pa.Array, pa.Array]:
    """The 16-byte hash of each record's key, and the encoded key: two arrays as long as the block."""
    indices = of_numbers(np.repeat(np.arange(len(block.counts)), block.counts))
    return key_hashes_of(block).take(indices), keys_of(block).take(indices)


def by_key(blocks: Sequence[Block], numbers: Sequence[Numbers]) -> tuple[Numbers, Numbers, Numbers, Values]:
    """Concatenate the records of blocks of one stream and sort them by key; the order within a key is kept.

    Args:
        blocks: One or more blocks.
        numbers: For each block, the number of each of its keys (int64).

    Returns:
        Four items: the distinct key numbers, int64, ascending (with a single block in the order of its keys); and for
        each record the index of its key among them, int64, its timestamp, int64, microseconds UTC, and its value.
    """
    times = np.concatenate(list(map(times_of, blocks)))
    if len(blocks) == 1:
        # The records of a block are sorted by key already.
        return numbers[0], np.repeat(np.arange(len(numbers[0])), blocks[0].counts), times, _values(blocks, None)
    owners = np.concatenate([np.repeat(own, block.counts) for block, own in zip(blocks, numbers, strict=True)])
    distinct, order = np.unique(owners), np.argsort(owners, kind="stable")
    return distinct, np.searchsorted(distinct, owners[order]), times[order], _values(blocks, order)


def times_of(block: Block) -> Numbers:
    """The event time of each record, int64, microseconds UTC."""
    return block.batch.times if isinstance(block, ColumnBlock) else np.frombuffer(block.timestamps, np.int64)


def _values(blocks: Sequence[Block], order: Numbers | None) -> Values:
    batches = [block.batch for block in blocks if isinstance(block, ColumnBlock)]
    if len(batches) == len(blocks) and all(
        batch.shape == batches[0].shape and batch.table.schema.types == batches[0].table.schema.types
        for batch in batches
    ):
        table = concatenated(batches).table
        return ColumnValues(table if order is None else table.take(of_numbers(order)), batches[0].shape)
    values = list(chain.from_iterable(block.values for block in blocks))
    return ObjectValues(values if order is None else list(map(values.__getitem__, order.tolist())))


def without_duplicates(block: Block, context: IntervalContext) -> Block:
    """The block without records whose ids were processed before (MillWheel paper §6.1.1)."""
    if block.ids is None:
        return block
    fresh = context.fresh(block.stream, block.ids, block.timestamps)
    if len(fresh) == len(block):
        return block
    owners = np.repeat(np.arange(len(block.counts)), block.counts)[np.array(fresh, np.int64)]
    counts = np.bincount(owners, minlength=len(block.counts))
    owning = np.flatnonzero(counts).tolist()
    return Block(
        block.consumer,
        block.stream,
        [block.keys[index] for index in owning],
        [block.key_hashes[index] for index in owning],
        array("q", counts[owning].tobytes()),
        array("q", [block.timestamps[index] for index in fresh]),
        [block.values[index] for index in fresh],
    )
