"""Keys: two keys are equal if Beam's deterministic coder of the key's type gives them the same bytes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from apache_beam import coders
from apache_beam.coders import typecoders
from apache_beam.options.pipeline_options import PipelineOptions, TypeOptions
from apache_beam.pipeline import AppliedPTransform
from apache_beam.typehints import typehints

from headrace.lowlevel.stored_names import named
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.par_do import Map

_SAME = (coders.StrUtf8Coder, coders.BytesCoder, coders.VarIntCoder, coders.BooleanCoder)
"""Coders of keys for which Headrace's encoding separates the same keys."""


_OF_ANY = (
    coders.FastPrimitivesCoder,
    coders.coders.DeterministicFastPrimitivesCoder,
    coders.coders.DeterministicFastPrimitivesCoderV2,
)
"""Coders of keys of any type, which tell text from all else."""


@named("BeamKeyCoder")
class KeyCoder:
    """Beam's coder of keys; text stays as it is where keys may be of any type, as most are text.

    Args:
        coder: Beam's coder.
    """

    def __init__(self, coder: coders.Coder) -> None:
        self._coder, self._keeps_text = coder, isinstance(coder, _OF_ANY)

    def encode(self, key: object) -> str | bytes:
        """The key that stands for a key of the program."""
        if self._keeps_text and key.__class__ is str:
            return key
        return cast(bytes, self._coder.encode(key))

    def decode(self, encoded: object) -> object:
        """The key of the program."""
        return encoded if encoded.__class__ is str else cast(object, self._coder.decode(encoded))

    def __repr__(self) -> str:
        # The name in fingerprints.
        return repr(self._coder)


@named("BeamKeyEncoder")
class Encode:
    """(key, value) -> (encoded key, value)."""

    def __init__(self, coder: KeyCoder) -> None:
        self._coder = coder

    def __call__(self, pair: tuple[object, object]) -> tuple[str | bytes, object]:
        """The pair with its key encoded."""
        key, value = pair
        return self._coder.encode(key), value


@named("BeamKeyDecoder")
class Decode:
    """(encoded key, value) -> (key, value)."""

    def __init__(self, coder: KeyCoder) -> None:
        self._coder = coder

    def __call__(self, pair: tuple[object, object]) -> tuple[object, object]:
        """The pair with its key decoded."""
        key, value = pair
        return self._coder.decode(key), value


@dataclass(frozen=True, slots=True)
class KeyForm:
    """How the keys of a grouping are encoded."""

    coder: KeyCoder | None
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
        return cls(None if isinstance(coder, _SAME) else KeyCoder(coder), step.full_label)

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
