"""Bytes for values and for keys (MillWheel paper §4.4: the user provides the serialization)."""

from __future__ import annotations

import pickle
import struct
from hashlib import blake2b
from typing import Protocol

from headrace.lowlevel.errors import KeyEncodingError

_DOUBLE = struct.Struct(">d")


class Coder(Protocol):
    """Turns values into bytes and back."""

    def encode(self, value: object) -> bytes:
        """Bytes of the value."""

    def decode(self, data: bytes) -> object:
        """The value of the bytes."""


class PickleCoder:
    """Any Python value that can be pickled.

    >>> PickleCoder().decode(PickleCoder().encode({"a": 1}))
    {'a': 1}
    """

    def encode(self, value: object) -> bytes:
        """Bytes of the value."""
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def decode(self, data: bytes) -> object:
        """The value of the bytes."""
        return pickle.loads(data)


def encode_key(key: object) -> bytes:
    """Bytes of a key, the same for equal keys of one type in every process and release.

    None, bool, int, float, str, bytes and tuples and named tuples of them can be keys. Anything else has no
    encoding that is sure to be the same everywhere and is refused with `KeyEncodingError`.

    >>> encode_key(("ab", 3)) == encode_key(("ab", 3))
    True
    >>> decode_key(encode_key(("ab", 3, None, 1.5)))
    ('ab', 3, None, 1.5)
    >>> encode_key({1})
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.KeyEncodingError: key {1} of type set cannot be encoded deterministically; ...
    """
    if type(key) is str:
        return b"s" + key.encode("utf-8", "surrogatepass")
    if type(key) is int:
        return b"i%d" % key
    if type(key) is bytes:
        return b"b" + key
    if isinstance(key, tuple):
        parts = [encode_key(part) for part in key]
        return b"".join([b"t%d:" % len(parts), *(b"%d:%b" % (len(part), part) for part in parts)])
    if type(key) is float:
        return b"f" + _DOUBLE.pack(key + 0.0)
    if key is None:
        return b"n"
    if type(key) is bool:
        return b"T" if key else b"F"
    raise KeyEncodingError(key)


def decode_key(data: bytes) -> object:
    """The key of the bytes that `encode_key` made; a named tuple comes back as a plain tuple."""
    kind, body = data[:1], data[1:]
    if kind == b"s":
        return body.decode("utf-8", "surrogatepass")
    if kind == b"i":
        return int(body)
    if kind == b"b":
        return body
    if kind == b"t":
        return _decode_tuple(body)
    if kind == b"f":
        return _DOUBLE.unpack(body)[0]
    return {b"n": None, b"T": True, b"F": False}[kind]


def _decode_tuple(body: bytes) -> tuple[object, ...]:
    length, _, rest = body.partition(b":")
    parts = []
    for _ in range(int(length)):
        size, _, rest = rest.partition(b":")
        parts.append(decode_key(rest[: int(size)]))
        rest = rest[int(size) :]
    return tuple(parts)


def row_of(encoded_key: bytes) -> bytes:
    """The 16 bytes under which everything of a key is stored; the first 8 are its place in the space of intervals."""
    return blake2b(encoded_key, digest_size=16).digest()
