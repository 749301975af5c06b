"""Bundles: the input of one computation and key interval in one epoch (MillWheel paper §6.1.1).

A large bundle is divided by key into sub-bundles, so that few records are Python objects at a time (paper §4.2): a
record takes tens of bytes in columns and hundreds as a Python object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.intervals.interval_map import positions_in
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_block import ColumnBlock
from headrace.lowlevel.records.record import Keys
from headrace.lowlevel.time import MIN_TIMESTAMP


@dataclass(slots=True)
class Bundle:
    """Records, clocks and numbers for one computation, key interval and epoch."""

    keys: Keys = field(default_factory=dict)
    """Records by key; the worker removes a key before it runs it."""
    watermark_before: int = MIN_TIMESTAMP
    """Input low watermark at which records are processed, microseconds UTC."""
    watermark: int = MIN_TIMESTAMP
    """Input low watermark at which timers fire, microseconds UTC."""
    wall_time: int = 0
    """The epoch's reading of the wall clock, microseconds UTC."""
    blocks: list[Block] = field(default_factory=list)
    """Records as they were shipped; for an `IntervalComputation`, which gets no `keys`."""
    epoch: int = 0
    interval: int = 0
    """Number of the key interval."""
    more: Iterable[Keys] = ()
    """Sub-bundles of other keys; the worker takes the next one when the one before it is done."""


MOST = 25_000
"""Number of records in a sub-bundle, unless one key has more: some ten megabytes of Python objects."""


def are_worth_splitting(blocks: Sequence[Block], most: int = MOST) -> bool:
    """Whether the blocks have more than `most` records, some of them in columns."""
    return sum(map(len, blocks)) > most and any(isinstance(block, ColumnBlock) for block in blocks)


def sub_bundles(blocks: Sequence[Block], most: int = MOST) -> Iterator[Keys]:
    """All keys of the blocks with their records, in sub-bundles of about `most` records; no key is divided.

    >>> from array import array
    >>> key_hashes, counts = [bytes([number]) * 16 for number in range(3)], array("q", [1, 2, 1])
    >>> block = Block("step", "in", [b"a", b"b", b"c"], key_hashes, counts, array("q", range(4)), list("abbc"))
    >>> [[(key, records.values) for key, [records] in keys.values()] for keys in sub_bundles([block], most=2)]
    [[(b'a', ['a'])], [(b'b', ['b', 'b']), (b'c', ['c'])]]
    """
    hashes = [positions_in(block.joined_hashes()) for block in blocks]
    bounds = _bounds(np.concatenate(hashes), np.concatenate([block.counts for block in blocks]), most)
    numbers = [np.searchsorted(bounds, of_keys, side="right") for of_keys in hashes]
    for number in range(len(bounds) + 1):
        keys: Keys = {}
        for block, number_of_key in zip(blocks, numbers, strict=True):
            indices = np.flatnonzero(number_of_key == number)
            if len(indices):
                _with_keys(block, indices).unpack(keys)
        if keys:
            yield keys


def _bounds(hashes: NDArray[np.uint64], counts: NDArray[np.int64], most: int) -> NDArray[np.uint64]:
    """Ascending hashes that divide the keys into sub-bundles of about `most` records; one fewer than sub-bundles."""
    order = hashes.argsort(kind="stable")
    ends = np.cumsum(counts[order])
    targets = np.arange(most, int(ends[-1]), most)
    return np.unique(hashes[order][np.searchsorted(ends, targets, side="right")])


def _with_keys(block: Block, indices: NDArray[np.intp]) -> Block:
    """A block of the keys with these indices and their records."""
    counts = np.frombuffer(block.counts, np.int64)
    ends = np.cumsum(counts)
    sizes = counts[indices]
    # Index of each record among those of its key.
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return block.selected(indices, np.repeat(ends[indices] - sizes, sizes) + within)
