"""A fused stage over columns: a column batch goes from step to step up to the first step that needs single elements."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.records.column_batch import ColumnBatch, Times, ValueSchema
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.user_errors import own_traceback
from headrace.sdk.expressions.batch_view import BatchView, ColumnFunction, Unable, filtered, why_not_vectorized
from headrace.sdk.expressions.element_schema import Fired, index_and_timing, pair
from headrace.sdk.expressions.expression import Expression
from headrace.sdk.expressions.translated_function import TranslatedFunction
from headrace.sdk.expressions.udf_translation import why_not_translated
from headrace.sdk.functions.arguments import Constant, Given, given_of
from headrace.sdk.functions.do_fn import ColumnDoFn, FilterFn, FunctionDoFn, MapFn, MapTupleFn
from headrace.sdk.model.element_form import ElementForm, always_one_window, plain_form
from headrace.sdk.model.function_ast import CALLED, must_call
from headrace.sdk.model.labels import place_of
from headrace.sdk.operators.fusion.stage_plan import ElementStep, Exit, StagePlan, Step, Throughput, WindowStep
from headrace.sdk.windows import GlobalWindows, WindowFn
from headrace.sdk.windows.slices import window_bounds

_log = logging.getLogger(__name__)

ONE_AT_A_TIME = "this part of the transform takes one element at a time"
"""The reason of a function of the engine's own."""
_DEFECT = (
    "This is a defect of Headrace, not of your code: the step is computed for many elements at once, and that failed. "
    f"Please report it with the traceback below. With {CALLED}=1 in the environment, functions are called for each "
    "element; a column expression can be written as a function."
)
_KNOWN = (Given.ELEMENT, Given.WINDOW, Given.TIMESTAMP, Given.PANE)
"""Arguments that a function on columns may take; a tuple, as other arguments may be constants without a hash."""
_REMEDY = "return only fields, items, arithmetic and comparisons of the element, or name its fields (col, Select)"
"""What the author of a function can do so that the function is translated."""


_FEW = 2_000
"""Fewer Python values than these are faster in a loop: each step over columns takes some 50 µs, whatever the number."""
_LONGEST_PAUSE = 64
RunLoop = Callable[[int, ElementForm, ColumnBatch, Emit, frozenset[int] | None], None]
"""Runs the generated loop that begins at a collection of the stage; see `_LiveStage`."""
Put = Callable[[ElementStep, Iterable[object], int], None]
"""Takes outputs of a step that are single elements; their timestamp is microseconds UTC."""


def obstacle_to(plan: StagePlan, reader: Step | Exit, form: ElementForm) -> str | None:
    """Why a reader of a collection can never take elements of a form as columns; None if it may."""
    if form not in (ElementForm.PLAIN, ElementForm.FIRED):
        return f"elements carry windows or side values (form {form.value})"
    if isinstance(reader, Exit):
        without_windows = reader.form is None or reader.form is form is ElementForm.PLAIN
        return None if without_windows else "its stream carries windows with the elements"
    if isinstance(reader, WindowStep):
        one_window = form is ElementForm.FIRED or always_one_window(plan.windowings[reader.source])
        plain = reader.output_form(form, plan.windowings[reader.output]) is ElementForm.PLAIN
        return None if one_window and plain else "elements may be in several windows, or windows may depend on values"
    if isinstance(reader.fn, ColumnDoFn):
        is_global = form is ElementForm.PLAIN and type(plan.windowings[reader.source].window_fn) is GlobalWindows
        return None if is_global else f"{type(reader.fn).__name__} takes columns in the global window only"
    if type(reader.fn) not in (MapFn, FilterFn, MapTupleFn):
        kind = type(reader.fn)
        is_private = kind.__name__.startswith("_") and kind.__module__.startswith("headrace.")
        return ONE_AT_A_TIME if is_private else f"{kind.__name__} runs Python code for each element"
    arguments = list(map(given_of, reader.arguments.sources()))
    if arguments.count(Given.ELEMENT) != 1 or any(argument not in _KNOWN for argument in arguments):
        return "its function takes arguments that columns do not have"
    if Given.PANE in arguments and form is ElementForm.PLAIN:
        return "its function takes the pane, and elements come without panes"
    if (
        Given.WINDOW in arguments
        and form is ElementForm.PLAIN
        and not always_one_window(plan.windowings[reader.source])
    ):
        return "its function takes the window, and elements may be in several windows"
    if reader.seen is not None:
        return _obstacle_to_times(plan, reader, form) if reader.seen.event_time else None
    function = _function(reader)
    if not isinstance(function, ColumnFunction):
        return _called(function)
    if isinstance(reader.fn, FilterFn) and not isinstance(function, Expression):
        return why_not_vectorized(function) or "its condition is not a column expression"
    if isinstance(reader.fn, MapTupleFn) is not getattr(function, "takes_items", False):
        return "its function does not take the element as the step passes it (as one argument, or item by item)"
    return why_not_vectorized(function)


