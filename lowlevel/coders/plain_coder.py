"""Bytes of plain values that are nothing but data: reading them runs no code, whoever wrote them (paper §4.4)."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from headrace.lowlevel.coder import KeyCoder
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.time import Duration, Timestamp

_TYPES = (
    *(type(None), bool, int, float, str, bytes, tuple, list, dict, set, frozenset),
    *(date, datetime, timedelta, Decimal, UUID, Timestamp, Duration),
)
_OF_CLASSES = frozenset(b"CDEGKNo")
"""Kinds of keys that name a class."""


class PlainCoder(KeyCoder):
    """None, bool, int, float, str, bytes, dates and times, `Decimal`, `UUID`, and tuples, lists, sets, dicts of such.

    What is equal as a key comes back the same: an instant in UTC, 1.50 as 1.5.

    >>> plain = PlainCoder()
    >>> plain.decode(plain.encode(("logs", 3, [None, 2.5, {"seen": {b"a"}}])))
    ('logs', 3, [None, 2.5, {'seen': {b'a'}}])
    """

    def encode(self, key: object) -> bytes:
        """Bytes of a value. Raises TypeError for one of another type, subclasses of these included."""
        if type(key) not in _TYPES:
            raise TypeError(
                f"{key!r:.200} of type {type(key).__qualname__} is no plain value; use None, bool, int, float, str, "
                "bytes, dates and times, Decimal, UUID, or tuples, lists, sets and dicts of them"
            )
        return super().encode(key)

    def decode(self, data: bytes) -> object:
        """The value of the bytes. Raises `CheckpointError` for anything that is no plain value."""
        if data[:1] and data[0] in _OF_CLASSES:
            raise CheckpointError(f"{data[:40]!r} names a class where only plain values belong")
        return super().decode(data)


PLAIN = PlainCoder()
