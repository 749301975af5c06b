"""Keys that go as they are: where a coder of Beam gives equal bytes to equal keys of a type, and to no others."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import ClassVar, Protocol, cast

import pyarrow as pa
from apache_beam import coders

from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.coders.key_classes import UnstableKeyError
from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.sdk.expressions.batch_view import BatchView
from headrace.sdk.expressions.element_schema import Single, Tuple

_OF_ANY = (
    coders.FastPrimitivesCoder,
    coders.coders.DeterministicFastPrimitivesCoder,
    coders.coders.DeterministicFastPrimitivesCoderV2,
)
"""Coders of values of any type, which tell types apart."""
_LONG = 1 << 63


class PlainKeys(Protocol):
    """Which keys go as they are."""

    @property
    def kinds(self) -> Set[type]:
        """Types of keys that all go as they are."""

    def __contains__(self, key: object) -> bool:
        """Whether a key does."""

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """Whether all keys of a shape do."""


@dataclass(frozen=True, slots=True)
class AnyPlain:
    """Text, whole numbers, None, and tuples of them; not their subclasses, so not True either.

    So are keys with classes of the program in them: Beam's bytes name the module of a class, and when the class moves
    to another one, the key would be another key.
    """

    kinds: ClassVar[Set[type]] = frozenset({str, int, type(None)})

    def __contains__(self, key: object) -> bool:
        if type(key) in self.kinds or (type(key) is tuple and all(part in self for part in key)):
            return True
        return _has_class(key) and _is_native(key)

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """See `PlainKeys`."""
        if isinstance(shape, Tuple):
            return all(self.holds_all(part, view) for part in shape.shapes)
        return isinstance(shape, Single) and (
            _is_text(kind := view.column(shape).type) or pa.types.is_integer(kind) or pa.types.is_null(kind)
        )


@dataclass(frozen=True, slots=True)
class Texts:
    """Text alone."""

    kinds: ClassVar[Set[type]] = frozenset({str})

    def __contains__(self, key: object) -> bool:
        return type(key) is str

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """See `PlainKeys`."""
        return isinstance(shape, Single) and _is_text((column := view.column(shape)).type) and not column.null_count


@dataclass(frozen=True, slots=True)
class Longs:
    """Whole numbers of 64 bits."""

    kinds: ClassVar[Set[type]] = frozenset()

    def __contains__(self, key: object) -> bool:
        return type(key) is int and -_LONG <= key < _LONG

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """See `PlainKeys`."""
        return (
            isinstance(shape, Single)
            and pa.types.is_signed_integer((column := view.column(shape)).type)
            and not column.null_count
        )


@dataclass(frozen=True, slots=True)
class Tuples:
    """Tuples with a fixed number of parts."""

    kinds: ClassVar[Set[type]] = frozenset()

    parts: tuple[PlainKeys, ...]

    def __contains__(self, key: object) -> bool:
        return (
            type(key) is tuple
            and len(key) == len(self.parts)
            and all(part in plain for part, plain in zip(key, self.parts, strict=True))
        )

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """See `PlainKeys`."""
        return (
            isinstance(shape, Tuple)
            and len(shape.shapes) == len(self.parts)
            and all(plain.holds_all(part, view) for part, plain in zip(shape.shapes, self.parts, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists with instances of classes in them; see `AnyPlain`. Others are encoded, as release 0.1 did with all."""

    kinds: ClassVar[Set[type]] = frozenset()

    items: PlainKeys

    def __contains__(self, key: object) -> bool:
        return type(key) is list and _has_class(key) and all(item in self.items for item in key) and _is_native(key)

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """See `PlainKeys`."""
        return False


@dataclass(frozen=True, slots=True)
class NoKeys:
    """No keys at all."""

    kinds: ClassVar[Set[type]] = frozenset()

    def __contains__(self, key: object) -> bool:
        return False

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """See `PlainKeys`."""
        return False


def plain_keys(coder: coders.Coder) -> PlainKeys:
    """The keys that need no encoding by a coder."""
    if isinstance(coder, _OF_ANY):
        return AnyPlain()
    if type(coder) is coders.StrUtf8Coder:
        return Texts()
    if type(coder) is coders.VarIntCoder:
        return Longs()
    if type(coder) is coders.ListCoder:
        items = plain_keys(coder.value_coder())
        return items if items == NoKeys() else Lists(items)
    if type(coder) is not coders.TupleCoder:
        return NoKeys()
    parts = tuple(map(plain_keys, coder.coders()))
    return NoKeys() if NoKeys() in parts else Tuples(parts)


def is_named(plain: PlainKeys) -> bool:
    """Whether the name of a coder says that some keys go as they are: not if release 0.1 encoded all."""
    return not isinstance(plain, (NoKeys, Lists)) and (not isinstance(plain, Tuples) or all(map(is_named, plain.parts)))


_PARTS = frozenset({type(None), bool, int, float, str, bytes, tuple, list})
"""Types of values that Beam tells apart as Headrace does, if it does so with their parts."""


def _has_class(key: object) -> bool:
    """Whether a key is an instance of a class of the program, or contains one."""
    if type(key) in (tuple, list):
        return any(map(_has_class, cast("Iterable[object]", key)))
    return type(key) not in _PARTS and _fields(key) is not None


def _fields(key: object) -> Iterable[object] | None:
    """The values by which Beam tells an instance of a class from others; None for other classes than these."""
    if isinstance(key, Enum):
        return (key.value,)
    if is_dataclass(key):
        return [getattr(key, field.name) for field in fields(key) if field.init]
    return key if isinstance(key, tuple) and hasattr(key, "_fields") else None


def _is_native(key: object) -> bool:
    """Whether Headrace tells a key from others as Beam does."""
    if not _is_alike(key):
        return False
    try:
        encode_key(key)
    except UnstableKeyError:
        return False
    return True


def _is_alike(key: object) -> bool:
    parts = cast("Iterable[object]", key) if type(key) in (tuple, list) else _fields(key)
    return type(key) in _PARTS if parts is None else all(map(_is_alike, parts))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
