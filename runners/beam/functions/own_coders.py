"""What: elements whose type has a coder of the user's own go from step to step as the bytes of this coder.

Other elements are pickled by the engine, which keeps all that Beam's coders keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from apache_beam import coders
from apache_beam.coders import typecoders
from apache_beam.pipeline import AppliedPTransform
from apache_beam.typehints import typehints

from headrace.lowlevel.stored_names import named
from headrace.runners.beam.beam_private import component_coders
from headrace.runners.beam.functions.combine_fns import BeamCombineFn
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.par_do import Map


@named("BeamOwnCoder")
class OwnCoder:
    """A coder of Beam's for elements of one type.

    Args:
        coder: The coder.
    """

    def __init__(self, coder: coders.Coder) -> None:
        self._coder = coder

    @classmethod
    def of(cls, hint: object) -> OwnCoder | None:
        """The coder for a type if it, or a part of it, has a coder of the user's own; None for all other types."""
        coder = typecoders.registry.get_coder(hint)
        return cls(coder) if _has_own_part(coder) else None

    @classmethod
    def of_values(cls, step: AppliedPTransform) -> OwnCoder | None:
        """The coder for the values of the pairs that a step takes; see `of`."""
        [source] = step.main_inputs.values()
        hint = source.element_type
        return cls.of(hint.tuple_types[1]) if isinstance(hint, typehints.TupleHint.TupleConstraint) else None

    def encode(self, element: object) -> bytes:
        """The bytes that stand for an element."""
        return cast(bytes, self._coder.encode(element))

    def decode(self, data: object) -> object:
        """A new element for each call."""
        return cast(object, self._coder.decode(data))

    def encode_value(self, pair: tuple[object, object]) -> tuple[object, bytes]:
        """(key, value) -> (key, encoded value)."""
        key, value = pair
        return key, self.encode(value)

    def decode_values(self, group: tuple[object, Iterable[object]]) -> tuple[object, list[object]]:
        """(key, encoded values) -> (key, values)."""
        key, values = group
        return key, list(map(self.decode, values))


def with_encoded_values(pairs: PCollection[object], label: str, coder: OwnCoder | None) -> PCollection[object]:
    """The pairs, with encoded values if there is a coder; `label` is that of the step that takes them."""
    return pairs if coder is None else pairs | f"{label}/EncodeValues" >> Map(coder.encode_value)


def _has_own_part(coder: coders.Coder) -> bool:
    # Its own coders keep what pickling keeps.
    is_own = not type(coder).__module__.startswith("apache_beam.coders.")
    return is_own or any(map(_has_own_part, component_coders(coder)))


@named("BeamDecodingCombineFn")
class DecodingCombineFn(BeamCombineFn):
    """A CombineFn of Beam's SDK for encoded values.

    Args:
        fn: The CombineFn.
        coder: The coder of the values.
    """

    def __init__(self, fn: object, coder: OwnCoder) -> None:
        super().__init__(fn)
        self._coder = coder

    def add_input(self, accumulator: object, element: object, *args: object, **kwargs: object) -> object:
        """See `CombineFn`."""
        return super().add_input(accumulator, self._coder.decode(element), *args, **kwargs)

    def add_inputs(self, accumulator: object, elements: Iterable[object]) -> object:
        """See `CombineFn`."""
        return cast(object, self._fn.add_inputs(accumulator, map(self._coder.decode, elements)))
