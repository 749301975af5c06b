"""Bytes for values and for keys (MillWheel paper §4.4: the user provides the serialization)."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from hashlib import blake2b
from typing import Protocol, TypeAlias, cast

from headrace.lowlevel.errors import KeyEncodingError
from headrace.lowlevel.keykinds import UnstableKeyError, decode_kind, encode_kind
from headrace.lowlevel.unusable import UnusableCoder, received, sent, told

_DOUBLE = struct.Struct(">d")
_EMPTY = blake2b(digest_size=16)
"""Copied for each row, in three quarters of the time that a new one takes."""
_SINGLE: dict[bytes, object] = {b"n": None, b"T": True, b"F": False}


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


def coder_name(coder: Coder) -> str:
    """What a reader would call a coder: as it shows itself, else its class. The same in every process.

    >>> coder_name(PickleCoder())
    'PickleCoder'
    """
    return repr(coder) if type(coder).__repr__ is not object.__repr__ else type(coder).__qualname__


class KeyCoder:
    """Bytes of keys: the same for equal keys of one type in every process and release.

    Keys are None, bool, int, float, str, bytes, dates and times, `Decimal`, `UUID`, `Timestamp`, `Duration`,
    enumerations, and tuples, named tuples, frozen dataclasses, lists, sets and dicts of such. Anything else has no
    encoding that is sure to be the same everywhere: it is refused with `KeyEncodingError`, unless it has a coder here.

    Args:
        own: Type -> the coder of keys of exactly that type.

    >>> keys = KeyCoder()
    >>> keys.encode(("ab", 3)) == keys.encode(("ab", 3))
    True
    >>> keys.decode(keys.encode(("ab", 3, None, 1.5)))
    ('ab', 3, None, 1.5)
    >>> keys.encode(1j)
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.KeyEncodingError: key 1j of type complex cannot be encoded deterministically; ...
    >>> with_complex = KeyCoder({complex: PickleCoder()})
    >>> with_complex.decode(with_complex.encode(1j))
    1j
    """

    __slots__ = ("_by_name", "_own")

    def __init__(self, own: Mapping[type, Coder] | None = None) -> None:
        self._own = {kind: (f"{kind.__module__}:{kind.__qualname__}", coder) for kind, coder in (own or {}).items()}
        self._by_name = dict(self._own.values())

    def add(self, kind: type | None, name: str, coder: Coder) -> None:
        """Take a coder in; without its type it only decodes. Used while it is unpickled."""
        self._by_name[name] = coder
        if kind is not None:
            self._own[kind] = name, coder

    def __reduce__(self) -> tuple[object, ...]:
        return _key_coder, ([_sent(kind, name, coder) for kind, (name, coder) in self._own.items()],)

    def __str__(self) -> str:
        own = sorted(f"{name.partition(':')[2]} by {coder_name(coder)}" for name, coder in self._own.values())
        return ", ".join(own) or "none of the program's own"

    def encode(self, key: object) -> bytes:
        """Bytes of a key."""
        if type(key) is str:
            return b"s" + key.encode("utf-8", "surrogatepass")
        if type(key) is int:
            return b"i%d" % key
        if type(key) is bytes:
            return b"b" + key
        if type(key) is tuple:
            return self._encode_tuple(key)
        if type(key) is float:
            return b"f" + _DOUBLE.pack(key + 0.0)
        if key is None:
            return b"n"
        if type(key) is bool:
            return b"T" if key else b"F"
        return self._encode_other(key)

    def _encode_tuple(self, key: tuple[object, ...]) -> bytes:
        parts = [b"t%d:" % len(key)]
        for part in key:
            # What most tuples are made of, without a call for each.
            if type(part) is str:
                data = b"s" + part.encode("utf-8", "surrogatepass")
            elif type(part) is int:
                data = b"i%d" % part
            else:
                data = self.encode(part)
            parts.append(b"%d:%b" % (len(data), data))
        return b"".join(parts)

    def _encode_other(self, key: object) -> bytes:
        if (own := self._own.get(type(key))) is not None:
            name, coder = own
            return b"o" + self.encode((name, coder.encode(key)))
        try:
            encoded = encode_kind(key, self.encode)
        except UnstableKeyError as error:
            raise KeyEncodingError(key, str(error)) from None
        if encoded is None:
            raise KeyEncodingError(key)
        return encoded

    def decode(self, data: bytes) -> object:
        """The key of the bytes."""
        kind, body = data[:1], data[1:]
        if kind == b"s":
            return body.decode("utf-8", "surrogatepass")
        if kind == b"i":
            return int(body)
        if kind == b"b":
            return body
        if kind == b"t":
            return self._decode_tuple(body)
        if kind == b"f":
            return _DOUBLE.unpack(body)[0]
        if kind in _SINGLE:
            return _SINGLE[kind]
        if kind == b"o":
            name, encoded = cast("tuple[str, bytes]", self.decode(body))
            return self._by_name[name].decode(encoded)
        return decode_kind(kind, body, self.decode)

    def _decode_tuple(self, body: bytes) -> tuple[object, ...]:
        at = body.index(b":") + 1
        parts = []
        for _ in range(int(body[: at - 1])):
            stop = body.index(b":", at)
            at, start = stop + 1 + int(body[at:stop]), stop + 1
            parts.append(self.decode(body[start:at]))
        return tuple(parts)


_Sent: TypeAlias = tuple[str, str, bytes | None, bytes]
"""Name of a type and of its coder, the type, the coder: each by itself, so that one that fails fails alone."""


def _sent(kind: type, name: str, coder: Coder) -> _Sent:
    its_kind, its_coder, shows = sent(kind), sent(coder), coder_name(coder)
    if isinstance(its_coder, Exception):
        problem = f"cannot be sent to the workers ({told(its_coder)}); make one that can be pickled"
        its_coder = sent(UnusableCoder(_plain(name), shows, problem))
    assert isinstance(its_coder, bytes)
    return name, shows, None if isinstance(its_kind, Exception) else its_kind, its_coder


def _key_coder(entries: list[_Sent]) -> KeyCoder:
    """The coder again, where it has come to."""
    made = KeyCoder()
    for name, shows, its_kind, its_coder in entries:
        coder = received(its_coder)
        if isinstance(coder, Exception):
            problem = (
                f"cannot be loaded in this process ({told(coder)}); install the coder's module where tasks run, or "
                "define it in a module of the program"
            )
            coder = UnusableCoder(_plain(name), shows, problem)
        kind = None if its_kind is None else received(its_kind)
        made.add(kind if isinstance(kind, type) else None, name, cast(Coder, coder))
    return made


def _plain(name: str) -> str:
    return name.partition(":")[2]


STANDARD_KEYS = KeyCoder()
"""For keys without coders of their own."""
encode_key = STANDARD_KEYS.encode
decode_key = STANDARD_KEYS.decode


def row_of(encoded_key: bytes) -> bytes:
    """The 16 bytes under which everything of a key is stored; the first 8 are its place in the space of intervals."""
    digest = _EMPTY.copy()
    digest.update(encoded_key)
    return digest.digest()
