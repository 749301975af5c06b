"""Translation of steps that make, join, move, window or group collections: `Create`, `Flatten`, `GroupByKey`.

The values of Beam's `Create` travel as bytes of their type's coder and are decoded in the workers.
"""

from __future__ import annotations

from typing import cast

from apache_beam import coders
from apache_beam.pipeline import AppliedPTransform
from apache_beam.transforms import core, util

from headrace.lowlevel.stored_names import named
from headrace.runners.beam.beam_private import created_coder
from headrace.runners.beam.functions.combine_fns import combine_fn_of
from headrace.runners.beam.functions.keys import KeyForm
from headrace.runners.beam.functions.own_coders import DecodingCombineFn, OwnCoder, with_encoded_values
from headrace.runners.beam.translation import Rule, Translation
from headrace.runners.beam.windowings import windowing_of
from headrace.sdk.transforms.aggregation.combine import CombinePerKey
from headrace.sdk.transforms.core.create import Create, CreateKnownBy
from headrace.sdk.transforms.core.flatten import Flatten
from headrace.sdk.transforms.core.group_by_key import GroupByKey
from headrace.sdk.transforms.core.par_do import Map, ParDo
from headrace.sdk.transforms.core.reshuffle import Reshuffle
from headrace.sdk.transforms.core.window_into import WindowInto


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


def encoded_values(create: core.Create) -> tuple[Create, ParDo | None]:
    """A `Create` of encoded values, and the step that decodes them; of the values and None if no step is needed."""
    # Beam has chosen the coder when the transform was made, before a type may have been given to it.
    coder, values = created_coder(create), list(create.values)
    if type(coder) in _EXACT:
        return Create(values), None
    return CreateKnownBy([coder.encode(value) for value in values], values), Map(Decoder(coder))


def _impulse(made: Translation, step: AppliedPTransform) -> None:
    made.put(step, made.pipeline | step.full_label >> Create([b""]))


def _create(made: Translation, step: AppliedPTransform) -> None:
    values, decode = encoded_values(step.transform)
    if decode is None:
        made.put(step, made.pipeline | step.full_label >> values)
    else:
        made.put(step, made.pipeline | f"{step.full_label}/Values" >> values | step.full_label >> decode)


def _flatten(made: Translation, step: AppliedPTransform) -> None:
    sources = tuple(made.collection(each) for each in step.main_inputs.values())
    if not sources:
        made.put(step, made.pipeline | step.full_label >> Create([]))
    else:
        made.put(step, sources | step.full_label >> Flatten())


def _reshuffle(made: Translation, step: AppliedPTransform) -> None:
    [source] = step.main_inputs.values()
    if source.pipeline.options.is_compat_version_prior_to("2.65.0"):
        # Until then Beam's own parts lost the pane of an element, which ours keeps.
        for part in step.parts:
            made.translate(part)
        return
    own = OwnCoder.of(source.element_type)
    if own is None:
        made.put(step, made.source(step) | step.full_label >> Reshuffle())
    else:
        encoded = made.source(step) | f"{step.full_label}/Encode" >> Map(own.encode)
        made.put(step, encoded | step.full_label >> Reshuffle() | f"{step.full_label}/Decode" >> Map(own.decode))


def _window_into(made: Translation, step: AppliedPTransform) -> None:
    windowing = windowing_of(step.outputs[None].windowing)
    made.put(step, made.source(step) | step.full_label >> WindowInto(windowing))


def _group_by_key(made: Translation, step: AppliedPTransform) -> None:
    values = OwnCoder.of_values(step)
    source = with_encoded_values(made.source(step), step.full_label, values)
    groups = KeyForm.of(step).grouped(source, GroupByKey())
    if values is not None:
        groups = groups | f"{step.full_label}/DecodeValues" >> Map(values.decode_values)
    made.put(step, groups)


def _combine_per_key(made: Translation, step: AppliedPTransform) -> None:
    transform, values = step.transform, OwnCoder.of_values(step)
    source = with_encoded_values(made.source(step), step.full_label, values)
    fn = combine_fn_of(transform.fn) if values is None else DecodingCombineFn(transform.fn, values)
    combine = CombinePerKey(fn, *transform.args, **transform.kwargs)
    made.put(step, KeyForm.of(step).grouped(source, combine))


RULES: dict[type, Rule] = {
    core.Impulse: _impulse,
    core.Create: _create,
    core.Flatten: _flatten,
    util.Reshuffle: _reshuffle,
    core.WindowInto: _window_into,
    core.GroupByKey: _group_by_key,
    core.CombinePerKey: _combine_per_key,
}
