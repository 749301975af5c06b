"""Where: what a step drops as late, as a stream of its own (MillWheel paper §4.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import cast

import numpy as np

from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.late_data import is_closed, is_late
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MIN_TIMESTAMP, Timestamp
from headrace.lowlevel.topology.computation import InlineComputation
from headrace.sdk.model.element_form import ElementForm
from headrace.sdk.model.late_element import LateElement
from headrace.sdk.windows import BoundedWindow, GlobalWindow
from headrace.sdk.windows.window_namespace import WindowNamespace, WindowNamespaces
from headrace.sdk.windows.windowing import Windowing

_CLOSES = cast("Callable[[WindowNamespace], int]", attrgetter("closes"))
_WINDOWS = (GlobalWindow(),)
"""Windows of the output: in the global window no later step drops an element as late again."""


@named("LateData")
class LateData(InlineComputation):
    """Emits each element that a step drops as late, once for each of its windows that is closed.

    It reads the streams that the step reads, where they are produced, and knows the low watermark at which the step
    processes the epoch. So its output does not depend on how the step groups, nor on what is combined before the
    shuffle. The form of the output is WINDOWED; a retraction keeps its pane.

    Args:
        windowing: Windowing of the step's input.
        forms: Form of the elements of each input stream; SIDED has the side values of a gate.
        output_stream: Stream to which values of the class `LateElement` are sent.
        has_keys: Whether elements are pairs of key and value.
        is_gate: Whether the streams lead to a gate, whose elements carry their windows outside of the pair.
        closes: The watermark from which on the step drops elements of a window, microseconds UTC.
    """

    counts_late = False

    def __init__(
        self,
        windowing: Windowing,
        forms: Mapping[str, ElementForm],
        output_stream: str,
        *,
        has_keys: bool = True,
        is_gate: bool = False,
        closes: Callable[[WindowNamespace], int] = _CLOSES,
    ) -> None:
        self._windowing, self._forms, self._output_stream = windowing, forms, output_stream
        self._has_keys, self._is_gate, self._closes = has_keys, is_gate, closes
        self._namespaces = WindowNamespaces(windowing)
        self._watermark = MIN_TIMESTAMP

    @property
    def is_pure(self) -> bool:
        """See `InlineComputation`."""
        return True

    def begin_bundle(self, watermark: int) -> None:
        """Note the low watermark of the step, microseconds UTC."""
        self._watermark = watermark

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Emit the late elements among those of a batch."""
        form, watermark = self._forms[stream], self._watermark
        if form is ElementForm.PLAIN:
            # The windows follow from the timestamp, so they end behind it.
            batch = _behind(batch, watermark)
        values: list[object] = []
        timestamps: list[int] = []
        for key, value, windows, pane, timestamp in self._elements(form, batch):
            for window in windows:
                if is_closed(self._closes(self._namespaces.of_window(window)), watermark):
                    times = Timestamp(micros=timestamp), Timestamp(micros=watermark)
                    values.append((LateElement(key, value, window, *times), _WINDOWS, pane))
                    timestamps.append(timestamp)
        if values:
            emit(self._output_stream, Batch(values, timestamps))

    def _elements(
        self, form: ElementForm, batch: Batch
    ) -> Iterator[tuple[object, object, Sequence[BoundedWindow], object, int]]:
        """Key, value, windows, pane and timestamp of each element; the latter in microseconds UTC."""
        assign_all = self._windowing.window_fn.assign_all
        for record, timestamp in batch.rows():
            element, pane = record, None
            windows: Sequence[BoundedWindow] | None = None
            if form is ElementForm.SIDED:
                element, window, pane, _ = cast("tuple[object, BoundedWindow, object, object]", record)
                windows = (window,)
            elif self._is_gate:
                element, windows, pane = cast("tuple[object, Sequence[BoundedWindow], object]", record)
            key, value = cast("tuple[object, object]", element) if self._has_keys else (None, element)
            if form is ElementForm.WINDOWED and not self._is_gate:
                value, windows, pane = cast("tuple[object, Sequence[BoundedWindow], object]", value)
            yield key, value, windows or assign_all((timestamp,), (value,))[0], pane, timestamp


def _behind(batch: Batch, watermark: int) -> Batch:
    """The records of a batch that are behind the watermark."""
    if not batch.count_before(watermark):
        return Batch()
    if isinstance(batch, ColumnBatch):
        return batch.taken(np.flatnonzero(is_late(batch.times, watermark)))
    rows = [row for row in batch.rows() if is_late(row[1], watermark)]
    return Batch([value for value, _ in rows], [timestamp for _, timestamp in rows])