def _obstacle_to_times(plan: StagePlan, step: ElementStep, form: ElementForm) -> str | None:
    """Why outputs with event times of their own can never be columns; None if they may be."""
    before, after = plan.windowings[step.source], plan.windowings[step.outputs.get(None, step.source)]
    is_one = form is ElementForm.PLAIN and always_one_window(before)
    if is_one and plain_form(after) is ElementForm.PLAIN:
        return None
    return "its function gives elements other timestamps, and windows are not made of these"


def _is_last(reader: Step | Exit) -> bool:
    """Whether a reader is a step without windows: nothing reads what it puts out, and it takes none."""
    if not isinstance(reader, ElementStep) or reader.outputs:
        return False
    sources = [given_of(source) for source in reader.arguments.sources()]
    return all(isinstance(source, Constant) or source in (Given.ELEMENT, Given.TIMESTAMP) for source in sources)


def _is_replaceable(step: ElementStep, seen: TranslatedFunction) -> bool:
    """Whether the translation can stand for the step's function without anyone noticing."""
    return not must_call() and seen.is_still(_function(step))


def _called(function: object) -> str:
    return f"{place_of(function)} is called for each"


def _function(step: ElementStep) -> object:
    assert isinstance(step.fn, FunctionDoFn), "obstacle_to() excludes other steps"
    return step.fn.function


@dataclass(frozen=True, slots=True)
class _Output:
    """A batch that a reader makes, and the collection or stream that it goes to."""

    batch: ColumnBatch
    node: int | None = None
    """Number of the collection; None for a stream."""
    form: ElementForm = ElementForm.PLAIN
    stream: str = ""


