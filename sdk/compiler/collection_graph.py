"""The steps of a pipeline that are compiled: who reads which collection, and what elements carry.

Elements are in a form with or without windows, and may be retractions: a grouping in the retracting mode puts these
out, element-wise steps pass them on, and the next grouping removes the retracted values (Streaming 102, listing 8). A
step that would treat a retraction as an ordinary element is refused when the pipeline is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.expressions.translated_function import TranslatedFunction
from headrace.sdk.expressions.udf_translation import translate_function
from headrace.sdk.functions.arguments import Given
from headrace.sdk.functions.changelog import RetractingFn, ToChanges
from headrace.sdk.functions.do_fn import DoFn, FilterFn, FunctionDoFn, MapFn, MapTupleFn
from headrace.sdk.graph.pvalue import Collection, PCollection, Step
from headrace.sdk.model.element_form import ElementForm
from headrace.sdk.model.late_element import LATE_DATA
from headrace.sdk.operators.fusion.stage_plan import ElementStep, WindowStep
from headrace.sdk.transforms.core.flatten import Flatten
from headrace.sdk.transforms.core.low_level import RunComputation, Source, Write
from headrace.sdk.transforms.core.par_do import MultiParDo, ParDo
from headrace.sdk.transforms.core.reshuffle import Shuffling
from headrace.sdk.transforms.core.steps import (
    FUSED,
    GROUPING,
    is_fused,
    par_do_of,
    runs_by_key,
    side_inputs_of,
    stream_of,
)
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.triggers import AccumulationMode
from headrace.sdk.windows.windowing import Windowing

RETRACTING = AccumulationMode.ACCUMULATING_AND_RETRACTING
_PUTTING_OUT = (*FUSED, *GROUPING, Shuffling, Flatten, Source)
_ENDING = (Write, RunComputation)
"""Transforms that are compiled even if nothing reads their outputs."""


class Retractions:
    """The collections that may have retractions, and whether a step has read their pane."""

    def __init__(self) -> None:
        self._may: dict[Collection, bool] = {}
        """Collection with retractions -> whether a step before it has read the pane."""

    def __contains__(self, collection: Collection) -> bool:
        return collection in self._may

    def grouped(self, step: Step, source: Collection, output: Collection) -> None:
        """Note a grouping; in the retracting mode it puts out retractions. Raises `TopologyError`."""
        windowing = source.windowing
        if source in self:
            _require_correctable(step, windowing)
        if windowing.accumulation_mode is RETRACTING and not windowing.puts_out_once:
            self._may[output] = False

    def looked_at(self, step: Step, side: Collection) -> None:
        """Note a side input, whose retracted values are removed from its windows. Raises `TopologyError`."""
        if side in self:
            _require_correctable(step, side.windowing)

    def passed_on(self, sources: list[Collection], output: Collection, by: ElementStep | None = None) -> None:
        """Note a step that passes retractions on, makes changes of them, or makes them of changes."""
        if by is not None and isinstance(by.fn, ToChanges):
            return
        if by is not None and isinstance(by.fn, RetractingFn):
            self._may[output] = False
            return
        pane_read = [self._may[source] for source in sources if source in self]
        if pane_read:
            reads_pane = by is not None and (Given.PANE in by.arguments or Given.WINDOWED_VALUE in by.arguments)
            self._may[output] = all(pane_read) or reads_pane

    def require_handled(self, step: Step, source: Collection, fn: DoFn) -> None:
        """Refuse a step that would keep retracted values, in state or until its bundle ends. Raises `TopologyError`."""
        if source in self and not fn.handles_retractions:
            what = "has a finish_bundle" if fn.has_finish_bundle() else "keeps state"
            raise TopologyError(
                f"step {step.full_label!r} {what}, and its input may have retractions; let its DoFn look at "
                "pane.is_retraction (DoFn.PaneInfoParam), take back what it keeps of such values, and say "
                "handles_retractions = True; or window with AccumulationMode.ACCUMULATING"
            )

    def require_shown(self, step: Step, source: Collection) -> None:
        """Refuse a step that gets bare values, unless a step before it has read the pane. Raises `TopologyError`."""
        if not self._may.get(source, True):
            raise TopologyError(
                f"step {step.full_label!r} gets values without their panes, so it would take retractions for results; "
                "put ToChangelog() before it, which makes insertions and deletions of them, or a Map with "
                "pane=DoFn.PaneInfoParam that drops what pane.is_retraction is true for; or window with "
                "AccumulationMode.ACCUMULATING"
            )


def _require_correctable(step: Step, windowing: Windowing) -> None:
    if windowing.accumulation_mode is AccumulationMode.DISCARDING and not windowing.puts_out_once:
        raise TopologyError(
            f"step {step.full_label!r} gets retractions, but its windows are emptied by each pane, so that it cannot "
            "take anything back; window its input with AccumulationMode.ACCUMULATING_AND_RETRACTING (or ACCUMULATING)"
        )


class CollectionGraph:
    """The primitive steps of a pipeline, and what is known of each collection between them."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = _leaves(steps)
        """The primitive steps, in the order in which they were applied."""
        self.readers: dict[Collection, list[tuple[Step, int]]] = {}
        """Collection -> the steps that read it, each with the index of the input."""
        self.forms: dict[Collection, ElementForm] = {}
        """Collection -> how its elements carry windows, unless a step chooses other windows."""
        self.side_inputs: dict[Collection, str] = {}
        """Collection that is a side input of some step -> the name of the side input."""
        self._open: set[Collection] = set()
        """Collections with elements whose windows a step may have chosen."""
        self._retractions = Retractions()
        for step in self.steps:
            for index, value in enumerate(step.inputs):
                if isinstance(value, PCollection):
                    if isinstance(step.transform, _ENDING):
                        self._retractions.require_shown(step, value)
                    self.readers.setdefault(value, []).append((step, index))
            for side in side_inputs_of(step):
                self.readers.setdefault(side.pvalue, [])
                self._retractions.looked_at(step, side.pvalue)
                self.side_inputs[side.pvalue] = f"{stream_of(side.pvalue)}#side"
            for output in step.outputs.values():
                self._trace_retractions(step, output)
                self.forms[output] = self._form(step, output)
                if self._may_choose_windows(step):
                    self._open.add(output)

    def side_input_readers(self, collection: Collection) -> list[str]:
        """Labels of the steps with this collection as a side input."""
        return [
            step.full_label for step in self.steps if any(side.pvalue is collection for side in side_inputs_of(step))
        ]

    def inputs(self, step: Step) -> list[Collection]:
        """The collections that a step reads."""
        return [value for value in step.inputs if isinstance(value, PCollection)]

    def begins_stage(self, collection: Collection) -> bool:
        """Whether the elements come from a stream of the topology rather than from a step in the same stage."""
        assert collection.producer is not None
        return collection.tag == LATE_DATA or not is_fused(collection.producer)

    def has_spare(self, collection: Collection) -> bool:
        """Whether a collection in the form PLAIN has a spare stream, for elements in windows that a step has chosen."""
        return self.forms[collection] is ElementForm.PLAIN and collection in self._open

    def may_retract(self, collection: Collection) -> bool:
        """Whether some elements may be retractions. Their form is never PLAIN."""
        return collection in self._retractions

    def joining(self, step: Step, count: int) -> list[Step] | None:
        """The steps of a join behind its grouping, if nothing else reads the groups."""
        collection, found = step.outputs[None], []
        for _ in range(count):
            readers = self.readers.get(collection, [])
            if len(readers) != 1 or collection in self.side_inputs or None not in readers[0][0].outputs:
                return None
            found.append(readers[0][0])
            collection = found[-1].outputs[None]
        return found

    def _trace_retractions(self, step: Step, output: Collection) -> None:
        sources = self.inputs(step)
        if output.tag == LATE_DATA:
            self._retractions.passed_on(sources, output)
        elif isinstance(step.transform, GROUPING):
            self._retractions.grouped(step, sources[0], output)
        elif isinstance(step.transform, (ParDo, MultiParDo)):
            fn = par_do_of(step).fn
            if runs_by_key(step) or fn.has_finish_bundle():
                self._retractions.require_handled(step, sources[0], fn)
            self._retractions.passed_on(sources, output, element_step(step, 0, {}))
        elif isinstance(step.transform, (WindowInto, Flatten, Shuffling)):
            self._retractions.passed_on(sources, output)

    def _form(self, step: Step, output: Collection) -> ElementForm:
        transform = step.transform
        if output.tag == LATE_DATA:
            return ElementForm.WINDOWED
        if isinstance(transform, GROUPING) or runs_by_key(step):
            return ElementForm.FIRED
        if isinstance(transform, FUSED):
            source = self.inputs(step)[0]
            if isinstance(transform, WindowInto):
                window_step = WindowStep(step.full_label, 0, 0, self.may_retract(source))
                return window_step.output_form(self.forms[source], output.windowing)
            return element_step(step, 0, {}).output_form(self.forms[source], source.windowing)
        if isinstance(transform, (Flatten, Shuffling)):
            return self._merged_form(step, output)
        return ElementForm.PLAIN

    def _merged_form(self, step: Step, output: Collection) -> ElementForm:
        """One form for all inputs: PLAIN only if all are in the windows of the output's window function."""
        same = all(source.windowing.window_fn == output.windowing.window_fn for source in self.inputs(step))
        plain = all(self.forms[source] is ElementForm.PLAIN for source in self.inputs(step))
        return ElementForm.PLAIN if same and plain else ElementForm.WINDOWED

    def _may_choose_windows(self, step: Step) -> bool:
        if runs_by_key(step):
            return False
        if isinstance(step.transform, (ParDo, MultiParDo)) and not isinstance(par_do_of(step).fn, FilterFn):
            return True
        if isinstance(step.transform, (ParDo, MultiParDo, Flatten, Shuffling)):
            return any(source in self._open for source in self.inputs(step))
        return False


def element_step(step: Step, source: int, outputs: dict[str | None, int]) -> ElementStep:
    """A `ParDo` as a step of a stage."""
    par_do = par_do_of(step)
    return ElementStep(step.full_label, par_do.fn, par_do.arguments, source, outputs)


def planned_step(step: Step, source: int, outputs: dict[str | None, int]) -> ElementStep:
    """A `ParDo` as a step of a stage that will run: with the translation of its function, if there is one."""
    return replace(element_step(step, source, outputs), seen=_translation(par_do_of(step)))


def _translation(par_do: ParDo) -> TranslatedFunction | None:
    fn = par_do.fn
    if type(fn) not in (MapFn, MapTupleFn, FilterFn):
        return None
    assert isinstance(fn, FunctionDoFn), "these three are"
    return translate_function(fn.function, par_do.arguments, fn.spread, isinstance(fn, FilterFn))


def _leaves(steps: Sequence[Step]) -> list[Step]:
    """The primitive steps among composite ones. Raises `TopologyError` for an output that no primitive step makes."""
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
