"""What a bundle brings for one key: records of one stream, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """Some records of one key and stream, in order."""

    stream: str
    values: Sequence[object]
    timestamps: Sequence[int]
    ids: Sequence[bytes] | None = None