class ColumnRun:
    """Runs column batches through the steps of a stage; readers that need single elements get the generated loop."""

    def __init__(self, plan: StagePlan, throughput: Throughput, run_loop: RunLoop, put: Put) -> None:
        self._plan, self._throughput, self._run_loop, self._put = plan, throughput, run_loop, put
        self._readers: dict[tuple[int, ElementForm], list[Step | Exit | None]] = {}
        self._refused: dict[int, int] = {}
        """Number of a collection -> how many batches to leave as they are after the last one that was no columns."""
        self._untried: dict[int, int] = {}
        """Number of a collection -> how many of these are still to come."""

    def run(self, node: int, form: ElementForm, batch: ColumnBatch, emit: Emit) -> None:
        """Run a batch of a collection through its readers: first those that take columns, then the others in a loop."""
        outputs: list[_Output] = []
        others: set[int] = set()
        readers = self._readers_of(node, form)
        for index, reader in enumerate(readers):
            batches = None if reader is None else self._outputs(reader, form, batch)
            if reader is None or batches is None:
                others.add(index)
            else:
                outputs += batches
                self._throughput.add_by_column(reader.label, len(batch))
        if not others:
            self._throughput.add(node, len(batch))
        for output in outputs:
            if output.node is None:
                emit(output.stream, output.batch)
            elif len(output.batch):
                self.run(output.node, output.form, output.batch, emit)
        if others:
            form, batch = self._for_loop(node, form, batch, others)
            self._run_loop(node, form, batch, emit, None if len(others) == len(readers) else frozenset(others))

    def columns_of(self, node: int, form: ElementForm, batch: Batch) -> ColumnBatch | None:
        """Elements that are Python values as columns, if all steps take these; None for others.

        Where the elements of a batch are no columns, those of the next batches are not tried.
        """
        if len(batch) < _FEW or batch.ids is not None or form is not ElementForm.PLAIN or not self._computes:
            return None
        if waiting := self._untried.get(node, 0):
            self._untried[node] = waiting - 1
            return None
        # Arrow's functions take a tenth of a second to load, which programs without columns need not wait for.
        from headrace.sdk.operators.combining.value_columns import element_columns

        found = element_columns(batch.values)
        if found is None:
            self._refused[node] = min(2 * self._refused.get(node, 1), _LONGEST_PAUSE)
            self._untried[node] = self._refused[node]
            return None
        table = pa.RecordBatch.from_arrays(found.columns, list(map(str, range(len(found.columns)))))
        return ColumnBatch(table, np.asarray(batch.instants(), np.int64), found.shape, list(batch.values))

    @cached_property
    def _computes(self) -> bool:
        """Whether functions compute with columns, and no step needs the single elements again."""
        return any(self._plan.element_steps()) and all(reason is None for _, reason in paths(self._plan))

    def _for_loop(
        self, node: int, form: ElementForm, batch: ColumnBatch, others: set[int]
    ) -> tuple[ElementForm, ColumnBatch]:
        """A batch for a loop: without windows and panes if no reader in the loop could tell, as making them takes time.

        Args:
            node: Number of the collection.
            form: The form of its elements.
            batch: The elements.
            others: Indices of the readers that get them in the loop.
        """
        shape, readers = batch.shape, self._plan.consumers(node)
        if not isinstance(shape, Fired) or not always_one_window(self._plan.windowings[node]):
            return form, batch
        if not all(_is_last(readers[index][1]) for index in others):
            return form, batch
        return ElementForm.PLAIN, ColumnBatch(batch.table, batch.times, shape.value)

    def _outputs(self, reader: Step | Exit, form: ElementForm, batch: ColumnBatch) -> list[_Output] | None:
        """What a reader makes of a batch; None if the reader needs single elements.

        Raises `StepError` if the computation fails, which is a defect of Headrace.
        """
        if isinstance(reader, ElementStep) and reader.seen is not None and not _is_replaceable(reader, reader.seen):
            return None
        try:
            return list(self._vectorized(reader, form, batch))
        except Unable as unable:
            # The loop over the elements gives the results, or the error of the user's function.
            _log.debug("step %r takes a batch element by element: %s", reader.label, unable)
            return None
        except MemoryError:
            raise
        except Exception as error:
            raise StepError(reader.label, None, None, f"{_DEFECT}\n{own_traceback(error, whole=True)}") from error

    def _readers_of(self, node: int, form: ElementForm) -> list[Step | Exit | None]:
        """The readers of a collection in the order of `StagePlan.consumers`; None for one that never takes columns."""
        if (node, form) not in self._readers:
            readers = [reader for _, reader in self._plan.consumers(node)]
            self._readers[node, form] = [
                None if obstacle_to(self._plan, reader, form) else reader for reader in readers
            ]
        return self._readers[node, form]

    def _vectorized(self, reader: Step | Exit, form: ElementForm, batch: ColumnBatch) -> Iterator[_Output]:
        """What a reader makes of a batch; raises `Unable` if only single elements can tell."""
        if isinstance(reader, Exit):
            view = self._view(reader.source, form, batch)
            schema = pair(*view.pair()) if reader.keyed else view.shape
            yield _Output(_with_schema(batch, schema), stream=reader.stream)
        elif isinstance(reader, WindowStep):
            yield _Output(_with_schema(batch, self._view(reader.source, form, batch).shape), reader.output)
        elif isinstance(reader.fn, ColumnDoFn):
            self._take(reader, reader.fn, batch)
        elif isinstance(reader.fn, FilterFn):
            passed = filtered(batch, self._mask(reader, form, batch))
            if None in reader.outputs:
                yield _Output(passed, reader.outputs[None], form)
        else:
            mapped = self._mapped(reader, form, batch)
            if None in reader.outputs:
                yield _Output(mapped, reader.outputs[None], form)

    def _take(self, step: ElementStep, fn: ColumnDoFn, batch: ColumnBatch) -> None:
        if len(batch):
            outputs = fn.take_columns(batch)
            if outputs is None:
                raise Unable("its elements are taken one by one")
            self._put(step, outputs, int(batch.times[0]))

    def _mask(self, step: ElementStep, form: ElementForm, batch: ColumnBatch) -> pa.Array:
        # Arrow's functions take a tenth of a second to load, which programs without columns need not wait for.
        from headrace.sdk.expressions.arrow_evaluation import mask_of

        # `obstacle_to` excludes other conditions.
        node = step.seen.node() if step.seen is not None else cast(Expression, _function(step)).node
        assert node is not None, "a condition is translated as a truth value"
        return mask_of(node, self._view(step.source, form, batch))

    def _mapped(self, step: ElementStep, form: ElementForm, batch: ColumnBatch) -> ColumnBatch:
        view = self._view(step.source, form, batch)
        schema = view.shape_of(step.seen or _function(step))
        return view.result(replace(batch.shape, value=schema) if isinstance(batch.shape, Fired) else schema)

    def _view(self, node: int, form: ElementForm, batch: ColumnBatch) -> BatchView:
        """The values of a batch without their windows and panes; raises `Unable` if the windows are not columns."""
        schema = batch.shape
        if form is ElementForm.PLAIN:
            return BatchView(
                batch.table, batch.times, schema, lambda: _assigned(self._plan.windowings[node].window_fn, batch.times)
            )
        if not isinstance(schema, Fired):
            raise Unable("the windows are not columns")
        start, end = (batch.table.column(index) for index in (schema.start, schema.end))
        panes = partial(index_and_timing, schema, batch.table)
        return BatchView(batch.table, batch.times, schema.value, lambda: (numbers_in(start), numbers_in(end)), panes)


