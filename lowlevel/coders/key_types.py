"""The encoding of keys such as dates, named tuples, dataclasses and enumerations (MillWheel paper §4.4).

Each kind of key has a one-letter code. The bytes are the same in every process and release: they contain names and
values, but no hashes, memory addresses or pickles. `key_classes` says how a key names its class.

A class can define its encoding with two methods: `__key_state__(self)` returns a key that replaces the instance, and
the class method `__of_key_state__(state)` makes the instance again. A class with `__getstate__` and `__setstate__` can
be a key if its state is a key.
"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import cache
from operator import attrgetter, methodcaller
from typing import TypeAlias, cast
from uuid import UUID

from headrace.lowlevel.coders.key_classes import (
    MARK,
    KeyClasses,
    UnstableKeyError,
    has_generated_init,
    init_fields,
    is_frozen,
    parted,
    prefixed,
    with_hints,
)
from headrace.lowlevel.errors import StoredClassError
from headrace.lowlevel.stored_names import stored_function
from headrace.lowlevel.time import Duration, Timestamp

Encode: TypeAlias = Callable[[object], bytes]
Decode: TypeAlias = Callable[[bytes], object]
Find: TypeAlias = Callable[[bytes, str], type]
"""From the code letter of a key, and the name in it, to the class."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST, _LAST = ((end.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND for end in (datetime.min, datetime.max))
"""The instants that a datetime in UTC can express, microseconds."""


def encode_kind(key: object, encode: Encode, classes: KeyClasses) -> bytes | None:
    """Code letter and bytes of a key; None if the key is of no kind in this module.

    Args:
        key: The key.
        encode: Encodes keys inside the key.
        classes: The classes of the step's keys.

    Raises:
        UnstableKeyError: The key's class is a mutable dataclass, or cannot be found by its name; or the key is a time
            that is not within the years 1 to 9999 of UTC.
    """
    kind = type(key)
    if (of_value := _VALUES.get(kind)) is not None:
        return of_value(key)
    if (of_container := _CONTAINERS.get(kind)) is not None:
        return of_container(key, encode)
    if (known := classes.known.get(kind)) is None:
        letter = _letter(key)
        if letter is None:
            return None
        if letter == b"N":
            return prefixed(b"N", encode(_dynamic_contents(key)))
        known = classes.name(kind, letter)
    letter, name, hint = known
    return prefixed(letter, encode((name, *_CONTENTS[letter](key))), hint)


def _letter(key: object) -> bytes | None:
    """The code letter of an instance of a class that keys may have; None for another object."""
    kind = type(key)
    if isinstance(key, Enum):
        return b"E"
    if isinstance(key, tuple) and hasattr(kind, "_fields"):
        return b"N" if getattr(kind, "_is_dynamic", False) else b"C"
    if isinstance(key, type):
        return None
    if dataclasses.is_dataclass(key):
        if not is_frozen(kind):
            raise UnstableKeyError(f"{kind.__name__} is a dataclass that can change; make it @dataclass(frozen=True)")
        return b"D"
    if getattr(key, "__key_state__", None) is not None:
        return b"K"
    return b"G" if hasattr(key, "__setstate__") and kind.__reduce__ is object.__reduce__ else None


def _dynamic_contents(key: object) -> tuple[object, ...]:
    names, parts = attrgetter("_fields")(key), cast("tuple[object, ...]", key)
    return type(key).__name__, names, (*parts,)


def _dataclass_values(key: object) -> Iterable[object]:
    kind: type = type(key)
    return [getattr(key, name) for name in _field_names(kind)]


@cache
def _field_names(kind: type) -> Sequence[str]:
    return [field.name for field in init_fields(kind)]


_CONTENTS: dict[bytes, Callable[..., Iterable[object]]] = {
    b"C": tuple,
    b"D": _dataclass_values,
    b"E": lambda key: (key.value if isinstance(key, Flag) else key.name,),
    b"G": lambda key: (key.__getstate__(),),
    b"K": lambda key: (key.__key_state__(),),
}
"""Code letter of a class -> what a key of it contains."""


def _encode_list(key: list[object], encode: Encode) -> bytes:
    encoded = encode((*key,))
    return b"L" + encoded if encoded[:1] != MARK else prefixed(b"L", encoded)


def _encode_set(key: frozenset[object] | set[object], encode: Encode) -> bytes:
    # The order of a set differs between processes, so its encoded values are sorted. NaN is in it once.
    letter = b"X" if type(key) is set else b"x"
    items = sorted(set(map(encode, key)))
    # Marked items come first: no other first byte is as small.
    if not items or items[0][:1] != MARK:
        return letter + encode((*items,))
    values = list(map(parted, items))
    encoded = encode(tuple(sorted({identity for identity, _ in values})))
    return with_hints(letter + encoded, [hint for _, hints in values for hint in hints])


def _encode_dict(key: dict[object, object], encode: Encode) -> bytes:
    items = sorted((encode(name), encode(value)) for name, value in key.items())
    if not any(name[:1] == MARK or value[:1] == MARK for name, value in items):
        return b"M" + encode((*items,))
    parts = [(parted(name), parted(value)) for name, value in items]
    encoded = encode(tuple(sorted((name[0], value[0]) for name, value in parts)))
    return with_hints(b"M" + encoded, [hint for item in parts for _, hints in item for hint in hints])


