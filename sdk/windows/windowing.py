"""Where, when and how a collection is grouped (Beam's `Windowing`), and what of that stored state depends on.

Parameters that do not affect how stored windows and accumulators are read are left out of signatures: the length of
fixed windows, the count of a trigger. Lambdas are left out because they have no stable name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.stored_names import instance_name, public_name, stored_as
from headrace.lowlevel.time import MAX_TIMESTAMP, Duration, DurationTypes
from headrace.sdk.triggers import AccumulationMode, DefaultTrigger, Trigger
from headrace.sdk.windows.standard_windows import GlobalWindows
from headrace.sdk.windows.window_fn import WindowFn


@stored_as("TimestampCombiner")
class TimestampCombiner(Enum):
    """Selects the timestamp of a pane. The output watermark is held at it, so that no pane is late downstream.

    Elements that are late for the pane are ignored; a pane of late elements only has the last instant of its window.

    >>> import headrace as beam
    >>> from headrace.transforms.window import FixedWindows, TimestampedValue
    >>> def show(pair, timestamp=beam.DoFn.TimestampParam):
    ...     print(pair, timestamp)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     scores = pipeline | beam.Create([TimestampedValue(("red", 5), 10), TimestampedValue(("red", 7), 20)])
    ...     latest = beam.WindowInto(FixedWindows(60), timestamp_combiner=TimestampCombiner.OUTPUT_AT_LATEST)
    ...     _ = scores | latest | beam.CombinePerKey(sum) | beam.Map(show)
    ('red', 12) Timestamp(20)
    """

    OUTPUT_AT_EOW = "end of window"
    """The last instant of the window."""
    OUTPUT_AT_EARLIEST = "earliest"
    """The earliest timestamp in the pane."""
    OUTPUT_AT_LATEST = "latest"
    """The latest timestamp in the pane."""
    OUTPUT_AT_EARLIEST_TRANSFORMED = "earliest transformed"
    """The earliest result of `WindowFn.get_transformed_output_time` for the timestamps in the pane."""

    def combine(self, first: int, second: int) -> int:
        """The combination of two timestamps, microseconds UTC.

        >>> TimestampCombiner.OUTPUT_AT_LATEST.combine(3, 5)
        5
        """
        return max(first, second) if self is TimestampCombiner.OUTPUT_AT_LATEST else min(first, second)


@stored_as("ClosingBehavior")
class ClosingBehavior(Enum):
    """Whether a closing window emits a last pane even if no elements have arrived since the previous pane.

    >>> import headrace as beam
    >>> from headrace.transforms.trigger import AccumulationMode, AfterWatermark
    >>> from headrace.transforms.window import FixedWindows
    >>> windowing = beam.WindowInto(
    ...     FixedWindows(60),
    ...     trigger=AfterWatermark(),
    ...     accumulation_mode=AccumulationMode.ACCUMULATING,
    ...     allowed_lateness=300,
    ...     closing_behavior=ClosingBehavior.FIRE_ALWAYS,
    ... )
    """

    FIRE_IF_NON_EMPTY = "if something came"
    FIRE_ALWAYS = "always"


@stored_as("OnTimeBehavior")
class OnTimeBehavior(Enum):
    """Whether a window emits an on-time pane even if no elements have arrived since the previous pane.

    >>> import headrace as beam
    >>> from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
    >>> from headrace.transforms.window import FixedWindows
    >>> windowing = beam.WindowInto(
    ...     FixedWindows(60),
    ...     trigger=AfterWatermark(early=AfterCount(1)),
    ...     accumulation_mode=AccumulationMode.DISCARDING,
    ...     on_time_behavior=OnTimeBehavior.FIRE_IF_NON_EMPTY,
    ... )
    """

    FIRE_ALWAYS = "always"
    FIRE_IF_NON_EMPTY = "if something came"


@dataclass(frozen=True, slots=True)
class Windowing:
    """The window function, trigger and accumulation mode of a collection at its next grouping.

    >>> from headrace.sdk.windows import FixedWindows
    >>> Windowing.of(FixedWindows(60), allowed_lateness=5).closes_at(60_000_000)
    65000000
    """

    window_fn: WindowFn = field(default_factory=GlobalWindows)
    trigger: Trigger = field(default_factory=DefaultTrigger)
    accumulation_mode: AccumulationMode = AccumulationMode.DISCARDING
    timestamp_combiner: TimestampCombiner = TimestampCombiner.OUTPUT_AT_EOW
    allowed_lateness_us: int = 0
    """How long after its end a window stays open for late elements, microseconds of event time."""
    closing_behavior: ClosingBehavior = ClosingBehavior.FIRE_IF_NON_EMPTY
    on_time_behavior: OnTimeBehavior = OnTimeBehavior.FIRE_ALWAYS

    @classmethod
    def of(
        cls,
        window_fn: WindowFn | Windowing,
        trigger: Trigger | None = None,
        accumulation_mode: AccumulationMode | None = None,
        timestamp_combiner: TimestampCombiner | None = None,
        allowed_lateness: DurationTypes = 0,
        closing_behavior: ClosingBehavior | None = None,
        on_time_behavior: OnTimeBehavior | None = None,
    ) -> Windowing:
        """The windowing of the arguments of `WindowInto`; None stands for those of a windowing, or Beam's defaults.

        Raises `TopologyError` (a `ValueError`) if a trigger is given without an accumulation mode, if the allowed
        lateness is negative, or if the coder of the windows is not deterministic.
        """
        base = window_fn if isinstance(window_fn, Windowing) else cls(window_fn)
        trigger = trigger or base.trigger
        if accumulation_mode is None and base is not window_fn and trigger != base.trigger:
            raise TopologyError(
                f"trigger {trigger} is given without an accumulation_mode; say whether its panes are "
                "AccumulationMode.DISCARDING, ACCUMULATING or ACCUMULATING_AND_RETRACTING"
            )
        lateness = Duration.of(allowed_lateness or base.allowed_lateness).micros
        if lateness < 0:
            raise TopologyError(f"allowed_lateness is {lateness / 1e6:g} s; give 0 or more seconds")
        _require_determinism(base.window_fn)
        return cls(
            base.window_fn,
            trigger,
            accumulation_mode or base.accumulation_mode,
            timestamp_combiner or base.timestamp_combiner,
            lateness,
            closing_behavior or base.closing_behavior,
            on_time_behavior or base.on_time_behavior,
        )

    @property
    def allowed_lateness(self) -> Duration:
        """How long a window stays open for late elements after its end."""
        return Duration(micros=self.allowed_lateness_us)

    def closes_at(self, end_us: int) -> int:
        """The watermark at which a window with this end closes, at most `MAX_TIMESTAMP`; all in microseconds UTC."""
        return min(end_us + self.allowed_lateness_us, MAX_TIMESTAMP)

    def after_grouping(self) -> Windowing:
        """The windowing of a grouping's output: the same, with the trigger's continuation."""
        return replace(self, trigger=self.trigger.continuation())

    @property
    def puts_out_once(self) -> bool:
        """Whether a window has at most one pane, which is emitted at its end."""
        return self.trigger.quiet_until_end and not self.allowed_lateness_us

    def may_lose_data(self) -> bool:
        """Whether the trigger may finish while elements still arrive for the window, which are then dropped."""
        return self.trigger.may_finish(self.allowed_lateness_us)


def contrast(one: Windowing, other: Windowing) -> tuple[str, str]:
    """The differences between two windowings, for messages: the differing parameters of each.

    >>> from headrace.sdk.windows import FixedWindows
    >>> contrast(Windowing.of(FixedWindows(60)), Windowing())
    ('FixedWindows(size=Duration(60), offset=Duration(0))', 'GlobalWindows()')
    """
    differing = [each.name for each in fields(Windowing) if getattr(one, each.name) != getattr(other, each.name)]
    return _fields_text(one, differing), _fields_text(other, differing)


def _fields_text(windowing: Windowing, names: Sequence[str]) -> str:
    parts = []
    for name in (name.removesuffix("_us") for name in names):
        value: object = getattr(windowing, name)
        text = value.name if isinstance(value, Enum) else repr(value)
        parts.append(text if name in ("window_fn", "trigger") else f"{name} {text}")
    return ", ".join(parts)


def _require_determinism(window_fn: WindowFn) -> None:
    coder = window_fn.get_window_coder()
    deterministic = getattr(coder, "is_deterministic", None)
    if deterministic is not None and not deterministic():
        raise TopologyError(
            f"window function {window_fn} has the coder {coder}, which is not deterministic; "
            "give it a get_window_coder() that always makes the same bytes of a window"
        )


def windowing_signature(windowing: Windowing) -> dict[str, str]:
    """Descriptions of a grouping's windowing, by aspect.

    >>> windowing_signature(Windowing())["windows"]
    'GlobalWindows'
    """
    return {
        "windows": window_kind(windowing.window_fn),
        "trigger": trigger_kind(windowing.trigger),
        "accumulation mode": windowing.accumulation_mode.name,
        "timestamp combiner": windowing.timestamp_combiner.name,
        "allowed lateness": str(windowing.allowed_lateness),
    }


def window_kind(window_fn: WindowFn) -> str:
    """The public name of a window function's class, with that of the function that it adapts from another SDK."""
    return instance_name(window_fn)


def trigger_kind(trigger: Trigger) -> str:
    """The structure of a trigger, which is also the structure of its progress.

    >>> from headrace.sdk.triggers import AfterCount, AfterWatermark, Repeatedly
    >>> trigger_kind(Repeatedly(AfterCount(5)))
    'Repeatedly(AfterCount)'
    >>> trigger_kind(AfterWatermark(late=AfterCount(1)))
    'AfterWatermark(late Repeatedly(AfterCount))'
    """
    named = ((name, getattr(trigger, name)) for name in getattr(trigger, "__dataclass_fields__", ()))
    parts = [part for name, value in named for part in _parts(name, value)]
    return public_name(type(trigger)) + (f"({', '.join(parts)})" if parts else "")


def _parts(name: str, value: object) -> Iterable[str]:
    if isinstance(value, Trigger):
        # The name of the field distinguishes optional triggers, such as `early` and `late`.
        yield trigger_kind(value) if name == "underlying" else f"{name} {trigger_kind(value)}"
    elif isinstance(value, tuple):
        yield from (trigger_kind(part) for part in value if isinstance(part, Trigger))
