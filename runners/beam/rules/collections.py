"""Translation of steps that make, join or move collections: `Impulse`, `Create`, `Flatten`, `Reshuffle`."""

from __future__ import annotations

from apache_beam.pipeline import AppliedPTransform
from apache_beam.transforms import core, util

from headrace.runners.beam.functions.own_coders import OwnCoder
from headrace.runners.beam.io.created_values import encoded_values
from headrace.runners.beam.translation import Rule, Translation
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.transforms.core.flatten import Flatten
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.transforms.core.reshuffle import Reshuffle


def _impulse(made: Translation, step: AppliedPTransform) -> None:
    made.put(step, made.pipeline | step.full_label >> Create([b""]))


def _create(made: Translation, step: AppliedPTransform) -> None:
    values, decode = encoded_values(step.transform)
    if decode is None:
        made.put(step, made.pipeline | step.full_label >> Create(values))
    else:
        made.put(step, made.pipeline | f"{step.full_label}/Values" >> Create(values) | step.full_label >> decode)


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


RULES: dict[type, Rule] = {
    core.Impulse: _impulse,
    core.Create: _create,
    core.Flatten: _flatten,
    util.Reshuffle: _reshuffle,
}
