"""A fused stage on columns: steps that know them hand batches on; from the first that does not, loops go on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import numbers_in
from headrace.lowlevel.columns import ColumnBatch, Shape, Times
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.failure import own_traceback
from headrace.lowlevel.record import Emit
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.sdk.buckets import EXACT
from headrace.sdk.columns.expression import Expression
from headrace.sdk.columns.fired import Fired, index_and_timing
from headrace.sdk.columns.seen import Seen, why_called
from headrace.sdk.columns.shape import pair
from headrace.sdk.columns.view import ColumnFunction, Unable, View, filtered, obstacle
from headrace.sdk.fusion.plan import ElementStep, Exit, Form, StagePlan, Step, WindowStep, always_one_window
from headrace.sdk.fusion.throughput import Throughput
from headrace.sdk.ptransform import label_of
from headrace.sdk.source import CALLED, is_watched
from headrace.sdk.transforms.element import FilterFn, FunctionDoFn, MapFn, MapTupleFn
from headrace.sdk.transforms.parameters import Given
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import FixedWindows, GlobalWindows, Sessions

_log = logging.getLogger(__name__)

_DEFECT = (
    "This is a defect of Headrace, not of your code: the step is computed for many elements at once, and that failed. "
    f"Please report it with what follows. With {CALLED}=1 in the environment, functions are called for each element; "
    "what a column expression computes can be written as a function."
)
_KNOWN = (Given.ELEMENT, Given.WINDOW, Given.TIMESTAMP, Given.PANE)
"""What an expression may be given; a tuple, as constants among the arguments need not have a hash."""
_REMEDY = "return only fields, items, arithmetic and comparisons of the element, or name its fields (col, Select)"
"""What makes a function one that need not be called."""


class RunLoop(Protocol):
    """Runs the loop from a collection inside the stage on."""

    def __call__(
        self, node: int, form: Form, batch: ColumnBatch, emit: Emit, only: frozenset[int] | None = None
    ) -> None:
        """Run it over the elements of a batch; `only` are the places of the readers that are to have them."""


def obstacle_to(plan: StagePlan, reader: Step | Exit, form: Form) -> str | None:
    """Why what reads a collection can never take its elements, which come in a form, as columns; None if it may."""
    if form not in (Form.PLAIN, Form.FIRED):
        return f"elements come with windows of their own (as {form.value})"
    if isinstance(reader, Exit):
        bare = reader.form is None or reader.form is form is Form.PLAIN
        return None if bare else "windows travel with the elements from here"
    if isinstance(reader, WindowStep):
        one = form is Form.FIRED or always_one_window(plan.windowings[reader.source])
        plain = reader.output_form(form, plan.windowings[reader.output]) is Form.PLAIN
        return None if one and plain else "elements may be in several windows, or in some that depend on their values"
    if type(reader.fn) not in (MapFn, FilterFn, MapTupleFn):
        return f"{type(reader.fn).__name__} runs Python code for each element"
    arguments = [*reader.arguments.positional, *(source for _, source in reader.arguments.named)]
    if arguments.count(Given.ELEMENT) != 1 or any(argument not in _KNOWN for argument in arguments):
        return "its function takes more than the element"
    if Given.PANE in arguments and form is Form.PLAIN:
        return "it looks at the pane, and elements come without"
    if Given.WINDOW in arguments and form is Form.PLAIN and not always_one_window(plan.windowings[reader.source]):
        return "it looks at the window, and elements may be in several"
    if reader.seen is not None:
        return None
    function = _function(reader)
    if not isinstance(function, ColumnFunction):
        return _called(function)
    if isinstance(reader.fn, FilterFn) and not isinstance(function, Expression):
        return obstacle(function) or "its condition is no column expression"
    if isinstance(reader.fn, MapTupleFn) is not getattr(function, "takes_items", False):
        return "its function takes the items of the element"
    return obstacle(function)


def _is_replaceable(step: ElementStep, seen: Seen) -> bool:
    """Whether nobody can tell that a step's function is not called."""
    return not is_watched() and seen.is_still(_function(step))


def _called(function: object) -> str:
    return f"{label_of(function)} is called for each"


