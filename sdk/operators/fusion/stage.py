"""Fused stages: element-wise steps between two groupings as one inline computation."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from traceback import walk_tb
from types import TracebackType
from typing import cast

from headrace.lowlevel.errors import StepError
from headrace.lowlevel.metric import at
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import InlineComputation
from headrace.lowlevel.user_errors import failed_step, packed
from headrace.sdk.expressions.expression_tree import COLUMN_EXPRESSION
from headrace.sdk.functions.do_fn import ColumnDoFn
from headrace.sdk.functions.lifecycle import HasLifecycle, RunsPlan, call_hook, last_outputs, start_bundle
from headrace.sdk.model.element_form import ElementForm, plain_form
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN, is_retraction
from headrace.sdk.model.special_outputs import TaggedOutput, TimestampedValue, WindowedValue, converted
from headrace.sdk.operators.fusion.loop_codegen import Loop, LoopWriter
from headrace.sdk.operators.fusion.stage_plan import (
    ElementStep,
    Exit,
    StagePlan,
    Throughput,
    are_pairs,
    pass_through_exits,
)
from headrace.sdk.operators.fusion.vectorized_stage import ColumnRun, Paths, paths
from headrace.sdk.windows import BoundedWindow

Windows = tuple[BoundedWindow, ...]


@named("Stage")
class Stage(RunsPlan[StagePlan, "_LiveStage"], InlineComputation):
    """The element-wise steps on one collection, up to the streams by which elements leave.

    A batch runs through one generated loop, or through the steps as columns.

    Args:
        name: The stage's name in the topology; it also names the generated source in tracebacks.
        plan: The steps; only this is shipped.
    """

    def make_live(self, plan: StagePlan) -> _LiveStage:
        """See `RunsPlan`."""
        return _LiveStage(self.name, plan)

    def functions(self, plan: StagePlan) -> list[tuple[str, HasLifecycle]]:
        """The functions of the steps."""
        return [(step.label, step.fn) for step in plan.element_steps()]

    def weak_streams(self, outputs: frozenset[str], weak_inputs: frozenset[str]) -> frozenset[str]:
        """Outputs of functions without `strong_productions`, and weak inputs that pass through."""
        weak = {0} if weak_inputs >= self.plan.entries.keys() else set()
        for step in self.plan.steps:
            if isinstance(step, ElementStep):
                weak.update(() if step.fn.strong_productions else step.outputs.values())
            elif step.source in weak:  # A `WindowInto` changes nothing.
                weak.add(step.output)
        return outputs & {
            name for exit_ in self.plan.exits if exit_.source in weak for name in (exit_.stream, exit_.spare)
        }

    @property
    def is_pure(self) -> bool:
        """Whether all steps may take columns by translated functions, which have no side effects."""
        takes = any(isinstance(step.fn, ColumnDoFn) for step in self.plan.element_steps())
        return not takes and all(reason is None for _, reason in self.paths())

    def paths(self) -> Paths:
        """Each step and exit with the reason why it never takes columns, or None if it may."""
        return paths(self.plan)

    def loses_ids(self) -> bool:
        """Whether a step puts out elements at the end of a bundle, which depend on several records."""
        return any(step.fn.has_finish_bundle() for step in self.plan.element_steps())

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Run a batch of an input stream through all steps."""
        self.live.run(0, self.plan.entries[stream], batch, emit)