def _with_schema(batch: ColumnBatch, schema: ValueSchema) -> ColumnBatch:
    return batch if schema == batch.shape else ColumnBatch(batch.table, batch.times, schema)


def _assigned(window_fn: WindowFn, times: Times) -> tuple[Times, Times]:
    """See `window_bounds`; raises `Unable` where only single elements have windows."""
    bounds = window_bounds(window_fn, times)
    if bounds is None:
        raise Unable(f"{window_fn} cannot be assigned over columns to all of these timestamps")
    return bounds


Paths = list[tuple[str, str | None]]


def paths(plan: StagePlan) -> Paths:
    """Each step and exit of a stage, with the reason why it never takes columns, None if it may.

    If a step takes elements one by one, that step is the reason for all steps behind it.
    """
    reasons: Paths = []

    def follow(node: int, form: ElementForm, earlier: str | None) -> None:
        for _, reader in plan.consumers(node):
            reason = earlier or _with_remedy(reader, obstacle_to(plan, reader, form))
            reasons.append((reader.label, reason))
            # The first step that takes elements one by one is the one to change.
            behind = earlier or (reason and f"step {reader.label!r} gives them so")
            if isinstance(reader, WindowStep):
                follow(reader.output, reader.output_form(form, plan.windowings[reader.output]), behind)
            elif isinstance(reader, ElementStep):
                after = reader.output_form(form, plan.windowings[node])
                for output in reader.outputs.values():
                    follow(output, after, behind)

    for form in dict.fromkeys(plan.entries.values()):
        follow(0, form, None)
    return reasons


def _with_remedy(reader: Step | Exit, reason: str | None) -> str | None:
    """A reason; if it is that a function is called for each element, with the cause and the remedy."""
    if not (isinstance(reader, ElementStep) and isinstance(fn := reader.fn, FunctionDoFn)):
        return reason
    if reason != _called(fn.function):
        return reason
    if (getattr(fn.function, "__module__", None) or "").startswith("headrace."):
        return ONE_AT_A_TIME
    cause = why_not_translated(fn.function, reader.arguments, fn.spread, isinstance(fn, FilterFn))
    return f"{reason}, as {cause}; {_REMEDY}"
