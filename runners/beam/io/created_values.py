"""What: values of Beam's `Create`, which travel as bytes of their type's coder and are decoded in the workers."""

from __future__ import annotations

from typing import cast

from apache_beam import coders
from apache_beam.transforms import core

from headrace.lowlevel.stored_names import named
from headrace.runners.beam.beam_private import created_coder
from headrace.sdk.transforms.core.par_do import Map, ParDo


@named("BeamValueDecoder")
class Decoder:
    """Bytes -> the value that they encode."""

    def __init__(self, coder: coders.Coder) -> None:
        self._coder = coder

    def __call__(self, data: bytes) -> object:
        """The value of the bytes, a new one with each call."""
        return cast(object, self._coder.decode(data))


_EXACT = (coders.StrUtf8Coder, coders.BytesCoder, coders.VarIntCoder, coders.BooleanCoder, coders.FloatCoder)
"""Coders of values that cannot be changed and that Headrace's encoding keeps as they are."""


def encoded_values(create: core.Create) -> tuple[list[object], ParDo | None]:
    """The encoded values of a `Create`, and the step that decodes them; the values and None if no step is needed."""
    # Beam has chosen the coder when the transform was made, before a type may have been given to it.
    coder = created_coder(create)
    if type(coder) in _EXACT:
        return list(create.values), None
    return [coder.encode(value) for value in create.values], Map(Decoder(coder))
