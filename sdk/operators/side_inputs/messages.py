"""What travels from side inputs to gates: the panes of side windows, and how far the side input is."""

from __future__ import annotations

import pickle
from hashlib import blake2b
from typing import NamedTuple, Self

from headrace.sdk.panes import PaneInfo

SHARDS = 8
"""Keys over which the main input of a gate is spread. Part of what checkpoints are made of: do not change."""
SHARD_KEYS = tuple(f"shard {number}" for number in range(SHARDS))


class View(NamedTuple):
    """What a side window holds, by its latest pane."""

    code: bytes
    """The window, as its coder encodes it."""
    version: bytes
    """Equal for equal contents."""
    data: bytes
    """The values, pickled."""

    @classmethod
    def of(cls, code: bytes, values: object, pane: PaneInfo) -> Self:
        """The view that a pane makes; one that is taken back leaves nothing until the next pane comes."""
        data = pickle.dumps([] if pane.is_retraction else values, pickle.HIGHEST_PROTOCOL)
        return cls(code, blake2b(data, digest_size=16).digest(), data)


class Reached(NamedTuple):
    """How far a side input is."""

    watermark: int
    """Low watermark of the side input, microseconds UTC: panes due before it are out."""


Message = View | Reached
