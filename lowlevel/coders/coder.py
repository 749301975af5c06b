"""Coders, which convert values and keys to bytes and back (MillWheel paper §4.4)."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Protocol, TypeAlias, cast
from uuid import UUID

import cloudpickle

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.code_pickling import dumps as dumps_with_code
from headrace.lowlevel.coders.key_classes import (
    MARK,
    KeyClasses,
    UnstableKeyError,
    halves,
    identity_of,
    parted,
    prefixed,
    with_hints,
)
from headrace.lowlevel.coders.key_types import decode_kind, encode_kind
from headrace.lowlevel.errors import CheckpointError, CoderError, KeyEncodingError, StoredClassError
from headrace.lowlevel.stored_names import address, named, public_name
from headrace.lowlevel.time import Duration, Timestamp

_DOUBLE = struct.Struct(">d")
_NAN = b"f" + _DOUBLE.pack(float("nan"))
_EMPTY = blake2b(digest_size=16)
"""An empty hash. Copying it takes three quarters of the time of making a new one."""
_LENGTHS = [b"%d:" % length for length in range(256)]
"""What stands before each part of a tuple whose encoding has this length: half the time of formatting it."""
_SINGLE: dict[bytes, object] = {b"n": None, b"T": True, b"F": False}


class Coder(Protocol):
    """A conversion of values to bytes and back.

    >>> class Number:
    ...     def encode(self, value):
    ...         return value.to_bytes(8, "big")
    ...     def decode(self, data):
    ...         return int.from_bytes(data, "big")
    >>> Number().decode(Number().encode(7))
    7
    """

    def encode(self, value: object) -> bytes:
        """Convert a value to bytes."""

    def decode(self, data: bytes) -> object:
        """Convert bytes back to the value."""


@named("PickleCoder")
class PickleCoder:
    """A coder for any value that can be pickled.

    >>> PickleCoder().decode(PickleCoder().encode({"a": 1}))
    {'a': 1}
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return dumps(value)

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return loads(data)


def coder_name(coder: Coder) -> str:
    """A name for a coder: its `repr` if its class defines one, otherwise the name of its class.

    >>> coder_name(PickleCoder())
    'PickleCoder'
    """
    return repr(coder) if type(coder).__repr__ is not object.__repr__ else public_name(type(coder))


