"""Keys: two keys are equal if Beam's deterministic coder of the key's type gives them the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from apache_beam import coders
from apache_beam.coders import typecoders
from apache_beam.options.pipeline_options import PipelineOptions, TypeOptions
from apache_beam.pipeline import AppliedPTransform
from apache_beam.typehints import typehints

from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.lowlevel.stored_names import named
from headrace.runners.beam.functions.plain_keys import Lists, Tuples, is_named, plain_keys
from headrace.sdk.expressions.batch_view import BatchView, Unable
from headrace.sdk.expressions.element_schema import pair
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.par_do import Map

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


class _OfPairs:
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

    def column_parts(self) -> tuple[()]:
        """See `ColumnFunction`."""
        return ()


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
