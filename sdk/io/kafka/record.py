"""What: a record of Kafka, with serializers and deserializers of keys and values."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias, cast

from headrace.lowlevel.code_pickling import Portable
from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import Timestamp
from headrace.sdk.io.kafka.value_formats import Place, ValueFormat

Deserializer: TypeAlias = Callable[[bytes], object] | ValueFormat
Serializer: TypeAlias = Callable[[object], bytes] | ValueFormat
_JAVA = "org.apache.kafka.common.serialization."
_NUMBERS = {"Long": struct.Struct(">q"), "Integer": struct.Struct(">i"), "Double": struct.Struct(">d")}


@stored_as("KafkaRecord")
class KafkaRecord(NamedTuple):
    """A record with its metadata in Kafka.

    >>> record = KafkaRecord("visits", 0, 7, b"red", b"5", (("trace", b"a1"),), Timestamp(10))
    >>> record.topic, record.offset, record.value, float(record.timestamp)
    ('visits', 7, b'5', 10.0)
    """

    topic: str
    partition: int
    offset: int
    key: object
    value: object
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: Timestamp
    """Kafka's timestamp: when the record was created, or when the broker appended it."""


def deserializer_of(given: Deserializer | str | None, name: str) -> Deserializer | None:
    """A deserializer that can be shipped to tasks; None if bytes stay bytes.

    Args:
        given: A function, a format, or the name of a Java class as in Beam programs (`LongDeserializer`).
        name: Name of the argument, for errors.

    Raises `TypeError` or `ValueError` for another value.

    >>> deserializer_of("org.apache.kafka.common.serialization.LongDeserializer", "value_deserializer")(bytes(7) + b"*")
    42
    """
    if isinstance(given, ValueFormat):
        given.check_reading()
        return given
    if given is None or not isinstance(given, str):
        return _portable(given, name)
    match _kind(given, "Deserializer", name):
        case "ByteArray":
            return None
        case "String":
            return _decoded
        case kind:
            return _Number(kind).read


def deserialized(data: bytes, by: Deserializer | None, role: str, record: KafkaRecord) -> object:
    """A key or value as an object; bytes stay bytes without a deserializer."""
    if isinstance(by, ValueFormat):
        return by.read(data, Place(record.topic, role, record.headers))
    return data if by is None else by(data)


def serializer_of(given: Serializer | str | None, name: str, topic: str) -> Callable[[object], bytes | None]:
    """A serializer for a topic that can be shipped to tasks; see `deserializer_of`.

    By default bytes stay and text becomes UTF-8.

    >>> serializer_of(None, "value_serializer", "clicks")("text")
    b'text'
    """
    if given is None:
        return _default
    if isinstance(given, ValueFormat):
        given.check_writing()
        return partial(given.write, place=Place(topic, name.partition("_")[0]))
    if not isinstance(given, str):
        function = _portable(given, name)
        assert function is not None
        return function
    kind = _kind(given, "Serializer", name)
    return _default if kind in ("ByteArray", "String") else _Number(kind).write


def _portable(given: object, name: str) -> Callable[..., bytes] | None:
    if given is None:
        return None
    if not callable(given):
        raise TypeError(f"{name} must be a function or the name of one of Kafka's Java classes, got {given!r:.200}")
    # Its results are checked at run time.
    return cast("Callable[..., bytes]", Portable(given, f"the function {name}"))


def _kind(name: str, role: str, argument: str) -> str:
    kind = name.removeprefix(_JAVA).removesuffix(role)
    if f"{kind}{role}" != name.removeprefix(_JAVA) or kind not in ("ByteArray", "String", *_NUMBERS):
        known = ", ".join(f"{kind}{role}" for kind in ("ByteArray", "String", *_NUMBERS))
        raise ValueError(f"{argument} {name!r} is none of {known}; give a function instead")
    return kind


def _decoded(data: bytes) -> str:
    return data.decode()


def _default(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"{value!r:.200} is neither bytes nor text; give a serializer that makes bytes of it")


class _Number:
    """Big-endian numbers, as Kafka's Java classes read and write them."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def read(self, data: bytes) -> object:
        return _NUMBERS[self._kind].unpack(data)[0]

    def write(self, value: object) -> bytes:
        return _NUMBERS[self._kind].pack(value)
