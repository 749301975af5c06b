"""What: encoding of lists in a cell; values are appended without decoding the cell (MillWheel paper §4.4)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, cast

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.coders.coder import Coder, PickleCoder
from headrace.sdk.coders.plain import FloatCoder, StrUtf8Coder, VarIntCoder
from headrace.sdk.userstate.state_spec import State, StateSpec

_LENGTH = 4
_OWN: dict[type, type] = {VarIntCoder: int, StrUtf8Coder: str, FloatCoder: float}
"""Coders that decode values of a type to equal values, so that `pickle` may encode them, which takes a tenth of the
time. The output of a coder is bytes, so that decoding distinguishes the two."""


def chunk(spec: StateSpec[State], values: Sequence[object]) -> bytes:
    """Encode values as one chunk; concatenated chunks encode the concatenation of their values.

    >>> spec = StateSpec.__new__(StateSpec); spec.coder = PickleCoder()
    >>> values_of(spec, chunk(spec, [1, "a"]) + chunk(spec, [2]))
    [1, 'a', 2]
    """
    # One pickle for all values takes a fraction of the time of one for each.
    whole = list(values) if _keeps(spec.coder, values) else _encoded(spec, values)
    try:
        data = dumps(whole)
    except Exception:
        for value in values:
            spec.encode(value)
        raise
    return len(data).to_bytes(_LENGTH, "big") + data


def _keeps(coder: Coder, values: Sequence[object]) -> bool:
    """Whether the coder accepts the values and decodes them to equal values, so that pickle may encode them instead.

    >>> _keeps(VarIntCoder(), [1, 2]), _keeps(VarIntCoder(), [1, True]), _keeps(VarIntCoder(), [1 << 63])
    (True, False, False)
    """
    if type(coder) is PickleCoder:
        return True
    own = _OWN.get(type(coder))
    if own is None or {own} != set(map(type, values)):
        return False
    if own is int:
        try:
            array("q", cast("Sequence[int]", values))
        except OverflowError:
            return False
        return True
    # The coder rejects text with lone surrogates.
    return own is float or all(map(str.isascii, cast("Sequence[str]", values)))


def _encoded(spec: StateSpec[State], values: Sequence[object]) -> list[object]:
    try:
        return list(map(spec.coder.encode, values))
    except Exception:
        # `StateSpec.encode` raises an error with the value and a remedy.
        return [spec.encode(value) for value in values]


def values_of(spec: StateSpec[State], data: bytes) -> list[object]:
    """Decode the values of concatenated chunks, in their order."""
    kind, decode = type(spec.coder), spec.coder.decode
    own = _OWN.get(kind)
    values: list[Any] = []
    if _LENGTH + int.from_bytes(data[:_LENGTH], "big") == len(data):
        # The common case is one chunk.
        values = loads(data[_LENGTH:])
        return values if kind is PickleCoder or type(values[0]) is own else list(map(decode, values))
    at = 0
    while at < len(data):
        start = at + _LENGTH
        at = start + int.from_bytes(data[at:start], "big")
        piece = loads(data[start:at])
        values += piece if kind is PickleCoder or type(piece[0]) is own else map(decode, piece)
    return values
