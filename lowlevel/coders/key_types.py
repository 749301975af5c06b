"""The encoding of keys such as dates, named tuples, dataclasses and enumerations (MillWheel paper §4.4).

Each kind of key has a one-letter code. The bytes are the same in every process and release: they contain names and
values, but no hashes, memory addresses or pickles. The class of a decoded key is found by its module and name.

A class can define its encoding with two methods: `__key_state__(self)` returns a key that replaces the instance, and
the class method `__of_key_state__(state)` makes the instance again. A class with `__getstate__` and `__setstate__` can
be a key if its state is a key.
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
from headrace.lowlevel.stored_names import Maker, address, stored_function
from headrace.lowlevel.time import Duration, Timestamp

Encode: TypeAlias = Callable[[object], bytes]
Decode: TypeAlias = Callable[[bytes], object]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UnstableKeyError(Exception):
    """A key has no deterministic encoding; the message says why."""


_SETS: dict[type, bytes] = {frozenset: b"x", set: b"X"}


def encode_kind(key: object, encode: Encode) -> bytes | None:
    """Code letter and bytes of a key; None if the key is of no kind in this module.

    Args:
        key: The key.
        encode: Encodes keys inside the key.

    Raises:
        UnstableKeyError: The key's class is a mutable dataclass, or cannot be found by its name.
    """
    if (of_value := _VALUES.get(type(key))) is not None:
        return of_value(key)
    if type(key) is list:
        return b"L" + encode((*key,))
    if isinstance(key, (frozenset, set)) and type(key) in _SETS:
        # The order of a set differs between processes, so its encoded values are sorted.
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
    """The key with this code letter and these bytes, see `encode_kind`.

    Raises `CheckpointError` if the named class cannot be the class of a key.
    """
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
        instance: object = object.__new__(found)
        methodcaller("__setstate__", *values)(instance)
        return instance
    if kind == b"D":
        return _dataclass(found, values)
    return found(*values)


# Values


def _instant(key: datetime) -> bytes:
    """Encode a datetime. Equal instants in different time zones have the same bytes, and are decoded in UTC."""
    if key.tzinfo is None:
        return b"e" + key.replace(fold=0).isoformat().encode()
    return b"z%d" % ((key - _EPOCH) // _MICROSECOND)


def _number(key: Decimal) -> bytes:
    """Encode a Decimal. Equal numbers have the same bytes: 1.50 is decoded as 1.5."""
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
"""Types of which every instance is a valid key."""


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
    return b"D" + encode((class_name(kind), *(getattr(key, field.name) for field in _init_fields(kind))))


def _init_fields(kind: type) -> list[dataclasses.Field[object]]:
    """The fields to encode: those that a generated `__init__` takes, or all if `__init__` is not generated."""
    return [field for field in dataclasses.fields(kind) if field.init or not _has_generated_init(kind)]


_parameters = attrgetter("__dataclass_params__")
"""Returns the parameters of a dataclass's decorator."""


def is_frozen(kind: type) -> bool:
    """Whether instances of a dataclass cannot change."""
    return bool(_parameters(kind).frozen)


def _has_generated_init(kind: type) -> bool:
    """Whether the `__init__` of a dataclass was generated."""
    return bool(_parameters(kind).init)


def _dataclass(kind: type, values: Sequence[object]) -> object:
    fields = dict(zip((field.name for field in _init_fields(kind)), values, strict=True))
    if _has_generated_init(kind):
        return kind(**fields)
    instance: object = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance


def class_name(kind: type) -> str:
    """Module and qualified name of a class, from which it can be found again; see `address`.

    Raises:
        UnstableKeyError: The class cannot be found by its name.

    >>> class_name(Decimal)
    'decimal:Decimal'
    """
    name = address(kind)
    try:
        found = class_of(name)
    except (ImportError, AttributeError):
        found = None
    if found is not kind:
        raise UnstableKeyError(f"class {name} cannot be found by that name; define it at the top level of a module")
    return name


def class_of(name: str) -> type:
    """The class with this `class_name`. It is looked up each time, because a worker may have loaded a newer one.

    Raises ImportError or AttributeError if it does not exist.
    """
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module) or import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return cast(type, found.kind if isinstance(found, Maker) else found)


def _key_class(kind: bytes, name: str) -> type:
    """The class of a key of this kind. Raises `CheckpointError` for other objects, which malicious bytes may name."""
    found: object = class_of(name)
    if not (isinstance(found, type) and _IS_KIND[kind](found)):
        raise CheckpointError(
            f"{name} is named as the class of a key but is not one; the bytes were not written by headrace"
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
    """Whether a class defines `__reduce__`."""
    return any("__reduce__" in vars(base) for base in kind.__mro__ if base is not object)


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
