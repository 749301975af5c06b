"""What: messages from side inputs to gates: the panes of side windows, and the watermark of the side input."""

from __future__ import annotations

import pickle
from hashlib import blake2b
from typing import NamedTuple, Self

from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.model.panes import PaneInfo

SHARDS = 8
"""Number of keys over which the main input of a gate is distributed. Checkpoints depend on it: do not change it."""
SHARD_KEYS = tuple(f"shard {number}" for number in range(SHARDS))


@stored_as("SideView")
class SideView(NamedTuple):
    """The contents of a side window as of its latest pane."""

    code: bytes
    """The encoded window."""
    version: bytes
    """Hash of the contents."""
    data: bytes
    """The values, pickled."""

    @classmethod
    def of(cls, code: bytes, values: object, pane: PaneInfo) -> Self:
        """The view of a pane; a retraction gives an empty view, which is valid until the next pane."""
        data = pickle.dumps([] if pane.is_retraction else values, pickle.HIGHEST_PROTOCOL)
        return cls(code, blake2b(data, digest_size=16).digest(), data)


@stored_as("SideProgress")
class SideWatermark(NamedTuple):
    """The watermark of a side input."""

    watermark: int
    """Low watermark of the side input, microseconds UTC: panes that are due before it have been sent."""


Message = SideView | SideWatermark
