"""A fused stage as the engine runs it: whole batches through one loop, exceptions of elements apart."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import cast

from headrace.lowlevel.columns import ColumnBatch
from headrace.lowlevel.computation import InlineComputation
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.failure import failed_step
from headrace.lowlevel.metric import at
from headrace.lowlevel.record import Batch, Emit
from headrace.sdk.fusion.columnar import ColumnRun, Paths, paths
from headrace.sdk.fusion.loop import LoopWriter
from headrace.sdk.fusion.passing import are_pairs, passed_on
from headrace.sdk.fusion.plan import ElementStep, Exit, Form, StagePlan, plain_form
from headrace.sdk.fusion.throughput import Throughput
from headrace.sdk.fusion.written import Loop
from headrace.sdk.lifecycle import call_hook, last_outputs, set_up, start_bundle
from headrace.sdk.panes import PANE_INFO_UNKNOWN, is_retraction
from headrace.sdk.pvalue import TaggedOutput
from headrace.sdk.shipping import shipped
from headrace.sdk.transforms.changelog import ChangelogFn
from headrace.sdk.transforms.element import DoFn
from headrace.sdk.windowedvalue import WindowedValue
from headrace.sdk.windows import BoundedWindow, TimestampedValue

Windows = tuple[BoundedWindow, ...]


class Stage(InlineComputation):
    """Element-wise steps on one collection, up to where its elements leave for other streams.

    Args:
        name: A name for error messages' source lines; the stage's name in the topology.
        plan: The steps; only this is shipped.
    """

    def __init__(self, name: str, plan: StagePlan) -> None:
        self.name = name
        self.plan = plan
        self._live: _LiveStage | None = None
        self._ending: ExitStack | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"name": self.name, "plan": self.plan, "_live": None, "_ending": None}

    def setup(self) -> None:
        """Set the steps' functions up, in copies of their own: what they open must not stick to the plan."""
        plan = shipped(self.plan, self.name)
        self._live = _LiveStage(self.name, plan)
        self._ending = set_up((step.label, step.fn) for step in plan.element_steps())

    def teardown(self) -> None:
        """Tear the steps' functions down, all of them even if one fails, and let go of them."""
        self._live, ending, self._ending = None, self._ending, None
        if ending is not None:
            ending.close()

    def has_teardown(self) -> bool:
        """Whether a step's function defines it."""
        return any(type(step.fn).teardown is not DoFn.teardown for step in self.plan.element_steps())

    def weak_streams(self, outputs: frozenset[str], weak_inputs: frozenset[str]) -> frozenset[str]:
        """Those that a step with weak productions puts out; what is only passed on is as strong as it came."""
        return outputs & self.plan.weak_streams(weak_inputs >= self.plan.entries.keys())

    @property
    def is_pure(self) -> bool:
        """Whether it need not call a function of the user's. One that is seen through does no harm if it is called."""
        return all(against is None for _, against in self.paths())

    def paths(self) -> Paths:
        """Each step, and where elements leave, with the reason why it never takes columns; None where it may."""
        return paths(self.plan)

    def loses_ids(self) -> bool:
        """Whether a step puts something out when its bundle ends."""
        return any(step.finishes() for step in self.plan.element_steps())

    def start_bundle(self) -> None:
        """Start a bundle in every step."""
        assert self._live is not None, "setup() comes first"
        self._live.start_bundle()

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Run a batch of an input stream through all steps."""
        assert self._live is not None, "setup() comes first"
        self._live.run(0, self.plan.entries[stream], batch, emit)

    def finish_bundle(self, emit: Emit) -> None:
        """Finish the bundle in every step; what they put out then goes through the steps behind."""
        assert self._live is not None, "setup() comes first"
        self._live.finish_bundle(emit)


class _LiveStage:
    """A stage's functions and loops in one process."""

    def __init__(self, name: str, plan: StagePlan) -> None:
        self._name = name
        self._plan = plan
        self._loops: dict[tuple[int, Form, frozenset[int] | None], Loop] = {}
        self._passing: dict[int, list[Exit] | None] = {}
        self._apart: dict[tuple[int, Form], tuple[list[object], list[int]]] = {}
        self._finishing = [step for step in plan.element_steps() if step.finishes()]
        self._throughput = Throughput(plan)
        self._columns = ColumnRun(plan, self._throughput, self._run_batch)

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
        self._throughput.tell()

    def _take_last(self, step: ElementStep, outputs: object) -> None:
        for tag, value in last_outputs(outputs):
            node = step.outputs.get(tag)
            if node is not None:
                self._put_windowed(node, value, 1, None)

    # Batches

    def run(self, node: int, form: Form, batch: Batch, emit: Emit) -> None:
        """Run elements of a collection through what reads it, and then those that were set apart on the way."""
        if isinstance(batch, ColumnBatch):
            self._columns.run(node, form, batch, emit)
        else:
            self._run_batch(node, form, batch, emit)
        self._drain(emit)

    def _run_batch(self, node: int, form: Form, batch: Batch, emit: Emit, only: frozenset[int] | None = None) -> None:
        self._run_loop(node, form, batch.values, batch.timestamps, emit, only)

    def _drain(self, emit: Emit) -> None:
        while self._apart:
            node, form = min(self._apart, key=lambda key: (key[0], key[1].value))
            self._run_loop(node, form, *self._apart.pop((node, form)), emit)

    def _run_loop(
        self,
        node: int,
        form: Form,
        values: Sequence[object],
        timestamps: Sequence[int],
        emit: Emit,
        only: frozenset[int] | None = None,
    ) -> None:
        self._throughput.add(node, len(values))
        if only is None and form is Form.PLAIN and self._pass_on(node, values, timestamps, emit):
            return
        loop = self._loops.get((node, form, only)) or self._write(node, form, only)
        try:
            with at(loop.current_step):
                self._throughput.add_all(loop.counts, loop.run(values, timestamps, emit))
        except StepError:
            raise
        except Exception as error:
            raise _located(error, loop) from error

    def _pass_on(self, node: int, values: Sequence[object], timestamps: Sequence[int], emit: Emit) -> bool:
        """Send the batch on as it is, if nothing is to be done with its elements."""
        if node not in self._passing:
            self._passing[node] = passed_on(self._plan, node)
        exits = self._passing[node]
        if exits is None or (any(leave.keyed for leave in exits) and not are_pairs(values)):
            return False
        for leave in exits:
            emit(leave.stream, Batch(values, timestamps))
        return True

    def _write(self, node: int, form: Form, only: frozenset[int] | None) -> Loop:
        filename = f"headrace/sdk/fusion/{self._name} {node} {form.value}"
        if only is not None:
            filename += f" {sorted(only)}"
        loop = LoopWriter(self._plan, self, filename).write(node, form, only)
        self._loops[node, form, only] = loop
        return loop

    # What a loop calls

    def later(self, node: int, form: Form) -> Callable[[object, int], None]:
        """See `Surroundings`."""

        def later(value: object, timestamp: int) -> None:
            values, timestamps = self._apart.setdefault((node, form), ([], []))
            values.append(value)
            timestamps.append(timestamp)

        return later

    def all_later(self, node: int, form: Form) -> Callable[[list[object], list[int]], None]:
        """See `Surroundings`."""

        def all_later(new_values: list[object], new_timestamps: list[int]) -> None:
            if new_values:
                values, timestamps = self._apart.setdefault((node, form), (new_values, new_timestamps))
                if values is not new_values:
                    values += new_values
                    timestamps += new_timestamps

        return all_later

    def refuse(self, number: int) -> Callable[[object], None]:
        """See `Surroundings`."""

        def refuse(result: object) -> None:
            raise TypeError(
                f"process returned the {type(result).__name__} {result!r:.80}, which is no iterable of outputs; "
                "yield it, or return a list with it"
            )

        return refuse

    def divert(self, number: int, form: Form) -> Callable[[object, int, Windows | None, object], None]:
        """See `Surroundings`."""
        step = cast(ElementStep, self._plan.steps[number])

        def divert(result: object, timestamp: int, windows: Windows | None, pane: object) -> None:
            self._put(step, result, timestamp, windows, pane, form)

        return divert

    def _put(
        self, step: ElementStep, result: object, timestamp: int, windows: Windows | None, pane: object, form: Form
    ) -> None:
        """Set an output apart that is more than a value: it has a tag, a timestamp or windows of its own.

        `windows` are those of the input, None for the one that its timestamp gives it. An input in several windows
        stands for as many elements, so it has its output as often.
        """
        tag: str | None = None
        if isinstance(result, TaggedOutput):
            tag, result = result.tag, result.value
        node = step.outputs.get(tag)
        if node is None:
            self._throughput.lose(step)
            return
        copies = 1 if windows is None else len(windows)
        if isinstance(result, TimestampedValue):
            self._put_timestamped(node, result, copies, pane if is_retraction(pane) else None)
        elif isinstance(result, WindowedValue):
            in_order = isinstance(step.fn, ChangelogFn)
            self._put_windowed(node, result, copies, pane if is_retraction(pane) and not in_order else None, in_order)
        elif form is Form.PLAIN:
            self.later(node, form)(result, timestamp)
        else:
            assert windows is not None, "only the form PLAIN leaves windows out"
            self.later(node, form)((result, windows[0] if form is Form.FIRED else windows, pane), timestamp)

    def _put_timestamped(self, node: int, result: TimestampedValue[object], copies: int, pane: object) -> None:
        """A value with a timestamp gets the windows of that timestamp; a retraction remains one."""
        form = plain_form(self._plan.windowings[node]) if pane is None else Form.WINDOWED
        timestamp = result.timestamp.micros
        value = result.value
        if form is Form.WINDOWED:
            value = (value, self._derived(node, value, timestamp), pane)
        later = self.later(node, form)
        for _ in range(copies):
            later(value, timestamp)

    def _put_windowed(
        self, node: int, result: WindowedValue, copies: int, otherwise: object, in_order: bool = False
    ) -> None:
        """A value with windows keeps them; if they are those of its timestamp, nothing need be carried.

        `otherwise` is the pane of a value that says none. What is to stay in order has one form, as each form
        goes on by itself.
        """
        timestamp = result.timestamp.micros
        windows = tuple(result.windows) * copies
        pane = otherwise if result.pane_info == PANE_INFO_UNKNOWN else result.pane_info
        is_plain = not in_order and pane is None and plain_form(self._plan.windowings[node]) is Form.PLAIN
        if is_plain and windows == self._derived(node, result.value, timestamp):
            self.later(node, Form.PLAIN)(result.value, timestamp)
        else:
            self.later(node, Form.WINDOWED)((result.value, windows, pane), timestamp)

    def _derived(self, node: int, value: object, timestamp: int) -> Windows:
        return self._plan.windowings[node].window_fn.assign_all((timestamp,), (value,))[0]


_NOT_ITERABLE = re.compile(r"'(\w+)' object is not iterable")
_EACH = "where each output is an item of what it returns; yield it, or return a list with it"


def _located(error: Exception, loop: Loop) -> Exception:
    """The error of the step at which the loop was left, with the element that it was at; or the error as it is."""
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename != loop.filename:
        traceback = traceback.tb_next
    place = loop.places.get(traceback.tb_lineno) if traceback is not None else None
    if traceback is None or place is None:
        return error
    # Python reads source lines for tracebacks from this cache.
    linecache.cache[loop.filename] = (1, None, [line + "\n" for line in loop.lines], loop.filename)
    element = traceback.tb_frame.f_locals[place.variable]
    returned = _NOT_ITERABLE.fullmatch(str(error)) if isinstance(error, TypeError) else None
    if returned is not None and traceback.tb_next is None:
        cause = f"TypeError: its function returned a value of type {returned[1]}, {_EACH}"
        return StepError(place.label, None, element, cause)
    if place.expects is None:
        return failed_step(error, place.label, None, element)
    return StepError(place.label, None, element, f"TypeError: it takes {place.expects}, got {element!r:.200}")