@named("KeyCoder")
class KeyCoder:
    """A deterministic coder for keys: equal keys of one type have the same bytes in every process and release.

    Keys are None, bool, int, float, str, bytes, dates and times, `Decimal`, `UUID`, `Timestamp`, `Duration`,
    enumerations, and tuples, named tuples, frozen dataclasses, lists, sets and dicts of keys. A class can define
    `__key_state__`, see `key_types`. For keys of other types no deterministic encoding is known: `encode` raises
    `KeyEncodingError` for them, unless they have a coder in `own`.

    Args:
        own: Type -> the coder for keys of exactly this type.

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

    __slots__ = ("_by_name", "_classes", "_hinted", "_own")

    def __init__(self, own: Mapping[type, Coder] | None = None, classes: KeyClasses | None = None) -> None:
        self._own = {kind: (address(kind), coder) for kind, coder in (own or {}).items()}
        self._by_name = dict(self._own.values())
        self._classes = classes or KeyClasses()
        self._hinted: dict[bytes, KeyCoder] = {}
        """Hints -> the coder that decodes identities with them."""

    def of_step(self, spelled: frozenset[str] = frozenset()) -> KeyCoder:
        """This coder for the keys of one step; see `KeyClasses`."""
        return self._like(KeyCoder(classes=KeyClasses(spelled, of_step=True)))

    @property
    def spelled(self) -> frozenset[str]:
        """Names of classes that keep their module in keys, see `KeyClasses`."""
        return self._classes.spelled

    def _like(self, new: KeyCoder) -> KeyCoder:
        new._own, new._by_name = self._own, self._by_name
        return new

    def add(self, kind: type | None, name: str, coder: Coder) -> None:
        """Add a coder while this coder is unpickled; if `kind` is None, the added coder only decodes."""
        self._by_name[name] = coder
        if kind is not None:
            self._own[kind] = name, coder

    def __reduce__(self) -> tuple[object, ...]:
        sent_coders = [_sent(kind, name, coder) for kind, (name, coder) in self._own.items()]
        return _key_coder, (sent_coders, self._classes.spelled, self._classes.of_step)

    def __str__(self) -> str:
        own = sorted(f"{name.partition(':')[2]} by {coder_name(coder)}" for name, coder in self._own.values())
        return ", ".join(own) or "none of the program's own"

    def encode(self, key: object) -> bytes:
        """Convert a key to bytes. Raises `KeyEncodingError` for a key without a deterministic encoding."""
        if type(key) is str:
            # Without the name of an error handler it takes three quarters of the time.
            try:
                return f"s{key}".encode()
            except UnicodeEncodeError:
                return _with_surrogates(key)
        if type(key) is int:
            return b"i%d" % key
        if type(key) is bytes:
            return b"b" + key
        if type(key) is tuple:
            return self._encode_tuple(key)
        if type(key) is float:
            return b"f" + _DOUBLE.pack(key + 0.0) if key == key else _NAN
        if key is None:
            return b"n"
        if type(key) is bool:
            return b"T" if key else b"F"
        return self._encode_other(key)

    def _encode_tuple(self, key: tuple[object, ...]) -> bytes:
        parts = [b"t%d:" % len(key)]
        hints: tuple[bytes, ...] = ()
        for part in key:
            # Most parts of tuples are strings and integers; they are encoded without a call.
            if type(part) is str:
                try:
                    data = f"s{part}".encode()
                except UnicodeEncodeError:
                    data = _with_surrogates(part)
            elif type(part) is int:
                data = b"i%d" % part
            elif type(part) is bytes:
                data = b"b" + part
            else:
                data = self.encode(part)
                if data < b"B":
                    data, inner = parted(data)
                    hints += inner
            length = len(data)
            parts.append((_LENGTHS[length] if length < 256 else b"%d:" % length) + data)
        return with_hints(b"".join(parts), hints) if hints else b"".join(parts)

    def _encode_other(self, key: object) -> bytes:
        if (own := self._own.get(type(key))) is not None:
            name, coder = own
            shown, hint = self._classes.spelling(name)
            return prefixed(b"o", self.encode((shown, coder.encode(key))), hint.encode())
        try:
            encoded = encode_kind(key, self.encode, self._classes)
        except UnstableKeyError as error:
            raise KeyEncodingError(key, str(error)) from None
        if encoded is None:
            raise KeyEncodingError(key)
        return encoded

    def decode(self, data: bytes) -> object:
        """Convert bytes back to the key."""
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
        if kind == MARK:
            identity, lines = halves(data)
            return (self._hinted.get(lines) or self._with_hints(lines)).decode(identity)
        if kind == b"o":
            name, encoded = cast("tuple[str, bytes]", self.decode(body))
            return self._coder_of(name).decode(encoded)
        return decode_kind(kind, body, self.decode, self._find)

    def _with_hints(self, lines: bytes) -> KeyCoder:
        coder = self._hinted[lines] = self._like(_HintedCoder(self._classes, lines.split(b"\n")))
        return coder

    def _find(self, kind: bytes, name: str) -> type:
        return self._classes.find(kind, name, {})

    def _coder_of(self, name: str) -> Coder:
        """The registered coder of a type that a key names, also if the type's module has another name now."""
        if (coder := self._by_name.get(name)) is not None:
            return coder
        alike = [coder for known, coder in self._by_name.items() if _plain(known) == _plain(name)]
        if len(alike) != 1:
            problem = "has no coder in this program" if not alike else "has a coder in several modules"
            raise StoredClassError(name.replace(":", "."), f"{problem}: headrace.coders.registry.register_coder")
        return alike[0]

    def _decode_tuple(self, body: bytes) -> tuple[object, ...]:
        at = body.index(b":") + 1
        parts = []
        for _ in range(int(body[: at - 1])):
            stop = body.index(b":", at)
            at, start = stop + 1 + int(body[at:stop]), stop + 1
            parts.append(self.decode(body[start:at]))
        return tuple(parts)


def _with_surrogates(key: str) -> bytes:
    """The encoding of a text with half a surrogate pair, as JSON and file names may have."""
    return b"s" + key.encode("utf-8", "surrogatepass")


class _HintedCoder(KeyCoder):
    """A coder that decodes identities, given the hints that were written behind them."""

    __slots__ = ("_hints",)

    def __init__(self, classes: KeyClasses, hints: Iterable[bytes]) -> None:
        super().__init__(classes=classes)
        named = map(bytes.decode, hints)
        self._hints = {hint.partition(":")[2].partition("(")[0]: hint for hint in named}

    def _find(self, kind: bytes, name: str) -> type:
        return self._classes.find(kind, name, self._hints)

    def _coder_of(self, name: str) -> Coder:
        return super()._coder_of(self._hints[name[1:]] if name[:1] == ":" else name)


_Sent: TypeAlias = tuple[str, str, bytes | None, bytes]
"""Name of a type, name of its coder, the pickled type (None if it cannot be pickled), the pickled coder."""


def _sent(kind: type, name: str, coder: Coder) -> _Sent:
    pickled_kind, pickled, shown = pickled_or_error(kind), pickled_or_error(coder), coder_name(coder)
    if isinstance(pickled, Exception):
        problem = f"cannot be sent to the workers ({error_text(pickled)}); make one that can be pickled"
        pickled = pickled_or_error(UnusableCoder(_plain(name), shown, problem))
    assert isinstance(pickled, bytes)
    return name, shown, None if isinstance(pickled_kind, Exception) else pickled_kind, pickled


