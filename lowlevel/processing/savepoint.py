"""Savepoints: a key in the middle of its records, to go back to if one of them turns out to be poison."""

from __future__ import annotations

from typing import NamedTuple

from headrace.lowlevel.metric import Cells

Due = tuple[int, int, str]
"""A timer to fire: its domain, negative as wall time goes first; its timestamp; its tag."""


class Savepoint(NamedTuple):
    """What `KeyContext.savepoint` gives and `KeyContext.restore` takes."""

    cells: dict[bytes, bytes | None]
    marks: dict[tuple[bytes, int, str], int | None]
    due: list[Due]
    is_read: bool
    """Whether the state was looked at."""
    state: bytes | None
    produced: dict[str, int]
    """Stream -> number of records so far."""
    counters: dict[str, int]
    metrics: Cells
