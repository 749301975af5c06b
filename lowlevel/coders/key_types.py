"""Bytes for keys that are more than plain values: named tuples, dates, enumerations and their like (paper §4.4).

Each kind is one letter. The bytes are the same in every process and release: they hold names and values, never hashes,
addresses or pickles. A key of a class comes back as one of that class, which is found by its module and name. A class
can take part with `__key_state__(self)`, the key that stands for it, and a class method `__of_key_state__(state)`; one
with `__getstate__` and `__setstate__` takes part by what these give and take, if that is a key.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import namedtuple
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import cache
from importlib import import_module
from operator import attrgetter, methodcaller
from typing import TypeAlias, cast
from uuid import UUID

from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.time import Duration, Timestamp

Encode: TypeAlias = Callable[[object], bytes]
Decode: TypeAlias = Callable[[bytes], object]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UnstableKeyError(Exception):
    """Why a key has no deterministic encoding."""


_SETS: dict[type, bytes] = {frozenset: b"x", set: b"X"}


def encode_kind(key: object, encode: Encode) -> bytes | None:
    """Letter and bytes of a key; None if it is of none of the kinds here. `encode` does what is inside it.

    Raises:
        UnstableKeyError: It is of one of the kinds, but not everything of it can be told by name and value.
    """
    if (of_value := _VALUES.get(type(key))) is not None:
        return of_value(key)
    if type(key) is list:
        return b"L" + encode((*key,))
    if isinstance(key, (frozenset, set)) and type(key) in _SETS:
        # Encoded values have an order; the set itself has another one in every process.
        return _SETS[type(key)] + encode(tuple(sorted(map(encode, key))))
    if type(key) is dict:
        return b"M" + encode(tuple(sorted((encode(name), encode(value)) for name, value in key.items())))
    if isinstance(key, Enum):
        member = key.value if isinstance(key, Flag) else key.name
        return b"E" + encode((class_name(type(key)), member))
    if isinstance(key, tuple) and (names := getattr(type(key), "_fields", None)) is not None:
        return _encode_named_tuple(key, names, encode)
    if isinstance(key, type):
        return None
    if dataclasses.is_dataclass(key):
        return _encode_dataclass(key, encode)
    if (state := getattr(key, "__key_state__", None)) is not None:
        return b"K" + encode((class_name(type(key)), state()))
    if hasattr(key, "__setstate__") and type(key).__reduce__ is object.__reduce__:
        return b"G" + encode((class_name(type(key)), key.__getstate__()))
    return None


def decode_kind(kind: bytes, body: bytes, decode: Decode) -> object:
    """The key of the letter and the bytes that `encode_kind` made."""
    if kind in _BACK:
        return _BACK[kind](body.decode())
    inner = cast("Sequence[object]", decode(body))
    if kind == b"L":
        return list(inner)
    if kind == b"x":
        return frozenset(map(decode, cast("Sequence[bytes]", inner)))
    if kind == b"X":
        return set(map(decode, cast("Sequence[bytes]", inner)))
    if kind == b"M":
        return {decode(name): decode(value) for name, value in cast("Sequence[tuple[bytes, bytes]]", inner)}
    name, *values = inner
    if kind == b"N":
        return dynamic_named_tuple(str(name), cast("tuple[str, ...]", values[0]))(*cast("Sequence[object]", values[1]))
    found = _key_class(kind, str(name))
    if kind == b"E":
        return found(*values) if issubclass(found, Flag) else cast("type[Enum]", found)[str(values[0])]
    if kind == b"K":
        return cast(object, methodcaller("__of_key_state__", *values)(found))
    if kind == b"G":
        made: object = object.__new__(found)
        methodcaller("__setstate__", *values)(made)
        return made
    if kind == b"D":
        return _dataclass(found, values)
    return found(*values)


# Values


def _instant(key: datetime) -> bytes:
    """An instant is the same key in every time zone; it comes back in UTC."""
    if key.tzinfo is None:
        return b"e" + key.replace(fold=0).isoformat().encode()
    return b"z%d" % ((key - _EPOCH) // _MICROSECOND)


def _number(key: Decimal) -> bytes:
    """Equal numbers are one key: 1.50 is 1.5."""
    sign, digits, exponent = key.as_tuple()
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
"""Types that are keys by themselves."""


# Classes


def _encode_named_tuple(key: tuple[object, ...], names: tuple[str, ...], encode: Encode) -> bytes:
    kind = type(key)
    if getattr(kind, "_is_dynamic", False):
        return b"N" + encode((kind.__name__, names, tuple(key)))
    return b"C" + encode((class_name(kind), *key))


def _encode_dataclass(key: object, encode: Encode) -> bytes:
    kind = type(key)
    if not is_frozen(kind):
        raise UnstableKeyError(f"{kind.__name__} is a dataclass that can change; make it @dataclass(frozen=True)")
    return b"D" + encode((class_name(kind), *(getattr(key, each.name) for each in _init_fields(kind))))


def _init_fields(kind: type) -> list[dataclasses.Field[object]]:
    """The fields that make an instance: those that `__init__` takes, if it is the one of dataclasses, else all."""
    return [each for each in dataclasses.fields(kind) if each.init or not _has_made_init(kind)]


_parameters = attrgetter("__dataclass_params__")
"""How a dataclass was declared."""


def is_frozen(kind: type) -> bool:
    """Whether instances of a dataclass cannot change."""
    return bool(_parameters(kind).frozen)


def _has_made_init(kind: type) -> bool:
    """Whether the `__init__` of a dataclass was made for it."""
    return bool(_parameters(kind).init)


def _dataclass(kind: type, values: Sequence[object]) -> object:
    fields = dict(zip((each.name for each in _init_fields(kind)), values, strict=True))
    if _has_made_init(kind):
        return kind(**fields)
    made: object = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def class_name(kind: type) -> str:
    """Module and name of a class that can be found by them.

    Raises:
        UnstableKeyError: What has that name is not the class.

    >>> class_name(Timestamp)
    'headrace.lowlevel.time:Timestamp'
    """
    name = f"{kind.__module__}:{kind.__qualname__}"
    try:
        found = class_of(name)
    except (ImportError, AttributeError):
        found = None
    if found is not kind:
        raise UnstableKeyError(f"class {name} cannot be found by that name; define it at the top level of a module")
    return name


def class_of(name: str) -> type:
    """The class of a `class_name`; looked up each time, as a worker may meanwhile have got a newer one."""
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module) or import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return cast(type, found)


def _key_class(kind: bytes, name: str) -> type:
    """The class of a key of that kind. Anything else that has a name is not called: bytes may come from anybody."""
    found: object = class_of(name)
    if not (isinstance(found, type) and _IS_KIND[kind](found)):
        raise CheckpointError(
            f"{name} is named as the class of a key, and is none; the bytes were not written by headrace"
        )
    return found


_IS_KIND: dict[bytes, Callable[[type], bool]] = {
    b"C": lambda kind: issubclass(kind, tuple) and hasattr(kind, "_fields"),
    b"D": dataclasses.is_dataclass,
    b"E": lambda kind: issubclass(kind, Enum),
    b"G": lambda kind: hasattr(kind, "__setstate__") and not _reduces(kind),
    b"K": lambda kind: hasattr(kind, "__of_key_state__"),
}


def _reduces(kind: type) -> bool:
    """Whether a class says itself how it is pickled."""
    return any("__reduce__" in vars(each) for each in kind.__mro__ if each is not object)


@cache
def dynamic_named_tuple(name: str, fields: tuple[str, ...]) -> Callable[..., tuple[object, ...]]:
    """The named tuple of a name and fields: one class in a process, and equal in all; it pickles by its fields.

    >>> dynamic_named_tuple("Key", ("a", "b"))(1, 2)
    Key(a=1, b=2)
    """
    # Type checkers know only named tuples whose fields stand in the source.
    made: object = namedtuple(name, fields)  # type: ignore[misc]
    own = {"_is_dynamic": True, "__reduce__": lambda self: (_named_tuple, (name, fields, tuple(self)))}
    for attribute, value in own.items():
        setattr(made, attribute, value)
    return cast(Callable[..., tuple[object, ...]], made)


def _named_tuple(name: str, fields: tuple[str, ...], values: tuple[object, ...]) -> tuple[object, ...]:
    return dynamic_named_tuple(name, fields)(*values)