class _LiveStage:
    """A stage's functions and loops in one process."""

    def __init__(self, name: str, plan: StagePlan) -> None:
        self._name = name
        self._plan = plan
        self._loops: dict[tuple[int, ElementForm, frozenset[int] | None], Loop] = {}
        self._pass_through: dict[int, list[Exit] | None] = {}
        self._deferred: dict[tuple[int, ElementForm], tuple[list[object], list[int]]] = {}
        self._finishing = [step for step in plan.element_steps() if step.fn.has_finish_bundle()]
        self._throughput = Throughput(plan)
        self._columns = ColumnRun(plan, self._throughput, self._run_loop, self._put_plain)

    def start_bundle(self) -> None:
        self._throughput.clear()
        for step in self._plan.element_steps():
            start_bundle(step.label, step.fn)

    def finish_bundle(self, emit: Emit) -> None:
        for step in self._finishing:
            outputs = call_hook(step.label, step.fn.finish_bundle)
            if outputs is not None:
                call_hook(step.label, partial(self._take_last, step, outputs))
                self._drain(emit)
        self._throughput.report()

    def _take_last(self, step: ElementStep, outputs: object) -> None:
        for tag, value in last_outputs(outputs):
            node = step.outputs.get(tag)
            if node is not None:
                self._put_windowed(node, value, 1, None, step.fn.keeps_order)

    # Batches

    def run(self, node: int, form: ElementForm, batch: Batch, emit: Emit) -> None:
        """Run elements of a collection through its readers, then the elements that were deferred on the way."""
        columns = batch if isinstance(batch, ColumnBatch) else self._columns.columns_of(node, form, batch)
        if columns is not None:
            self._columns.run(node, form, columns, emit)
        else:
            self._run_loop(node, form, batch, emit)
        self._drain(emit)

    def _drain(self, emit: Emit) -> None:
        while self._deferred:
            node, form = min(self._deferred, key=lambda key: (key[0], key[1].value))
            self._run_loop(node, form, Batch(*self._deferred.pop((node, form))), emit)

    def _run_loop(
        self, node: int, form: ElementForm, batch: Batch, emit: Emit, only: frozenset[int] | None = None
    ) -> None:
        """Run elements through a generated loop; `only` are indices of the readers that get them, None for all."""
        self._throughput.add(node, len(batch))
        if only is None and form is ElementForm.PLAIN and self._pass_on(node, batch, emit):
            return
        loop = self._loops.get((node, form, only)) or self._write(node, form, only)
        try:
            with at(loop.current_step):
                self._throughput.add_all(loop.counts, loop.run(batch.values, batch.timestamps, emit))
        except StepError:
            raise
        except Exception as error:
            raise _located(error, loop) from error

    def _pass_on(self, node: int, batch: Batch, emit: Emit) -> bool:
        """Send the batch on unchanged if no step does anything with its elements; whether it was sent."""
        if node not in self._pass_through:
            self._pass_through[node] = pass_through_exits(self._plan, node)
        exits = self._pass_through[node]
        if exits is None or (any(exit_.keyed for exit_ in exits) and not are_pairs(batch.values)):
            return False
        for exit_ in exits:
            emit(exit_.stream, Batch(batch.values, batch.timestamps))
        return True

    def _write(self, node: int, form: ElementForm, only: frozenset[int] | None) -> Loop:
        filename = f"headrace/sdk/fusion/{self._name} {node} {form.value}"
        if only is not None:
            filename += f" {sorted(only)}"
        loop = LoopWriter(self._plan, self, filename).write(node, form, only)
        self._loops[node, form, only] = loop
        return loop

    # `LoopCallbacks` of the generated loops

    def later(self, node: int, form: ElementForm) -> Callable[[object, int], None]:
        """See `LoopCallbacks`."""

        def later(value: object, timestamp: int) -> None:
            values, timestamps = self._deferred.setdefault((node, form), ([], []))
            values.append(value)
            timestamps.append(timestamp)

        return later

    def all_later(self, node: int, form: ElementForm) -> Callable[[list[object], list[int]], None]:
        """See `LoopCallbacks`."""

        def all_later(new_values: list[object], new_timestamps: list[int]) -> None:
            if new_values:
                values, timestamps = self._deferred.setdefault((node, form), (new_values, new_timestamps))
                if values is not new_values:
                    values += new_values
                    timestamps += new_timestamps

        return all_later

    def divert(self, number: int, form: ElementForm) -> Callable[[object, int, Windows | None, object], None]:
        """See `LoopCallbacks`."""
        step = cast(ElementStep, self._plan.steps[number])

        def divert(result: object, timestamp: int, windows: Windows | None, pane: object) -> None:
            self._put(step, result, timestamp, windows, pane, form)

        return divert

    def _put_plain(self, step: ElementStep, results: Iterable[object], timestamp: int) -> None:
        for result in results:
            self._put(step, result, timestamp, None, None, ElementForm.PLAIN)

    def _put(
        self,
        step: ElementStep,
        result: object,
        timestamp: int,
        windows: Windows | None,
        pane: object,
        form: ElementForm,
    ) -> None:
        """Defer an output that has a tag, a timestamp or windows of its own.

        `windows` are the windows of the input, None for the one window that follows from its timestamp. An input in
        several windows stands for one element per window, so its output is put out once per window.
        """
        tag: str | None = None
        result = converted(result)
        if isinstance(result, TaggedOutput):
            tag, result = result.tag, converted(result.value)
        node = step.outputs.get(tag)
        if node is None:
            self._throughput.count_lost(step)
            return
        copies = 1 if windows is None or not step.fn.outputs_per_window else len(windows)
        if isinstance(result, TimestampedValue):
            self._put_timestamped(node, result, copies, pane if is_retraction(pane) else None)
        elif isinstance(result, WindowedValue):
            in_order = step.fn.keeps_order
            self._put_windowed(node, result, copies, pane if is_retraction(pane) and not in_order else None, in_order)
        elif form is ElementForm.PLAIN:
            self.later(node, form)(result, timestamp)
        else:
            assert windows is not None, "windows are None in the form PLAIN only"
            self.later(node, form)((result, windows[0] if form is ElementForm.FIRED else windows, pane), timestamp)

    def _put_timestamped(self, node: int, result: TimestampedValue[object], copies: int, pane: object) -> None:
        """Defer a value with the windows of its new timestamp; `pane` is None unless the value is a retraction."""
        form = plain_form(self._plan.windowings[node]) if pane is None else ElementForm.WINDOWED
        timestamp = result.timestamp.micros
        value = result.value
        if form is ElementForm.WINDOWED:
            value = (value, self._derived(node, value, timestamp), pane)
        later = self.later(node, form)
        for _ in range(copies):
            later(value, timestamp)

    def _put_windowed(
        self, node: int, result: WindowedValue, copies: int, otherwise: object, in_order: bool = False
    ) -> None:
        """Defer a value with windows; the form is PLAIN if the windows follow from its timestamp.

        `otherwise` is the pane of a value without a pane of its own. With `in_order` all values get one form, as each
        form has a loop of its own.
        """
        timestamp = result.timestamp.micros
        windows = tuple(result.windows) * copies
        pane = otherwise if result.pane_info == PANE_INFO_UNKNOWN else result.pane_info
        is_plain = not in_order and pane is None and plain_form(self._plan.windowings[node]) is ElementForm.PLAIN
        if is_plain and windows == self._derived(node, result.value, timestamp):
            self.later(node, ElementForm.PLAIN)(result.value, timestamp)
        else:
            self.later(node, ElementForm.WINDOWED)((result.value, windows, pane), timestamp)

    def _derived(self, node: int, value: object, timestamp: int) -> Windows:
        return self._plan.windowings[node].window_fn.assign_all((timestamp,), (value,))[0]


