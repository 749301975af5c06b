"""The classes of keys of `classes`, which were in that module when its checkpoint was made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Shop:
    """A key."""

    number: int


class Kind(Enum):
    """A part of a key."""

    EVEN = 0
    ODD = 1
