"""Where, When and How: the windowing of the steps that follow (`apache_beam.WindowInto`)."""

from __future__ import annotations

from enum import Enum

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.time import DurationTypes
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.triggers import AccumulationMode, Trigger
from headrace.sdk.windows import TimestampCombiner, WindowFn
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior, Windowing


class WindowInto(PTransform[PCollection[object], PCollection[object]]):
    """Assigns each element to the windows of a window function, for the groupings that follow.

    An element that is in several windows of the input is assigned once for each of these windows.

    Args:
        windowfn: The window function, or a `Windowing` whose parts the further arguments replace.
        trigger: When a window emits results; by default when the watermark passes the window's end, and again for late
            elements.
        accumulation_mode: Whether a pane includes the elements of earlier panes of its window; required with a trigger.
        timestamp_combiner: Which timestamp a result has; by default the end of the window.
        allowed_lateness: Time after a window's end in which the window takes late elements, in seconds.
        closing_behavior: Whether a window that closes emits a last pane even if the pane is empty.
        on_time_behavior: Whether a window emits its on-time pane even if the pane is empty.

    Raises:
        TypeError: An argument is of the wrong type.
        TopologyError: The arguments do not fit together; it is a `ValueError`.
        ShippingError: The trigger or the window function cannot be pickled; raised when the transform is applied.

    >>> import headrace as beam
    >>> from headrace.transforms.window import FixedWindows, TimestampedValue
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     scores = pipeline | beam.Create([TimestampedValue(("red", 5), 10), TimestampedValue(("red", 4), 75)])
    ...     _ = scores | beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(sum) | beam.MapTuple(print)
    red 5
    red 4
    """

    def __init__(
        self,
        windowfn: WindowFn | Windowing,
        trigger: Trigger | None = None,
        accumulation_mode: AccumulationMode | None = None,
        timestamp_combiner: TimestampCombiner | None = None,
        allowed_lateness: DurationTypes = 0,
        closing_behavior: ClosingBehavior | None = None,
        on_time_behavior: OnTimeBehavior | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(windowfn, (WindowFn, Windowing)):
            raise TypeError(f"WindowInto takes a window function, got {windowfn!r:.200}; write FixedWindows(60), say")
        _require_trigger(trigger)
        _require_kind("an accumulation_mode", accumulation_mode, AccumulationMode)
        _require_kind("a timestamp_combiner", timestamp_combiner, TimestampCombiner)
        _require_kind("a closing_behavior", closing_behavior, ClosingBehavior)
        _require_kind("an on_time_behavior", on_time_behavior, OnTimeBehavior)
        self.windowing = Windowing.of(
            windowfn,
            trigger,
            accumulation_mode,
            timestamp_combiner,
            allowed_lateness,
            closing_behavior,
            on_time_behavior,
        )

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """The same elements in their new windows."""
        shipped(self.windowing, inputs.pipeline.current_label)
        return PCollection(inputs.pipeline, self.windowing, inputs.is_bounded, element_type=inputs.element_type)


def _require_trigger(given: object) -> None:
    if given is not None and not isinstance(given, Trigger):
        raise TypeError(
            f"WindowInto takes a trigger, got {given!r:.200}; write AfterWatermark(), say, or an instance of a "
            "subclass of Trigger"
        )


def _require_kind(what: str, given: object, kind: type[Enum]) -> None:
    if given is not None and not isinstance(given, kind):
        known = ", ".join(f"{kind.__name__}.{each.name}" for each in kind)
        raise TypeError(f"WindowInto takes {what}, got {given!r:.80}; give one of {known}")