def _function(step: ElementStep) -> object:
    assert isinstance(step.fn, FunctionDoFn), "other steps have obstacles"
    return step.fn.function


@dataclass(frozen=True, slots=True)
class _Onward:
    """A batch on its way to a collection or a stream."""

    batch: ColumnBatch
    node: int | None = None
    form: Form = Form.PLAIN
    stream: str = ""


class ColumnRun:
    """Takes batches of columns through a stage as far as they go as that."""

    def __init__(self, plan: StagePlan, throughput: Throughput, run_loop: RunLoop) -> None:
        self._plan, self._throughput, self._run_loop = plan, throughput, run_loop
        self._readers: dict[tuple[int, Form], list[Step | Exit | None]] = {}

    def run(self, node: int, form: Form, batch: ColumnBatch, emit: Emit) -> None:
        """Run elements of a collection through what reads it: first the readers that take columns, then the others."""
        onward: list[_Onward] = []
        others: set[int] = set()
        for place, reader in enumerate(self._readers_of(node, form)):
            ways = None if reader is None else self._ways(reader, form, batch)
            if ways is None:
                others.add(place)
            else:
                onward += ways
        if not others:
            self._throughput.add(node, len(batch))
        for way in onward:
            if way.node is None:
                emit(way.stream, way.batch)
            elif len(way.batch):
                self.run(way.node, way.form, way.batch, emit)
        if others:
            everybody = len(others) == len(self._readers_of(node, form))
            self._run_loop(node, form, batch, emit, None if everybody else frozenset(others))

    def _ways(self, reader: Step | Exit, form: Form, batch: ColumnBatch) -> list[_Onward] | None:
        """Where the batch goes at a reader and as what; None if its elements are to be taken one by one."""
        if isinstance(reader, ElementStep) and reader.seen is not None and not _is_replaceable(reader, reader.seen):
            return None
        try:
            return list(self._way(reader, form, batch))
        except Unable as unable:
            # The loop over the elements has their results, or the error to show.
            _log.debug("step %r takes a batch element by element: %s", reader.label, unable)
            return None
        except MemoryError:
            raise
        except Exception as error:
            raise StepError(reader.label, None, None, f"{_DEFECT}\n{own_traceback(error)}") from error

    def _readers_of(self, node: int, form: Form) -> list[Step | Exit | None]:
        """What reads a collection; None in the place of a reader that never takes columns."""
        if (node, form) not in self._readers:
            readers = [reader for _, reader in self._plan.consumers(node)]
            self._readers[node, form] = [
                None if obstacle_to(self._plan, reader, form) else reader for reader in readers
            ]
        return self._readers[node, form]

    def _way(self, reader: Step | Exit, form: Form, batch: ColumnBatch) -> Iterator[_Onward]:
        """What comes of a batch at one reader."""
        if isinstance(reader, Exit):
            view = self._view(reader.source, form, batch)
            shape = pair(*view.pair()) if reader.keyed else view.shape
            yield _Onward(_shaped(batch, shape), stream=reader.stream)
        elif isinstance(reader, WindowStep):
            yield _Onward(_shaped(batch, self._view(reader.source, form, batch).shape), reader.output)
        elif isinstance(reader.fn, FilterFn):
            kept = filtered(batch, self._mask(reader, form, batch))
            if None in reader.outputs:
                yield _Onward(kept, reader.outputs[None], form)
        else:
            mapped = self._mapped(reader, form, batch)
            if None in reader.outputs:
                yield _Onward(mapped, reader.outputs[None], form)

    def _mask(self, step: ElementStep, form: Form, batch: ColumnBatch) -> pa.Array:
        # Arrow's functions take a tenth of a second to load, which programs without columns need not wait for.
        from headrace.sdk.columns.vectors import mask_of

        view = self._view(step.source, form, batch)
        if step.seen is not None and (node := step.seen.node()) is not None:
            return mask_of(node, view)
        condition = _function(step)
        assert isinstance(condition, Expression), "other conditions are obstacles"
        return mask_of(condition.node, view)

    def _mapped(self, step: ElementStep, form: Form, batch: ColumnBatch) -> ColumnBatch:
        view = self._view(step.source, form, batch)
        shape = view.shape_of(step.seen or _function(step))
        return view.result(replace(batch.shape, value=shape) if isinstance(batch.shape, Fired) else shape)

    def _view(self, node: int, form: Form, batch: ColumnBatch) -> View:
        """The values of a batch, without what the form puts around them."""
        shape = batch.shape
        if form is Form.PLAIN:
            return View(batch.table, batch.times, shape, lambda: assigned(self._plan.windowings[node], batch.times))
        if not isinstance(shape, Fired):
            raise Unable("the windows are no columns")
        fired = shape
        panes = partial(index_and_timing, fired, batch.table)
        return View(batch.table, batch.times, fired.value, lambda: _fired_windows(batch, fired), panes)