_NOT_ITERABLE = re.compile(r"'(\w+)' object is not iterable")
_EACH = "where each output is an item of what it returns; yield it, or return a list with it"


def _located(error: Exception, loop: Loop) -> Exception:
    """A `StepError` with the step and element at which the loop raised; the error itself if no step is found."""
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename != loop.filename:
        traceback = traceback.tb_next
    line = loop.source_lines.get(traceback.tb_lineno) if traceback is not None else None
    if traceback is None or line is None:
        return error
    # Python reads source lines for tracebacks from this cache.
    linecache.cache[loop.filename] = (1, None, [text + "\n" for text in loop.lines], loop.filename)
    element = traceback.tb_frame.f_locals[line.variable]
    returned = _NOT_ITERABLE.fullmatch(str(error)) if isinstance(error, TypeError) else None
    if returned is not None and traceback.tb_next is None:
        cause = f"TypeError: its function returned a value of type {returned[1]}, {_EACH}"
        return StepError(line.label, None, element, cause, packed(error))
    if line.expects is None:
        _name_fields(error, element)
        return failed_step(error, line.label, None, element)
    cause = f"TypeError: it takes {line.expects}, got {element!r:.200}"
    return StepError(line.label, None, element, cause, packed(error))


def _name_fields(error: Exception, element: object) -> None:
    """Add the names of the fields that there are to the error of a column expression for one that is not there."""
    if not isinstance(error, KeyError) or not isinstance(element, Mapping) or error.__traceback__ is None:
        return
    *_, (last, _) = walk_tb(error.__traceback__)
    if last.f_code.co_name == COLUMN_EXPRESSION and error.args[0] not in element:
        there = ", ".join(map(str, element)) or "none"
        error.add_note(f"the element has no field {error.args[0]!r}; it has {there:.200}")
