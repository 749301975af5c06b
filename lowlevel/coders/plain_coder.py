"""A coder for plain values. Decoding runs no code, whoever wrote the bytes (MillWheel paper §4.4)."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from headrace.lowlevel.coders.coder import KeyCoder
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Duration, Timestamp

_TYPES = (
    *(type(None), bool, int, float, str, bytes, tuple, list, dict, set, frozenset),
    *(date, datetime, timedelta, Decimal, UUID, Timestamp, Duration),
)
_OF_CLASSES = frozenset(b"ACDEGKNo")
"""Codes of keys that contain the name of a class or coder."""


@named("PlainCoder")
class PlainCoder(KeyCoder):
    """A coder for None, bool, int, float, str, bytes, dates and times, `Decimal`, `UUID`, and containers of these.

    Containers are tuples, lists, sets, frozen sets and dicts. As in `KeyCoder`, an instant is decoded in UTC, and the
    Decimal 1.50 as 1.5.

    >>> plain = PlainCoder()
    >>> plain.decode(plain.encode(("logs", 3, [None, 2.5, {"seen": {b"a"}}])))
    ('logs', 3, [None, 2.5, {'seen': {b'a'}}])
    """

    def encode(self, key: object) -> bytes:
        """Convert a value to bytes. Raises TypeError for other types, which include subclasses of plain types."""
        if type(key) not in _TYPES:
            raise TypeError(
                f"{key!r:.200} of type {type(key).__qualname__} is no plain value; use None, bool, int, float, str, "
                "bytes, dates and times, Decimal, UUID, or tuples, lists, sets and dicts of them"
            )
        return super().encode(key)

    def decode(self, data: bytes) -> object:
        """Convert bytes back to the value. Raises `CheckpointError` for bytes that name a class or coder."""
        if data[:1] and data[0] in _OF_CLASSES:
            raise CheckpointError(f"{data[:40]!r} names a class where only plain values belong")
        return super().decode(data)


PLAIN = PlainCoder()
