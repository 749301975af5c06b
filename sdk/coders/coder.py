"""Coders: values of one type as bytes and back (`apache_beam.coders.Coder`, MillWheel paper §4.4).

Coders of plain values give the same bytes as Beam's coders of the same names; coders that pickle take any value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Protocol, Self, cast

import cloudpickle

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.coders.coder import KeyCoder
from headrace.lowlevel.stored_names import named, public_name
from headrace.lowlevel.time import Timestamp


class TypeCoders(Protocol):
    """Looks up the coders of types, for composite coders; `CoderRegistry` is one."""

    def get_coder(self, hint: object) -> Coder:
        """The coder for a type hint."""


class Coder:
    """Encodes values of one type as bytes and decodes them.

    A subclass defines `encode` and `decode`, and `is_deterministic` if equal values always give equal bytes. Values of
    a type can be keys only if the type's coder is deterministic. The bytes are kept in checkpoints, so a changed coder
    must still read the bytes that its earlier version wrote.

    >>> class ColourCoder(Coder):
    ...     def encode(self, colour):
    ...         return bytes(colour)
    ...     def decode(self, data):
    ...         return tuple(data)
    ...     def is_deterministic(self):
    ...         return True
    >>> ColourCoder().decode(ColourCoder().encode((255, 0, 0)))
    (255, 0, 0)
    """

    def encode(self, value: object) -> bytes:
        """The bytes of a value. Raises `TypeError` if the class does not define the method."""
        raise TypeError(f"{type(self).__name__} does not define encode(self, value)")

    def decode(self, data: bytes) -> object:
        """The value that `encode` gave these bytes for. Raises `TypeError` if the class does not define the method."""
        raise TypeError(f"{type(self).__name__} does not define decode(self, data)")

    def is_deterministic(self) -> bool:
        """Whether equal values have equal bytes, in every process and release."""
        return False

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        """This coder, or another coder for the same values that is deterministic.

        Raises:
            ValueError: No deterministic coder exists; the message names the step.
        """
        if self.is_deterministic():
            return self
        raise ValueError(
            error_message
            or f"step {step_label!r}: {self} is not deterministic, so its values cannot be keys; "
            "use keys of a type with a deterministic coder"
        )

    def estimate_size(self, value: object) -> int:
        """The approximate size of an encoded value, in bytes."""
        return len(self.encode(value))

    def to_type_hint(self) -> object:
        """The type of the values that the coder encodes."""
        return object

    @classmethod
    def from_type_hint(cls, hint: object, registry: TypeCoders) -> Self:
        """The coder for a type hint; `registry` gives the coders of the types inside the hint."""
        return cls()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return public_name(type(self)).rpartition(".")[2]


@named("PickleCoder")
class PickleCoder(Coder):
    """Encodes any value that can be pickled. Keys use `DeterministicFastPrimitivesCoder` instead.

    >>> PickleCoder().decode(PickleCoder().encode({"tea": [3]}))
    {'tea': [3]}
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return dumps(value)

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return loads(data)

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        """A coder that raises for values without a deterministic encoding."""
        return DeterministicFastPrimitivesCoder(step_label)


@named("CloudpickleCoder")
class CloudpickleCoder(PickleCoder):
    """Encodes with cloudpickle: also functions, and objects of classes that are defined inside functions.

    >>> coder = CloudpickleCoder()
    >>> coder.decode(coder.encode(lambda number: number + 1))(2)
    3
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        data: bytes = cloudpickle.dumps(value)
        return data


@named("FastPrimitivesCoder")
class FastPrimitivesCoder(PickleCoder):
    """Encodes values of unknown type, with pickle.

    >>> FastPrimitivesCoder().decode(FastPrimitivesCoder().encode(("tea", 3)))
    ('tea', 3)
    """


@named("DeterministicFastPrimitivesCoder")
class DeterministicFastPrimitivesCoder(Coder):
    """Encodes keys deterministically; `headrace.lowlevel.coders.coder.KeyCoder` says which values can be keys.

    Args:
        step_label: Label of the step that uses the keys.
        keys: Key coder, which may have coders for further types; the engine's own one if None.

    >>> coder = DeterministicFastPrimitivesCoder()
    >>> coder.encode({"a", "b"}) == coder.encode({"b", "a"})
    True
    """

    def __init__(self, step_label: str = "", keys: KeyCoder | None = None) -> None:
        self._step, self._keys = step_label, keys or KeyCoder()

    def encode(self, value: object) -> bytes:
        """See `Coder`. Raises `KeyEncodingError` for a value without a deterministic encoding."""
        return self._keys.encode(value)

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return self._keys.decode(data)

    def is_deterministic(self) -> bool:
        """See `Coder`."""
        return True


_DOUBLE = struct.Struct(">d")
_WORD = 1 << 64
_SMALL = tuple(bytes([number]) for number in range(0x80))
"""Whole number below 128 -> its `varint`."""


class _Deterministic(Coder):
    """Base of coders that give equal values equal bytes."""

    def is_deterministic(self) -> bool:
        """See `Coder`."""
        return True


@named("BytesCoder")
class BytesCoder(_Deterministic):
    """Leaves bytes unchanged.

    >>> BytesCoder().encode(b'raw')
    b'raw'
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return cast(bytes, value)

    def decode(self, data: bytes) -> bytes:
        """See `Coder`."""
        return data

    def to_type_hint(self) -> object:
        """See `Coder`."""
        return bytes