def _key_coder(entries: list[_Sent], spelled: frozenset[str], of_step: bool) -> KeyCoder:
    """Unpickle a `KeyCoder`; coders that cannot be loaded become `UnusableCoder`."""
    keys = KeyCoder(classes=KeyClasses(spelled, of_step))
    for name, shown, pickled_kind, pickled in entries:
        coder = unpickled_or_error(pickled)
        if isinstance(coder, Exception):
            problem = (
                f"cannot be loaded in this process ({error_text(coder)}); install the coder's module where tasks run, "
                "or define it in a module of the program"
            )
            coder = UnusableCoder(_plain(name), shown, problem)
        kind = None if pickled_kind is None else unpickled_or_error(pickled_kind)
        keys.add(kind if isinstance(kind, type) else None, name, cast(Coder, coder))
    return keys


def _plain(name: str) -> str:
    return name.partition(":")[2]


class _ClassNames(KeyCoder):
    """Collects the names of classes that keep their module in a key's identity; makes no instance of them."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def decode(self, data: bytes) -> object:
        """See `KeyCoder`; None in the place of each instance of a class."""
        if data[:1] == MARK:
            return None
        if data[:1] and data[0] in _OF_CLASSES:
            name, *_ = cast("tuple[str, ...]", self.decode(data[1:]))
            self.found.add(name)
            return None
        return super().decode(data)


_OF_CLASSES = frozenset(b"CDEGKo")
_WITHOUT = frozenset(b"sibfnTFdezlmuSR")
"""First letters of keys that contain no classes."""


def names_in(encoded: bytes) -> Collection[str]:
    """Names `module:qualified name` of the classes in the identity of a key.

    >>> names_in(b"Et2:11:sgone:Color4:sRED"), names_in(b"i7")
    ({'gone:Color'}, ())
    """
    if encoded[0] in _WITHOUT:
        return ()
    names = _ClassNames()
    names.decode(encoded)
    return names.found


STANDARD_KEYS = KeyCoder()
"""The coder for keys without coders of their own."""
encode_key = STANDARD_KEYS.encode
decode_key = STANDARD_KEYS.decode


def key_hash_of(encoded_key: bytes) -> bytes:
    """The 16-byte hash under which a key's state is stored; its first 8 bytes are its position in the key space.

    It is the hash of the key's identity.
    """
    # Only keys with hints are less: no other first byte is as small as `MARK`.
    if encoded_key < b"B":
        encoded_key = identity_of(encoded_key)
    digest = _EMPTY.copy()
    digest.update(encoded_key)
    return digest.digest()


def joined_hashes(encoded_keys: Iterable[bytes]) -> bytes:
    """`key_hash_of` of each key, one behind the other. Written without calls: two thirds of the time, for each key.

    >>> joined_hashes([b"i1", b"sa"]) == key_hash_of(b"i1") + key_hash_of(b"sa")
    True
    """
    empty, digests = _EMPTY.copy, []
    for encoded in encoded_keys:
        digest = empty()
        digest.update(encoded if encoded >= b"B" else identity_of(encoded))
        digests.append(digest.digest())
    return b"".join(digests)


_TYPES = (
    *(type(None), bool, int, float, str, bytes, tuple, list, dict, set, frozenset),
    *(date, datetime, timedelta, Decimal, UUID, Timestamp, Duration),
)
_NAMING_CLASSES = frozenset(b"ACDEGKNo")
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
        if data[:1] and data[0] in _NAMING_CLASSES:
            raise CheckpointError(f"{data[:40]!r} names a class where only plain values belong")
        return super().decode(data)


PLAIN = PlainCoder()


class UnusableCoder:
    """A coder that raises `CoderError` whenever it is used.

    Args:
        kind: Name of the type of keys.
        coder: Name of the coder that it replaces.
        problem: What is wrong, and the remedy.
    """

    def __init__(self, kind: str, coder: str, problem: str) -> None:
        self._kind, self._coder, self._problem = kind, coder, problem

    def encode(self, value: object) -> bytes:
        """Raises `CoderError`."""
        raise CoderError(self._kind, self._coder, self._problem)

    def decode(self, data: bytes) -> object:
        """Raises `CoderError`."""
        raise CoderError(self._kind, self._coder, self._problem)

    def __repr__(self) -> str:
        return self._coder


def pickled_or_error(value: object) -> bytes | Exception:
    """The pickled object, or the exception that pickling has raised."""
    try:
        data = dumps_with_code(value)
    except Exception as error:
        return error
    return data


def unpickled_or_error(data: bytes) -> object:
    """The unpickled object, or the exception that unpickling has raised."""
    try:
        value: object = cloudpickle.loads(data)
    except Exception as error:
        return error
    return value


def error_text(error: Exception) -> str:
    """Type and message of an exception."""
    return f"{type(error).__name__}: {error}"
