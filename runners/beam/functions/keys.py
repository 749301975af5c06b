"""Keys: two keys are equal if Beam's deterministic coder of the key's type gives them the same bytes.

Keys go as they are where a coder of Beam gives equal bytes to equal keys of a type, and to no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import ClassVar, cast

import pyarrow as pa
from apache_beam import coders
from apache_beam.coders import typecoders
from apache_beam.options.pipeline_options import PipelineOptions, TypeOptions
from apache_beam.pipeline import AppliedPTransform
from apache_beam.typehints import typehints

from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.errors import KeyEncodingError
from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.lowlevel.stored_names import named
from headrace.sdk.expressions.batch_view import BatchView, PairFunction, Unable
from headrace.sdk.expressions.element_schema import Single, Tuple, pair
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.par_do import Map

_OF_ANY = (
    coders.FastPrimitivesCoder,
    coders.coders.DeterministicFastPrimitivesCoder,
    coders.coders.DeterministicFastPrimitivesCoderV2,
)
"""Coders of values of any type, which tell types apart."""
_LONG = 1 << 63


@dataclass(frozen=True, slots=True)
class NoKeys:
    """Which keys go as they are: none, if no subclass says otherwise."""

    kinds: ClassVar[Set[type]] = frozenset()
    """Types of keys that all go as they are."""

    def __contains__(self, key: object) -> bool:
        """Whether a key does."""
        return False

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """Whether all keys of a shape do."""
        return False


@dataclass(frozen=True, slots=True)
class AnyPlain(NoKeys):
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
        """See `NoKeys`."""
        if isinstance(shape, Tuple):
            return all(self.holds_all(part, view) for part in shape.shapes)
        return isinstance(shape, Single) and (
            _is_text(kind := view.column(shape).type) or pa.types.is_integer(kind) or pa.types.is_null(kind)
        )


@dataclass(frozen=True, slots=True)
class Texts(NoKeys):
    """Text alone."""

    kinds: ClassVar[Set[type]] = frozenset({str})

    def __contains__(self, key: object) -> bool:
        return type(key) is str

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """See `NoKeys`."""
        return isinstance(shape, Single) and _is_text((column := view.column(shape)).type) and not column.null_count


@dataclass(frozen=True, slots=True)
class Longs(NoKeys):
    """Whole numbers of 64 bits."""

    def __contains__(self, key: object) -> bool:
        return type(key) is int and -_LONG <= key < _LONG

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """See `NoKeys`."""
        return (
            isinstance(shape, Single)
            and pa.types.is_signed_integer((column := view.column(shape)).type)
            and not column.null_count
        )


@dataclass(frozen=True, slots=True)
class Tuples(NoKeys):
    """Tuples with a fixed number of parts."""

    parts: tuple[NoKeys, ...]

    def __contains__(self, key: object) -> bool:
        return (
            type(key) is tuple
            and len(key) == len(self.parts)
            and all(part in plain for part, plain in zip(key, self.parts, strict=True))
        )

    def holds_all(self, shape: ValueSchema, view: BatchView) -> bool:
        """See `NoKeys`."""
        return (
            isinstance(shape, Tuple)
            and len(shape.shapes) == len(self.parts)
            and all(plain.holds_all(part, view) for part, plain in zip(shape.shapes, self.parts, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Lists(NoKeys):
    """Lists with instances of classes in them; see `AnyPlain`. Others are encoded, as release 0.1 did with all."""

    items: NoKeys

    def __contains__(self, key: object) -> bool:
        return type(key) is list and _has_class(key) and all(item in self.items for item in key) and _is_native(key)


def plain_keys(coder: coders.Coder) -> NoKeys:
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


def is_named(plain: NoKeys) -> bool:
    """Whether the name of a coder says that some keys go as they are: not if release 0.1 encoded all."""
    return type(plain) not in (NoKeys, Lists) and (not isinstance(plain, Tuples) or all(map(is_named, plain.parts)))


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
    except KeyEncodingError:
        return False
    return True


def _is_alike(key: object) -> bool:
    parts = cast("Iterable[object]", key) if type(key) in (tuple, list) else _fields(key)
    return type(key) in _PARTS if parts is None else all(map(_is_alike, parts))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


_SAME = (coders.StrUtf8Coder, coders.BytesCoder, coders.VarIntCoder, coders.BooleanCoder)
"""Coders of keys for which Headrace's encoding separates the same keys."""


@named("BeamKeyCoder")
class BeamKeyCoder:
    """Beam's coder of keys; what it need not encode goes as it is, as most keys are text or numbers.

    Args:
        coder: Beam's coder.
    """

    def __init__(self, coder: coders.Coder) -> None:
        self._coder = coder
        self.plain = plain_keys(coder)
        """The keys that go as they are. No others do, and others become bytes, so that none is taken for another."""
        self._kinds = self.plain.kinds
        self._may_become_plain = isinstance(self.plain, (Tuples, Lists))

    def encode(self, key: object) -> object:
        """The key that stands for a key of the program."""
        if key.__class__ in self._kinds or key in self.plain:
            return key
        encoded = cast(bytes, self._coder.encode(_with_one_nan(key)))
        if self._may_become_plain and (same := self._coder.decode(encoded)) in self.plain:
            # A coder of certain types takes what is like them, such as True for 1.
            return cast(object, same)
        return encoded

    def decode(self, encoded: object) -> object:
        """The key of the program."""
        return cast(object, self._coder.decode(encoded)) if encoded.__class__ is bytes else encoded

    def __repr__(self) -> str:
        # The name in fingerprints.
        return f"{self._coder!r} (plain keys as they are)" if is_named(self.plain) else repr(self._coder)