@named("ToBytesCoder")
class ToBytesCoder(_Deterministic):
    """Leaves bytes unchanged, and encodes all else as `str(value)` in UTF-8; cannot decode.

    >>> ToBytesCoder().encode(b'raw'), ToBytesCoder().encode(1.5)
    (b'raw', b'1.5')
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return value if isinstance(value, bytes) else str(value).encode()

    def decode(self, data: bytes) -> object:
        """Raises `TypeError`."""
        raise TypeError("ToBytesCoder cannot decode, as it does not keep types; use StrUtf8Coder or BytesCoder")


@named("StrUtf8Coder")
class StrUtf8Coder(_Deterministic):
    r"""Encodes text as UTF-8.

    >>> StrUtf8Coder().encode('Zürich')
    b'Z\xc3\xbcrich'
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return cast(str, value).encode()

    def decode(self, data: bytes) -> str:
        """See `Coder`."""
        return data.decode()

    def to_type_hint(self) -> object:
        """See `Coder`."""
        return str


@named("BooleanCoder")
class BooleanCoder(_Deterministic):
    r"""Encodes True and False as one byte: 1 and 0.

    >>> BooleanCoder().encode(True)
    b'\x01'
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return b"\x01" if value else b"\x00"

    def decode(self, data: bytes) -> bool:
        """See `Coder`."""
        return data != b"\x00"

    def to_type_hint(self) -> object:
        """See `Coder`."""
        return bool


@named("FloatCoder")
class FloatCoder(_Deterministic):
    """Encodes a float as eight bytes: IEEE 754 double precision, big-endian.

    >>> FloatCoder().encode(1.5).hex()
    '3ff8000000000000'
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return _DOUBLE.pack(value)

    def decode(self, data: bytes) -> float:
        """See `Coder`."""
        return float(_DOUBLE.unpack(data)[0])

    def to_type_hint(self) -> object:
        """See `Coder`."""
        return float


@named("VarIntCoder")
class VarIntCoder(_Deterministic):
    """Encodes whole numbers of at most 64 bits; 0 to 127 take one byte, negative numbers take ten.

    >>> VarIntCoder().encode(300).hex()
    'ac02'
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`. Raises `OverflowError` for more than 64 bits."""
        number = cast(int, value)
        if 0 <= number < len(_SMALL):
            return _SMALL[number]
        if not -(_WORD >> 1) <= number < _WORD >> 1:
            raise OverflowError(f"{number} takes more than 64 bits; use BigIntegerCoder")
        return varint(number % _WORD)

    def decode(self, data: bytes) -> int:
        """See `Coder`."""
        if len(data) == 1 and data < b"\x80":
            return data[0]
        number, _ = read_varint(data, 0)
        return number - _WORD if number >= _WORD >> 1 else number

    def to_type_hint(self) -> object:
        """See `Coder`."""
        return int


@named("BigIntegerCoder")
class BigIntegerCoder(_Deterministic):
    """Encodes whole numbers of any size: two's complement, big-endian.

    >>> coder = BigIntegerCoder()
    >>> coder.encode(-2).hex(), coder.decode(coder.encode(2**100)) == 2**100
    ('fe', True)
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        number = cast(int, value)
        return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)

    def decode(self, data: bytes) -> int:
        """See `Coder`."""
        return int.from_bytes(data, "big", signed=True)

    def to_type_hint(self) -> object:
        """See `Coder`."""
        return int


class _TextCoder(_Deterministic):
    """Base of coders that encode a value as text, in UTF-8."""

    write: Callable[..., str]
    read: Callable[[str], object]

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return type(self).write(value).encode()

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return type(self).read(data.decode())


@named("DecimalCoder")
class DecimalCoder(_TextCoder):
    """Encodes decimal numbers with all their digits, as text; 1.5 and 1.50 have different bytes.

    >>> DecimalCoder().encode(Decimal('1.50'))
    b'1.50'
    """

    write, read = str, Decimal

    def to_type_hint(self) -> object:
        """See `Coder`."""
        return Decimal


@named("TimestampCoder")
class TimestampCoder(_Deterministic):
    """Encodes timestamps as eight bytes, in microseconds; the bytes sort in the order of the timestamps.

    >>> coder = TimestampCoder()
    >>> coder.encode(Timestamp(-1)) < coder.encode(Timestamp(0)) < coder.encode(Timestamp(1))
    True
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return (cast(Timestamp, value).micros + (_WORD >> 1)).to_bytes(8, "big")

    def decode(self, data: bytes) -> Timestamp:
        """See `Coder`."""
        return Timestamp(micros=int.from_bytes(data, "big") - (_WORD >> 1))

    def to_type_hint(self) -> object:
        """See `Coder`."""
        return Timestamp


def varint(number: int) -> bytes:
    """A non-negative number in base 128: seven bits a byte, least significant bits first."""
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that `varint` encoded at offset `at`, and the offset after it, in bytes."""
    number = shift = 0
    while True:
        part = data[at]
        at += 1
        number |= (part & 0x7F) << shift
        if part < 0x80:
            return number, at
        shift += 7
