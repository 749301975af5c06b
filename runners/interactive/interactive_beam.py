"""Computes the elements of a collection at once: `collect` returns them, `show` shows them (Beam's `interactive_beam`).

    from headrace.runners.interactive import interactive_beam as ib

    ib.collect(pipeline | beam.Create([1, 2]) | beam.Map(abs))     # [1, 2]
    ib.show(sums, include_window_info=True)                        # a table

Only the steps on which the collection depends run, in memory, from the beginning of the input to its end. Nothing is
written: sinks of the pipeline do not run, and there is no checkpoint. `collect` returns a list, where Beam returns a
pandas DataFrame. `show` makes a table, in HTML in a notebook and as text elsewhere.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from typing import cast

from headrace.absent_names.absent_modules import add_absent_names
from headrace.lowlevel.errors import HeadraceError, StepError
from headrace.lowlevel.sinks.sink import CallSink
from headrace.lowlevel.time import Timestamp
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.user_errors import as_raised
from headrace.runners.engine.options import RunOptions, run_options
from headrace.sdk.compiler.compiler import compile_steps
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.pvalue import PCollection, Step
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.model.row import Row
from headrace.sdk.model.short_text import count_text, table, text_of
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.pipeline.runner_choice import Runner, find_runner
from headrace.sdk.pipeline.tracebacks import shorten
from headrace.sdk.recording.recorded_step import tap
from headrace.sdk.testing.stream import TestStream
from headrace.sdk.transforms.core.low_level import Source
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.transforms.core.steps import side_inputs_of
from headrace.sdk.windows import BoundedWindow

__all__ = ["collect", "show"]
_MOST = 1_000
"""Greatest number of lines of a table; the title has the number of all elements."""
_log = logging.getLogger(__name__)

_LABEL = "interactive"


def collect(
    pcoll: PCollection[object],
    n: float = math.inf,
    include_window_info: bool = False,
    runner: Runner | str = "LocalRunner",
) -> list[object]:
    """Return the elements of a collection, in no particular order.

    Args:
        pcoll: The collection. Its pipeline need not have run, and is not changed.
        n: Greatest number of elements to return; the steps run to the end of the input nevertheless.
        include_window_info: Whether to return `WindowedValue`s, with timestamp, windows and pane.
        runner: The runner of the steps; by default they run in memory.

    Raises:
        TypeError: `pcoll` is not a collection.
        ValueError: `n` is less than 0, or a source has no end, so that the elements would never be complete.
        StepError: A step raised; the error is also an instance of the class that the step raised, as with
            `Pipeline.run`.

    >>> from headrace import Create, Pipeline
    >>> numbers = Pipeline("LocalRunner") | Create([1, -2, 3]) | Map(abs)
    >>> sorted(collect(numbers)), len(collect(numbers, n=2))
    ([1, 2, 3], 2)
    """
    if not isinstance(pcoll, PCollection):
        raise TypeError(f"collect takes a collection, got {pcoll!r:.200}; give what a transform was applied to, say")
    if not n >= 0:
        raise ValueError(f"n is {n!r}; give how many elements at most, or leave it out for all")
    try:
        found = _windowed_values(pcoll, find_runner(runner))
    except HeadraceError as error:
        # The traceback is shortened here, as callers of this function add their frames later.
        shorten(error)
        raise
    found = found if n == math.inf else found[: int(n)]
    return list(found) if include_window_info else [element.value for element in found]


def show(
    *pcolls: PCollection[object],
    include_window_info: bool = False,
    n: float = math.inf,
    runner: Runner | str = "LocalRunner",
) -> None:
    """Show the elements of collections as tables in a notebook, and as text elsewhere.

    Arguments and errors are those of `collect`.

    >>> from headrace import Create, Pipeline
    >>> show(Pipeline("LocalRunner") | "Teams" >> Create([{"team": "red", "points": 5}]))
    Teams: 1 element
    team  points
    red   5
    """
    for pcoll in pcolls:
        found = cast("list[WindowedValue]", collect(pcoll, n, True, runner))
        label = "" if pcoll.producer is None else pcoll.producer.full_label
        Elements(label, found, include_window_info).display()


def _windowed_values(pcoll: PCollection[object], runner: Runner) -> list[WindowedValue]:
    """Run the steps on which a collection depends, and return all its elements in the order of epochs."""
    delivered: dict[int, list[WindowedValue]] = {}

    def deliver(epoch: int, rows: Sequence[tuple[object, int]]) -> None:
        delivered[epoch] = [WindowedValue(*cast("_Parts", value)) for value, _ in rows]

    needed = _steps_before(pcoll)
    _require_end(needed)
    steps = [*needed, *tap(_LABEL, pcoll, Map(_parts), CallSink(deliver))]
    options = replace(run_options(pcoll.pipeline.options), checkpoint=None)
    _run(runner, compile_steps(steps), options)
    return [element for epoch in sorted(delivered) for element in delivered[epoch]]


def _run(runner: Runner, topology: Topology, options: RunOptions) -> None:
    try:
        runner.run_topology(topology, options)
    except StepError as error:
        made = as_raised(error)
        if made is error:
            raise
        raise made.with_traceback(error.__traceback__) from made.__cause__


def _steps_before(pcoll: PCollection[object]) -> list[Step]:
    """Return the steps on which a collection depends, including side inputs, in the order of the program."""
    needed: set[int] = set()
    waiting: list[PCollection[object]] = [pcoll]
    for collection in waiting:
        step = collection.producer
        if step is not None and id(step) not in needed:
            needed.add(id(step))
            waiting += [value for value in step.inputs if isinstance(value, PCollection)]
            waiting += [side.pvalue for side in side_inputs_of(step)]
    return [step for step in pcoll.pipeline.steps if id(step) in needed]


def _require_end(steps: Sequence[Step]) -> None:
    """Raise `ValueError` for a source without an end, and warn of a step that may have none."""
    for step in steps:
        transform = step.transform
        if isinstance(transform, TestStream):
            continue
        if isinstance(transform, Source) and not transform.is_bounded:
            raise ValueError(
                f"source {step.full_label!r} has no end, so its elements would never be complete; read it with an end "
                "(ReadFromKafka with bounded=True, files without continuous=True), or run the pipeline with a sink"
            )
        begins = all(value.is_bounded for value in step.inputs if isinstance(value, PCollection))
        if begins and any(not output.is_bounded for output in step.outputs.values()):
            _log.warning(
                "step %r may have no end; if it has none, this waits for ever: interrupt it, and give the step an end, "
                "such as the stop_timestamp of PeriodicImpulse",
                step.full_label,
            )


_Parts = tuple[object, Timestamp, list[BoundedWindow], PaneInfo]
"""Value, timestamp, windows and pane of an element. It is a tuple, as a `WindowedValue` would set the window."""


def _parts(
    element: object,
    timestamp: Timestamp = DoFn.TimestampParam,
    window: BoundedWindow = DoFn.WindowParam,
    pane: PaneInfo = DoFn.PaneInfoParam,
) -> _Parts:
    return element, timestamp, [window], pane


add_absent_names(__name__)


class Elements:
    """The table of the elements of a collection, which `show` displays.

    Args:
        label: Label of the step that puts the collection out.
        found: The elements of the collection.
        with_windows: Whether the table has columns for timestamp, windows and the timing of the pane.

    >>> Elements("Sum", [WindowedValue(("red", 5), 0, ()), WindowedValue(("blue", 7), 0, ())])
    Sum: 2 elements
    0     1
    red   5
    blue  7
    """

    def __init__(self, label: str, found: Sequence[WindowedValue], with_windows: bool = False) -> None:
        more = f", the first {_MOST:,} of them" if len(found) > _MOST else ""
        self._title = f"{label}: {count_text(len(found), 'element')}{more}"
        self._names, self._rows = _table([element.value for element in found[:_MOST]])
        if with_windows:
            self._names = [*self._names, "event time", "window", "pane"]
            details = [
                [str(each.timestamp), ", ".join(map(str, each.windows)), str(each.pane_info.timing.name)]
                for each in found[:_MOST]
            ]
            self._rows = [[*row, *more] for row, more in zip(self._rows, details, strict=True)]

    def display(self) -> None:
        """Show the table in the notebook if there is one, else print it."""
        ipython = sys.modules.get("IPython")
        if ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None:
            import_module("IPython.display").display(self)
        else:
            print(self)

    def __repr__(self) -> str:
        lines = [self._names, *self._rows] if self._rows else []
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)
        return "\n".join([self._title, *(line.rstrip() for line in padded)])

    def _repr_html_(self) -> str:
        return table(self._title, self._names, self._rows)


def _table(values: Sequence[object]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns, and the rows.

    There is one column for each field if all elements have the same fields, else a single column.
    """
    split = [_fields(value) for value in values]
    first = split[0] if split else None
    if first and all(its is not None and its.keys() == first.keys() for its in split):
        return list(first), [[text_of(value) for value in its.values()] for its in split if its is not None]
    return ["element"], [[text_of(value)] for value in values]


def _fields(value: object) -> Mapping[str, object] | None:
    """Return the fields of an element by name; None for an element without fields."""
    if isinstance(value, Mapping):
        return {str(name): its for name, its in value.items()}
    if isinstance(value, Row):
        return value.as_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or map(str, range(len(value)))
        return dict(zip(names, value, strict=True))
    return None
