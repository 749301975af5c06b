"""Conversion of blocks of records to columns that are sorted by key (MillWheel paper §4.3)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import of_bytes, of_equal_bytes, of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_batch import concatenated
from headrace.lowlevel.records.column_block import ColumnBlock
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.values import ColumnValues, ObjectValues, Values


def key_hashes_of(block: Block) -> pa.Array:
    """The hash of each key of a block, of type `binary(16)`."""
    return of_equal_bytes(block.key_hashes, 16)


def keys_of(block: Block) -> pa.Array:
    """The encoded keys of a block, of type `large_binary`."""
    return of_bytes(block.keys, pa.large_binary())


def by_key(blocks: Sequence[Block], numbers: Sequence[Numbers]) -> tuple[Numbers, Numbers, Numbers, Values]:
    """Concatenate the records of blocks of one stream and sort them by key; the order within a key is kept.

    Args:
        blocks: One or more blocks.
        numbers: For each block, the number of each of its keys (int64).

    Returns:
        Four items: the distinct key numbers, int64, ascending (with a single block in the order of its keys); and for
        each record the index of its key among them, int64, its timestamp, int64, microseconds UTC, and its value.
    """
    times = np.concatenate([np.frombuffer(_times(block), np.int64) for block in blocks])
    if len(blocks) == 1:
        # The records of a block are sorted by key already.
        return numbers[0], np.repeat(np.arange(len(numbers[0])), blocks[0].counts), times, _values(blocks, None)
    owners = np.concatenate([np.repeat(own, block.counts) for block, own in zip(blocks, numbers, strict=True)])
    distinct, order = np.unique(owners), np.argsort(owners, kind="stable")
    return distinct, np.searchsorted(distinct, owners[order]), times[order], _values(blocks, order)


def _times(block: Block) -> bytes:
    return block.batch.times.tobytes() if isinstance(block, ColumnBlock) else block.timestamps.tobytes()


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
    owners = np.repeat(np.arange(len(block.key_hashes)), block.counts)[np.array(fresh, np.int64)]
    counts = np.bincount(owners, minlength=len(block.key_hashes))
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
