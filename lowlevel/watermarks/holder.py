"""Holders: the keys whose holds keep output watermarks back (MillWheel paper §4.5)."""

from __future__ import annotations

from typing import NamedTuple


class Holder(NamedTuple):
    """The timestamp, key and tag of a computation's oldest hold. Persisted: every field."""

    timestamp: int
    """Microseconds UTC."""
    key: bytes
    """The encoded key."""
    tag: str
    """Tag of the hold, or of the hold of a timer."""
