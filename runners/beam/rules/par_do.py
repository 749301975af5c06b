"""Translation of `ParDo`, also of DoFns with state, timers and side inputs."""

from __future__ import annotations

from typing import Any

from apache_beam.pipeline import AppliedPTransform
from apache_beam.pvalue import AsSideInput
from apache_beam.runners import common
from apache_beam.transforms import core
from apache_beam.transforms.userstate import is_stateful_dofn

from headrace.lowlevel.sinks.sink import CallSink
from headrace.runners.beam.beam_private import takes_or_gives_batches
from headrace.runners.beam.functions.direct_fns import DirectStatefulParDo, direct, is_direct
from headrace.runners.beam.functions.do_fns import BeamBatchDoFn, BeamDoFn, BeamView, warn_of_rebatching
from headrace.runners.beam.functions.keys import KeyForm
from headrace.runners.beam.functions.own_coders import OwnCoder, with_encoded_values
from headrace.runners.beam.functions.splittable_do_fns import BeamSplittableDoFn
from headrace.runners.beam.functions.stateful_do_fns import BeamStatefulDoFn
from headrace.runners.beam.parquet_rows import by_column
from headrace.runners.beam.rules.streams import periodic_sequences
from headrace.runners.beam.translation import Collection, Rule, Translation
from headrace.sdk.functions import lifecycle
from headrace.sdk.functions.arguments import Side
from headrace.sdk.graph.side_inputs import AsList
from headrace.sdk.transforms.core.low_level import Write
from headrace.sdk.transforms.core.par_do import Map, ParDo


def _par_do(made: Translation, step: AppliedPTransform) -> None:
    transform = step.transform
    if periodic_sequences(made, step):
        return
    signature = common.DoFnSignature(transform.fn)
    finalizes = signature.has_bundle_finalization()
    plain = None if step.side_inputs or finalizes else by_column(transform.fn, direct(transform.fn))
    source = made.source(step)
    if is_stateful_dofn(transform.fn):
        keys, values = KeyForm.of_stateful(step), OwnCoder.of_values(step)
        is_plain = not step.side_inputs and not transform.args and not transform.kwargs and values is None
        if is_plain and not finalizes and is_direct(transform.fn):
            par_do: ParDo = DirectStatefulParDo(transform.fn, keys)
        else:
            par_do = _stateful(made, step, keys, values)
        source = with_encoded_values(source, step.full_label, values)
        source, par_do.key_encoding = keys.encoded(source), keys.name
    elif signature.is_splittable_dofn():
        par_do = _SplittableParDo(BeamSplittableDoFn(transform.fn, *_parts(step)), *_views(made, step))
    elif plain is not None:
        par_do = ParDo(plain, *transform.args, **transform.kwargs)
    else:
        par_do = _by_beam(made, step)
    tags = [*_tags(step), lifecycle.TAG] if finalizes else _tags(step)
    outputs = source | step.full_label >> par_do.with_outputs(*tags, allow_unknown_tags=True)
    made.put_all(step, outputs)
    if finalizes:
        _ = outputs[lifecycle.TAG] | f"{step.full_label}/Finalize" >> Write(CallSink(lifecycle.finalize))


def _tags(step: AppliedPTransform) -> list[str]:
    """Tags of the outputs that something reads or that are declared."""
    return [tag for tag in step.outputs if tag is not None]


def _stateful(made: Translation, step: AppliedPTransform, keys: KeyForm, values: OwnCoder | None) -> ParDo:
    """A `ParDo` of a DoFn with state or timers."""
    fn = BeamStatefulDoFn(step.transform.fn, *_parts(step), keys=keys.coder, values=values)
    return _StatefulParDo(fn, *_views(made, step))


def _by_beam(made: Translation, step: AppliedPTransform) -> ParDo:
    """A `ParDo` whose DoFn Beam's `DoFnRunner` calls."""
    fn, kind = step.transform.fn, BeamDoFn
    if takes_or_gives_batches(fn):
        warn_of_rebatching(step)
        kind = BeamBatchDoFn
    return ParDo(kind(fn, *_parts(step)), *_views(made, step))


def _parts(step: AppliedPTransform) -> tuple[Any, ...]:
    """The arguments of a `BeamDoFn` after the DoFn."""
    transform, windowing = step.transform, next(iter(step.outputs.values())).windowing
    return transform.args, transform.kwargs, len(step.side_inputs), windowing, _tags(step), step.full_label


def _views(made: Translation, step: AppliedPTransform) -> list[BeamSideInput]:
    """The side inputs of a step."""
    return [_view(made, step, place, side) for place, side in enumerate(step.side_inputs)]


def _view(made: Translation, step: AppliedPTransform, place: int, side: AsSideInput) -> BeamSideInput:
    """A side input of a step."""
    contents, own = made.collection(side.pvalue), OwnCoder.of(side.pvalue.element_type)
    if own is not None:
        contents = contents | f"{step.full_label}/EncodeSide{place}" >> Map(own.encode)
    return BeamSideInput(contents, BeamView(side, own))


class _StatefulParDo(ParDo):
    """A `ParDo` of a `BeamStatefulDoFn`, whose state and timers are declared in Beam's way."""

    def __init__(self, fn: BeamStatefulDoFn, *sides: BeamSideInput) -> None:
        super().__init__(fn, None, *sides)
        self.arguments, self.declared_state = fn.declared(map(Side, range(len(sides))))


class _SplittableParDo(ParDo):
    """A `ParDo` of a `BeamSplittableDoFn`, whose restrictions are declared in Beam's way."""

    def __init__(self, fn: BeamSplittableDoFn, *sides: BeamSideInput) -> None:
        super().__init__(fn, *sides)
        self.splitting = fn.splitting()
        self.is_unbounded = fn.is_unbounded_per_element()


class BeamSideInput(AsList):
    """A side input as Beam gives it to user code; its `make` is a function of its own."""

    def __init__(self, pvalue: Collection, make: BeamView) -> None:
        super().__init__(pvalue)
        self.make = make  # type: ignore[method-assign]  # it is called as a function


RULES: dict[type, Rule] = {
    core.ParDo: _par_do,
}
