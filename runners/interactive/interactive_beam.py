"""Elements of a collection, now: `collect` gives them, `show` shows them (Beam's `interactive_beam`).

    from headrace.runners.interactive import interactive_beam as ib

    ib.collect(pipeline | beam.Create([1, 2]) | beam.Map(abs))     # [1, 2]
    ib.show(sums, include_window_info=True)                        # a table

Only the steps run that the collection is made of, in memory, from the beginning of the input to its end. Nothing is
written: neither what steps beside it would write, nor a checkpoint. `collect` gives a list, where Beam gives a frame of
pandas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from headrace.lowlevel.errors import HeadraceError, StepError
from headrace.lowlevel.raised import as_raised
from headrace.lowlevel.sink import CallSink
from headrace.lowlevel.time import Timestamp
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.options import RunOptions
from headrace.runners.interactive.elements import Elements
from headrace.sdk.compile import compile_steps
from headrace.sdk.graph import sides_of
from headrace.sdk.panes import PaneInfo
from headrace.sdk.pipeline import Pipeline, Step
from headrace.sdk.pvalue import PCollection
from headrace.sdk.running import Runner, find_runner, run_options
from headrace.sdk.tracebacks import shorten
from headrace.sdk.transforms.element import DoFn, Map
from headrace.sdk.transforms.write import Write
from headrace.sdk.windowedvalue import WindowedValue
from headrace.sdk.windows import BoundedWindow

__all__ = ["collect", "show"]

_LABEL = "interactive"


def collect(
    pcoll: PCollection[object],
    n: float = math.inf,
    include_window_info: bool = False,
    runner: Runner | str = "LocalRunner",
) -> list[object]:
    """The elements of a collection, in no particular order.

    Args:
        pcoll: Of a pipeline that need not have run, and is not changed.
        n: How many at most; the steps run to the end of the input all the same.
        include_window_info: Whether elements are `WindowedValue`s, with timestamp, window and pane.
        runner: What runs it: in memory by default.

    Raises:
        TypeError: It is no collection.
        ValueError: The input never ends, so the elements would never be all there; or an `n` below 0.
        StepError: A step raised; it is of the class that was raised, too, as with `Pipeline.run`.

    >>> from headrace.sdk.transforms.create import Create
    >>> numbers = Pipeline("LocalRunner") | Create([1, -2, 3]) | Map(abs)
    >>> sorted(collect(numbers)), len(collect(numbers, n=2))
    ([1, 2, 3], 2)
    """
    if not isinstance(pcoll, PCollection):
        raise TypeError(f"collect takes a collection, got {pcoll!r:.200}; give what a transform was applied to, say")
    if not n >= 0:
        raise ValueError(f"n is {n!r}; give how many elements at most, or leave it out for all")
    delivered: dict[int, list[WindowedValue]] = {}

    def deliver(epoch: int, rows: Sequence[tuple[object, int]]) -> None:
        delivered[epoch] = [_windowed(cast("_Told", value)) for value, _ in rows]

    pipeline = pcoll.pipeline
    steps = [*_made_by(pipeline, pcoll), *_tap(pipeline, pcoll, CallSink(deliver))]
    options = replace(cast(RunOptions, run_options(pipeline.options)), checkpoint=None)
    try:
        _run(find_runner(runner), compile_steps(steps), options)
    except HeadraceError as error:
        shorten(error)
        raise
    found = [element for epoch in sorted(delivered) for element in delivered[epoch]]
    found = found if n == math.inf else found[: int(n)]
    return list(found) if include_window_info else [element.value for element in found]


def show(
    *pcolls: PCollection[object],
    include_window_info: bool = False,
    n: float = math.inf,
    runner: Runner | str = "LocalRunner",
) -> None:
    """Show the elements of collections: as tables in a notebook, as text elsewhere. As `collect`.

    >>> from headrace.sdk.transforms.create import Create
    >>> show(Pipeline("LocalRunner") | "Teams" >> Create([{"team": "red", "points": 5}]))
    Teams: 1 element
    team  points
    red   5
    """
    for pcoll in pcolls:
        found = cast("list[WindowedValue]", collect(pcoll, n, True, runner))
        label = "" if pcoll.producer is None else pcoll.producer.full_label
        Elements(label, found, include_window_info).display()


def _run(runner: Runner, topology: Topology, options: RunOptions) -> None:
    try:
        runner.run_topology(topology, options)
    except StepError as error:
        made = as_raised(error)
        if made is error:
            raise
        raise made.with_traceback(error.__traceback__) from made.__cause__


def _made_by(pipeline: Pipeline, pcoll: PCollection[object]) -> list[Step]:
    """The steps that a collection comes from, in the order of the program."""
    needed: set[int] = set()
    waiting: list[PCollection[object]] = [pcoll]
    for collection in waiting:
        step = collection.producer
        if step is not None and id(step) not in needed:
            needed.add(id(step))
            waiting += [value for value in step.inputs if isinstance(value, PCollection)]
            waiting += [side.pvalue for side in sides_of(step)]
    return [step for step in pipeline.steps if id(step) in needed]


def _tap(pipeline: Pipeline, pcoll: PCollection[object], sink: CallSink) -> Iterable[Step]:
    """Steps that bring the elements to the driver."""
    seen: PCollection[object] = PCollection(pipeline, pcoll.windowing, pcoll.is_bounded)
    telling = Step(_LABEL, Map(_whole), [pcoll])
    telling.add_output(seen)
    return telling, Step(f"{_LABEL}/sink", Write(sink), [seen])


def _whole(
    element: object,
    timestamp: object = DoFn.TimestampParam,
    window: BoundedWindow = DoFn.WindowParam,
    pane: PaneInfo = DoFn.PaneInfoParam,
) -> tuple[object, object, BoundedWindow, PaneInfo]:
    return element, timestamp, window, pane


_Told = tuple[object, Timestamp, BoundedWindow, PaneInfo]
"""What is brought of an element: a `WindowedValue` would put it into windows."""


def _windowed(told: _Told) -> WindowedValue:
    element, timestamp, window, pane = told
    return WindowedValue(element, timestamp, [window], pane)
