"""Translation of Beam's graph into a pipeline of Headrace, step by step; known composites are taken whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import apache_beam
from apache_beam.io import iobase
from apache_beam.pipeline import AppliedPTransform
from apache_beam.runners import common
from apache_beam.transforms import core, util
from apache_beam.transforms.userstate import is_stateful_dofn

from headrace.runners.beam.combine_fns import combine_fn_of
from headrace.runners.beam.direct_fns import direct
from headrace.runners.beam.do_fns import BeamDoFn, BeamView
from headrace.runners.beam.keys import KeyForm
from headrace.runners.beam.sources import Splits, read_split
from headrace.runners.beam.stateful_do_fns import BeamStatefulDoFn
from headrace.runners.beam.windowings import UntranslatableError, windowing_of
from headrace.sdk.functions.arguments import Side
from headrace.sdk.graph.pvalue import DoOutputsTuple, PCollection
from headrace.sdk.graph.side_inputs import AsList
from headrace.sdk.pipeline.pipeline import Pipeline
from headrace.sdk.transforms.aggregation.combine import CombinePerKey
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.transforms.core.flatten import Flatten
from headrace.sdk.transforms.core.group_by_key import GroupByKey
from headrace.sdk.transforms.core.par_do import FlatMap, ParDo
from headrace.sdk.transforms.core.reshuffle import Reshuffle
from headrace.sdk.transforms.core.window_into import WindowInto

Collection: TypeAlias = PCollection[object]


class Translation:
    """A pipeline of Headrace that does what one of Beam's does.

    Args:
        pipeline: The pipeline to which steps are added; empty.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._collections: dict[apache_beam.PCollection, Collection] = {}

    def translate(self, step: AppliedPTransform) -> None:
        """Add a step, or the steps that it consists of. Raises UntranslatableError if a step cannot be run."""
        rule = _RULES.get(type(step.transform))
        if rule is not None:
            rule(self, step)
        elif step.parts:
            for part in step.parts:
                self.translate(part)
        elif not all(output in self._collections for output in step.outputs.values()):
            raise UntranslatableError(
                f"step {step.full_label!r}: the runner cannot run {type(step.transform).__name__}; "
                "see docs/guide/from-beam.md for what it can"
            )

    def source(self, step: AppliedPTransform) -> Collection:
        """The one collection that a step takes."""
        [taken] = step.main_inputs.values()
        return self._collections[taken]

    def collection(self, collection: apache_beam.PCollection) -> Collection:
        """The collection for one of Beam's."""
        return self._collections[collection]

    def put(self, step: AppliedPTransform, collection: Collection, tag: str | None = None) -> None:
        """Record the collection for an output of a step."""
        self._collections[step.outputs[tag]] = collection

    def put_all(self, step: AppliedPTransform, outputs: DoOutputsTuple) -> None:
        """Record the collections for the outputs of a step by their tags."""
        for tag in step.outputs:
            self.put(step, outputs[tag], tag)


def _impulse(made: Translation, step: AppliedPTransform) -> None:
    made.put(step, made.pipeline | step.full_label >> Create([b""]))


def _create(made: Translation, step: AppliedPTransform) -> None:
    made.put(step, made.pipeline | step.full_label >> Create(step.transform.values))


def _flatten(made: Translation, step: AppliedPTransform) -> None:
    sources = tuple(made.collection(each) for each in step.main_inputs.values())
    if not sources:
        made.put(step, made.pipeline | step.full_label >> Create([]))
    else:
        made.put(step, sources | step.full_label >> Flatten())


def _window_into(made: Translation, step: AppliedPTransform) -> None:
    windowing = windowing_of(step.transform.windowing)
    made.put(step, made.source(step) | step.full_label >> WindowInto(windowing))


def _reshuffle(made: Translation, step: AppliedPTransform) -> None:
    made.put(step, made.source(step) | step.full_label >> Reshuffle())


def _group_by_key(made: Translation, step: AppliedPTransform) -> None:
    keys = KeyForm.of(step)
    made.put(step, keys.decoded(keys.encoded(made.source(step)) | step.full_label >> GroupByKey()))


def _combine_per_key(made: Translation, step: AppliedPTransform) -> None:
    transform, keys = step.transform, KeyForm.of(step)
    combine = CombinePerKey(combine_fn_of(transform.fn), *transform.args, **transform.kwargs)
    made.put(step, keys.decoded(keys.encoded(made.source(step)) | step.full_label >> combine))


def _par_do(made: Translation, step: AppliedPTransform) -> None:
    transform = step.transform
    _refuse(step, common.DoFnSignature(transform.fn))
    tags = [tag for tag in step.outputs if tag is not None]
    windowing = step.outputs[None].windowing if None in step.outputs else next(iter(step.outputs.values())).windowing
    plain = None if step.side_inputs else direct(transform.fn)
    if plain is not None:
        par_do = ParDo(plain, *transform.args, **transform.kwargs)
        made.put_all(step, made.source(step) | step.full_label >> par_do.with_outputs(*tags, allow_unknown_tags=True))
        return
    make = BeamStatefulDoFn if is_stateful_dofn(transform.fn) else BeamDoFn
    fn = make(transform.fn, transform.args, transform.kwargs, len(step.side_inputs), windowing, tags, step.full_label)
    sides = []
    for side in step.side_inputs:
        view = made.collection(side.pvalue)
        sides.append(_View(view, BeamView(side)))
    par_do = _StatefulParDo(fn, *sides) if isinstance(fn, BeamStatefulDoFn) else ParDo(fn, *sides)
    made.put_all(step, made.source(step) | step.full_label >> par_do.with_outputs(*tags, allow_unknown_tags=True))


def _refuse(step: AppliedPTransform, signature: common.DoFnSignature) -> None:
    """Raise UntranslatableError for a DoFn that would not be run as Beam runs it."""
    kinds = {
        "is splittable and unbounded": signature.is_splittable_dofn() and signature.is_unbounded_per_element(),
        "takes a BundleFinalizerParam": signature.has_bundle_finalization(),
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


def _read(made: Translation, step: AppliedPTransform) -> None:
    source = step.transform.source
    if not isinstance(source, iobase.BoundedSource):
        for part in step.parts:
            made.translate(part)
        return
    splits = made.pipeline | f"{step.full_label}/Splits" >> Create(Splits.of(source))
    made.put(step, splits | step.full_label >> FlatMap(read_split))


Rule = Callable[[Translation, AppliedPTransform], None]
_RULES: dict[type, Rule] = {
    core.Impulse: _impulse,
    core.Create: _create,
    core.Flatten: _flatten,
    core.WindowInto: _window_into,
    core.GroupByKey: _group_by_key,
    core.CombinePerKey: _combine_per_key,
    core.ParDo: _par_do,
    util.Reshuffle: _reshuffle,
    iobase.Read: _read,
}
