"""Savepoints: the changes of a key between two of its records, restored if a later record turns out to be poison."""

from __future__ import annotations

from typing import NamedTuple

from headrace.lowlevel.metric import MetricValues

Due = tuple[int, int, str]
"""A due timer: its domain, negated so that wall time sorts first; its timestamp; its tag."""


class Savepoint(NamedTuple):
    """What `KeyContext.restore` resets: the key's changes, and productions, counters and metrics of the bundle."""

    cells: dict[bytes, bytes | None]
    marks: dict[tuple[bytes, int, str], int | None]
    due: list[Due]
    is_read: bool
    """Whether user code has read or set the state."""
    state: bytes | None
    """The encoded state; None if it was not read, or is None."""
    produced: dict[str, int]
    """Stream -> number of productions that are not sent yet."""
    counters: dict[str, int]
    metrics: MetricValues
