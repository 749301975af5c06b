"""Coders of containers (`apache_beam.coders.TupleCoder` and the like)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self, cast, get_args

from headrace.lowlevel.stored_names import named, public_name
from headrace.sdk.coders.coder import Coder, TypeCoders, read_varint, varint
from headrace.sdk.model.row import Row
from headrace.sdk.typehints.hints import fields_of, made_of


class _Composite(Coder):
    """Base of coders that consist of other coders: deterministic if all of these are."""

    def parts(self) -> Sequence[Coder]:
        """The coders that this coder consists of."""
        return ()

    def _of(self, parts: Sequence[Coder]) -> Coder:
        """A coder like this one that consists of other coders."""
        return type(self)(*parts)

    def is_deterministic(self) -> bool:
        """See `Coder`."""
        return all(part.is_deterministic() for part in self.parts())

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        """The same coder with deterministic parts."""
        if self.is_deterministic():
            return self
        return self._of([part.as_deterministic_coder(step_label, error_message) for part in self.parts()])

    def __repr__(self) -> str:
        return f"{public_name(type(self)).rpartition('.')[2]}{list(self.parts())}"


@named("NullableCoder")
class NullableCoder(_Composite):
    """Encodes None, and the values of another coder.

    >>> from headrace.coders import VarIntCoder
    >>> coder = NullableCoder(VarIntCoder())
    >>> coder.decode(coder.encode(None)), coder.decode(coder.encode(3))
    (None, 3)
    """

    def __init__(self, value_coder: Coder) -> None:
        self._value = value_coder

    def parts(self) -> Sequence[Coder]:
        """See `_Composite`."""
        return (self._value,)

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return b"\x00" if value is None else b"\x01" + self._value.encode(value)

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return None if data == b"\x00" else self._value.decode(data[1:])


@named("TupleCoder")
class TupleCoder(_Composite):
    """Encodes tuples of a fixed number of values, with one coder for each position.

    >>> from headrace.coders import StrUtf8Coder, VarIntCoder
    >>> coder = TupleCoder([StrUtf8Coder(), VarIntCoder()])
    >>> coder.decode(coder.encode(("tea", 3)))
    ('tea', 3)
    """

    def __init__(self, components: Iterable[Coder]) -> None:
        self._components = tuple(components)

    def parts(self) -> Sequence[Coder]:
        """See `_Composite`."""
        return self._components

    def _of(self, parts: Sequence[Coder]) -> Coder:
        return TupleCoder(parts)

    def coders(self) -> tuple[Coder, ...]:
        """The coders of the components."""
        return self._components

    def is_kv_coder(self) -> bool:
        """Whether the encoded tuples are pairs."""
        return len(self._components) == 2

    def encode(self, value: object) -> bytes:
        """See `Coder`. Raises `ValueError` for a tuple of another length."""
        pairs = zip(self._components, cast("Sequence[object]", value), strict=True)
        return _joined(coder.encode(item) for coder, item in pairs)

    def decode(self, data: bytes) -> tuple[object, ...]:
        """See `Coder`."""
        return tuple(coder.decode(part) for coder, part in zip(self._components, _split(data), strict=True))

    @classmethod
    def from_type_hint(cls, hint: object, registry: TypeCoders) -> Self:
        """See `Coder`."""
        return cls(map(registry.get_coder, get_args(hint)))


@named("ListCoder")
class ListCoder(_Composite):
    """Encodes lists, with one coder for all items.

    >>> from headrace.coders import VarIntCoder
    >>> coder = ListCoder(VarIntCoder())
    >>> coder.decode(coder.encode([1, 2, 3]))
    [1, 2, 3]
    """

    def __init__(self, elem_coder: Coder) -> None:
        self._element = elem_coder

    def parts(self) -> Sequence[Coder]:
        """See `_Composite`."""
        return (self._element,)

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return _joined(map(self._element.encode, cast("Iterable[object]", value)))

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return list(map(self._element.decode, _split(data)))

    @classmethod
    def from_type_hint(cls, hint: object, registry: TypeCoders) -> Self:
        """See `Coder`."""
        return cls(registry.get_coder((get_args(hint) or (object,))[0]))


@named("IterableCoder")
class IterableCoder(ListCoder):
    """Encodes iterables, with one coder for all items; the decoded value is a list.

    >>> from headrace.coders import VarIntCoder
    >>> coder = IterableCoder(VarIntCoder())
    >>> coder.decode(coder.encode(range(3)))
    [0, 1, 2]
    """


@named("TupleSequenceCoder")
class TupleSequenceCoder(ListCoder):
    """Encodes tuples of any length, with one coder for all items.

    >>> from headrace.coders import VarIntCoder
    >>> coder = TupleSequenceCoder(VarIntCoder())
    >>> coder.decode(coder.encode((1, 2, 3)))
    (1, 2, 3)
    """

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return tuple(map(self._element.decode, _split(data)))


@named("MapCoder")
class MapCoder(_Composite):
    """Encodes dicts; entries are sorted by the bytes of their keys, so equal dicts have equal bytes.

    >>> from headrace.coders import StrUtf8Coder, VarIntCoder
    >>> coder = MapCoder(StrUtf8Coder(), VarIntCoder())
    >>> coder.encode({"a": 1, "b": 2}) == coder.encode({"b": 2, "a": 1})
    True
    """

    def __init__(self, key_coder: Coder, value_coder: Coder) -> None:
        self._key, self._value = key_coder, value_coder

    def parts(self) -> Sequence[Coder]:
        """See `_Composite`."""
        return (self._key, self._value)

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        items = cast("Mapping[object, object]", value).items()
        entries = sorted((self._key.encode(key), self._value.encode(item)) for key, item in items)
        return _joined(part for entry in entries for part in entry)

    def decode(self, data: bytes) -> dict[object, object]:
        """See `Coder`."""
        parts = _split(data)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return {self._key.decode(key): self._value.decode(item) for key, item in pairs}

    @classmethod
    def from_type_hint(cls, hint: object, registry: TypeCoders) -> Self:
        """See `Coder`."""
        key, value = get_args(hint) or (object, object)
        return cls(registry.get_coder(key), registry.get_coder(value))


@named("RowCoder")
class RowCoder(_Composite):
    """Encodes rows whose field types are known: a `Row`, or a `NamedTuple` or dataclass that declares the fields.

    >>> from typing import NamedTuple
    >>> from headrace.sdk.coders.registry import registry
    >>> class Flight(NamedTuple):
    ...     carrier: str
    ...     delay: int
    >>> coder = registry.get_coder(Flight)
    >>> coder.decode(coder.encode(Flight("UA", 2)))
    Flight(carrier='UA', delay=2)
    """

    def __init__(self, kind: type, fields: Mapping[str, Coder]) -> None:
        self._kind, self._fields = kind, dict(fields)

    def parts(self) -> Sequence[Coder]:
        """See `_Composite`."""
        return tuple(self._fields.values())

    def _of(self, parts: Sequence[Coder]) -> Coder:
        return RowCoder(self._kind, dict(zip(self._fields, parts, strict=True)))

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return _joined(coder.encode(getattr(value, name)) for name, coder in self._fields.items())

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        parts = zip(self._fields.items(), _split(data), strict=True)
        return made_of(self._kind, {name: coder.decode(part) for (name, coder), part in parts})

    def to_type_hint(self) -> object:
        """See `Coder`."""
        return self._kind

    @classmethod
    def from_type_hint(cls, hint: object, registry: TypeCoders) -> Self:
        """See `Coder`. Raises `ValueError` for a type whose fields are not known."""
        fields = fields_of(hint)
        if fields is None:
            raise ValueError(f"{hint!r} has no fields; state a NamedTuple, a dataclass or a RowTypeConstraint")
        kind = hint if isinstance(hint, type) else Row
        return cls(kind, {name: registry.get_coder(field) for name, field in fields.items()})


def _joined(parts: Iterable[bytes]) -> bytes:
    return b"".join(piece for part in parts for piece in (varint(len(part)), part))


def _split(data: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(data):
        size, at = read_varint(data, at)
        parts.append(data[at : at + size])
        at += size
    return parts
