"""The pipeline's graph as the compiler sees it: steps that do something, who reads what, and in which form it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.columns.seen import Seen, seen_through
from headrace.sdk.fusion.plan import ElementStep, Form, WindowStep
from headrace.sdk.pipeline import Step
from headrace.sdk.pvalue import PCollection
from headrace.sdk.retractions import Retractions
from headrace.sdk.sides.arguments import AsSideInput
from headrace.sdk.stateful.signature import Signature
from headrace.sdk.transforms.combine import CombinePerKey
from headrace.sdk.transforms.computation import RunComputation
from headrace.sdk.transforms.element import FilterFn, FunctionDoFn, MapFn, MapTupleFn, MultiParDo, ParDo
from headrace.sdk.transforms.flatten import Flatten
from headrace.sdk.transforms.group import GroupByKey
from headrace.sdk.transforms.reshuffle import Shuffling
from headrace.sdk.transforms.source import Source
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.transforms.write import Write

Collection: TypeAlias = PCollection[object]
FUSED = (ParDo, MultiParDo, WindowInto)
"""Transforms that run inside a stage, unless they are stateful."""
GROUPING = (GroupByKey, CombinePerKey)
"""Transforms that are a keyed computation of ours."""
_PUTTING_OUT = (*FUSED, *GROUPING, Shuffling, Flatten, Source)
_ENDING = (Write, RunComputation)
"""Transforms that do something even if nothing reads what they put out."""


class Graph:
    """Steps and collections of a pipeline."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = _leaves(steps)
        """The steps that do something themselves, in the order in which they were applied."""
        self.readers: dict[Collection, list[tuple[Step, int]]] = {}
        """Collection -> the steps that read it, with the number of the input that it is."""
        self.forms: dict[Collection, Form] = {}
        """Collection -> how its elements carry windows, so long as no step chooses other windows."""
        self.side_inputs: dict[Collection, str] = {}
        """Collection that is a side input of some step -> a name for it as that."""
        self._open: set[Collection] = set()
        self._retractions = Retractions()
        for step in self.steps:
            for index, value in enumerate(step.inputs):
                if isinstance(value, PCollection):
                    if isinstance(step.transform, _ENDING):
                        self._retractions.require_shown(step, value)
                    self.readers.setdefault(value, []).append((step, index))
            for side in sides_of(step):
                self.readers.setdefault(side.pvalue, [])
                self._retractions.looked_at(step, side.pvalue)
                self.side_inputs[side.pvalue] = f"{stream_of(side.pvalue)}#side"
            for output in step.outputs.values():
                self._trace_retractions(step, output)
                self.forms[output] = self._form(step, output)
                if self._may_choose_windows(step):
                    self._open.add(output)

    def lookers(self, collection: Collection) -> list[str]:
        """Labels of the steps that have a collection as a side input."""
        return [step.full_label for step in self.steps if any(side.pvalue is collection for side in sides_of(step))]

    def inputs(self, step: Step) -> list[Collection]:
        """The collections that a step reads."""
        return [value for value in step.inputs if isinstance(value, PCollection)]

    def begins_stage(self, collection: Collection) -> bool:
        """Whether the elements come from a stream of the topology, rather than from a step in the same stage."""
        assert collection.producer is not None
        return not is_fused(collection.producer)

    def has_spare(self, collection: Collection) -> bool:
        """Whether some elements may be in other windows than those that the form PLAIN lets them be in."""
        return self.forms[collection] is Form.PLAIN and collection in self._open

    def may_retract(self, collection: Collection) -> bool:
        """Whether some elements may be retractions. Their form is never PLAIN."""
        return collection in self._retractions

    def _trace_retractions(self, step: Step, output: Collection) -> None:
        sources = self.inputs(step)
        if isinstance(step.transform, GROUPING):
            self._retractions.grouped(step, sources[0], output)
        elif isinstance(step.transform, (ParDo, MultiParDo)):
            fn = par_do_of(step).fn
            if stateful_signature(step) is not None or fn.has_finish_bundle():
                self._retractions.require_handled(step, sources[0], fn)
            self._retractions.passed_on(sources, output, element_step(step, 0, {}))
        elif isinstance(step.transform, (WindowInto, Flatten, Shuffling)):
            self._retractions.passed_on(sources, output)

    def _form(self, step: Step, output: Collection) -> Form:
        transform = step.transform
        if isinstance(transform, GROUPING) or stateful_signature(step) is not None:
            return Form.FIRED
        if isinstance(transform, FUSED):
            source = self.inputs(step)[0]
            if isinstance(transform, WindowInto):
                window_step = WindowStep(step.full_label, 0, 0, self.may_retract(source))
                return window_step.output_form(self.forms[source], output.windowing)
            return element_step(step, 0, {}).output_form(self.forms[source], source.windowing)
        if isinstance(transform, (Flatten, Shuffling)):
            return self._flattened(step, output)
        return Form.PLAIN

    def _flattened(self, step: Step, output: Collection) -> Form:
        """One form for all inputs: PLAIN only if all are in the windows of the output's window function."""
        same = all(source.windowing.window_fn == output.windowing.window_fn for source in self.inputs(step))
        plain = all(self.forms[source] is Form.PLAIN for source in self.inputs(step))
        return Form.PLAIN if same and plain else Form.WINDOWED

    def _may_choose_windows(self, step: Step) -> bool:
        if stateful_signature(step) is not None:
            return False
        if isinstance(step.transform, (ParDo, MultiParDo)) and element_step(step, 0, {}).chooses_windows():
            return True
        if isinstance(step.transform, (ParDo, MultiParDo, Flatten, Shuffling)):
            return any(source in self._open for source in self.inputs(step))
        return False