def _shaped(batch: ColumnBatch, shape: Shape) -> ColumnBatch:
    return batch if shape == batch.shape else ColumnBatch(batch.table, batch.times, shape)


def _fired_windows(batch: ColumnBatch, shape: Fired) -> tuple[Times, Times]:
    if shape.in_global:
        return _everything(batch.times)
    start, end = (numbers_in(batch.table.column(place)) for place in (shape.start, shape.end))
    return start, end


def _everything(times: Times) -> tuple[Times, Times]:
    return np.full(len(times), MIN_TIMESTAMP, np.int64), np.full(len(times), END_OF_GLOBAL_WINDOW, np.int64)


def assigned(windowing: Windowing, times: Times) -> tuple[Times, Times]:
    """Start and end of the one window of each time, microseconds UTC. Raises `Unable` for others than the usual ones.

    >>> from headrace.sdk.windows import FixedWindows
    >>> assigned(Windowing(FixedWindows(10)), np.array([12_000_000]))
    (array([10000000]), array([20000000]))
    """
    window_fn = windowing.window_fn
    if type(window_fn) is GlobalWindows:
        return _everything(times)
    if len(times) and not -EXACT < times.min() <= times.max() < EXACT:
        raise Unable("some times are too near to the ends of time")
    if type(window_fn) is FixedWindows:
        size = window_fn.size.micros
        starts = times - (times - window_fn.offset.micros) % size
    elif type(window_fn) is Sessions:
        size, starts = window_fn.gap_size.micros, times
    else:
        raise Unable(f"{window_fn} are not assigned by column")
    if size >= EXACT:
        raise Unable("the windows are too long")
    return np.maximum(starts, MIN_TIMESTAMP), np.minimum(starts + size, MAX_TIMESTAMP)


Paths = list[tuple[str, str | None]]


def paths(plan: StagePlan) -> Paths:
    """Each step and exit of a stage, with the reason why it never takes columns, None if it may.

    Behind a step that takes elements one by one the reason is that step.
    """
    found: Paths = []

    def follow(node: int, form: Form, against: str | None) -> None:
        for _, reader in plan.consumers(node):
            why = against or _with_remedy(reader, obstacle_to(plan, reader, form))
            found.append((reader.label, why))
            # The first step that calls a function is the one to change.
            behind = against or (why and f"step {reader.label!r} gives them so")
            if isinstance(reader, WindowStep):
                follow(reader.output, reader.output_form(form, plan.windowings[reader.output]), behind)
            elif isinstance(reader, ElementStep):
                after = reader.output_form(form, plan.windowings[node])
                for output in reader.outputs.values():
                    follow(output, after, behind)

    for form in dict.fromkeys(plan.entries.values()):
        follow(0, form, None)
    return found


def _with_remedy(reader: Step | Exit, why: str | None) -> str | None:
    """Why a function is called for each element, and what its author can do; any other reason as it is."""
    if not (isinstance(reader, ElementStep) and isinstance(fn := reader.fn, FunctionDoFn)):
        return why
    if why != _called(fn.function):
        return why
    if (getattr(fn.function, "__module__", None) or "").startswith("headrace."):
        return "this part of the transform is written for one at a time"
    reason = why_called(fn.function, reader.arguments, fn.spread, isinstance(fn, FilterFn))
    return f"{why}, as {reason}; {_REMEDY}"
