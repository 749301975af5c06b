"""Keys that go as they are: where a coder of Beam gives equal bytes to equal keys of a type, and to no others."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa
from apache_beam import coders

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
    """Text, whole numbers, None, and tuples of them; not their subclasses, so not True either."""

    kinds: ClassVar[Set[type]] = frozenset({str, int, type(None)})

    def __contains__(self, key: object) -> bool:
        return type(key) in self.kinds or (type(key) is tuple and all(part in self for part in key))

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
    if type(coder) is not coders.TupleCoder:
        return NoKeys()
    parts = tuple(map(plain_keys, coder.coders()))
    return NoKeys() if NoKeys() in parts else Tuples(parts)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
