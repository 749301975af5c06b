"""Translation of `ParDo`, also of DoFns with state, timers and side inputs."""

from __future__ import annotations

from apache_beam.pipeline import AppliedPTransform
from apache_beam.runners import common
from apache_beam.transforms import core
from apache_beam.transforms.userstate import is_stateful_dofn

from headrace.lowlevel.sinks.sink import CallSink
from headrace.runners.beam.direct_fns import direct
from headrace.runners.beam.do_fns import BeamDoFn, BeamView
from headrace.runners.beam.keys import KeyForm
from headrace.runners.beam.rules.streams import periodic_sequences
from headrace.runners.beam.run import finalizers
from headrace.runners.beam.stateful_do_fns import BeamStatefulDoFn
from headrace.runners.beam.translation import Collection, Rule, Translation
from headrace.runners.beam.windowings import UntranslatableError
from headrace.sdk.functions.arguments import Side
from headrace.sdk.graph.side_inputs import AsList
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.transforms.core.write import Write


def _par_do(made: Translation, step: AppliedPTransform) -> None:
    transform = step.transform
    if periodic_sequences(made, step):
        return
    _refuse(step, common.DoFnSignature(transform.fn))
    tags = [tag for tag in step.outputs if tag is not None]
    windowing = step.outputs[None].windowing if None in step.outputs else next(iter(step.outputs.values())).windowing
    finalizes = common.DoFnSignature(transform.fn).has_bundle_finalization()
    plain = None if step.side_inputs or finalizes else direct(transform.fn)
    if plain is not None:
        par_do = ParDo(plain, *transform.args, **transform.kwargs)
        made.put_all(step, made.source(step) | step.full_label >> par_do.with_outputs(*tags, allow_unknown_tags=True))
        return
    source, parts = made.source(step), (transform.args, transform.kwargs, len(step.side_inputs), windowing, tags)
    if is_stateful_dofn(transform.fn):
        keys, [given] = KeyForm.of_state(step), step.main_inputs.values()
        source = keys.encoded(source)
        is_bounded = given.is_bounded
        fn: BeamDoFn = BeamStatefulDoFn(transform.fn, *parts, step.full_label, keys=keys.coder, is_bounded=is_bounded)
    else:
        fn = BeamDoFn(transform.fn, *parts, step.full_label)
    sides = []
    for side in step.side_inputs:
        view = made.collection(side.pvalue)
        sides.append(_View(view, BeamView(side)))
    par_do = _StatefulParDo(fn, *sides) if isinstance(fn, BeamStatefulDoFn) else ParDo(fn, *sides)
    tags += [finalizers.TAG] if finalizes else []
    outputs = source | step.full_label >> par_do.with_outputs(*tags, allow_unknown_tags=True)
    made.put_all(step, outputs)
    if finalizes:
        _ = outputs[finalizers.TAG] | f"{step.full_label}/Finalize" >> Write(CallSink(finalizers.finalize))


def _refuse(step: AppliedPTransform, signature: common.DoFnSignature) -> None:
    """Raise UntranslatableError for a DoFn that would not be run as Beam runs it."""
    kinds = {
        "is splittable and unbounded": signature.is_splittable_dofn() and signature.is_unbounded_per_element(),
        "processes batches": step.transform.fn._process_batch_defined or step.transform.fn._process_yields_batches,
    }
    for kind, is_so in kinds.items():
        if is_so:
            raise UntranslatableError(f"step {step.full_label!r}: the runner cannot run a DoFn that {kind}")


class _StatefulParDo(ParDo):
    """A `ParDo` of a `BeamStatefulDoFn`, whose state and timers are declared in Beam's way."""

    def __init__(self, fn: BeamStatefulDoFn, *sides: _View) -> None:
        super().__init__(fn, None, *sides)
        self.arguments, self.declared_state = fn.declared(map(Side, range(len(sides))))


class _View(AsList):
    """A side input as Beam gives it to user code; its `make` is a function of its own."""

    def __init__(self, pvalue: Collection, make: BeamView) -> None:
        super().__init__(pvalue)
        self.make = make  # type: ignore[method-assign]  # it is called as a function


RULES: dict[type, Rule] = {
    core.ParDo: _par_do,
}
