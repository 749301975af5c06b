"""Translation of windowing and grouping: `WindowInto`, `GroupByKey`, `CombinePerKey`."""

from __future__ import annotations

from apache_beam.pipeline import AppliedPTransform
from apache_beam.transforms import core

from headrace.runners.beam.functions.combine_fns import combine_fn_of
from headrace.runners.beam.functions.keys import KeyForm
from headrace.runners.beam.functions.own_coders import DecodingCombineFn, OwnCoder, with_encoded_values
from headrace.runners.beam.translation import Rule, Translation
from headrace.runners.beam.windowings import windowing_of
from headrace.sdk.transforms.aggregation.combine import CombinePerKey
from headrace.sdk.transforms.core.group_by_key import GroupByKey
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.transforms.core.window_into import WindowInto


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
    core.WindowInto: _window_into,
    core.GroupByKey: _group_by_key,
    core.CombinePerKey: _combine_per_key,
}