_NAN = float("nan")


def _with_one_nan(key: object) -> object:
    """The key with the same bits for each NaN in it, so that coders give it one encoding.

    >>> _with_one_nan((1.5, "a"))
    (1.5, 'a')
    """
    if isinstance(key, float):
        return key if key == key else _NAN
    if isinstance(key, Decimal):
        return Decimal("NaN") if key.is_nan() else key
    if key.__class__ in (tuple, list):
        make = cast("Callable[[Iterable[object]], object]", key.__class__)
        return make(map(_with_one_nan, cast("Iterable[object]", key)))
    return key


class _OfPairs(PairFunction):
    """A function of pairs, which columns with plain keys pass as they are.

    Args:
        coder: The coder of the keys.
    """

    def __init__(self, coder: BeamKeyCoder) -> None:
        self._coder = coder

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        key, value = view.pair()
        if not self._coder.plain.holds_all(key, view):
            raise Unable("some keys are encoded one by one")
        return pair(key, value)


@named("BeamKeyEncoder")
class Encode(_OfPairs):
    """(key, value) -> (encoded key, value)."""

    def __call__(self, pair: tuple[object, object]) -> tuple[object, object]:
        """The pair with its key encoded."""
        key, value = pair
        encoded = self._coder.encode(key)
        return pair if encoded is key and pair.__class__ is tuple else (encoded, value)


@named("BeamKeyDecoder")
class Decode(_OfPairs):
    """(encoded key, value) -> (key, value)."""

    def __call__(self, pair: tuple[object, object]) -> tuple[object, object]:
        """The pair with its key decoded."""
        key, value = pair
        return (self._coder.decode(key), value) if key.__class__ is bytes else pair


@dataclass(frozen=True, slots=True)
class KeyForm:
    """How the keys of a grouping are encoded."""

    coder: BeamKeyCoder | None
    """None if keys go as they are."""
    label: str

    @property
    def name(self) -> str | None:
        """The name of the coder in fingerprints; None if keys go as they are."""
        return None if self.coder is None else repr(self.coder)

    @classmethod
    def of(cls, step: AppliedPTransform) -> KeyForm:
        """The form for a grouping step. Raises what Beam raises for a key type without a deterministic coder.

        With the option `--allow_non_deterministic_key_coders` such a coder will do, as with Beam.
        """
        coder = _key_coder(step)
        if not _options(step).view_as(TypeOptions).allow_non_deterministic_key_coders:
            coder = coder.as_deterministic_coder(step.full_label)
        return cls._with(coder, step)

    @classmethod
    def of_stateful(cls, step: AppliedPTransform) -> KeyForm:
        """The form for a step with state, where Beam takes any coder, but warns of one that is not deterministic."""
        coder = _key_coder(step)
        with suppress(TypeError, ValueError):
            coder = coder.as_deterministic_coder(step.full_label)
        return cls._with(coder, step)

    @classmethod
    def _with(cls, coder: coders.Coder, step: AppliedPTransform) -> KeyForm:
        return cls(None if isinstance(coder, _SAME) else BeamKeyCoder(coder), step.full_label)

    def encoded(self, pairs: PCollection[object]) -> PCollection[object]:
        """The pairs with encoded keys."""
        if self.coder is None:
            return pairs
        return pairs | f"{self.label}/EncodeKeys" >> Map(Encode(self.coder))

    def grouped(
        self, pairs: PCollection[object], grouping: PTransform[PCollection[object], PCollection[object]]
    ) -> PCollection[object]:
        """The output of a grouping of the pairs, with keys as the program has them."""
        grouping.key_encoding = self.name
        return self.decoded(self.encoded(pairs) | self.label >> grouping)

    def decoded(self, pairs: PCollection[object]) -> PCollection[object]:
        """The pairs with keys as the program has them."""
        if self.coder is None:
            return pairs
        return pairs | f"{self.label}/DecodeKeys" >> Map(Decode(self.coder))


def _key_coder(step: AppliedPTransform) -> coders.Coder:
    """The coder that Beam has for the type of the keys that a step takes."""
    [source] = step.main_inputs.values()
    hint = source.element_type
    key = hint.tuple_types[0] if isinstance(hint, typehints.TupleHint.TupleConstraint) else typehints.Any
    return typecoders.registry.get_coder(key)


def _options(step: AppliedPTransform) -> PipelineOptions:
    """The options of the pipeline that has a step."""
    [source] = step.main_inputs.values()
    return source.pipeline.options