_CONTAINERS: dict[type, Callable[..., bytes]] = {
    list: _encode_list,
    set: _encode_set,
    frozenset: _encode_set,
    dict: _encode_dict,
}


def decode_kind(kind: bytes, body: bytes, decode: Decode, find: Find) -> object:
    """The key with this code letter and these bytes, see `encode_kind`.

    Raises:
        CheckpointError: The named class cannot be the class of a key.
        StoredClassError: The class is gone, or has changed so that the key cannot be made.
    """
    if kind in _BACK:
        return _BACK[kind](body.decode())
    inner = cast("Sequence[object]", decode(body))
    if kind in _CONTAINERS_BACK:
        return _CONTAINERS_BACK[kind](inner, decode)
    name, *values = inner
    if kind == b"N":
        return dynamic_named_tuple(str(name), cast("tuple[str, ...]", values[0]))(*cast("Sequence[object]", values[1]))
    found = find(kind, str(name))
    try:
        return _instance(kind, found, values)
    except Exception as error:
        full = f"{found.__module__}.{found.__qualname__}"
        problem = f"has changed, so that a stored key cannot be made again ({type(error).__name__}: {error!s:.200})"
        raise StoredClassError(full, problem) from error


_CONTAINERS_BACK: dict[bytes, Callable[..., object]] = {
    b"L": lambda inner, decode: list(inner),
    b"x": lambda inner, decode: frozenset(map(decode, inner)),
    b"X": lambda inner, decode: set(map(decode, inner)),
    b"M": lambda inner, decode: {decode(name): decode(value) for name, value in inner},
}


def _instance(kind: bytes, found: type, values: Sequence[object]) -> object:
    if kind == b"C":
        return found(*values)
    if kind == b"E":
        return found(*values) if issubclass(found, Flag) else cast("type[Enum]", found)[str(values[0])]
    if kind == b"K":
        return cast(object, methodcaller("__of_key_state__", *values)(found))
    if kind == b"G":
        instance: object = object.__new__(found)
        methodcaller("__setstate__", *values)(instance)
        return instance
    return _dataclass(found, values)


# Values


def _instant(key: datetime) -> bytes:
    """Encode a datetime. Equal instants in different time zones have the same bytes, and are decoded in UTC."""
    if key.tzinfo is None:
        return b"e" + key.replace(fold=0).isoformat().encode()
    micros = (key - _EPOCH) // _MICROSECOND
    if not _FIRST <= micros <= _LAST:
        raise UnstableKeyError(
            "it is not within the years 1 to 9999 of UTC, in which keys are decoded; correct the time"
        )
    return b"z%d" % micros


def _number(key: Decimal) -> bytes:
    """Encode a Decimal. Equal numbers have the same bytes: 1.50 is decoded as 1.5."""
    sign, digits, exponent = key.as_tuple()
    if key.is_nan():
        return b"mNaN"
    if not isinstance(exponent, int):
        return b"m%b" % str(key).encode()
    figures = "".join(map(str, digits))
    bare = figures.rstrip("0") or "0"
    if bare.strip("0") == "":
        return b"m0"
    return b"m%b%bE%d" % (b"-" if sign else b"", bare.encode(), exponent + len(figures) - len(bare))


_VALUES: dict[type, Callable[..., bytes]] = {
    date: lambda key: b"d" + key.isoformat().encode(),
    datetime: _instant,
    timedelta: lambda key: b"l%d" % (key // _MICROSECOND),
    Decimal: _number,
    UUID: lambda key: b"u" + key.hex.encode(),
    Timestamp: lambda key: b"S%d" % key.micros,
    Duration: lambda key: b"R%d" % key.micros,
}
_BACK: dict[bytes, Callable[[str], object]] = {
    b"d": date.fromisoformat,
    b"e": datetime.fromisoformat,
    b"z": lambda body: _EPOCH + int(body) * _MICROSECOND,
    b"l": lambda body: int(body) * _MICROSECOND,
    b"m": Decimal,
    b"u": UUID,
    b"S": lambda body: Timestamp(micros=int(body)),
    b"R": lambda body: Duration(micros=int(body)),
}
VALUE_TYPES = frozenset(_VALUES)
"""Types of which every instance is a valid key."""


# Classes


def _dataclass(kind: type, values: Sequence[object]) -> object:
    fields = dict(zip(_field_names(kind), values, strict=True))
    if has_generated_init(kind):
        return kind(**fields)
    instance: object = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance


@cache
def dynamic_named_tuple(name: str, fields: tuple[str, ...]) -> Callable[..., tuple[object, ...]]:
    """The named tuple class with this name and these fields, one for each process. Instances pickle by their fields.

    >>> dynamic_named_tuple("Key", ("a", "b"))(1, 2)
    Key(a=1, b=2)
    """
    kind: object = namedtuple(name, fields)  # type: ignore[misc]  # the fields are no literals
    own = {"_is_dynamic": True, "__reduce__": lambda self: (_NAMED_TUPLE, (name, fields, tuple(self)))}
    for attribute, value in own.items():
        setattr(kind, attribute, value)
    return cast(Callable[..., tuple[object, ...]], kind)


def _named_tuple(name: str, fields: tuple[str, ...], values: tuple[object, ...]) -> tuple[object, ...]:
    return dynamic_named_tuple(name, fields)(*values)


_NAMED_TUPLE = stored_function("NamedTuple", _named_tuple)
