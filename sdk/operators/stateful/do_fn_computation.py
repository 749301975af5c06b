"""What: the frame of keyed computations that run a `DoFn`: the copy of the function in a process, and its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar, cast

from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.topology.computation import BundleComputation
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.functions.lifecycle import HasLifecycle, LiveT, RunsPlan, last_outputs
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN, PaneInfo, is_retraction
from headrace.sdk.model.special_outputs import (
    SPECIAL,
    TaggedOutput,
    TimestampedValue,
    WindowedValue,
    converted,
    require_outputs,
)
from headrace.sdk.windows import BoundedWindow
from headrace.sdk.windows.windowing import Windowing


class DoFnPlan(Protocol):
    """Configuration of a step; it is pickled and sent to the workers."""

    @property
    def label(self) -> str:
        """The label of the step."""

    @property
    def fn(self) -> DoFn:
        """The function of the step."""


PlanT = TypeVar("PlanT", bound=DoFnPlan)


class DoFnComputation(RunsPlan[PlanT, LiveT], BundleComputation):
    """A keyed computation that runs a `DoFn`; subclasses say how it processes elements."""

    def __init__(self, plan: PlanT) -> None:
        super().__init__(plan.label, plan)
        self.strong_productions = plan.fn.strong_productions

    def functions(self, plan: PlanT) -> list[tuple[str, HasLifecycle]]:
        """The `DoFn`."""
        return [(plan.label, plan.fn)]


class Outputs:
    """Collects outputs as triples (value, window, pane or None); a value in several windows gives one output for each.

    Args:
        streams: Tag -> stream, for outputs that have a reader; other outputs are dropped.
        windowing: Windowing of the outputs.
    """

    def __init__(self, streams: Mapping[str | None, str], windowing: Windowing) -> None:
        self._streams = streams
        self._columns: dict[str | None, tuple[list[object], list[int]]] = {}
        self._assign_all = windowing.window_fn.assign_all
        self.clear()

    def clear(self) -> None:
        """Remove the outputs of a failed bundle."""
        self._columns = {tag: ([], []) for tag in self._streams}

    def take(self, results: object, timestamp: int, window: BoundedWindow, pane: PaneInfo | None) -> None:
        """Add the results of a function for an element or timer.

        Raises TypeError if `results` is not an iterable of outputs: a str, bytes or dict is not.
        """
        require_outputs(results)
        main = self._columns.get(None)
        for result in cast(Iterable[object], results):
            if result.__class__ in SPECIAL:
                self._take_special(result, timestamp, window, pane)
            elif main is not None:
                main[0].append((result, window, pane))
                main[1].append(timestamp)

    def _take_special(self, result: object, timestamp: int, window: BoundedWindow, pane: PaneInfo | None) -> None:
        """Add an output that has a tag, a timestamp or windows of its own."""
        tag, result = None, converted(result)
        if isinstance(result, TaggedOutput):
            tag, result = result.tag, converted(result.value)
        if isinstance(result, TimestampedValue):
            micros = result.timestamp.micros
            windows = self._assign_all((micros,), (result.value,), (window,))[0]
            self._add(tag, result.value, micros, windows, pane if is_retraction(pane) else None)
        elif isinstance(result, WindowedValue):
            self._add_windowed(tag, result, pane if is_retraction(pane) else None)
        else:
            self._add(tag, result, timestamp, (window,), pane)

    def take_last(self, outputs: object) -> None:
        """Add the results of `finish_bundle`."""
        for tag, result in last_outputs(outputs):
            self._add_windowed(tag, result, None)

    def _add_windowed(self, tag: str | None, result: WindowedValue, otherwise: PaneInfo | None) -> None:
        pane = otherwise if result.pane_info == PANE_INFO_UNKNOWN else result.pane_info
        self._add(tag, result.value, result.timestamp.micros, result.windows, pane)

    def _add(
        self, tag: str | None, value: object, timestamp: int, windows: Sequence[BoundedWindow], pane: PaneInfo | None
    ) -> None:
        if (columns := self._columns.get(tag)) is not None:
            for window in windows:
                columns[0].append((value, window, pane))
                columns[1].append(timestamp)

    def send(self, emit: Emit) -> None:
        """Emit all outputs to their streams, and remove them."""
        for tag, (values, timestamps) in self._columns.items():
            if values:
                self._columns[tag] = ([], [])
                emit(self._streams[tag], Batch(values, timestamps))
