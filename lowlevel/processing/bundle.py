"""Bundles: the input of one computation and key interval in one epoch (MillWheel paper §6.1.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.key_records import Keys
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