def par_do_of(step: Step) -> ParDo:
    """The `ParDo` of a step that is one, with tagged outputs or without."""
    transform = step.transform
    return transform.par_do if isinstance(transform, MultiParDo) else cast(ParDo, transform)


def stateful_signature(step: Step) -> Signature | None:
    """The state and timers that a step uses; None if it is no stateful `ParDo`."""
    return par_do_of(step).signature if isinstance(step.transform, (ParDo, MultiParDo)) else None


def is_fused(step: Step) -> bool:
    """Whether a step runs inside a stage; one with side inputs begins it."""
    return isinstance(step.transform, FUSED) and stateful_signature(step) is None


def sides_of(step: Step) -> list[AsSideInput]:
    """The side inputs of a step, in the order of its arguments."""
    return par_do_of(step).side_inputs if isinstance(step.transform, (ParDo, MultiParDo)) else []


def stream_of(collection: Collection) -> str:
    """The label of the step that puts a collection out, with its tag: the stream that carries it, if one does."""
    producer = collection.producer
    assert producer is not None
    return producer.full_label if collection.tag is None else f"{producer.full_label}.{collection.tag}"


def element_step(step: Step, source: int, outputs: dict[str | None, int]) -> ElementStep:
    """A `ParDo`'s place in a stage."""
    par_do = par_do_of(step)
    return ElementStep(step.full_label, par_do.fn, par_do.arguments, source, outputs)


def planned_step(step: Step, source: int, outputs: dict[str | None, int]) -> ElementStep:
    """The same for a plan that is to run, with what its function returns, as far as that is known."""
    return replace(element_step(step, source, outputs), seen=_seen(par_do_of(step)))


def _seen(par_do: ParDo) -> Seen | None:
    fn = par_do.fn
    if type(fn) not in (MapFn, MapTupleFn, FilterFn):
        return None
    assert isinstance(fn, FunctionDoFn), "these three are"
    return seen_through(fn.function, par_do.arguments, fn.spread, isinstance(fn, FilterFn))


def _leaves(steps: Sequence[Step]) -> list[Step]:
    leaves = []
    for step in steps:
        transform = step.transform
        if isinstance(transform, Write) and not transform.is_whole(step.inputs):
            continue
        if isinstance(transform, _ENDING) or (step.outputs and isinstance(transform, _PUTTING_OUT)):
            leaves.append(step)
        elif step.outputs:
            raise TopologyError(
                f"step {step.full_label!r} puts out a collection that no step inside it makes; "
                "build its output with other transforms in expand()"
            )
    return leaves
