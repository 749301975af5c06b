"""How lists of values lie in a cell: appended to as bytes, without reading what is there (MillWheel paper §4.4)."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import cast

from headrace.lowlevel.coder import PickleCoder
from headrace.sdk.stateful.spec import State, StateSpec

_LENGTH = 4


def chunk(spec: StateSpec[State], values: Sequence[object]) -> bytes:
    """Bytes that stand for some values; chunks joined together stand for all their values in order.

    >>> spec = StateSpec.__new__(StateSpec); spec.coder = PickleCoder()
    >>> values_of(spec, chunk(spec, [1, "a"]) + chunk(spec, [2]))
    [1, 'a', 2]
    """
    # One pickle for all values takes a fraction of the time of one for each.
    whole = list(values) if type(spec.coder) is PickleCoder else _encoded(spec, values)
    try:
        data = pickle.dumps(whole, pickle.HIGHEST_PROTOCOL)
    except Exception:
        for value in values:
            spec.encode(value)
        raise
    return len(data).to_bytes(_LENGTH, "big") + data


def _encoded(spec: StateSpec[State], values: Sequence[object]) -> list[object]:
    try:
        return list(map(spec.coder.encode, values))
    except Exception:
        # Again, so that the error says which value it is and what to do.
        return [spec.encode(value) for value in values]


def values_of(spec: StateSpec[State], data: bytes) -> list[object]:
    """The values of joined chunks."""
    values: list[object] = []
    at = 0
    while at < len(data):
        start = at + _LENGTH
        at = start + int.from_bytes(data[at:start], "big")
        values += pickle.loads(data[start:at])
    if type(spec.coder) is PickleCoder:
        return values
    return list(map(spec.coder.decode, cast("list[bytes]", values)))
