"""Blocks of records passed from task to task within one process, without encoding them as bytes."""

from __future__ import annotations

from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_block import ColumnBlock

_MOST_BYTES = 256 << 20
"""Size of the largest block that is passed on without encoding."""


class LocalExchange:
    """Blocks of one attempt at an epoch. Nobody changes a block, so sender and receiver may share it.

    >>> from headrace.lowlevel.records.block import Block
    >>> LocalExchange().leave(Block("consumer", "stream"))
    """

    def __init__(self) -> None:
        self._blocks: list[ColumnBlock] = []

    def leave(self, block: Block) -> int | None:
        """Add a block; returns its number, or None if it must be encoded: a block of Python values, or very large."""
        if not isinstance(block, ColumnBlock) or block.batch.table.nbytes > _MOST_BYTES:
            return None
        self._blocks.append(block)
        return len(self._blocks) - 1

    def take(self, number: int) -> Block:
        """The block of that number."""
        return self._blocks[number]
