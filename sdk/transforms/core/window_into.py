"""Where, When and How of the steps that follow (`apache_beam.WindowInto`)."""

from __future__ import annotations

from enum import Enum

from headrace.lowlevel.time import DurationTypes
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.shipping import shipped
from headrace.sdk.triggers import AccumulationMode, Trigger
from headrace.sdk.windowing import ClosingBehavior, OnTimeBehavior, Windowing
from headrace.sdk.windows import TimestampCombiner, WindowFn


class WindowInto(PTransform[PCollection[object], PCollection[object]]):
    """Puts each element into the windows that a window function gives it; groupings that follow go by them.

    An element that was in several windows is taken once for each.

    Args:
        windowfn: The window function, or a whole `Windowing` that the further arguments change.
        trigger: When a window's results are put out; by default once, when the watermark passes its end, and again
            for late elements.
        accumulation_mode: Whether a pane holds what earlier panes of its window held; required with a trigger.
        timestamp_combiner: Which timestamp a result has; by default the end of its window.
        allowed_lateness: Seconds after its end that a window still takes late elements.
        closing_behavior: Whether a window that closes puts out a last, empty pane.
        on_time_behavior: Whether the pane at the end of a window comes even if it is empty.

    Raises:
        TopologyError: The parts do not fit together; it is a `ValueError`.
        ShippingError: When applied: the trigger or the window function holds something that cannot be pickled.
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
        if isinstance(windowfn, Windowing):
            base = windowfn
            windowfn = base.window_fn
            trigger = trigger or base.trigger
            accumulation_mode = accumulation_mode or base.accumulation_mode
            timestamp_combiner = timestamp_combiner or base.timestamp_combiner
            allowed_lateness = allowed_lateness or base.allowed_lateness
            closing_behavior = closing_behavior or base.closing_behavior
            on_time_behavior = on_time_behavior or base.on_time_behavior
        if not isinstance(windowfn, WindowFn):
            raise TypeError(f"WindowInto takes a window function, got {windowfn!r:.200}; write FixedWindows(60), say")
        if trigger is not None and not isinstance(trigger, Trigger):
            raise TypeError(
                f"WindowInto takes a trigger, got {trigger!r:.200}; write AfterWatermark(), say, or an instance of a "
                "subclass of Trigger"
            )
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


def _require_kind(what: str, given: object, kind: type[Enum]) -> None:
    if given is not None and not isinstance(given, kind):
        known = ", ".join(f"{kind.__name__}.{each.name}" for each in kind)
        raise TypeError(f"WindowInto takes {what}, got {given!r:.80}; give one of {known}")
